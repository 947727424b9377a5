"""``rapgnn fit``, ``evaluate`` and ``predict`` on a user's folder of tables."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from folders import many, tables, write


def edit(folder: Path, stem: str, change) -> None:
    path = folder / f"{stem}.csv"
    change(pd.read_csv(path)).to_csv(path, index=False)


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda f: (f / "edges.csv").unlink(), "edges.csv (or .parquet, .npz) is missing"),
        (lambda f: edit(f, "edges", lambda t: t.rename(columns={"source": "begin"})), "no column named 'source'"),
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
