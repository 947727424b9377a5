"""Propagation matrices: directions, degrees, duplicates, loops, bounds."""

import numpy as np
import torch
from hypothesis import given, settings

from operators import operator
from rapgnn.graph.backbones import adjacency, mean, symmetric
from strategies import edge_lists


def test_messages_flow_from_sender_to_receiver():
    """Row v of S gathers from the nodes that point at v."""
    S = operator("sage", (3, torch.tensor([[0, 1], [2, 2]]), None)).matrix
    x = torch.tensor([[1.0], [3.0], [50.0]], dtype=torch.float64)
    assert (S @ x).flatten().tolist() == [0.0, 0.0, 2.0]


def test_directed_graphs_use_each_sides_own_degree():
    """0 -> 2, 1 -> 2, 0 -> 1: a node that nothing points to still sends."""
    S = symmetric(adjacency(torch.tensor([[0, 1, 0], [2, 2, 1]]), None, 3)).toarray()
    expected = np.zeros((3, 3))
    expected[2, 0] = 1 / np.sqrt(2 * 2)  # in-degree of 2, out-degree of 0
    expected[2, 1] = 1 / np.sqrt(2 * 1)
    expected[1, 0] = 1 / np.sqrt(1 * 2)
    np.testing.assert_allclose(S, expected)


def test_undirected_graphs_match_pytorch_geometric():
    from torch_geometric.nn.conv.gcn_conv import gcn_norm
    from torch_geometric.utils import to_dense_adj

    edges = torch.tensor([[0, 1, 1, 2, 2, 3, 3, 3], [1, 0, 2, 1, 3, 2, 3, 3]])
    weight = torch.tensor([2.0, 2.0, 0.5, 0.5, 1.0, 1.0, 3.0, 1.0])
    ours = symmetric(adjacency(edges, weight, 4)).toarray()
    index, value = gcn_norm(edges, weight, num_nodes=4, add_self_loops=False)
    theirs = to_dense_adj(index, edge_attr=value, max_num_nodes=4)[0].numpy()
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_duplicate_edges_count_twice_and_loops_are_added_only_where_missing():
    A = adjacency(torch.tensor([[0, 0, 1], [1, 1, 1]]), None, 3, self_loops=True).toarray()
    np.testing.assert_array_equal(A, [[1, 0, 0], [2, 1, 0], [0, 0, 1]])


@settings(max_examples=50, deadline=None, derandomize=True)
@given(edge_lists())
def test_operators_stay_bounded(graph):
    """Rows of the mean sum to one or zero; the symmetric operator's norm is at most one."""
    n, edges, weight = graph
    A = adjacency(edges, weight, n)
    rows = np.asarray(mean(A).sum(axis=1)).ravel()
    assert np.all(np.isclose(rows, 1) | np.isclose(rows, 0))
    assert np.linalg.norm(symmetric(A).toarray(), 2) <= 1 + 1e-9
