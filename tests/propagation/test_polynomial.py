"""The shortcut against the layer-by-layer engine on random graphs."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from operators import PLAIN, TOLERANCE, features, operator, relative_error
from rapgnn import RandomWeights
from rapgnn.propagation.coefficients import coefficients
from rapgnn.propagation.polynomial import PolynomialFilter
from rapgnn.propagation.spec import Propagation
from rapgnn.propagation.stepwise import propagate
from rapgnn.sparse import SparseMatrix
from strategies import edge_lists

layer_counts = st.sampled_from([1, 2, 3, 5, 8, 16, 33, 64])


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

    n = graph[0]
    rows = torch.tensor(data.draw(st.lists(st.integers(0, n - 1), max_size=6)), dtype=torch.int64)
    spec, S, h = Propagation("gcn", 4, RandomWeights(seed=seed)), operator("gcn", graph), features(n, 7, seed)
    whole = PolynomialFilter(spec, S, h)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rapgnn.propagation.hops.BLOCK_BYTES", 8 * n)  # two columns at a time
        part = PolynomialFilter(spec, S, h, rows, expect=rows)
    torch.testing.assert_close(part.draw([3])[0], whole.draw([3])[0][rows], rtol=1e-12, atol=0)
    torch.testing.assert_close(part.expected, whole.expectation()[rows], rtol=1e-12, atol=0)


@pytest.mark.parametrize("sparse", [False, True])
def test_sparse_features_give_the_same_hops(sparse):
    graph = (30, torch.randint(0, 30, (2, 90), generator=torch.Generator().manual_seed(0)), None)
    h = features(30, 9, 1) * (features(30, 9, 2) > 0.7)
    spec, S = Propagation("gcn", 6, RandomWeights(seed=2)), operator("gcn", graph)
    given_h = SparseMatrix(h.numpy(), dtype=torch.float64) if sparse else h
    torch.testing.assert_close(PolynomialFilter(spec, S, given_h).draw([4])[0], propagate(spec, S, h, 4))
