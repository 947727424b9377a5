"""A user's folder of tables: every format gives the same graph, every mistake one sentence, and the commands on it."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from rapgnn import InputError, load_dataset
from rapgnn.cli import main
from rapgnn.datasets.folder import Reading
from rapgnn.sparse import dense


@pytest.fixture
def rapgnn(capsys, monkeypatch):
    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["rapgnn", *map(str, arguments)])
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        out = capsys.readouterr()
        return code, out.out, out.err

    return call


def tables(n: int = 90, seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Three species in three meadows: the kinds of columns a person has."""
    rng = np.random.default_rng(seed)
    species = rng.integers(3, size=n)
    nodes = pd.DataFrame(
        {
            "id": [f"plant {i}" for i in range(n)],
            "height": 20 + 30 * species + rng.normal(0, 5, n),
            "leaves": rng.random(n),
            "colour": np.array(["red", "green", "blue"])[(species + (rng.random(n) < 0.2)) % 3],
            "label": np.array(["rose", "tulip", "fern"])[species],
        }
    )
    source = rng.integers(n, size=4 * n)
    target = np.array([rng.choice(np.flatnonzero(species == species[u])) for u in source])
    ids = nodes["id"].to_numpy()
    return nodes, pd.DataFrame({"source": ids[source], "target": ids[target]})


def write(folder: Path, ending: str = "csv", **frames: pd.DataFrame) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for stem, frame in frames.items():
        path = folder / f"{stem}.{ending}"
        if ending == "npz":
            np.savez(
                path,
                **{str(c): frame[c].to_numpy(dtype="U" if frame[c].dtype.kind not in "biuf" else None) for c in frame},
            )
        elif ending == "parquet":
            frame.to_parquet(path, index=False)
        else:
            frame.to_csv(path, index=False)
    return folder


@pytest.fixture
def folder(tmp_path) -> Path:
    nodes, edges = tables()
    return write(tmp_path / "plants", nodes=nodes, edges=edges)


def same(one, other) -> None:
    assert torch.equal(dense(one.x), dense(other.x))
    assert torch.equal(one.edge_index, other.edge_index)
    assert torch.equal(one.y, other.y)
    assert one.classes == other.classes
    assert list(one.ids) == list(other.ids)


@pytest.mark.parametrize("ending", ["parquet", "npz", "csv.gz"])
def test_every_format_gives_the_same_graph(tmp_path, folder, ending):
    nodes, edges = tables()
    other = load_dataset(str(write(tmp_path / "other" / "plants", ending, nodes=nodes, edges=edges)))
    same(load_dataset(str(folder)), other)


@pytest.mark.parametrize("kind", ["numbers", "words of numbers", "far numbers", "dates"])
def test_ids_of_any_type(tmp_path, folder, kind):
    nodes, edges = tables()
    number = {name: i for i, name in enumerate(nodes["id"])}
    change = {
        "numbers": lambda i: i,
        "words of numbers": str,
        "far numbers": lambda i: 10**12 + 7 * i,
        "dates": lambda i: str(pd.Timestamp("2020-01-01") + pd.Timedelta(days=i)),
    }[kind]
    nodes["id"] = [change(number[name]) for name in nodes["id"]]
    for end in ("source", "target"):
        edges[end] = [change(number[name]) for name in edges[end]]
    if kind == "words of numbers":  # one file says 7, the other "7"
        edges = edges.astype({"source": int})
    graph = load_dataset(str(write(tmp_path / "x" / "plants", nodes=nodes, edges=edges)))
    wanted = load_dataset(str(folder))
    assert torch.equal(graph.edge_index, wanted.edge_index)
    assert list(graph.ids) == list(nodes["id"].astype(graph.ids.dtype))


def test_columns_become_features(folder):
    graph = load_dataset(str(folder))
    x = dense(graph.x).numpy()
    nodes, edges = tables()
    assert x.shape == (90, 5)
    height = nodes["height"]
    np.testing.assert_allclose(x[:, 0], (height - height.mean()) / height.std(ddof=0), atol=1e-5)
    np.testing.assert_allclose(x[:, 1], nodes["leaves"], atol=1e-6)  # already between 0 and 1
    for j, colour in enumerate(["blue", "green", "red"]):
        np.testing.assert_array_equal(x[:, 2 + j], nodes["colour"] == colour)
    assert graph.classes == ("fern", "rose", "tulip")
    pairs = set(map(tuple, graph.edge_index.T.tolist()))
    assert {(v, u) for u, v in pairs} == pairs  # both directions
    assert graph.edge_index.shape[1] < 2 * len(edges) + 1


