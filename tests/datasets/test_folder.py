"""A user's folder of tables: what becomes of every column, all faults in one message, options that are cures."""

import json

import numpy as np
import pandas as pd
import pytest
import torch

from folders import many, tables, write
from rapgnn import InputError, load_dataset
from rapgnn.datasets.columns import Reading
from rapgnn.graph.table import FILLED, UNSEEN, Encoding
from rapgnn.sparse import dense


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


def test_gaps_are_refused_imputed_or_filled_for_a_trained_model(tmp_path):
    nodes, edges = tables()
    trained = load_dataset(write(tmp_path / "whole", nodes=nodes, edges=edges)).encoding
    nodes.loc[3, "height"] = np.nan
    nodes.loc[5, "colour"] = None
    nodes.loc[6, "colour"] = "violet"
    folder = write(tmp_path / "p", nodes=nodes, edges=edges)
    with pytest.raises(InputError, match="column 'height' has no value for 1 of 90 nodes"):
        load_dataset(folder)
    imputed = load_dataset(folder, impute=True)
    read = load_dataset(folder, reading=Reading(encoding=trained, trained=True, labelled=False))
    for graph, words in ((imputed, slice(2, 6)), (read, slice(2, 5))):
        assert float(dense(graph.x)[3, 0]) == pytest.approx(0.0, abs=1e-6)  # the mean
        assert not dense(graph.x)[5, words].any()
    assert imputed.encoding.impute
    assert not dense(read.x)[6, 2:].any()
    assert any(note.startswith(FILLED) and "height (1 of 90 nodes)" in note for note in read.notes)
    assert any(note.startswith(UNSEEN) and "colour (1 of 90 nodes)" in note for note in read.notes)


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


@pytest.mark.parametrize("column", ["id", "graph", "graph_id"])
def test_labels_go_to_the_graph_they_name(tmp_path, column):
    frames = many()
    frames["graphs"] = frames["graphs"].rename(columns={"id": column}).sample(frac=1, random_state=0)
    graph = load_dataset(write(tmp_path / "g", **frames))
    wanted = {f"g{i}": "star" if i % 2 else "ring" for i in range(40)}
    assert {str(name): graph.classes[int(y)] for name, y in zip(graph.ids, graph.y, strict=True)} == wanted


ROWS = 40


