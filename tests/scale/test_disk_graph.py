"""A graph on disk: read back the same, refused by name where it changed, and S streamed from it against S in memory."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings

from disk_cases import BACKBONES, full_disk, hostile
from operators import relative_error
from rapgnn.datasets.catalog import BlockModel
from rapgnn.errors import InputError, OutputError
from rapgnn.graph.graph import Graph, make_graph
from rapgnn.scale import disk_graph
from rapgnn.scale import matrix as streamed
from rapgnn.scale.disk_graph import DiskGraph
from rapgnn.scale.matrix import StreamedMatrix
from strategies import edge_lists


def small(n: int, edges: torch.Tensor, weight: torch.Tensor | None = None) -> Graph:
    none, x = torch.zeros(0, dtype=torch.int64), torch.rand(n, 3, generator=torch.Generator().manual_seed(n))
    return Graph("g", x, edges, torch.full((n,), -1), none, none, none, 0, weight)


@pytest.fixture
def graph():
    return BlockModel(nodes=300, features=20, val=40, test=60, seed=3).generate()


def test_written_and_read(tmp_path, graph):
    graph = replace(graph, classes=("a", "b", "c", "d"), ids=np.array([f"n{i}" for i in range(300)], dtype=object))
    found = DiskGraph.write(tmp_path / "g", graph)
    back = found.to_graph()
    for name in ("x", "y", "train", "val", "test"):
        assert torch.equal(getattr(back, name), getattr(graph, name))
    assert (back.classes, back.task, back.num_outputs) == (graph.classes, graph.task, graph.num_outputs)
    assert back.ids.tolist() == graph.ids.tolist()
    for backbone in ("gcn", "sage", "gin"):
        one, other = graph.operator(backbone).matrix.scipy(), back.operator(backbone).matrix.scipy()
        assert abs(one - other).max() < 1e-6


def test_columns_are_one_piece_of_the_file_and_cannot_be_written_to(tmp_path, graph):
    found = DiskGraph.write(tmp_path / "g", graph)
    assert isinstance(found.features, np.memmap)
    assert found.features[:, 3:5].flags.f_contiguous
    with pytest.raises(ValueError, match="read-only"):
        found.features[0, 0] = 1.0


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(edge_lists())
def test_any_edges(tmp_path_factory, listed):
    n, edges, weight = listed
    found = DiskGraph.write(tmp_path_factory.mktemp("any") / "g", small(n, edges, weight))
    assert found.num_edges == edges.shape[1]
    assert (np.diff(found.indptr) == np.bincount(edges[1].numpy(), minlength=n)).all()
    dense = np.zeros((n, n))
    np.add.at(dense, (edges[1].numpy(), edges[0].numpy()), 1.0 if weight is None else weight.numpy())
    rows = np.repeat(np.arange(n), np.diff(found.indptr))
    back = np.zeros((n, n))
    np.add.at(back, (rows, found.indices), 1.0 if found.weights is None else found.weights)
    np.testing.assert_allclose(back, dense)


def test_the_order_of_the_edges_does_not_count(tmp_path, graph):
    order = torch.randperm(graph.edge_index.shape[1], generator=torch.Generator().manual_seed(0))
    other = replace(graph, edge_index=graph.edge_index[:, order])
    one, two = DiskGraph.write(tmp_path / "a", graph), DiskGraph.write(tmp_path / "b", other)
    assert one.fingerprint == two.fingerprint
    moved = replace(graph, x=graph.x + 1)
    assert DiskGraph.write(tmp_path / "c", moved).fingerprint != one.fingerprint


def test_sparse_features(tmp_path):
    x = np.zeros((50, 40), dtype=np.float32)
    x[np.arange(50), np.arange(50) % 40] = 2.0
    graph = make_graph(x, np.zeros((2, 0), dtype=int), np.arange(50) % 2, np.arange(50), [], [], sparse=True)
    assert (DiskGraph.write(tmp_path / "g", graph).features == x).all()


@pytest.mark.parametrize("name", ["indptr.npy", "features.npy", "y.npy"])
def test_files_that_changed_are_refused_by_name(tmp_path, graph, name):
    folder = DiskGraph.write(tmp_path / "g", graph).folder
    path = folder / name
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with pytest.raises(InputError, match=f"{name}: it has"):
        DiskGraph.open(folder, verify=False)
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(InputError, match=f"{name}: it is altered"):
        DiskGraph.open(folder)
    path.unlink()
    with pytest.raises(InputError, match=f"{name} is missing"):
        DiskGraph.open(folder)
    path.write_bytes(whole)
    assert DiskGraph.open(folder).num_nodes == 300


def test_a_checksum_is_taken_once(tmp_path, graph):
    folder = DiskGraph.write(tmp_path / "g", graph).folder
    said: list[str] = []
    DiskGraph.open(folder, say=said.append)
    assert not said
    (folder / "y.npy").touch()
    DiskGraph.open(folder, say=said.append)
    assert said == ["checksum of y.npy"]
    DiskGraph.open(folder, say=said.append)
    assert len(said) == 1
    DiskGraph.open(folder, verify=True, say=said.append)
    assert len(said) > 5


SPOILT = {
    "an end beyond the edges": ("indptr", lambda a: a.__setitem__(7, 10**12), "edges begin"),
    "ends that go back": ("indptr", lambda a: a.__setitem__(7, -3), "edges begin"),
    "a first end that is none": ("indptr", lambda a: a.__setitem__(0, 1), "edges begin"),
    "a sender that is none": ("indices", lambda a: a.__setitem__(5, 300), "nodes that are none"),
    "a sender below none": ("indices", lambda a: a.__setitem__(5, -1), "nodes that are none"),
    "features": ("features", lambda a: a.__setitem__((299, 19), np.nan), "NaN"),
    "large features": ("features", lambda a: a.__setitem__((0, 0), 1e30), "too large"),
    "weights": ("weights", lambda a: a.__setitem__(3, np.inf), "NaN, infinite"),
    "a class": ("y", lambda a: a.__setitem__(3, 4), "labels that are none"),
    "no label": ("y", lambda a: a.__setitem__(slice(None), -1), "without a label"),
    "a row that is none": ("train", lambda a: a.__setitem__(0, 300), "nodes that are none"),
    "a row twice": ("val", lambda a: a.__setitem__(0, a[1]), "twice"),
}


@pytest.mark.parametrize("case", SPOILT)
def test_arrays_of_no_graph_are_refused_by_name_although_their_checksums_are_right(tmp_path, graph, case, monkeypatch):
    monkeypatch.setattr(disk_graph, "CHUNK", 64)
    name, spoil, words = SPOILT[case]
    folder = DiskGraph.write(tmp_path / "g", replace(graph, edge_weight=torch.ones(graph.edge_index.shape[1]))).folder
    array = np.load(folder / f"{name}.npy")
    spoil(array)
    np.save(folder / f"{name}.npy", array)
    disk_graph.seal(folder, {**disk_graph.read_manifest(folder)})
    copied = shutil.copytree(folder, tmp_path / "copied")  # with what was noted of the checks
    for _ in range(2):
        with pytest.raises(InputError, match=rf"\.npy.*{words}"):
            DiskGraph.open(copied)


def test_rows_of_two_splits_are_refused(tmp_path, graph):
    folder = DiskGraph.write(tmp_path / "g", replace(graph, val=graph.train)).folder
    with pytest.raises(InputError, match="both the train and the val split"):
        DiskGraph.open(shutil.copytree(folder, tmp_path / "copied"))


WRONG = ["", "[]", "{}", {"task": "graph-regression"}, {"num_nodes": "x"}, {"num_edges": None}, {"classes": ["a"]}]
WRONG += [{"files": {"a": 3}}, {"num_nodes": 299}]


@pytest.mark.parametrize("change", WRONG)
def test_a_manifest_of_no_graph_is_refused(tmp_path, graph, change):
    folder = DiskGraph.write(tmp_path / "g", graph).folder
    told = json.loads((folder / "graph.json").read_text())
    (folder / "graph.json").write_text(change if isinstance(change, str) else json.dumps(told | change))
    with pytest.raises(InputError, match=r"graph\.json|task of a graph on disk|indptr\.npy: it is int64"):
        DiskGraph.open(folder)


def test_a_full_disk_is_the_disks_fault(tmp_path, graph):
    with full_disk(2000), pytest.raises(OutputError, match=r"cannot write .*File too large"):
        DiskGraph.write(tmp_path / "g", graph)
    assert not disk_graph.is_sealed(tmp_path / "g")


def test_many_graphs_and_no_folder_are_refused(tmp_path, graph):
    with pytest.raises(InputError, match="one graph"):
        DiskGraph.write(tmp_path / "g", replace(graph, ptr=torch.tensor([0, 100, 300])))
    with pytest.raises(InputError, match="no graph on disk"):
        DiskGraph.open(tmp_path / "nothing")
    assert not (tmp_path / "g").exists()


CASES = hostile()


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    """Graphs of a few edges come in several blocks."""
    monkeypatch.setitem(streamed.ENTRIES, "cpu", 32)
    monkeypatch.setitem(streamed.PRODUCT_BYTES, "cpu", 300)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(("backbone", "loops"), BACKBONES)
def test_products_are_those_of_the_operator_in_memory(tmp_path, name, backbone, loops):
    graph = CASES[name]
    eps = 0.3 if backbone == "gin" else 0.0
    operator = graph.operator(backbone, loops, eps)
    matrix = StreamedMatrix(DiskGraph.write(tmp_path, graph), backbone, self_loops=loops, eps=eps)
    x = torch.randn(graph.num_nodes, 5, generator=torch.Generator().manual_seed(0))
    whole = operator.matrix @ x
    assert relative_error(matrix.product(x.clone(), torch.empty_like(x)), whole) < 1e-6
    rows = np.unique(np.arange(graph.num_nodes) // 3)
    assert relative_error(matrix.product_of(x.clone(), rows), whole[rows]) < 1e-6


@pytest.mark.parametrize("name", CASES)
def test_the_growth_rate_is_that_of_the_operator(tmp_path, name):
    graph = CASES[name]
    disk = DiskGraph.write(tmp_path, graph)
    for backbone, eps in (("gcn", 0.0), ("sage", 0.0), ("gin", 0.0), ("gin", 0.7)):
        wanted = graph.operator(backbone, eps=eps).growth_rate
        assert StreamedMatrix(disk, backbone, eps=eps).growth_rate() == wanted


def test_columns_do_not_depend_on_the_block_they_are_in(tmp_path):
    graph = CASES["weighted"]
    matrix = StreamedMatrix(DiskGraph.write(tmp_path, graph), "gcn", self_loops=True)
    x = torch.randn(graph.num_nodes, 7, generator=torch.Generator().manual_seed(0))
    whole = matrix.product(x.clone(), torch.empty_like(x))
    for start, stop in ((0, 1), (1, 4), (4, 7)):
        part = x[:, start:stop].clone()
        assert torch.equal(matrix.product(part, torch.empty_like(part)), whole[:, start:stop])


def test_negative_entries_are_seen(tmp_path):
    signed = StreamedMatrix(DiskGraph.write(tmp_path / "a", CASES["signed weights"]), "gcn")
    plain = DiskGraph.write(tmp_path / "b", CASES["weighted"])
    assert not signed.nonnegative
    assert StreamedMatrix(plain, "gcn").nonnegative
    assert not StreamedMatrix(plain, "gin", eps=-1.5).nonnegative


def test_a_backbone_with_edge_features_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"gine cannot be streamed from disk: use gcn, sage or gin\."):
        StreamedMatrix(DiskGraph.write(tmp_path, CASES["directed"]), "gine")
