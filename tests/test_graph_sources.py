"""Readers of the TU and OGB layouts: small files in exactly those layouts, damaged ones, and the real ones."""

import gzip
import zipfile
from pathlib import Path

import numpy as np
import pytest

from rapgnn import InputError, load_dataset
from rapgnn.datasets import DATASETS, ogb, sources
from rapgnn.datasets.ogb import ATOM_CATEGORIES, BOND_CATEGORIES, read_molecules, read_node_graph
from rapgnn.datasets.sources import Archive, FileSet, locate, verify
from rapgnn.datasets.tu import read_tu


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("RAPGNN_CACHE", str(tmp_path / "cache"))


def csv(path: Path, rows) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(",".join("" if v != v else f"{v:g}" for v in np.atleast_1d(row)) + "\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode()))


def molecules(folder: Path, **changes) -> Path:
    """Three molecules: a chain of three atoms, a single atom, a pair. Labels with a gap."""
    nan = float("nan")
    atom, bond = [5, 0, 4, 5, 3, 0, 2, 0, 0], [0, 0, 0]
    parts = {
        "raw/num-node-list": [3, 1, 2],
        "raw/num-edge-list": [2, 0, 1],
        "raw/node-feat": [atom, [7, *atom[1:]], atom, atom, atom, atom],
        "raw/edge": [[0, 1], [1, 2], [0, 1]],
        "raw/edge-feat": [bond, [1, 0, 1], bond],
        "raw/graph-label": [[1.0, nan], [0.0, 1.0], [nan, 0.0]],
        "split/scaffold/train": [0, 1],
        "split/scaffold/valid": [2],
        "split/scaffold/test": [],
    } | changes
    for name, rows in parts.items():
        csv(folder / f"{name}.csv.gz", rows)
    return folder


def test_molecules_are_read_as_ogb_stores_them(tmp_path):
    graph = read_molecules("tiny", molecules(tmp_path / "tiny"))
    assert graph.task == "graph-multilabel"
    assert graph.ptr.tolist() == [0, 3, 4, 6]
    # Every bond in both directions, numbered through all molecules.
    pairs = {tuple(edge) for edge in graph.edge_index.T.tolist()}
    assert pairs == {(0, 1), (1, 0), (1, 2), (2, 1), (4, 5), (5, 4)}
    assert (graph.num_features, graph.num_edge_features) == (sum(ATOM_CATEGORIES), sum(BOND_CATEGORIES))
    assert np.flatnonzero(graph.x.scipy().toarray()[1]).tolist()[:2] == [7, 119]  # atomic number 8, first chirality
    assert graph.edge_attr.scipy().toarray()[2].tolist() == graph.edge_attr.scipy().toarray()[3].tolist()
    assert graph.y.isnan().sum() == 2
    assert (graph.train.tolist(), graph.val.tolist(), graph.test.tolist()) == ([0, 1], [2], [])


def test_the_second_load_comes_from_the_cache_and_is_the_same(tmp_path, monkeypatch):
    folder = molecules(tmp_path / "tiny")
    first = read_molecules("tiny", folder)
    monkeypatch.setattr(ogb, "_parse_molecules", lambda folder: pytest.fail("parsed again"))
    again = read_molecules("tiny", folder)
    assert np.array_equal(first.x.scipy().toarray(), again.x.scipy().toarray())
    assert first.edge_index.equal(again.edge_index)
    kept = list((tmp_path / "cache/parsed").glob("*.npz"))
    assert len(kept) == 1
    with np.load(kept[0], allow_pickle=False) as arrays:
        assert "atoms" in arrays.files


def test_a_damaged_cache_is_made_again_and_a_changed_file_is_noticed(tmp_path):
    folder = molecules(tmp_path / "tiny")
    read_molecules("tiny", folder)
    kept = next((tmp_path / "cache/parsed").glob("*.npz"))
    kept.write_bytes(kept.read_bytes()[:100])
    assert read_molecules("tiny", folder).num_rows == 3
    molecules(folder, **{"raw/graph-label": [[1, 0], [0, 1], [1, 1]]})
    assert not read_molecules("tiny", folder).y.isnan().any()


def test_numbers_other_than_0_and_1_make_a_regression(tmp_path):
    graph = read_molecules("tiny", molecules(tmp_path / "t", **{"raw/graph-label": [-0.77, 1.5, 2.0]}))
    assert graph.task == "graph-regression"


BAD = [
    (
        {"raw/edge-feat": [[0, 0, 0], [9, 0, 0], [0, 0, 0]]},
        "value 9 in feature column 0, outside the encoder's range 0 to 4",
    ),
    ({"raw/node-feat": [[500, 0, 4, 5, 3, 0, 2, 0, 0]] * 6}, "outside the encoder's range 0 to 118"),
    ({"split/scaffold/train": [0, 77]}, "names graph 77, but the graphs are numbered 0 to 2"),
    ({"raw/edge": [[0, 1], [1, 9], [0, 1]]}, "graph 0 of .* has 3 atoms but a bond between"),
    ({"raw/num-node-list": [3, 1, 9]}, "announces 13"),
    ({"raw/graph-label": [[1, 0], [0, 1]]}, "differ in their numbers"),
    ({"raw/node-feat": [[5, 0, 4]] * 6}, "must have 9 columns"),
    ({"split/scaffold/train": [0, 2]}, "in both the train and the val split"),
    ({"raw/node-feat": [[5.5, 0, 4, 5, 3, 0, 2, 0, 0]] * 6}, "must hold whole numbers"),
    ({"split/scaffold/train": [0.5, 1.0]}, "must hold whole numbers"),
    ({"raw/num-edge-list": [3, -1, 1]}, "negative number"),
]


@pytest.mark.parametrize(("changes", "words"), BAD)
def test_bad_molecules_are_refused(tmp_path, changes, words):
    with pytest.raises(InputError, match=words):
        read_molecules("tiny", molecules(tmp_path / "tiny", **changes))


@pytest.mark.parametrize("damage", [lambda b: b[: len(b) // 2], lambda b: b"not a gzip file at all", lambda b: b[:3]])
@pytest.mark.parametrize("name", ["raw/node-feat", "raw/edge", "split/scaffold/valid"])
def test_a_truncated_gzip_is_refused_by_name(tmp_path, name, damage):
    folder = molecules(tmp_path / "tiny")
    path = folder / f"{name}.csv.gz"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(InputError, match=f"cannot read .*{path.name}"):
        read_molecules("tiny", folder)


@pytest.mark.parametrize(("changes", "words"), BAD[:3])
def test_the_command_line_refuses_them_in_one_sentence(tmp_path, changes, words, capsys, monkeypatch):
    import re
    import sys

    from rapgnn.cli import main

    folder = molecules(tmp_path / "tiny", **changes)
    monkeypatch.setattr(sys, "argv", ["rapgnn", "compare", str(folder), "--methods", "rap"])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    assert re.search(words, lines[0])


# OGB's node graphs, in their layout.


def node_graph(folder: Path, proteins: bool, **changes) -> Path:
    parts = {
        "raw/num-node-list": [4],
        "raw/num-edge-list": [3],
        "raw/edge": [[0, 1], [1, 2], [0, 2]],
        "split/any/train": [0, 1],
        "split/any/valid": [2],
        "split/any/test": [3],
    }
    if proteins:
        parts |= {
            "raw/edge-feat": [[0.2, 1.0], [0.4, 0.0], [0.6, 0.5]],
            "raw/node-label": [[0, 1], [1, 0], [1, 1], [0, 0]],
            "raw/node_species": [3702, 4932, 3702, 9606],
        }
    else:
        parts |= {"raw/node-feat": np.arange(8).reshape(4, 2) / 4, "raw/node-label": [0, 1, 1, 0]}
    for name, rows in (parts | changes).items():
        csv(folder / f"{name}.csv.gz", rows)
    return folder


def test_proteins_average_their_edges_features(tmp_path):
    graph = read_node_graph("ogbn-proteins", node_graph(tmp_path / "p", True))
    by_hand = [[0.4, 0.75], [0.3, 0.5], [0.5, 0.25], [0.0, 0.0]]  # node 3 has no edge
    np.testing.assert_allclose(graph.x.numpy(), by_hand, rtol=1e-6)
    assert graph.task == "node-multilabel"
    assert graph.edge_index.shape[1] == 6
    with_species = read_node_graph("ogbn-proteins", tmp_path / "p", attributes=True)
    assert with_species.x[:, 2:].tolist() == [[1, 0, 0], [0, 1, 0], [1, 0, 0], [0, 0, 1]]


def test_molecules_without_any_bond_are_read(tmp_path):
    nothing = {"raw/num-edge-list": [0, 0, 0], "raw/edge": [], "raw/edge-feat": []}
    graph = read_molecules("tiny", molecules(tmp_path / "tiny", **nothing))
    assert graph.edge_index.shape == (2, 0)
    assert graph.num_edge_features == sum(BOND_CATEGORIES)


def test_the_published_split_of_products_has_classes_that_training_lacks(tmp_path):
    folder = node_graph(tmp_path / "p", False, **{"raw/node-label": [0, 1, 1, 2]})
    assert read_node_graph("ogbn-products", folder).num_outputs == 3


def test_reading_edges_in_chunks_changes_nothing(tmp_path, monkeypatch):
    folder = node_graph(tmp_path / "p", True)
    whole = read_node_graph("ogbn-proteins", folder)
    monkeypatch.setenv("RAPGNN_CACHE", str(tmp_path / "other"))
    monkeypatch.setattr(ogb, "CHUNK", 2)
    np.testing.assert_allclose(read_node_graph("ogbn-proteins", folder).x.numpy(), whole.x.numpy(), rtol=1e-6)


def test_products_have_features_and_classes_of_their_own(tmp_path):
    graph = read_node_graph("ogbn-products", node_graph(tmp_path / "p", False))
    assert graph.task == "node-classification"
    assert graph.x.shape == (4, 2)
    assert graph.y.tolist() == [0, 1, 1, 0]
    with pytest.raises(InputError, match="no node attributes"):
        read_node_graph("ogbn-products", tmp_path / "p", attributes=True)


@pytest.mark.parametrize(
    ("proteins", "changes", "words"),
    [
        (True, {"raw/edge-feat": [[0.2, 1.0]]}, "1 rows but there are 3 edges"),
        (True, {"raw/edge-feat": [[0.2, 1.0]] * 4}, "more rows than there are edges"),
        (True, {"raw/node_species": [1, 2]}, "4 nodes but 2 species"),
        (False, {"raw/edge": [[0, 1], [1, 2], [0, 9]]}, "names a node outside 0 to 3"),
        (False, {"raw/num-edge-list": [7]}, "lists 3 edges but announces 7"),
        (False, {"raw/node-label": [0, 1]}, "4 nodes but 2 labels"),
        (False, {"split/any/test": [4]}, "names node 4"),
    ],
)
def test_bad_node_graphs_are_refused(tmp_path, proteins, changes, words):
    with pytest.raises(InputError, match=words):
        read_node_graph("tiny", node_graph(tmp_path / "p", proteins, **changes))


# TU text files.


def tu(folder: Path, **changes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    parts = {
        "A": "1, 2\n2, 1\n3, 4\n4, 3\n",
        "graph_indicator": "1\n1\n2\n2\n3\n",
        "graph_labels": "1\n-1\n1\n",
        "node_labels": "3\n5\n3\n3\n4\n",
        "edge_labels": "0\n0\n1\n1\n",
        "node_attributes": "1.0\n2.0\n3.0\n4.0\n5.0\n",
    } | changes
    for name, text in parts.items():
        if text is not None:
            (folder / f"TINY_{name}.txt").write_text(text)
    return folder


def test_tu_graphs_without_any_edge(tmp_path):
    graph = read_tu("tiny", tu(tmp_path / "t", A="", edge_labels=""))
    assert graph.edge_index.shape == (2, 0)


def test_tu_files(tmp_path):
    graph = read_tu("tiny", tu(tmp_path / "t"))
    assert graph.ptr.tolist() == [0, 2, 4, 5]
    assert graph.y.tolist() == [1, 0, 1]
    assert graph.x.scipy().toarray().argmax(1).tolist() == [0, 2, 0, 0, 1]
    assert graph.num_edge_features == 2
    assert graph.folds
    wide = read_tu("tiny", tmp_path / "t", attributes=True)
    assert wide.num_features == 4
    assert float(wide.x[:, 3].mean()) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"A": "1, 2\n2, 9\n3, 4\n4, 3\n"}, "names node 8"),
        ({"A": "1, 3\n2, 1\n3, 4\n4, 3\n"}, "joins two different graphs"),
        ({"node_labels": "3\n5\n"}, "5 nodes but 2 node labels"),
        ({"graph_indicator": "1\n2\n1\n2\n3\n"}, "graph by graph"),
        ({"graph_labels": "1\n0\n"}, "2 graph labels but a node of graph 3"),
        ({"graph_labels": "1\nx\n1\n"}, "cannot read"),
    ],
)
def test_bad_tu_files_are_refused(tmp_path, changes, words):
    with pytest.raises(InputError, match=words):
        read_tu("tiny", tu(tmp_path / "t", **changes))


def test_a_users_folder_in_either_layout_is_recognised(tmp_path):
    assert load_dataset(str(tu(tmp_path / "t"))).task == "graph-classification"
    assert load_dataset(str(molecules(tmp_path / "m"))).task == "graph-multilabel"
    assert load_dataset(str(node_graph(tmp_path / "n", False))).task == "node-classification"


# Archives.


def archive(path: Path, members: dict[str, bytes]) -> str:
    with zipfile.ZipFile(path, "w") as file:
        for name, content in members.items():
            file.writestr(name, content)
    return path.as_uri()


def test_an_archive_is_unpacked_and_verified(tmp_path):
    url = archive(tmp_path / "a.zip", {"hiv/raw/edge.csv.gz": b"right", "hiv/raw/other": b"-"})
    import hashlib

    good = FileSet("t", "ogb/t", {"raw/edge.csv.gz": (hashlib.sha256(b"right").hexdigest(),)}, archive=Archive(url))
    assert (locate(good) / "raw/edge.csv.gz").read_bytes() == b"right"
    bad = FileSet("u", "ogb/u", {"raw/edge.csv.gz": ("0" * 64,)}, archive=Archive(url))
    with pytest.raises(InputError, match=r"refused raw/edge\.csv\.gz"):
        locate(bad)
    missing = FileSet("v", "ogb/v", {"raw/none.csv.gz": ("0" * 64,)}, archive=Archive(url))
    with pytest.raises(InputError, match=r"holds no raw/none\.csv\.gz"):
        locate(missing)


def test_a_truncated_archive_is_refused(tmp_path):
    url = archive(tmp_path / "a.zip", {"x/raw/edge.csv.gz": b"right" * 1000})
    path = tmp_path / "a.zip"
    path.write_bytes(path.read_bytes()[:60])
    with pytest.raises(InputError, match="truncated or no zip"):
        locate(FileSet("t", "ogb/t", {"raw/edge.csv.gz": ("0" * 64,)}, archive=Archive(url)))


def test_what_has_no_published_checksum_is_noted_at_the_first_fetch(tmp_path):
    url = archive(tmp_path / "a.zip", {"x/raw/edge.csv.gz": b"first"})
    files = FileSet("t", "ogb/t", {"raw/edge.csv.gz": ()}, archive=Archive(url), open=True)
    folder = locate(files)
    verify(files, folder)
    (folder / "raw/edge.csv.gz").write_bytes(b"tampered")
    with pytest.raises(InputError, match="truncated or altered"):
        verify(files, folder)
    assert (locate(files) / "raw/edge.csv.gz").read_bytes() == b"first"  # fetched again


def test_mutag_comes_from_the_package_index_where_there_is_one(monkeypatch):
    files = DATASETS["mutag"].files
    monkeypatch.setattr(sources, "HOST_TIMEOUT", 1.0)
    silent = FileSet(
        files.name, files.folder, files.files, archive=Archive("http://127.0.0.1:1/x.zip"), package=files.package
    )
    try:
        folder = locate(silent)
    except InputError as error:
        if "could not download" in str(error) or "did not answer" in str(error):
            pytest.skip(f"no package index: {error}")
        raise
    graph = read_tu("mutag", folder)
    assert (graph.num_rows, graph.num_nodes) == (188, 3371)


# The real ones, where they are at hand.

COUNTS = {
    "mutag": (188, 3371, 7442, 7),
    "ptc": (344, 4915, 10108, 18),
    "proteins": (1113, 43471, 162088, 3),
    "molesol": (1128, 14991, 2 * 15428, 174),
    "molbace": (1513, 51577, 2 * 55768, 174),
    "moltox21": (7831, 145459, 2 * 151095, 174),
    "molhiv": (41127, 1049163, 2 * 1129688, 174),
}


@pytest.mark.parametrize("name", list(COUNTS))
def test_real_datasets(name, data_dir):
    if sources.find_in(DATASETS[name].files, data_dir) is None:
        pytest.skip(f"{name} is not in {data_dir}")
    graph = load_dataset(name, data_dir)
    assert (graph.num_rows, graph.num_nodes, graph.edge_index.shape[1], graph.num_features) == COUNTS[name]


def test_proteins_attributes_by_flag(data_dir):
    assert load_dataset("proteins", data_dir, attributes=True).num_features == 4
    with pytest.raises(InputError, match="no further node attributes"):
        load_dataset("mutag", data_dir, attributes=True)
