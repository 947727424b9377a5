"""``rapgnn fit``, ``evaluate`` and ``predict`` on a user's folder of tables."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from folders import many, tables, write
from rapgnn import load_dataset


def edit(folder: Path, stem: str, change) -> None:
    path = folder / f"{stem}.csv"
    change(pd.read_csv(path)).to_csv(path, index=False)


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda f: (f / "edges.csv").unlink(), "edges.csv (or .parquet, .npz) is missing"),
        (lambda f: (f / "edges.csv").write_text(""), "cannot read"),
        (lambda f: (f / "edges.csv").write_bytes(b"\x00\xff\xfe\x01" * 50), "edges.csv"),
        (lambda f: (f / "nodes.csv").write_text("id,label\n"), "has no rows"),
        (lambda f: edit(f, "nodes", lambda t: t.drop(columns="label")), "no label column"),
        (lambda f: edit(f, "edges", lambda t: t.rename(columns={"source": "begin"})), "no column named 'source'"),
        (lambda f: edit(f, "edges", lambda t: t.replace("plant 7", "weed")), "weed"),
        (lambda f: edit(f, "edges", lambda t: t.assign(target=t["target"].where(t.index != 4))), "row 4 has no target"),
        (lambda f: edit(f, "edges", lambda t: t.assign(weight="heavy")), "weight must be numbers"),
        (lambda f: edit(f, "edges", lambda t: t.assign(weight=np.inf)), "edge weights hold NaN or infinite"),
        (lambda f: edit(f, "nodes", lambda t: t.assign(id="same")), "occurs more than once"),
        (lambda f: edit(f, "nodes", lambda t: t.assign(height=np.inf)), "infinite values"),
        (lambda f: edit(f, "nodes", lambda t: t.assign(split="maybe")), "split 'maybe' is unknown"),
        (lambda f: edit(f, "nodes", lambda t: t.assign(label="rose")), "nothing to tell apart"),
        (lambda f: edit(f, "nodes", lambda t: t.assign(label=np.linspace(0, 1e300, 90))), "regression targets"),
        (
            lambda f: edit(f, "nodes", lambda t: t[["id", "label"]].assign(name=[f"n{i}" for i in range(90)])),
            "a name rather than a feature",
        ),
        (lambda f: (f / "nodes.npz").write_bytes(b"x"), "keep one of them"),
    ],
)
def test_mistakes_are_one_sentence(rapgnn, plants, tmp_path, damage, sentence):
    damage(plants)
    code, _, err = rapgnn("fit", plants, "--out", tmp_path / "model")
    assert code == 2
    lines = [line for line in err.splitlines() if line.startswith("rapgnn: ")]
    assert sentence in lines[-1]
    assert "Traceback" not in err
    assert not (tmp_path / "model" / "checkpoint.json").exists()


def test_fit_predict_evaluate_on_tables(rapgnn, plants, tmp_path):
    model, record = tmp_path / "model", tmp_path / "fit.json"
    code, out, err = rapgnn("fit", plants, "--out", model, "--json", record)
    assert code == 0, err
    assert "no split was given" in err
    assert "chosen on validation among" in out
    assert json.loads(record.read_text())[0]["test"] > 0.8
    for ending in ("csv", "parquet"):
        code, out, err = rapgnn("predict", model, plants, "--out", tmp_path / f"p.{ending}")
        assert code == 0, err
    table = pd.read_csv(tmp_path / "p.csv")
    assert list(table.columns) == ["id", "label", "probability", "spread", "known"]
    assert set(table["known"]) == {"yes"}
    assert list(table["id"]) == [f"plant {i}" for i in range(90)]
    assert set(table["label"]) == {"rose", "tulip", "fern"}
    assert (table["label"] == tables()[0]["label"]).mean() > 0.8
    assert table["probability"].between(1 / 3 - 1e-6, 1).all()
    assert (table["spread"] >= 0).all()
    parquet = pd.read_parquet(tmp_path / "p.parquet")
    assert list(parquet["label"]) == list(table["label"])
    code, out, err = rapgnn("predict", model, plants, "--out", tmp_path / "s.csv", "--samples", 64)
    drawn = pd.read_csv(tmp_path / "s.csv")
    assert (drawn["label"] == table["label"]).mean() > 0.95  # the mean over draws is less sure, and says the same
    # Another meadow: other plants, another order of columns, a colour never seen, no labels.
    nodes, edges = tables(60, seed=5)
    truth = nodes.pop("label")
    nodes.loc[0, "colour"] = "violet"
    fresh = write(tmp_path / "fresh", nodes=nodes[["colour", "id", "leaves", "height"]], edges=edges)
    assert rapgnn("predict", model, fresh, "--out", tmp_path / "f.csv")[0] == 0
    assert (pd.read_csv(tmp_path / "f.csv")["label"] == truth).mean() > 0.7
    code, out, err = rapgnn("evaluate", model, fresh)
    assert code == 2
    assert "no label column" in err
    code, out, err = rapgnn("evaluate", model, write(fresh, nodes=nodes.assign(label=truth)))
    assert code == 0
    assert out.startswith("all ")
    code, out, err = rapgnn(
        "predict", model, write(fresh, nodes=nodes.drop(columns="height")), "--out", tmp_path / "f.csv"
    )
    assert code == 2
    assert "no column 'height'" in err


def test_options_name_columns_and_travel_with_the_model(rapgnn, tmp_path):
    nodes, edges = tables()
    nodes = nodes.rename(columns={"label": "species"}).assign(name=[f"n{i}" for i in range(90)])
    nodes.loc[4, "leaves"] = np.nan
    folder, model = write(tmp_path / "g", nodes=nodes, edges=edges), tmp_path / "model"
    options = ("--label", "species", "--ignore", "name", "--impute", "--directed")
    code, _, err = rapgnn("fit", "--no-search", folder, "--out", model, *options)
    assert code == 0, err
    code, _, err = rapgnn("evaluate", model, folder)  # the model knows how its table is read
    assert code == 0, err
    assert rapgnn("predict", model, folder, "--out", tmp_path / "p.csv")[0] == 0
    code, _, err = rapgnn("fit", "--no-search", folder, "--out", model, "--label", "genus")
    assert code == 2
    assert "no column named 'genus'" in err
    err = rapgnn("fit", "--no-search", folder, "--out", model, "--label", "species", "--ignore", "nothing")[2]
    assert "no column 'nothing' to ignore" in err


def test_many_graphs(rapgnn, tmp_path):
    folder, model = write(tmp_path / "shapes", **many()), tmp_path / "model"
    graph = load_dataset(str(folder))
    assert graph.task == "graph-classification"
    assert graph.num_rows == 40
    assert graph.num_features == 3
    assert graph.num_edge_features == 2
    assert graph.classes == ("ring", "star")
    code, out, err = rapgnn("fit", folder, "--out", model)
    assert code == 0, err
    assert "40" not in out or "saved" in out
    fresh = many(20, seed=3)
    truth = fresh["graphs"].pop("label")
    other = write(tmp_path / "fresh", **fresh)
    assert rapgnn("predict", model, other, "--out", tmp_path / "p.csv")[0] == 0
    table = pd.read_csv(tmp_path / "p.csv")
    assert list(table["id"]) == [f"g{i}" for i in range(20)]
    assert (table["label"] == truth).mean() > 0.8
    fresh["graphs"]["label"] = truth
    code, out, err = rapgnn("evaluate", model, write(tmp_path / "fresh", **fresh))
    assert code == 0, err


def test_many_graphs_with_numbers(rapgnn, tmp_path):
    frames = many(60)
    size = frames["nodes"].groupby("graph").size()
    frames["graphs"]["label"] = [size[g] + 0.5 for g in frames["graphs"]["id"]]
    folder, model = write(tmp_path / "sizes", **frames), tmp_path / "model"
    code, out, err = rapgnn("fit", folder, "--out", model, "--no-search")
    assert code == 0, err
    assert "RMSE" in out
    assert rapgnn("predict", model, folder, "--out", tmp_path / "p.csv")[0] == 0
    table = pd.read_csv(tmp_path / "p.csv")
    assert list(table.columns) == ["id", "value", "spread", "known"]
    assert np.corrcoef(table["value"], frames["graphs"]["label"])[0, 1] > 0.9


def test_a_model_predicts_without_the_label_column_and_keeps_its_features(rapgnn, tmp_path):
    rng = np.random.default_rng(0)
    kind = rng.integers(2, size=60)
    nodes = pd.DataFrame({"id": range(60), "x": kind + rng.random(60), "y": rng.random(60), "class": rng.random(60)})
    edges = pd.DataFrame({"source": range(59), "target": range(1, 60)})
    folder = write(tmp_path / "a", nodes=nodes.assign(label=np.array(["no", "yes"])[kind]), edges=edges)
    assert rapgnn("fit", "--no-search", folder, "--out", tmp_path / "m")[0] == 0
    fresh = write(tmp_path / "b", nodes=nodes, edges=edges)
    code, _, err = rapgnn("predict", tmp_path / "m", fresh, "--out", tmp_path / "p.csv")
    assert code == 0, err
    assert (pd.read_csv(tmp_path / "p.csv")["label"] == np.array(["no", "yes"])[kind]).mean() > 0.7
    named = write(tmp_path / "c", nodes=nodes.assign(species=np.array(["no", "yes"])[kind]), edges=edges)
    assert rapgnn("fit", "--no-search", named, "--label", "species", "--out", tmp_path / "m2")[0] == 0
    code, _, err = rapgnn("predict", tmp_path / "m2", fresh, "--out", tmp_path / "p.csv")
    assert code == 0, err
    assert rapgnn("predict", tmp_path / "m2", fresh, "--out", tmp_path / "p.csv", "--samples", 1)[0] == 2


def test_many_labels_keep_their_names_whatever_their_order(rapgnn, tmp_path):
    frames = many(60)
    ring = (frames["graphs"].pop("label") == "ring").astype(int)
    coin = np.random.default_rng(0).integers(2, size=60)
    frames["graphs"] = frames["graphs"].assign(label_ring=ring, label_coin=coin, colour="red")
    folder, model = write(tmp_path / "g", **frames), tmp_path / "m"
    code, _, err = rapgnn("fit", folder, "--out", model, "--no-search")
    assert code == 0, err
    assert "left out: colour" in err
    assert rapgnn("predict", model, folder, "--out", tmp_path / "p.csv")[0] == 0
    table = pd.read_csv(tmp_path / "p.csv")
    assert [c for c in table.columns if c.startswith("probability")] == ["probability_ring", "probability_coin"]
    assert (table["label_ring"] == ring).mean() > 0.8
    scores = []
    for order in (["id", "label_ring", "label_coin"], ["label_coin", "id", "label_ring"]):
        code, out, err = rapgnn("evaluate", model, write(folder, **(frames | {"graphs": frames["graphs"][order]})))
        assert code == 0, err
        assert "the data name no split" in err
        scores.append(out)
    assert scores[0] == scores[1]
    assert "on test, 12 rows:" in scores[0]  # those that the fit held out


def test_arrays_with_an_ignored_column(rapgnn, tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    np.savez(tmp_path / "nodes.npz", x=rng.random((60, 3)) + y[:, None], y=y, name=np.arange(60))
    np.savez(tmp_path / "edges.npz", source=np.arange(59), target=np.arange(1, 60))
    assert "put it into x, or ignore it" in rapgnn("fit", "--no-search", tmp_path, "--out", tmp_path / "m")[2]
    assert rapgnn("fit", "--no-search", tmp_path, "--out", tmp_path / "m", "--ignore", "name")[0] == 0
    code, _, err = rapgnn("predict", tmp_path / "m", tmp_path, "--out", tmp_path / "p.csv")
    assert code == 0, err
