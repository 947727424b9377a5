"""MRGNN: non-linear hops, and resolutions that contain one another."""

import numpy as np
import pytest
import torch

from hostile_graphs import hostile_graphs, renumbered
from rapgnn.models.reservoirs.multiresolution import MRGNN, MRGNNSettings
from rapgnn.sparse import dense
from samples import collection


def made(graph, resolutions=4, matrix="adjacency"):
    encoder = MRGNN.of(graph, MRGNNSettings(units=6, resolutions=resolutions, matrix=matrix), 0)
    context = encoder.context(graph)
    encoder.fit(graph.x, context, graph.train)
    return encoder, context


@pytest.mark.parametrize("matrix", ["adjacency", "laplacian"])
@pytest.mark.parametrize("graph", [collection(graphs=20), hostile_graphs("signed")], ids=["molecules", "hostile"])
def test_k_resolutions_contain_k_minus_one(matrix, graph):
    rows = torch.arange(graph.num_rows)
    more, fewer = (made(graph, k, matrix) for k in (4, 3))
    wide = more[0].columns(more[0].encode(graph.x, more[1], rows), 4)
    narrow = fewer[0].columns(fewer[0].encode(graph.x, fewer[1], rows), 3)
    assert wide.shape[1] - narrow.shape[1] == 3 * 6
    torch.testing.assert_close(wide[:, : narrow.shape[1]], narrow)
    assert not torch.allclose(wide[:, -18:], narrow[:, -18:])  # and the last one is new


@pytest.mark.parametrize("matrix", ["adjacency", "laplacian"])
def test_hops_are_those_of_the_equation(matrix):
    graph = collection(graphs=10)
    encoder, context = made(graph, matrix=matrix)
    A = np.zeros((graph.num_nodes,) * 2)
    np.add.at(A, (graph.edge_index[1].numpy(), graph.edge_index[0].numpy()), 1.0)
    if matrix == "laplacian":
        left, right = (np.where(d > 0, 1 / np.sqrt(np.maximum(d, 1)), 0) for d in (A.sum(1), A.sum(0)))
        A = np.eye(len(A)) - left[:, None] * A * right
    h = seen = dense(graph.x).numpy().astype(float)
    for found in encoder.hops(graph.x, context):
        np.testing.assert_allclose(found.numpy(), seen, atol=1e-4)
        h = np.tanh(A @ h)
        seen = np.concatenate([seen, h], axis=1)


def test_units_are_standardised_over_the_nodes_of_training_graphs():
    graph = collection(graphs=40)
    encoder, context = made(graph)
    chosen, nodes = context.select(graph.train)
    from rapgnn.sparse import row_block

    for layer, seen in zip(encoder.resolutions, encoder.hops(row_block(graph.x, nodes), chosen), strict=True):
        z = layer(seen).double()
        torch.testing.assert_close(z.mean(0), torch.zeros(6).double(), atol=1e-4, rtol=0)
        torch.testing.assert_close(z.std(0, correction=0), torch.ones(6).double(), atol=1e-3, rtol=0)


def test_the_numbering_of_nodes_does_not_matter():
    graph = hostile_graphs("signed")
    rows = torch.arange(graph.num_rows)
    one, other = (made(same) for same in (graph, renumbered(graph)))
    a = one[0].encode(graph.x, one[1], rows)
    b = other[0].encode(renumbered(graph).x, other[1], rows)
    for x, y in zip(a, b, strict=True):
        torch.testing.assert_close(x, y, atol=2e-3, rtol=1e-3)
