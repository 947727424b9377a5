"""FDGNN's fixed points, U-GCN's convolutions and MRGNN's hops: each by its own equation."""

import itertools

import numpy as np
import pytest
import torch

from hostile_graphs import WEIGHTS, hostile_graphs
from rapgnn.sparse import dense, row_block
from rapgnn_lab.baselines.encoders import FDGNN, MRGNN, UGCN, FDGNNSettings, MRGNNSettings, UGCNSettings
from rapgnn_lab.baselines.random_layer import spectral_radius
from rapgnn_lab.baselines.reservoir import fixed_point
from samples import collection

EXACT = FDGNNSettings(units=12, num_layers=3, radius=0.9, input_scaling=1.0, tolerance=1e-12, max_iterations=2000)
ALL = [hostile_graphs(weights) for weights in WEIGHTS]


def in_double(graph, settings=EXACT, seed=0):
    encoder = FDGNN(graph, settings, seed).double()
    operator = encoder.context(graph)
    operator = type(operator)(operator.matrix.to(dtype=torch.float64), operator.ptr)
    x = graph.x if isinstance(graph.x, torch.Tensor) else torch.from_numpy(graph.x.scipy().toarray())
    return encoder, operator, x.double()


@pytest.mark.parametrize("graph", [*ALL, collection(graphs=20)], ids=[*WEIGHTS, "molecules"])
def test_states_satisfy_their_equation(graph):
    encoder, operator, x = in_double(graph)
    below = x
    for i, h in enumerate(encoder.states(x, operator)):
        W = getattr(encoder, f"recurrent{i + 1}")
        expected = torch.tanh(below @ encoder.inputs[i].weight + (operator.matrix @ h) @ W)
        torch.testing.assert_close(h, expected, atol=1e-10, rtol=0)
        below = h
    assert i == 2


@pytest.mark.parametrize("graph", ALL, ids=WEIGHTS)
@pytest.mark.parametrize("connections", [1, 50])
def test_every_start_leads_to_the_same_states(graph, connections):
    settings = FDGNNSettings(**(EXACT.__dict__ | {"connections": connections}))
    encoder, operator, x = in_double(graph, settings)
    drive, W = x @ encoder.inputs[0].weight, encoder.recurrent1
    g = torch.Generator().manual_seed(1)
    starts = [None, torch.zeros_like(drive), torch.randn(drive.shape, generator=g, dtype=torch.float64) * 50]
    ends = [fixed_point(drive, operator.matrix, W, 1e-13, 5000, start) for start in starts]
    for end in ends[1:]:
        torch.testing.assert_close(end, ends[0], atol=1e-9, rtol=0)


def test_the_effective_radius_is_below_one_and_the_degree_that_of_the_graphs():
    graph = hostile_graphs()
    encoder = FDGNN(graph, EXACT, 0)
    assert float(encoder.degree) == 29  # the hub
    assert spectral_radius(encoder.recurrent1.double()) == pytest.approx(0.9, rel=1e-5)  # A is divided by the degree
    A = encoder.context(graph).matrix.scipy()
    assert abs(A).sum(axis=1).max() == pytest.approx(1.0)


def made_mrgnn(graph, resolutions=4, matrix="adjacency"):
    encoder = MRGNN(graph, MRGNNSettings(units=6, resolutions=resolutions, matrix=matrix), 0)
    context = encoder.context(graph)
    encoder.fit(graph.x, context, graph.train)
    return encoder, context


@pytest.mark.parametrize("matrix", ["adjacency", "laplacian"])
@pytest.mark.parametrize("graph", [collection(graphs=20), hostile_graphs("signed")], ids=["molecules", "hostile"])
def test_k_resolutions_contain_k_minus_one(matrix, graph):
    rows = torch.arange(graph.num_rows)
    more, fewer = (made_mrgnn(graph, k, matrix) for k in (4, 3))
    wide = more[0].columns(more[0].encode(graph.x, more[1], rows), 4)
    narrow = fewer[0].columns(fewer[0].encode(graph.x, fewer[1], rows), 3)
    assert wide.shape[1] - narrow.shape[1] == 3 * 6
    torch.testing.assert_close(wide[:, : narrow.shape[1]], narrow)
    assert not torch.allclose(wide[:, -18:], narrow[:, -18:])  # and the last one is new


@pytest.mark.parametrize("matrix", ["adjacency", "laplacian"])
def test_hops_are_those_of_the_equation(matrix):
    graph = collection(graphs=10)
    encoder, context = made_mrgnn(graph, matrix=matrix)
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
    encoder, context = made_mrgnn(graph)
    chosen, nodes = context.select(graph.train)
    for layer, seen in zip(encoder.resolutions, encoder.hops(row_block(graph.x, nodes), chosen), strict=True):
        z = layer(seen).double()
        torch.testing.assert_close(z.mean(0), torch.zeros(6).double(), atol=1e-4, rtol=0)
        torch.testing.assert_close(z.std(0, correction=0), torch.ones(6).double(), atol=1e-3, rtol=0)


SETTINGS = UGCNSettings(units=20, num_layers=3, gain=2.0)


def test_layers_are_those_of_the_equation():
    graph = collection(graphs=10)
    encoder = UGCN(graph, SETTINGS, 0)
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
    deep = UGCN(graph, SETTINGS, 0)
    parts = deep.encode(graph.x, deep.context(graph), rows)
    assert [deep.columns(parts, depth).shape[1] for depth in deep.depths] == [60, 120, 180]
    assert torch.equal(deep.columns(parts, 3)[:, :120], deep.columns(parts, 2))
    short = UGCN(graph, UGCNSettings(units=20, num_layers=2, gain=2.0), 0)
    torch.testing.assert_close(
        short.columns(short.encode(graph.x, short.context(graph), rows), 2), deep.columns(parts, 2)
    )