def test_directed_edges_and_weights(tmp_path):
    nodes = pd.DataFrame(
        {"id": [1, 2, 3], "a": [0.0, 1.0, 1.0], "label": ["p", "q", "p"], "split": ["train", "train", None]}
    )
    edges = pd.DataFrame({"source": [1, 2, 2], "target": [2, 1, 3], "weight": [0.5, 2.0, 3.0]})
    folder = str(write(tmp_path, nodes=nodes, edges=edges))
    both = load_dataset(folder)
    assert sorted(zip(*both.edge_index.tolist(), both.edge_weight.tolist(), strict=True)) == [
        (0, 1, 0.5),
        (1, 0, 2.0),
        (1, 2, 3.0),
        (2, 1, 3.0),
    ]
    one = load_dataset(folder, reading=Reading(directed=True))
    assert one.edge_index.tolist() == [[0, 1, 1], [1, 0, 2]]
    assert both.train.tolist() == [0, 1]
    assert both.y.tolist() == [0, 1, 0]


def test_missing_values_are_refused_or_imputed(tmp_path):
    nodes, edges = tables()
    nodes.loc[3, "height"] = np.nan
    nodes.loc[5, "colour"] = None
    folder = str(write(tmp_path / "p", nodes=nodes, edges=edges))
    with pytest.raises(InputError, match="column 'height' has no value for 1 of 90 nodes"):
        load_dataset(folder)
    graph = load_dataset(folder, reading=Reading(impute=True))
    assert float(dense(graph.x)[3, 0]) == 0.0  # the mean
    assert dense(graph.x)[5, 2:].tolist() == [0.0, 0.0, 0.0]
    assert graph.encoding is not None
    assert graph.encoding.impute


def test_unlabelled_rows_and_words_for_splits(tmp_path):
    nodes, edges = tables()
    nodes["split"] = (["Training", "valid", "TEST", ""] * 23)[:90]
    nodes.loc[nodes["split"] == "", "label"] = None
    graph = load_dataset(str(write(tmp_path, nodes=nodes, edges=edges)))
    assert [len(graph.rows(s)) for s in ("train", "val", "test")] == [23, 23, 22]
    assert int((graph.y < 0).sum()) == 22
    assert graph.notes == ()


def test_no_features_no_split(tmp_path):
    nodes, edges = tables()
    graph = load_dataset(str(write(tmp_path, nodes=nodes[["id", "label"]], edges=edges)))
    assert any("no node features" in note for note in graph.notes)
    assert any("no split was given" in note for note in graph.notes)


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
        (lambda f: edit(f, "nodes", lambda t: t.assign(label=np.linspace(0, 1, 90))), "regression targets"),
        (
            lambda f: edit(f, "nodes", lambda t: t.assign(name=[f"n{i}" for i in range(90)])),
            "a name rather than a feature",
        ),
        (lambda f: (f / "nodes.npz").write_bytes(b"x"), "keep one of them"),
    ],
)
def test_mistakes_are_one_sentence(rapgnn, folder, tmp_path, damage, sentence):
    damage(folder)
    code, _, err = rapgnn("fit", folder, "--out", tmp_path / "model")
    assert code == 2
    lines = [line for line in err.splitlines() if line.startswith("rapgnn: ")]
    assert sentence in lines[-1]
    assert "Traceback" not in err
    assert not (tmp_path / "model" / "checkpoint.json").exists()


def edit(folder: Path, stem: str, change) -> None:
    path = folder / f"{stem}.csv"
    change(pd.read_csv(path)).to_csv(path, index=False)


