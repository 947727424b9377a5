"""A user's folder of tables: every format gives the same graph, and every column its features."""

import numpy as np
import pandas as pd
import pytest
import torch

from folders import many, tables, write
from rapgnn import InputError, load_dataset
from rapgnn.datasets.folder import Reading
from rapgnn.sparse import dense


def same(one, other) -> None:
    assert torch.equal(dense(one.x), dense(other.x))
    assert torch.equal(one.edge_index, other.edge_index)
    assert torch.equal(one.y, other.y)
    assert one.classes == other.classes
    assert list(one.ids) == list(other.ids)


@pytest.mark.parametrize("ending", ["parquet", "npz", "csv.gz"])
def test_every_format_gives_the_same_graph(tmp_path, plants, ending):
    nodes, edges = tables()
    other = load_dataset(str(write(tmp_path / "other" / "plants", ending, nodes=nodes, edges=edges)))
    same(load_dataset(str(plants)), other)


@pytest.mark.parametrize("kind", ["numbers", "words of numbers", "far numbers", "dates"])
def test_ids_of_any_type(tmp_path, plants, kind):
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
    wanted = load_dataset(str(plants))
    assert torch.equal(graph.edge_index, wanted.edge_index)
    assert list(graph.ids) == list(nodes["id"].astype(graph.ids.dtype))


def test_columns_become_features(plants):
    graph = load_dataset(str(plants))
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


# Many graphs.


@pytest.mark.parametrize(
    ("stem", "change", "sentence"),
    [
        ("nodes", lambda t: t.drop(columns="graph"), "no column named 'graph'"),
        ("nodes", lambda t: t.replace("g3", "g99"), "graph g99"),
        ("edges", lambda t: t.drop(columns="graph"), "node ids repeat from graph to graph"),
        ("edges", lambda t: t.assign(target=7), "which its graph does not have"),
        ("edges", lambda t: t.assign(target=88), "target 88"),
        ("edges", lambda t: t.assign(weight=np.inf), "edge weights hold NaN or infinite values"),
        ("edges", lambda t: t.assign(weight="heavy"), "weight must be numbers"),
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


@pytest.mark.parametrize("column", ["id", "graph", "graph_id"])
def test_labels_go_to_the_graph_they_name(tmp_path, column):
    frames = many()
    frames["graphs"] = frames["graphs"].rename(columns={"id": column}).sample(frac=1, random_state=0)
    graph = load_dataset(write(tmp_path / "g", **frames))
    wanted = {f"g{i}": "star" if i % 2 else "ring" for i in range(40)}
    assert {str(name): graph.classes[int(y)] for name, y in zip(graph.ids, graph.y, strict=True)} == wanted
