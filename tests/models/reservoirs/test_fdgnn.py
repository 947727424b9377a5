"""FDGNN: the states are a fixed point, the same from every start, on any graph; sums do not see the numbering."""

import pytest
import torch

from hostile_graphs import WEIGHTS, hostile_graphs, renumbered
from rapgnn.layers.matrices import spectral_radius
from rapgnn.models.reservoirs.fdgnn import FDGNN, FDGNNSettings
from rapgnn.models.reservoirs.fixed_point import fixed_point
from samples import collection

EXACT = FDGNNSettings(units=12, num_layers=3, radius=0.9, input_scaling=1.0, tolerance=1e-12, max_iterations=2000)
ALL = [hostile_graphs(weights) for weights in WEIGHTS]


def in_double(graph, settings=EXACT, seed=0):
    encoder = FDGNN.of(graph, settings, seed).double()
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
@pytest.mark.parametrize("connections", [1, 4, 50])
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
    encoder = FDGNN.of(graph, EXACT, 0)
    assert float(encoder.degree) == 29  # the hub
    assert spectral_radius(encoder.recurrent1.double()) == pytest.approx(0.9, rel=1e-5)  # A is divided by the degree
    A = encoder.context(graph).matrix.scipy()
    assert abs(A).sum(axis=1).max() == pytest.approx(1.0)


def test_a_radius_above_one_has_several_fixed_points():
    """What the bound is for: without it the start decides."""
    graph = collection(graphs=20)
    encoder, operator, x = in_double(graph, FDGNNSettings(**(EXACT.__dict__ | {"radius": 60.0})))
    drive, W = 0.01 * x @ encoder.inputs[0].weight, encoder.recurrent1
    g = torch.Generator().manual_seed(1)
    starts = [torch.randn(drive.shape, generator=g, dtype=torch.float64) for _ in range(2)]
    one, other = (fixed_point(drive, operator.matrix, W, 1e-13, 300, start) for start in starts)
    assert float((one - other).abs().max()) > 0.1


@pytest.mark.parametrize("graph", ALL, ids=WEIGHTS)
def test_states_are_finite_and_only_sums_leave(graph):
    encoder = FDGNN.of(graph, FDGNNSettings(radius=0.9, input_scaling=1.0), 0)
    parts = encoder.encode(graph.x, encoder.context(graph), torch.arange(graph.num_rows))
    assert [part.shape for part in parts] == [(graph.num_rows, 50)] * 4
    assert all(bool(torch.isfinite(part).all()) for part in parts)
    empty = (graph.ptr.diff() == 0).nonzero()[:, 0]
    assert float(parts[0][empty].abs().max()) == 0


def test_the_numbering_of_nodes_does_not_matter():
    graph = hostile_graphs("signed")
    found = []
    for same in (graph, renumbered(graph)):
        encoder, operator, x = in_double(same)
        found.append(encoder.encode(x, operator, torch.arange(graph.num_rows)))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, atol=1e-8, rtol=0)