def test_fit_predict_evaluate_on_tables(rapgnn, folder, tmp_path):
    model, record = tmp_path / "model", tmp_path / "fit.json"
    code, out, err = rapgnn("fit", folder, "--out", model, "--json", record)
    assert code == 0, err
    assert "no split was given" in err
    assert "chosen on validation among" in out
    assert json.loads(record.read_text())[0]["test"] > 0.8
    for ending in ("csv", "parquet"):
        code, out, err = rapgnn("predict", model, folder, "--out", tmp_path / f"p.{ending}")
        assert code == 0, err
    table = pd.read_csv(tmp_path / "p.csv")
    assert list(table.columns) == ["id", "label", "probability", "spread"]
    assert list(table["id"]) == [f"plant {i}" for i in range(90)]
    assert set(table["label"]) == {"rose", "tulip", "fern"}
    assert (table["label"] == tables()[0]["label"]).mean() > 0.8
    assert table["probability"].between(1 / 3 - 1e-6, 1).all()
    assert (table["spread"] >= 0).all()
    parquet = pd.read_parquet(tmp_path / "p.parquet")
    assert list(parquet["label"]) == list(table["label"])
    code, out, err = rapgnn("predict", model, folder, "--out", tmp_path / "s.csv", "--samples", 64)
    drawn = pd.read_csv(tmp_path / "s.csv")
    np.testing.assert_allclose(drawn["probability"], table["probability"], atol=0.1)
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
    code, _, err = rapgnn("fit", folder, "--out", model, *options)
    assert code == 0, err
    code, _, err = rapgnn("evaluate", model, folder)  # the model knows how its table is read
    assert code == 0, err
    assert rapgnn("predict", model, folder, "--out", tmp_path / "p.csv")[0] == 0
    code, _, err = rapgnn("fit", folder, "--out", model, "--label", "genus")
    assert code == 2
    assert "no column named 'genus'" in err
    err = rapgnn("fit", folder, "--out", model, "--label", "species", "--ignore", "nothing")[2]
    assert "no column 'nothing' to ignore" in err


# Many graphs


def many(count: int = 40, seed: int = 0) -> dict[str, pd.DataFrame]:
    rng = np.random.default_rng(seed)
    nodes, edges, graphs = [], [], []
    for i in range(count):
        n, ring = int(rng.integers(4, 9)), i % 2 == 0
        name = f"g{i}"
        graphs.append({"id": name, "label": "ring" if ring else "star"})
        nodes += [{"graph": name, "id": j, "atom": "CNO"[int(rng.integers(3))]} for j in range(n)]
        pairs = [(j, (j + 1) % n) for j in range(n)] if ring else [(0, j) for j in range(1, n)]
        edges += [{"graph": name, "source": u, "target": v, "bond": "single" if u else "double"} for u, v in pairs]
    order = rng.permutation(len(nodes))  # rows in any order
    return {"graphs": pd.DataFrame(graphs), "nodes": pd.DataFrame(nodes).iloc[order], "edges": pd.DataFrame(edges)}


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
    code, out, err = rapgnn("fit", folder, "--out", model)
    assert code == 0, err
    assert "RMSE" in out
    assert rapgnn("predict", model, folder, "--out", tmp_path / "p.csv")[0] == 0
    table = pd.read_csv(tmp_path / "p.csv")
    assert list(table.columns) == ["id", "value", "spread"]
    assert np.corrcoef(table["value"], frames["graphs"]["label"])[0, 1] > 0.9


@pytest.mark.parametrize(
    ("stem", "change", "sentence"),
    [
        ("nodes", lambda t: t.drop(columns="graph"), "no column named 'graph'"),
        ("nodes", lambda t: t.replace("g3", "g99"), "graph g99"),
        ("edges", lambda t: t.drop(columns="graph"), "node ids repeat from graph to graph"),
        ("edges", lambda t: t.assign(target=7), "which its graph does not have"),
        ("edges", lambda t: t.assign(target=88), "target 88"),
        ("edges", lambda t: t.assign(weight=2.0), "weighted edges are for one graph"),
        ("nodes", lambda t: t.assign(id=0), "occurs more than once in graph"),
        ("graphs", lambda t: t.assign(id="g1"), "occurs more than once"),
        ("graphs", lambda t: t.assign(label="ring"), "nothing to tell apart"),
    ],
)
def test_mistakes_in_many_graphs(tmp_path, stem, change, sentence):
    frames = many()
    frames[stem] = change(frames[stem])
    with pytest.raises(InputError, match=sentence):
        load_dataset(str(write(tmp_path / "g", **frames)))


def test_unique_ids_need_no_graph_column_on_edges(tmp_path):
    frames = many()
    nodes, edges = frames["nodes"], frames["edges"]
    nodes["id"] = nodes["graph"] + "/" + nodes["id"].astype(str)
    for end in ("source", "target"):
        edges[end] = edges["graph"] + "/" + edges[end].astype(str)
    with_column = load_dataset(str(write(tmp_path / "a" / "g", **frames)))
    frames["edges"] = edges.drop(columns="graph")
    without = load_dataset(str(write(tmp_path / "b" / "g", **frames)))
    same(with_column, without)


