"""Everything that is wrong with a folder in one message, each fault with its cure; and the options that are cures."""

import numpy as np
import pandas as pd
import pytest

from rapgnn import InputError, load_dataset
from rapgnn.datasets.folder import Reading
from rapgnn.sparse import dense

N = 40


def frames() -> tuple[pd.DataFrame, pd.DataFrame]:
    rng = np.random.default_rng(0)
    nodes = pd.DataFrame({"id": [f"p{i}" for i in range(N)], "height": rng.normal(5, 2, N), "leaves": rng.random(N)})
    nodes["label"] = ["rose", "fern"] * (N // 2)
    ends = rng.integers(N, size=(2, 100))
    return nodes, pd.DataFrame({"source": nodes["id"].to_numpy()[ends[0]], "target": nodes["id"].to_numpy()[ends[1]]})


def write(folder, nodes=None, edges=None):
    folder.mkdir(parents=True, exist_ok=True)
    for stem, table in (("nodes", nodes), ("edges", edges)):
        if table is not None:
            table.to_csv(folder / f"{stem}.csv", index=False)
    return folder


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
    sentence = refusal(write(tmp_path, nodes, edges.rename(columns={"target": "end"})))
    for words in (
        "has no id: --id",
        "'maybe' is unknown",
        "'height' has no value",
        "--impute",
        "--target names another",
    ):
        assert words in sentence
    assert "weight must be numbers" in sentence
    assert sentence.count(str(tmp_path / "nodes.csv")) == 1  # a file is named once
    assert "\n" not in sentence


def test_eight_faults_and_a_number(tmp_path):
    nodes, edges = frames()
    for i in range(12):
        nodes[f"c{i}"] = np.inf
    sentence = refusal(write(tmp_path, nodes, edges))
    assert sentence.count("holds infinite values") == 8
    assert sentence.endswith("and 4 more.")


def test_files_that_cannot_be_read_come_together(tmp_path):
    write(tmp_path, *frames())
    (tmp_path / "nodes.csv").write_text("")
    (tmp_path / "edges.csv").write_text('source,target\n"a,b\n')
    sentence = refusal(tmp_path)
    assert "nodes.csv: it is empty" in sentence
    assert "edges.csv" in sentence


def test_columns_can_be_named(tmp_path):
    nodes, edges = frames()
    wanted = load_dataset(write(tmp_path / "a" / "g", nodes, edges))
    other = nodes.rename(columns={"id": "Plant No", "label": "Species"}).assign(extra="x", **{"a,b": 1})
    ends = edges.rename(columns={"source": "Start", "target": "End"})
    folder = write(tmp_path / "b" / "g", other, ends)
    options = {"id": "Plant No", "label": "Species", "source": "Start", "target": "End"}
    for ignore, features in ((["extra", "a,b"], 2), (["extra,leaves", "a,b"], 1)):
        graph = load_dataset(folder, ignore=ignore, **options)
        np.testing.assert_array_equal(graph.edge_index, wanted.edge_index)
        np.testing.assert_array_equal(dense(graph.x), dense(wanted.x)[:, :features])
        assert list(graph.ids) == list(wanted.ids)
    assert "no column named 'genus'" in refusal(folder, **options | {"label": "genus"})
    assert "--source names another" in refusal(folder, id="Plant No", label="Species")
    assert "no column 'x1', 'x2' to ignore" in refusal(folder, ignore="x1,x2", **options)
    with_reading = load_dataset(folder, reading=Reading(ignore=("extra", "a,b"), id="Plant No"), **options)
    np.testing.assert_array_equal(with_reading.edge_index, wanted.edge_index)


def test_rows_without_ids_are_numbered_and_it_is_said(tmp_path):
    nodes, edges = frames()
    place = {name: i for i, name in enumerate(nodes["id"])}
    numbered = edges.replace(place).astype(int)
    graph = load_dataset(write(tmp_path / "a", nodes.drop(columns="id"), numbered))
    assert any("no id column: rows were numbered from 0" in note for note in graph.notes)
    assert graph.ids.tolist() == list(range(N))
    assert not any("no id" in note for note in load_dataset(write(tmp_path / "b", nodes, edges)).notes)
    assert "--id names a column of ids" in refusal(write(tmp_path / "c", nodes.rename(columns={"id": "key"}), edges))


def test_unknown_edges_are_dropped_and_counted(tmp_path):
    nodes, edges = frames()
    wanted = load_dataset(write(tmp_path / "a" / "g", nodes, edges))
    strange = pd.DataFrame({"source": ["p1", "weed", "weed"], "target": ["weed", "p2", "weed"]})
    folder = write(tmp_path / "b" / "g", nodes, pd.concat([strange, edges]))
    assert "--drop-unknown-edges" in refusal(folder)
    graph = load_dataset(folder, drop_unknown_edges=True)
    np.testing.assert_array_equal(graph.edge_index, wanted.edge_index)
    assert any("3 of 103 edges name unknown nodes and were dropped" in note for note in graph.notes)
    weighted = pd.concat([strange, edges]).assign(weight=np.arange(103.0))
    graph = load_dataset(write(tmp_path / "c", nodes, weighted), drop_unknown_edges=True, directed=True)
    assert graph.edge_weight.tolist() == np.arange(3.0, 103).tolist()


def test_unknown_edges_of_many_graphs(tmp_path):
    graphs = pd.DataFrame({"id": ["a", "b", "c", "d"], "label": ["x", "y"] * 2, "split": ["train", "train", "val", ""]})
    nodes = pd.DataFrame({"graph": [g for g in "abcd" for _ in range(2)], "id": [0, 1] * 4, "size": range(8)})
    edges = pd.DataFrame({"graph": [*"abcd", "a", "z"], "source": [0] * 6, "target": [1] * 4 + [7, 1]})
    write(tmp_path, nodes, edges)
    graphs.to_csv(tmp_path / "graphs.csv", index=False)
    refusal(tmp_path)
    graph = load_dataset(tmp_path, drop_unknown_edges=True, directed=True)
    assert graph.edge_index.tolist() == [[0, 2, 4, 6], [1, 3, 5, 7]]
    assert any("2 of 6 edges" in note for note in graph.notes)


def test_labels_lose_their_blanks(tmp_path):
    nodes, edges = frames()
    nodes.loc[:4, "label"] = [" rose", "rose ", "fern\t", "rose", "  "]
    graph = load_dataset(write(tmp_path, nodes, edges))
    assert graph.classes == ("fern", "rose")
    assert int(graph.y[4]) == -1
    assert any("blanks around 4 labels were left out" in note for note in graph.notes)


def test_split_and_weight_can_be_ignored(tmp_path):
    nodes, edges = frames()
    folder = write(tmp_path, nodes.assign(split="maybe"), edges.assign(weight="heavy"))
    graph = load_dataset(folder, ignore=["split", "weight"])
    assert graph.edge_weight is None
    assert {use.read_as for use in graph.encoding.uses if use.column in ("split", "weight")} == {"left out: --ignore"}


@pytest.mark.parametrize("ending", ["csv", "tsv", "csv.gz", "parquet", "npz"])
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
    assert "--source names another" in refusal(path)
    assert load_dataset(path, source="a", target="b").ids.tolist() == [1, 2, 10]
    other = path.rename(tmp_path / "e.txt")
    assert "a file of edges ends in .csv" in refusal(other)
    path.write_text("source,target\n10,\n1,2\n")
    assert "row 0 has no target" in refusal(path)


@pytest.mark.parametrize(
    "settings", ["nodes=1e99", "features=1e300", "degree=1e99", "nodes=1e13", "labels=1e30,nodes=1e9", "nodes=1e400"]
)
def test_generated_graphs_of_any_size_are_refused_in_a_sentence(settings):
    with pytest.raises(InputError, match="sbm: "):
        load_dataset(f"sbm:{settings}")
