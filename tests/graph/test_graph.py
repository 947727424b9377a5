"""The graph type: what it copies, what tells it from others, where it lies."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from rapgnn import make_graph
from rapgnn.sparse import SparseMatrix, dense


def test_the_callers_matrix_is_left_alone():
    data = np.array([1.0, 2.0, 3.0], dtype=np.float32)
    x = sp.csr_matrix((data, np.array([2, 0, 1]), np.array([0, 2, 3, 3])), shape=(3, 9))
    before = x.toarray().copy(), x.indices.copy()
    graph = make_graph(x, np.zeros((2, 0), dtype=int), [0, 1, 0], [0, 1], [], [2])
    np.testing.assert_array_equal(x.toarray(), before[0])
    np.testing.assert_array_equal(x.indices, before[1])
    x.data[:] = 7
    np.testing.assert_array_equal(graph.x.columns(0, 9).numpy(), before[0])


def test_another_feature_makes_another_fingerprint(molecules):
    other = replace(molecules, x=molecules.x.with_values(molecules.x.values * 2))
    kinds = replace(molecules, edge_attr=molecules.edge_attr.with_values(molecules.edge_attr.values * 2))
    assert len({g.fingerprint() for g in (molecules, other, kinds)}) == 3


@pytest.mark.parametrize("many", [False, True])
def test_a_graph_on_another_device_keeps_its_edges_on_the_cpu(many, small_graph, molecules):
    """The device that has no memory stands for any that is not the CPU."""
    graph = molecules if many else replace(small_graph, edge_weight=torch.ones(small_graph.edge_index.shape[1]))
    moved = graph.to("meta")
    for name in ("x", "y", "train", "val", "test", "ptr", "edge_attr"):
        before, after = getattr(graph, name), getattr(moved, name)
        assert (after is None) == (before is None)
        if after is not None:
            assert after.device.type == "meta"
            assert tuple(after.shape) == tuple(before.shape)
            assert before.device.type == "cpu"  # the graph itself stays where it was
    assert moved.edge_index is graph.edge_index
    assert moved.edge_weight is graph.edge_weight
    assert (moved.name, moved.task, moved.num_outputs) == (graph.name, graph.task, graph.num_outputs)
    assert (moved.num_rows, moved.num_nodes) == (graph.num_rows, graph.num_nodes)


def test_the_operator_lies_where_the_features_do(small_graph):
    assert small_graph.operator("gcn").matrix.device.type == "cpu"
    assert small_graph.to("meta").operator("gcn").matrix.device.type == "meta"


def test_normalised_features_sum_to_one_and_zeros_stay():
    edges = torch.zeros(2, 0, dtype=torch.int64)
    x = np.array([[1.0, -3.0], [0.0, 0.0], [2.0, 2.0]])
    by_hand = [[0.25, -0.75], [0.0, 0.0], [0.5, 0.5]]
    for sparse in (False, True):
        graph = make_graph(x, edges, [0, 1, 0], [0, 1], [], [2], sparse=sparse).normalized_features()
        np.testing.assert_allclose(dense(graph.x).numpy(), by_hand)


def test_sparse_features_are_normalised_as_scipy_does_it_bit_for_bit():
    """Sums in single precision, of magnitudes; zeros that are stored go."""
    rng = np.random.default_rng(5)
    x = sp.random(200, 90, density=0.3, format="csr", random_state=5, dtype=np.float32)
    x.data[:] = rng.standard_normal(x.nnz)
    x.data[::7] = 0
    rows = np.arange(200)
    graph = make_graph(x, np.zeros((2, 0), dtype=int), rows % 2, rows[:100], [], rows[100:], sparse=True)
    total = np.asarray(abs(graph.x.scipy()).sum(axis=1)).ravel()
    total[total == 0] = 1.0
    expected = SparseMatrix(sp.diags(1.0 / total) @ graph.x.scipy())
    found = graph.normalized_features().x
    for name in ("crow", "col", "values"):
        assert torch.equal(getattr(found, name), getattr(expected, name))
