"""S of a graph on disk against S in memory."""

import numpy as np
import pytest
import torch

from disk_cases import BACKBONES, hostile
from operators import relative_error
from rapgnn import InputError
from rapgnn.scale import streamed
from rapgnn.scale.disk_graph import DiskGraph
from rapgnn.scale.streamed import StreamedMatrix

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
