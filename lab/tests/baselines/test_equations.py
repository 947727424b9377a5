"""Random layers, FDGNN's fixed points, U-GCN's convolutions and MRGNN's hops: each by its own equation."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from hostile_graphs import WEIGHTS, hostile_graphs
from rapgnn.network.config import ACTIVATIONS
from rapgnn.sparse import SparseMatrix, dense, row_block
from rapgnn_lab.baselines.encoders import FDGNN, MRGNN, UGCN
from rapgnn_lab.baselines.reservoir import BOUNDS, MEASURES, RandomLayer, RandomMatrix, choices, spectral_radius
from rapgnn_lab.baselines.systems import SYSTEMS
from samples import collection

EXACT = choices(SYSTEMS["fdgnn"].settings)[0] | {"units": 12, "num_layers": 3, "tolerance": 1e-12}
EXACT |= {"max_iterations": 2000}
ALL = [hostile_graphs(weights) for weights in WEIGHTS]


def in_double(graph, settings=EXACT, seed=0):
    encoder = FDGNN(graph, seed, settings).double()
    operator = encoder.context(graph)
    operator = type(operator)(operator.matrix.to(dtype=torch.float64), operator.ptr)
    x = graph.x if isinstance(graph.x, torch.Tensor) else torch.from_numpy(graph.x.scipy().toarray())
    return encoder, operator, x.double()


@pytest.mark.parametrize("graph", [*ALL, collection(graphs=20)], ids=[*WEIGHTS, "molecules"])
def test_states_satisfy_their_equation(graph):
    encoder, operator, x = in_double(graph)
    below = x
    for i, h in enumerate(encoder.states(x, operator)):
        layer = encoder.layers[i]
        expected = torch.tanh(below @ layer.input.weight + (operator.matrix @ h) @ layer.recurrent)
        torch.testing.assert_close(h, expected, atol=1e-10, rtol=0)
        below = h
    assert i == 2


@pytest.mark.parametrize("graph", ALL, ids=WEIGHTS)
@pytest.mark.parametrize("connections", [1, 50])
def test_every_start_leads_to_the_same_states(graph, connections):
    encoder, operator, x = in_double(graph, EXACT | {"connections": connections, "max_iterations": 5000})
    first = encoder.layers[0]
    drive = x @ first.input.weight
    g = torch.Generator().manual_seed(1)
    h = torch.randn(drive.shape, generator=g, dtype=torch.float64) * 50
    for _ in range(5000):
        h = torch.tanh(drive + (operator.matrix @ h) @ first.recurrent)
    torch.testing.assert_close(h, first(x, operator.matrix), atol=1e-9, rtol=0)


def test_the_effective_radius_is_below_one_and_the_degree_that_of_the_graphs():
    graph = hostile_graphs()
    encoder = FDGNN(graph, 0, EXACT)
    assert float(encoder.degree) == 29  # the hub
    assert spectral_radius(encoder.layers[0].recurrent.double()) == pytest.approx(
        0.9, rel=1e-5
    )  # A is divided by the degree
    A = encoder.context(graph).matrix.scipy()
    assert abs(A).sum(axis=1).max() == pytest.approx(1.0)


def made_mrgnn(graph, resolutions=4, matrix="adjacency"):
    encoder = MRGNN(graph, 0, {"units": 6, "resolutions": resolutions, "matrix": matrix})
    context = encoder.context(graph)
    encoder.fit(graph.x, context, graph.train)
    return encoder, context


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


def test_layers_are_those_of_the_equation():
    graph = collection(graphs=10)
    encoder = UGCN(graph, 0, {"units": 20, "num_layers": 3, "gain": 2.0, "activation": "tanh"})
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


X = torch.randn(60, 5, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("distribution", BOUNDS)
def test_a_draw_is_a_pure_function_of_seed_layer_and_slot(distribution):
    a = RandomMatrix(distribution, seed=3)
    one = a.draw(2, 7, 4, slot=1)
    torch.manual_seed(0)
    assert torch.equal(one, RandomMatrix(distribution, seed=3).draw(2, 7, 4, slot=1))
    for other in (a.draw(3, 7, 4, 1), a.draw(2, 7, 4, 2), RandomMatrix(distribution, seed=4).draw(2, 7, 4, 1)):
        assert not torch.allclose(one, other)
    assert float(one.min()) < 0 < float(one.max())


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("connections", [None, 1, 4])
def test_sizes_and_connections(measure, connections):
    matrix = RandomMatrix("uniform", connections, 0.7, measure).draw(0, 30, 30).double()
    assert MEASURES[measure](matrix) == pytest.approx(0.7, rel=1e-5)
    assert set((matrix != 0).sum(0).tolist()) == {connections or 30}
    assert spectral_radius(matrix) <= min(spectral_radius(matrix.abs()), MEASURES["norm"](matrix)) + 1e-6


@pytest.mark.parametrize(("activation", "bias"), [*((name, 0.5) for name in ACTIVATIONS), ("tanh", 0.0)])
def test_the_equation(activation, bias):
    layer = RandomLayer(5, 8, RandomMatrix("uniform", seed=1), activation=activation, bias=bias)
    torch.testing.assert_close(layer(X), ACTIVATIONS[activation](X @ layer.weight + layer.bias))
    assert float(layer.bias.abs().max()) <= bias
    assert bool((layer.bias != 0).any()) == (bias > 0)
    assert list(layer.parameters()) == []
    x = np.random.default_rng(0).random((30, 5)) * (np.random.default_rng(1).random((30, 5)) < 0.3)
    torch.testing.assert_close(layer(SparseMatrix(sp.csr_matrix(x))), layer(torch.from_numpy(x).float()))
    assert RandomLayer(5, 3)(X[:0]).shape == (0, 3)
