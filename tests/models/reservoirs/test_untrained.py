"""U-GCN: wide, all layers kept, the graph convolution of the literature."""

import itertools

import numpy as np
import torch

from hostile_graphs import hostile_graphs
from rapgnn.models.reservoirs.untrained import UGCN, UGCNSettings
from samples import collection

SETTINGS = UGCNSettings(units=20, num_layers=3, gain=2.0)


def test_layers_are_those_of_the_equation():
    graph = collection(graphs=10)
    encoder = UGCN.of(graph, SETTINGS, 0)
    context = encoder.context(graph)
    A = np.zeros((graph.num_nodes,) * 2)
    np.add.at(A, (graph.edge_index[1].numpy(), graph.edge_index[0].numpy()), 1.0)
    A[np.diag_indices_from(A)] += A.diagonal() == 0  # a loop where there is none
    S = A / np.sqrt(A.sum(1))[:, None] / np.sqrt(A.sum(0))[None, :]
    np.testing.assert_allclose(context.matrix.scipy().toarray(), S, atol=1e-6)
    h = graph.x.scipy().toarray()
    bounds = graph.ptr.tolist()
    for layer, part in zip(encoder.layers, encoder.parts(graph.x, context), strict=True):
        h = np.tanh(S @ h @ layer.weight.numpy())
        nodes = [h[a:b] for a, b in itertools.pairwise(bounds)]
        expected = [np.concatenate([n.mean(0), n.sum(0), n.max(0)]) for n in nodes]
        np.testing.assert_allclose(part.numpy(), np.stack(expected), atol=1e-4)


def test_a_deeper_network_begins_with_the_shallower_one():
    graph = hostile_graphs()
    rows = torch.arange(graph.num_rows)
    deep = UGCN.of(graph, SETTINGS, 0)
    parts = deep.encode(graph.x, deep.context(graph), rows)
    assert [deep.columns(parts, depth).shape[1] for depth in deep.depths] == [60, 120, 180]
    assert torch.equal(deep.columns(parts, 3)[:, :120], deep.columns(parts, 2))
    short = UGCN.of(graph, UGCNSettings(units=20, num_layers=2, gain=2.0), 0)
    torch.testing.assert_close(
        short.columns(short.encode(graph.x, short.context(graph), rows), 2), deep.columns(parts, 2)
    )


def test_it_is_wider_than_there_are_graphs():
    """Over-parameterised: more features than training rows, on every set of graphs of the paper's table."""
    settings = UGCNSettings()
    assert 3 * settings.units * settings.num_layers > 1113
