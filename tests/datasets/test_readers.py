"""Readers of published layouts: small files in exactly that layout, damaged ones, and the real ones where they are."""

import shutil
import struct
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from torch_geometric.io import read_planetoid_data

from folders import BAD_MOLECULES, molecules, node_graph, tu
from rapgnn import InputError, load_dataset
from rapgnn.datasets import DATASETS, published, sources
from rapgnn.datasets.published import (
    ATOM_CATEGORIES,
    BOND_CATEGORIES,
    read_molecules,
    read_node_graph,
    read_pickled,
    read_tu,
)


def test_a_users_folder_in_either_layout_is_recognised(tmp_path):
    assert load_dataset(str(tu(tmp_path / "t"))).task == "graph-classification"
    assert load_dataset(str(molecules(tmp_path / "m"))).task == "graph-multilabel"
    assert load_dataset(str(node_graph(tmp_path / "n", False))).task == "node-classification"


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


@pytest.mark.parametrize(
    ("name", "nodes", "edges", "features", "classes", "train"),
    [
        ("cora", 2708, 10556, 1433, 7, 140),
        ("citeseer", 3327, 9104, 3703, 6, 120),
        ("pubmed", 19717, 88648, 500, 3, 60),
    ],
)
def test_planetoid(data_dir, name, nodes, edges, features, classes, train):
    graph = load_dataset(name, data_dir)
    assert (graph.num_nodes, graph.edge_index.shape[1], graph.num_features) == (nodes, edges, features)
    assert (graph.num_outputs, len(graph.train), len(graph.val), len(graph.test)) == (classes, train, 500, 1000)
    reverse = graph.edge_index.flip(0)
    assert set(map(tuple, graph.edge_index.T.tolist())) == set(map(tuple, reverse.T.tolist()))  # undirected


def test_planetoid_equals_pytorch_geometric(data_dir, tmp_path):
    """Features, labels and splits are those that PyG reads from the same files."""
    folder = shutil.copytree(data_dir / DATASETS["citeseer"].files.folder, tmp_path / "raw")
    with pytest.MonkeyPatch.context() as patch:
        # PyG asks numpy for a pickle helper by the name numpy 2 deprecates.
        patch.setattr(warnings, "warn", lambda *arguments, **options: None)
        theirs = read_planetoid_data(str(folder), "citeseer")
    ours = load_dataset("citeseer", data_dir)
    np.testing.assert_array_equal(ours.x.columns(0, 3703).numpy(), theirs.x.numpy())
    labelled = ours.y >= 0
    assert (ours.y[labelled] == theirs.y[labelled]).all()
    for split in ("train", "val", "test"):
        assert theirs[f"{split}_mask"].nonzero().flatten().tolist() == ours.rows(split).tolist()


def test_tu_files(tmp_path):
    graph = read_tu("tiny", tu(tmp_path / "t"))
    assert graph.ptr.tolist() == [0, 2, 4, 5]
    assert graph.y.tolist() == [1, 0, 1]
    assert graph.x.scipy().toarray().argmax(1).tolist() == [0, 2, 0, 0, 1]
    assert graph.num_edge_features == 2
    assert graph.folds


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
    monkeypatch.setattr(published, "_parse_molecules", lambda folder: pytest.fail("parsed again"))
    again = read_molecules("tiny", folder)
    assert np.array_equal(first.x.scipy().toarray(), again.x.scipy().toarray())
    assert first.edge_index.equal(again.edge_index)
    kept = list((tmp_path / "cache/parsed").glob("*.npz"))
    assert len(kept) == 1
    with np.load(kept[0], allow_pickle=False) as arrays:
        assert "atoms" in arrays.files


@pytest.mark.parametrize(("changes", "words"), BAD_MOLECULES)
def test_bad_molecules_are_refused(tmp_path, changes, words):
    with pytest.raises(InputError, match=words):
        read_molecules("tiny", molecules(tmp_path / "tiny", **changes))


