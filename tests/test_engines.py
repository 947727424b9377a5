"""The shortcut against the layer-by-layer engine, which is the reference, on random graphs."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphs import edge_lists, operator, relative_error
from rapgnn import RandomWeights
from rapgnn.graph.backbones import BACKBONES
from rapgnn.propagation.coefficients import coefficients
from rapgnn.propagation.polynomial import PolynomialFilter, expectation
from rapgnn.propagation.spec import Propagation
from rapgnn.propagation.stepwise import propagate
from rapgnn.sparse import SparseMatrix

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12}
PLAIN = [name for name, rule in BACKBONES.items() if not rule.includes_self]
layer_counts = st.sampled_from([1, 2, 3, 5, 8, 16, 33, 64])


def features(n: int, d: int, seed: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.rand(n, d, generator=torch.Generator().manual_seed(seed), dtype=dtype)


@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("backbone", PLAIN)
@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    graph=edge_lists(),
    num_layers=layer_counts,
    seed=st.integers(0, 2**40),
    flags=st.tuples(st.booleans(), st.booleans(), st.sampled_from([None, True, False])),
)
def test_shortcut_equals_layer_by_layer(backbone, dtype, graph, num_layers, seed, flags):
    rescale, self_loops, residual = flags
    spec = Propagation(backbone, num_layers, RandomWeights(seed=seed), residual=residual, rescale=rescale)
    S, h = operator(backbone, graph, self_loops, dtype), features(graph[0], 5, seed % 1000, dtype)
    assert spec.obstacle(S, h) is None
    drawn = PolynomialFilter(spec, S, h).draw([11, 12, 13])
    for position, counter in enumerate([11, 12, 13]):
        reference = propagate(spec, S, h, counter)
        assert torch.isfinite(reference).all()
        assert relative_error(drawn[position], reference) < TOLERANCE[dtype]


@pytest.mark.parametrize("backbone", PLAIN)
@settings(max_examples=25, deadline=None, derandomize=True)
@given(graph=edge_lists(), num_layers=layer_counts, seed=st.integers(0, 1000))
def test_linear_layers_are_exact_for_any_signs(backbone, graph, num_layers, seed):
    weights = RandomWeights(distribution="normal", params=(0.2, 1.0), seed=seed)
    spec = Propagation(backbone, num_layers, weights, activation="identity")
    S, h = operator(backbone, graph), features(graph[0], 4, seed) - 0.5
    assert spec.obstacle(S, h) is None
    # Signed terms cancel, so the error is measured against the size of what is summed.
    drawn, reference = PolynomialFilter(spec, S, h).draw([1])[0], propagate(spec, S, h, 1)
    size = (coefficients(spec, [1], 4, dtype=torch.float64).abs().sum(1) * h.abs().max()).max() * graph[0]
    assert float((drawn - reference).abs().max()) <= 1e-12 * max(1.0, float(size))


@settings(max_examples=30, deadline=None, derandomize=True)
@given(graph=edge_lists(), seed=st.integers(0, 1000), data=st.data())
def test_rows_and_columns_can_be_split(graph, seed, data):
    """Keeping some rows, or working in narrow column blocks, changes nothing."""
    import rapgnn.propagation.polynomial as polynomial

    n = graph[0]
    rows = torch.tensor(data.draw(st.lists(st.integers(0, n - 1), max_size=6)), dtype=torch.int64)
    spec, S, h = Propagation("gcn", 4, RandomWeights(seed=seed)), operator("gcn", graph), features(n, 7, seed)
    whole = PolynomialFilter(spec, S, h)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(polynomial, "BLOCK_BYTES", 8 * n)  # two columns at a time
        part = PolynomialFilter(spec, S, h, rows, expect=rows)
    torch.testing.assert_close(part.draw([3])[0], whole.draw([3])[0][rows], rtol=1e-12, atol=0)
    torch.testing.assert_close(part.expected, whole.expectation()[rows], rtol=1e-12, atol=0)


@settings(max_examples=20, deadline=None, derandomize=True)
@given(graph=edge_lists(), seed=st.integers(0, 1000))
def test_permuting_nodes_permutes_the_output(graph, seed):
    n, edge_index, weight = graph
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    place = torch.argsort(order)  # node v becomes number place[v]
    spec, h = Propagation("sage", 3, RandomWeights(seed=seed)), features(n, 4, seed)
    out = propagate(spec, operator("sage", graph), h, 5)
    moved = propagate(spec, operator("sage", (n, place[edge_index], weight)), h[order], 5)
    torch.testing.assert_close(moved, out[order], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("sparse", [False, True])
def test_sparse_features_give_the_same_hops(sparse):
    graph = (30, torch.randint(0, 30, (2, 90), generator=torch.Generator().manual_seed(0)), None)
    h = features(30, 9, 1) * (features(30, 9, 2) > 0.7)
    spec, S = Propagation("gcn", 6, RandomWeights(seed=2)), operator("gcn", graph)
    given_h = SparseMatrix(h.numpy(), dtype=torch.float64) if sparse else h
    torch.testing.assert_close(PolynomialFilter(spec, S, given_h).draw([4])[0], propagate(spec, S, h, 4))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"weights": RandomWeights("full")}, "full"),
        ({"weights": RandomWeights(params=(-0.5, 1.0))}, "negative"),
        ({"weights": RandomWeights(distribution="normal")}, "negative"),
        ({"dropout": 0.5}, "dropout"),
        ({"activation": "tanh"}, "tanh"),
    ],
)
def test_every_obstacle_is_named(change, words):
    S, h = operator("gcn", (3, torch.tensor([[0, 1], [1, 2]]), None)), torch.ones(3, 2, dtype=torch.float64)
    assert words in (Propagation(**change).obstacle(S, h) or "")


def test_signed_features_and_edges_are_obstacles_and_matter():
    graph = (4, torch.tensor([[0, 1, 2, 3, 1], [1, 0, 1, 2, 3]]), None)
    S, h = operator("gcn", graph), features(4, 3, 0) - 0.5
    spec = Propagation("gcn", 3, RandomWeights(seed=1))
    assert "negative entries" in (spec.obstacle(S, h) or "")
    # If the shortcut were used all the same, the answer would be another one.
    assert relative_error(PolynomialFilter(spec, S, h).draw([0])[0], propagate(spec, S, h, 0)) > 1e-3
    signed = operator("gcn", (4, graph[1], torch.tensor([1.0, -1.0, 1.0, 1.0, 1.0])))
    assert "negative edge weights" in (spec.obstacle(signed, h.abs()) or "")


@pytest.mark.parametrize(("backbone", "num_layers"), [("gcn", 3), ("gcn", 8), ("sage", 3)])
def test_exact_moments_agree_with_20000_draws(backbone, num_layers):
    edges = torch.randint(0, 12, (2, 40), generator=torch.Generator().manual_seed(3))
    spec = Propagation(backbone, num_layers, RandomWeights(seed=5))
    kept = PolynomialFilter(spec, operator(backbone, (12, edges, None)), features(12, 6, 4) + 0.1)
    drawn = kept.draw(range(20_000))
    torch.testing.assert_close(drawn.mean(0), kept.expectation(), rtol=0.02, atol=0)
    torch.testing.assert_close(drawn.std(0), kept.variance().sqrt(), rtol=0.02, atol=1e-12)


def test_expected_equals_weights_at_their_mean():
    """E[h^L] is one forward pass with every weight replaced by its mean."""
    edges = torch.randint(0, 12, (2, 40), generator=torch.Generator().manual_seed(3))
    S, h = operator("sage", (12, edges, None)), features(12, 3, 4)
    random = Propagation("sage", 5, RandomWeights())
    constant = Propagation("sage", 5, RandomWeights(params=(0.5, 0.5)))
    torch.testing.assert_close(expectation(random, S, h, torch.arange(12)), propagate(constant, S, h, 0))


@pytest.mark.parametrize("backbone", PLAIN)
def test_sixty_four_layers_neither_overflow_nor_vanish(backbone):
    star = torch.stack([torch.arange(1, 400), torch.zeros(399, dtype=torch.int64)])
    graph = (400, torch.cat([star, star.flip(0)], dim=1), None)
    S, h = operator(backbone, graph, dtype=torch.float32), features(400, 8, 0, torch.float32) * 1e6
    for structure in ("diagonal", "full"):
        spec = Propagation(backbone, 64, RandomWeights(structure, seed=1))
        out = propagate(spec, S, h, 0)
        assert torch.isfinite(out).all()
        assert float(out.abs().max()) > 1e-3


def test_one_node_and_no_edges():
    none = torch.zeros(2, 0, dtype=torch.int64)
    spec, h = Propagation("gcn", 3, rescale=False), torch.tensor([[2.0, 5.0]], dtype=torch.float64)
    S = operator("gcn", (1, none, None))
    assert torch.equal(propagate(spec, S, h, 0), h)  # the residual alone is left
    assert torch.equal(PolynomialFilter(spec, S, h).draw([0])[0], h)


def test_the_paper_equation_by_hand():
    """h ← h + ReLU(D^-½ A D^-½ h diag(α)), written out densely."""
    edges = torch.tensor([[0, 1, 1, 2, 2, 3, 0, 3], [1, 0, 2, 1, 3, 2, 3, 0]])
    spec, h = Propagation("gcn", 2, RandomWeights(seed=9), rescale=False), features(4, 3, 0)
    A = torch.zeros(4, 4, dtype=torch.float64)
    A[edges[1], edges[0]] = 1
    scale = torch.diag(A.sum(1) ** -0.5)
    by_hand = h
    for layer in range(2):
        alpha = spec.weights.draw(6, [layer], 3, dtype=torch.float64)[0, 0]
        by_hand = by_hand + torch.relu(scale @ A @ scale @ by_hand @ torch.diag(alpha))
    torch.testing.assert_close(propagate(spec, operator("gcn", (4, edges, None)), h, 6), by_hand)


def test_every_layer_ends_in_the_output():
    edges = torch.tensor([[0, 1, 2], [1, 2, 0]])
    spec, S, h = Propagation("sage", 4), operator("sage", (3, edges, None)), features(3, 2, 0)
    layers = propagate(spec, S, h, 2, every_layer=True)
    assert layers.shape == (5, 3, 2)
    assert torch.equal(layers[0], h)
    assert torch.equal(layers[-1], propagate(spec, S, h, 2))


def test_gradients_flow_layer_by_layer():
    edges = torch.tensor([[0, 1, 2], [1, 2, 0]])
    S, h = operator("gcn", (3, edges, None)), features(3, 2, 0).requires_grad_()
    spec = Propagation("gcn", 3, RandomWeights(seed=1))
    assert torch.autograd.gradcheck(lambda t: propagate(spec, S, t, 0), (h,))