def frames() -> tuple[pd.DataFrame, pd.DataFrame]:
    rng = np.random.default_rng(0)
    nodes = pd.DataFrame(
        {"id": [f"p{i}" for i in range(ROWS)], "height": rng.normal(5, 2, ROWS), "leaves": rng.random(ROWS)}
    )
    nodes["label"] = ["rose", "fern"] * (ROWS // 2)
    ends = rng.integers(ROWS, size=(2, 100))
    return nodes, pd.DataFrame({"source": nodes["id"].to_numpy()[ends[0]], "target": nodes["id"].to_numpy()[ends[1]]})


def put(folder, nodes, edges):
    return write(folder, nodes=nodes, edges=edges)


def refusal(folder, **options) -> str:
    with pytest.raises(InputError) as refused:
        load_dataset(folder, **options)
    sentence = str(refused.value)
    assert sentence.isprintable()
    assert sentence.endswith(".")
    return sentence


def test_all_faults_come_in_one_message(tmp_path):
    nodes, edges = frames()
    nodes.loc[3, "id"] = None
    nodes.loc[5, "height"] = np.nan
    nodes["split"] = "maybe"
    edges["weight"] = "heavy"
    sentence = refusal(put(tmp_path, nodes, edges.rename(columns={"target": "end"})))
    for words in ("`id", "'maybe'", "'height'", "`impute", "`target", "weight"):
        assert words in sentence
    assert sentence.count(str(tmp_path / "nodes.csv")) == 1  # a file is named once
    assert "\n" not in sentence


def test_columns_can_be_named(tmp_path):
    nodes, edges = frames()
    wanted = load_dataset(put(tmp_path / "a" / "g", nodes, edges))
    other = nodes.rename(columns={"id": "Plant No", "label": "Species"}).assign(extra="x", **{"a,b": 1})
    ends = edges.rename(columns={"source": "Start", "target": "End"})
    folder = put(tmp_path / "b" / "g", other, ends)
    options = {"id": "Plant No", "label": "Species", "source": "Start", "target": "End"}
    for ignore, features in ((["extra", "a,b"], 2), (["extra,leaves", "a,b"], 1)):
        graph = load_dataset(folder, ignore=ignore, **options)
        np.testing.assert_array_equal(graph.edge_index, wanted.edge_index)
        np.testing.assert_array_equal(dense(graph.x), dense(wanted.x)[:, :features])
        assert list(graph.ids) == list(wanted.ids)
    assert "no column named 'genus'" in refusal(folder, **options | {"label": "genus"})
    assert "`source` names another" in refusal(folder, id="Plant No", label="Species")
    assert "no column 'x1', 'x2' to ignore" in refusal(folder, ignore="x1,x2", **options)
    with_reading = load_dataset(folder, reading=Reading(ignore=("extra", "a,b"), id="Plant No"), **options)
    np.testing.assert_array_equal(with_reading.edge_index, wanted.edge_index)


def test_unknown_edges_are_dropped_and_counted(tmp_path):
    nodes, edges = frames()
    wanted = load_dataset(put(tmp_path / "a" / "g", nodes, edges))
    strange = pd.DataFrame({"source": ["p1", "weed", "weed"], "target": ["weed", "p2", "weed"]})
    folder = put(tmp_path / "b" / "g", nodes, pd.concat([strange, edges]))
    assert "`drop_unknown_edges" in refusal(folder)
    graph = load_dataset(folder, drop_unknown_edges=True)
    np.testing.assert_array_equal(graph.edge_index, wanted.edge_index)
    assert any("3 of 103 edges name unknown nodes and were dropped" in note for note in graph.notes)
    weighted = pd.concat([strange, edges]).assign(weight=np.arange(103.0))
    graph = load_dataset(put(tmp_path / "c", nodes, weighted), drop_unknown_edges=True, directed=True)
    assert graph.edge_weight.tolist() == np.arange(3.0, 103).tolist()


def test_labels_lose_their_blanks(tmp_path):
    nodes, edges = frames()
    nodes.loc[:4, "label"] = [" rose", "rose ", "fern\t", "rose", "  "]
    graph = load_dataset(put(tmp_path, nodes, edges))
    assert graph.classes == ("fern", "rose")
    assert int(graph.y[4]) == -1
    assert any("blanks around 4 labels were left out" in note for note in graph.notes)


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet", "npz"])
def test_a_file_of_edges_is_a_graph(tmp_path, ending):
    _, edges = frames()
    path = tmp_path / f"friends.{ending}"
    if ending == "parquet":
        edges.to_parquet(path)
    elif ending == "npz":
        np.savez(path, **{c: edges[c].to_numpy(dtype="U") for c in edges})
    else:
        edges.to_csv(path, index=False, sep="\t" if ending == "tsv" else ",")
    graph = load_dataset(path, directed=True)
    names = list(dict.fromkeys([*edges["source"], *edges["target"]]))
    assert list(graph.ids) == names
    assert [names[i] for i in graph.edge_index[0]] == list(edges["source"])
    assert [names[i] for i in graph.edge_index[1]] == list(edges["target"])
    assert not len(graph.labelled)
    assert any("no node features" in note for note in graph.notes)
    (tmp_path / "f").mkdir()
    path.rename(tmp_path / "f" / f"edges.{ending}")
    folder = load_dataset(tmp_path / "f", directed=True)
    np.testing.assert_array_equal(folder.edge_index, graph.edge_index)


def test_ids_of_an_edge_file_are_taken_as_written(tmp_path):
    path = tmp_path / "e.csv"
    path.write_text("from,to\n01,1\n1,10\n2,01\n")
    assert list(load_dataset(path).ids) == ["01", "1", "2", "10"]
    path.write_text("a,b\n10,1\n1,2\n")
    assert "`source` names another" in refusal(path)
    assert load_dataset(path, source="a", target="b").ids.tolist() == [1, 2, 10]
    other = path.rename(tmp_path / "e.txt")
    assert "a file of edges ends in .csv" in refusal(other)
    path.write_text("source,target\n10,\n1,2\n")
    assert "row 0 has no target" in refusal(path)


N = 120


def garden(n: int = N, **columns) -> tuple[pd.DataFrame, pd.DataFrame]:
    rng = np.random.default_rng(0)
    kind = rng.integers(2, size=n)
    nodes = pd.DataFrame({"id": [f"p{i}" for i in range(n)], "height": 10.0 * kind + rng.normal(size=n)} | columns)
    nodes["label"] = np.array(["rose", "fern"])[kind]
    return nodes, pd.DataFrame({"source": nodes["id"][:-1].to_numpy(), "target": nodes["id"][1:].to_numpy()})


def told(graph) -> dict[str, str]:
    return {use.column: use.read_as for use in graph.encoding.uses if use.file == "nodes.csv"}


DAYS = pd.date_range("2023-06-28", periods=N, freq="3D")
WRITTEN = {
    "ISO": [str(d.date()) for d in DAYS],
    "ISO, a time": [f"{d.date()}T12:00:00" for d in DAYS],
    "ISO, a zone": [f"{d.date()} 12:00:00+02:00" for d in DAYS],
    "German": [d.strftime("%d.%m.%Y") for d in DAYS],
    "German, short": [d.strftime("%d.%m.%y") for d in DAYS],
    "US": [d.strftime("%m/%d/%Y") for d in DAYS],
    "British": [d.strftime("%d/%m/%Y %H:%M") for d in DAYS],
}


@pytest.mark.parametrize("way", WRITTEN)
def test_dates_become_days(tmp_path, way):
    graph = load_dataset(put(tmp_path, *garden(planted=WRITTEN[way])))
    assert told(graph)["planted"] == "date"
    days = np.arange(N) * 3.0
    found = dense(graph.x)[:, 1].numpy()
    np.testing.assert_allclose(found, (days - days.mean()) / days.std(), atol=1e-4)


def test_dates_of_parquet_and_of_another_file(tmp_path):
    nodes, edges = garden(planted=WRITTEN["ISO"])
    graph = load_dataset(put(tmp_path / "a", nodes, edges))
    for planted in (WRITTEN["German"], WRITTEN["US"]):  # another file may write them another way
        again = load_dataset(
            put(tmp_path / "b", nodes.assign(planted=planted), edges),
            reading=Reading(encoding=graph.encoding, trained=True, labelled=False),
        )
        np.testing.assert_allclose(dense(again.x), dense(graph.x), atol=1e-5)
    stamps = tmp_path / "c"
    stamps.mkdir()
    nodes.assign(planted=DAYS).to_parquet(stamps / "nodes.parquet")
    edges.to_parquet(stamps / "edges.parquet")
    np.testing.assert_allclose(dense(load_dataset(stamps).x), dense(graph.x), atol=1e-4)
    with pytest.raises(InputError, match="'planted' must hold dates such as 2024-12-31"):
        load_dataset(
            put(tmp_path / "d", nodes.assign(planted="soon"), edges),
            reading=Reading(encoding=graph.encoding, trained=True, labelled=False),
        )


def test_unclear_dates_are_left_out(tmp_path):
    unclear = [f"{1 + i % 12}/{1 + (i * 5) % 12}/2024" for i in range(N)]
    graph = load_dataset(put(tmp_path, *garden(planted=unclear)))
    assert told(graph)["planted"].startswith("left out: dates")
    assert any("day or month" in note for note in graph.notes)
    versions = [f"1.{i % 5}.{i % 4}" for i in range(N)]
    assert told(load_dataset(put(tmp_path, *garden(version=versions))))["version"].startswith("category")


def test_a_slip_among_dates_is_named(tmp_path):
    wrong = [*WRITTEN["ISO"][:-1], "2024-02-30"]
    with pytest.raises(InputError, match=r"nodes.csv: column 'planted' holds dates, but '2024-02-30'.*`ignore"):
        load_dataset(put(tmp_path, *garden(planted=wrong)))


def test_names_and_empty_columns_are_left_out_with_a_notice(tmp_path):
    names = [f"plant number {i}" for i in range(N)]
    nodes, edges = garden(name=names, nothing=None)
    graph = load_dataset(put(tmp_path, nodes, edges))
    assert graph.num_features == 1
    assert told(graph)["name"] == "left out: a name, 120 different values in 120 nodes"
    assert told(graph)["nothing"] == "left out: it is empty"
    assert (
        sum("columns left out: name (a name" in note and "nothing (it is empty)" in note for note in graph.notes) == 1
    )
    with pytest.raises(InputError, match="a name, 120 different values"):  # there is nothing else to learn from
        load_dataset(put(tmp_path, nodes.drop(columns="height"), edges))


def test_many_categories_share_a_feature(tmp_path):
    rng = np.random.default_rng(0)
    city = [f"c{i % 100}" for i in range(900)] + [f"rare {i}" for i in range(100)]
    graph = load_dataset(put(tmp_path / "a", *garden(1000, city=rng.permutation(city))))
    assert graph.num_features == 1 + 101
    assert told(graph)["city"] == "category, 100 values and other"
    assert any("100 most frequent share" in note and "city" in note for note in graph.notes)
    x = dense(graph.x).numpy()
    assert x[:, -1].sum() == 100
    assert (x[:, 1:].sum(axis=1) == 1).all()


def test_the_table_tells_every_column(tmp_path):
    nodes, edges = garden(soil=["clay", "sand", "loam"] * 40, planted=WRITTEN["ISO"], split="", note="x")
    nodes["split"] = (["train", "val", "test"] * N)[:N]
    graph = load_dataset(put(tmp_path, nodes, edges.assign(weight=1.0, kind="a")), ignore=["note"])
    rows = [(use.file, use.column, use.read_as, use.features) for use in graph.encoding.uses]
    assert rows == [
        ("nodes.csv", "id", "id", 0),
        ("nodes.csv", "height", "number", 1),
        ("nodes.csv", "soil", "category, 3 values", 3),
        ("nodes.csv", "planted", "date", 1),
        ("nodes.csv", "split", "split", 0),
        ("nodes.csv", "label", "label", 0),
        ("nodes.csv", "note", "left out: `ignore`", 0),
        ("edges.csv", "source", "source", 0),
        ("edges.csv", "target", "target", 0),
        ("edges.csv", "weight", "weight", 0),
        ("edges.csv", "kind", "left out: edge features are for many graphs", 0),
    ]
    assert sum(use.features for use in graph.encoding.uses) == graph.num_features


def test_encodings_survive_a_save(tmp_path):
    rng = np.random.default_rng(0)
    columns = {"city": rng.permutation([f"c{i % 120}" for i in range(600)]), "planted": list(WRITTEN["German"]) * 5}
    nodes, edges = garden(600, **columns)
    nodes = nodes.rename(columns={"id": "plant"})
    edges = edges.rename(columns={"source": "begin", "target": "end"})
    folder = put(tmp_path / "a", nodes, edges)
    graph = load_dataset(folder, id="plant", source="begin", target="end")
    again = Encoding.from_dict(json.loads(json.dumps(graph.encoding.to_dict())))
    assert again == graph.encoding
    read = load_dataset(folder, reading=Reading(encoding=again, trained=True, labelled=False))
    np.testing.assert_array_equal(dense(read.x), dense(graph.x))
    np.testing.assert_array_equal(read.edge_index, graph.edge_index)


def test_a_column_that_numbers_the_rows_is_left_out(tmp_path):
    nodes, edges = garden()
    put(tmp_path, nodes, edges)
    nodes.to_csv(tmp_path / "nodes.csv")  # with its index
    graph = load_dataset(tmp_path)
    assert graph.num_features == 1
    assert told(graph)["Unnamed: 0"] == "left out: it numbers the rows"