@pytest.mark.parametrize("damage", [lambda b: b[: len(b) // 2], lambda b: b"not a gzip file at all"])
@pytest.mark.parametrize("name", ["raw/node-feat", "split/scaffold/valid"])
def test_a_truncated_gzip_is_refused_by_name(tmp_path, name, damage):
    folder = molecules(tmp_path / "tiny")
    path = folder / f"{name}.csv.gz"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(InputError, match=f"cannot read .*{path.name}"):
        read_molecules("tiny", folder)


# One graph of nodes.


def test_proteins_average_their_edges_features(tmp_path):
    graph = read_node_graph("ogbn-proteins", node_graph(tmp_path / "p", True))
    by_hand = [[0.4, 0.75], [0.3, 0.5], [0.5, 0.25], [0.0, 0.0]]  # node 3 has no edge
    np.testing.assert_allclose(graph.x.numpy(), by_hand, rtol=1e-6)
    assert graph.task == "node-multilabel"
    assert graph.edge_index.shape[1] == 6


def test_the_published_split_of_products_has_classes_that_training_lacks(tmp_path):
    folder = node_graph(tmp_path / "p", False, **{"raw/node-label": [0, 1, 1, 2]})
    assert read_node_graph("ogbn-products", folder).num_outputs == 3


def test_reading_edges_in_chunks_changes_nothing(tmp_path, monkeypatch):
    folder = node_graph(tmp_path / "p", True)
    whole = read_node_graph("ogbn-proteins", folder)
    monkeypatch.setenv("RAPGNN_CACHE", str(tmp_path / "other"))
    monkeypatch.setattr(published, "CHUNK", 2)
    np.testing.assert_allclose(read_node_graph("ogbn-proteins", folder).x.numpy(), whole.x.numpy(), rtol=1e-6)


@pytest.mark.parametrize(
    ("proteins", "changes", "words"),
    [
        (True, {"raw/edge-feat": [[0.2, 1.0]]}, "another number of rows"),
        (True, {"raw/edge-feat": [[0.2, 1.0]] * 4}, "another number of rows"),
        (True, {"raw/node-label": [[0, 1], [1, 0]]}, "differ in their numbers"),
        (False, {"raw/edge": [[0, 1], [1, 2], [0, 9]]}, "announces 4 nodes"),
        (False, {"raw/num-edge-list": [7]}, "announces 4 nodes and 7 edges"),
        (False, {"split/any/test": [4]}, "test split must name"),
    ],
)
def test_bad_node_graphs_are_refused(tmp_path, proteins, changes, words):
    with pytest.raises(InputError, match=words):
        read_node_graph("tiny", node_graph(tmp_path / "p", proteins, **changes))


RECONSTRUCT = b"cnumpy.core.multiarray\n_reconstruct\n"


def text(content: bytes) -> bytes:
    return b"T" + struct.pack("<i", len(content)) + content  # BINSTRING, as Python 2 writes arrays


def number(value: int) -> bytes:
    return b"J" + struct.pack("<i", value)


def dtype(code: bytes = b"f4", order: bytes = b"<") -> bytes:
    made = b"cnumpy\ndtype\n(" + text(code) + number(0) + number(1) + b"tR"
    return made + b"(" + number(3) + text(order) + b"NNN" + number(-1) + number(-1) + number(0) + b"tb"


def array(shape: tuple[int, ...], content: bytes, kind: bytes | None = None) -> bytes:
    made = RECONSTRUCT + b"(cnumpy\nndarray\n(" + number(0) + b"t" + text(b"b") + b"tR"
    sizes = b"(" + b"".join(map(number, shape)) + b"t"
    return made + b"(" + number(1) + sizes + (kind or dtype()) + b"I00\n" + text(content) + b"tb"


def matrix(data: np.ndarray, indices: list[int], indptr: list[int], shape: tuple[int, int]) -> bytes:
    parts = {b"data": array((len(data),), data.astype("<f4").tobytes())}
    for name, values in ((b"indices", indices), (b"indptr", indptr)):
        parts[name] = array((len(values),), np.array(values, "<i4").tobytes(), dtype(b"i4"))
    parts[b"_shape"] = number(shape[0]) + number(shape[1]) + b"\x86"
    items = b"".join(text(name) + value for name, value in parts.items())
    return b"cscipy.sparse.csr\ncsr_matrix\n)\x81}(" + items + b"ub"


def read(tmp_path: Path, content: bytes):
    (tmp_path / "ind.x").write_bytes(b"\x80\x02" + content + b".")
    return read_pickled(tmp_path / "ind.x")


def test_what_the_published_files_hold(tmp_path):
    numbers = np.arange(6, dtype="<f4")
    np.testing.assert_array_equal(read(tmp_path, array((2, 3), numbers.tobytes())), numbers.reshape(2, 3))
    graph = read(tmp_path, matrix(np.ones(2), [0, 2], [0, 1, 2], (2, 3)))
    assert isinstance(graph, sp.csr_matrix)
    np.testing.assert_array_equal(graph.toarray(), [[1, 0, 0], [0, 0, 1]])
    lists = b"ccollections\ndefaultdict\n(c__builtin__\nlist\ntR(" + number(0) + b"](" + number(1) + b"eu"
    assert read(tmp_path, lists) == {0: [1]}


@pytest.mark.parametrize(
    "content",
    [
        array((1 << 30,), b"\0" * 4),  # longer than its bytes
        array((2,), b"\0" * 8, dtype(b"O8")),
        matrix(np.ones(2), [0, 1 << 30], [0, 1, 2], (2, 3)),  # a column outside
        b"cos\nsystem\n(" + text(b"false") + b"tR",
        b"cnumpy\nload\n(" + text(b"x") + b"tR",
        b"N",
        b"(" * 2000,
        b"",
    ],
    ids=range(8),
)
def test_anything_else_is_refused_in_one_sentence(tmp_path, content):
    with pytest.raises(InputError, match="cannot read") as error:
        read(tmp_path, content)
    assert "\n" not in str(error.value)