# What a reader must not get wrong in silence


@pytest.mark.parametrize("column", ["id", "graph", "graph_id"])
def test_labels_go_to_the_graph_they_name(tmp_path, column):
    frames = many()
    frames["graphs"] = frames["graphs"].rename(columns={"id": column}).sample(frac=1, random_state=0)
    graph = load_dataset(write(tmp_path / "g", **frames))
    wanted = {f"g{i}": "star" if i % 2 else "ring" for i in range(40)}
    assert {str(name): graph.classes[int(y)] for name, y in zip(graph.ids, graph.y, strict=True)} == wanted


def test_names_are_taken_as_they_are_written(tmp_path):
    (tmp_path / "nodes.csv").write_text("id,a,label\n1,0.5,p\n01,0.2,q\nNA,0.1,None\ny,0.9,q\n")
    (tmp_path / "edges.csv").write_text("source,target\n01,NA\n1,y\n")
    graph = load_dataset(tmp_path, reading=Reading(directed=True))
    assert list(graph.ids) == ["1", "01", "NA", "y"]
    assert graph.edge_index.tolist() == [[1, 0], [2, 3]]
    assert graph.classes == ("None", "p", "q")  # a word, not a gap
    (tmp_path / "nodes.csv").write_text("id,a,label\n001,0.5,p\n002,NA,q\n003,0.1,p\n004,0.9,q\n")
    (tmp_path / "edges.csv").write_text("source,target\n001,002\n")
    graph = load_dataset(tmp_path, reading=Reading(impute=True))
    assert list(graph.ids) == ["001", "002", "003", "004"]
    assert graph.num_features == 1  # numbers with a gap


def test_a_model_predicts_without_the_label_column_and_keeps_its_features(rapgnn, tmp_path):
    rng = np.random.default_rng(0)
    kind = rng.integers(2, size=60)
    nodes = pd.DataFrame({"id": range(60), "x": kind + rng.random(60), "y": rng.random(60), "class": rng.random(60)})
    edges = pd.DataFrame({"source": range(59), "target": range(1, 60)})
    folder = write(tmp_path / "a", nodes=nodes.assign(label=np.array(["no", "yes"])[kind]), edges=edges)
    assert rapgnn("fit", folder, "--out", tmp_path / "m")[0] == 0
    fresh = write(tmp_path / "b", nodes=nodes, edges=edges)
    code, _, err = rapgnn("predict", tmp_path / "m", fresh, "--out", tmp_path / "p.csv")
    assert code == 0, err
    assert (pd.read_csv(tmp_path / "p.csv")["label"] == np.array(["no", "yes"])[kind]).mean() > 0.7
    named = write(tmp_path / "c", nodes=nodes.assign(species=np.array(["no", "yes"])[kind]), edges=edges)
    assert rapgnn("fit", named, "--label", "species", "--out", tmp_path / "m2")[0] == 0
    code, _, err = rapgnn("predict", tmp_path / "m2", fresh, "--out", tmp_path / "p.csv")
    assert code == 0, err
    assert rapgnn("predict", tmp_path / "m2", fresh, "--out", tmp_path / "p.csv", "--samples", 1)[0] == 2


def test_many_labels_keep_their_names_whatever_their_order(rapgnn, tmp_path):
    frames = many(60)
    ring = (frames["graphs"].pop("label") == "ring").astype(int)
    coin = np.random.default_rng(0).integers(2, size=60)
    frames["graphs"] = frames["graphs"].assign(label_ring=ring, label_coin=coin, colour="red")
    folder, model = write(tmp_path / "g", **frames), tmp_path / "m"
    code, _, err = rapgnn("fit", folder, "--out", model)
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
    assert scores[0].startswith("all ")


def test_arrays_with_an_ignored_column(rapgnn, tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    np.savez(tmp_path / "nodes.npz", x=rng.random((60, 3)) + y[:, None], y=y, name=np.arange(60))
    np.savez(tmp_path / "edges.npz", source=np.arange(59), target=np.arange(1, 60))
    assert "put it into x, or ignore it" in rapgnn("fit", tmp_path, "--out", tmp_path / "m")[2]
    assert rapgnn("fit", tmp_path, "--out", tmp_path / "m", "--ignore", "name")[0] == 0
    code, _, err = rapgnn("predict", tmp_path / "m", tmp_path, "--out", tmp_path / "p.csv")
    assert code == 0, err
