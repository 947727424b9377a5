"""The shortcut: layer by layer, its moments against draws, rows and columns split, hops that are shared or left out."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rapgnn.propagation import hops as hops
from rapgnn.propagation import polynomial as polynomial

from operators import PLAIN, TOLERANCE, features, operator, relative_error
from rapgnn import RandomWeights, RAPNodeClassifier
from rapgnn.graph.operator import GraphOperator, build_operator
from rapgnn.network.config import Config
from rapgnn.network.hops import Hops, Reach
from rapgnn.network.polynomial import (
    ExpectedMap,
    PolynomialFilter,
    expectation,
    expectation_and_covariance,
    few_rows_pay,
)
from rapgnn.network.propagation import Propagation, coefficients
from rapgnn.network.stepwise import propagate
from rapgnn.sparse import SparseMatrix
from rapgnn.training.fit import Reuse, fit_rap
from rapgnn.training.predict import predictor_on
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
        patch.setattr("rapgnn.network.hops.BLOCK_BYTES", 8 * n)  # two columns at a time
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


SIGNED = {"normal": (0.5, 0.5), "uniform": (-0.5, 1.0)}  # linear layers keep the shortcut exact


@pytest.mark.parametrize(
    ("backbone", "num_layers", "signed"),
    [("gcn", 3, None), ("gcn", 8, None), ("sage", 3, None), ("gcn", 3, "normal"), ("gcn", 3, "uniform")],
)
def test_exact_moments_agree_with_20000_draws(backbone, num_layers, signed):
    edges = torch.randint(0, 12, (2, 40), generator=torch.Generator().manual_seed(3))
    weights = RandomWeights(seed=5, **({"distribution": signed, "params": SIGNED[signed]} if signed else {}))
    spec = Propagation(backbone, num_layers, weights, activation="identity" if signed else "relu")
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


CASES = [
    ("gcn", 3, "last", False),
    ("gcn", 2, "cat", True),
    ("sage", 2, "cat", False),
    ("gin", 2, "last", False),
    ("gin", 2, "cat", False),
]


@pytest.fixture(params=CASES, ids=lambda case: "-".join(map(str, case)))
def mapped(request, small_graph):
    backbone, layers, jumping, self_loops = request.param
    config = Config(backbone=backbone, num_layers=layers, jumping=jumping, activation="identity", self_loops=self_loops)
    operator = small_graph.operator(backbone, self_loops)
    scale = operator.growth_rate if backbone == "gin" else 1.0
    spec = replace(config.propagation(0), operator_scale=scale)
    return ExpectedMap(spec, operator, small_graph.x), spec, operator, small_graph


def test_products_are_those_of_the_expectation(mapped):
    expected, spec, operator, graph = mapped
    whole = expectation(spec, operator, graph.x, torch.arange(graph.num_nodes))
    weight = torch.randn(expected.width, 3, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(expected @ weight, whole @ weight, rtol=1e-4, atol=1e-4)
    rows, values = graph.train, torch.randn(len(graph.train), 4, generator=torch.Generator().manual_seed(1))
    wanted = whole[rows].T @ values
    assert torch.allclose(expected.transposed(rows, values), wanted, rtol=1e-4, atol=1e-3)
    sums = expected.hop_sums(rows, values)
    assert torch.allclose(expected.from_hop_sums(sums), wanted, rtol=1e-4, atol=1e-3)


def test_the_covariance_of_all_rows_is_that_of_the_stored_hops(mapped):
    expected, spec, operator, graph = mapped
    stored = PolynomialFilter(spec, operator, graph.x, graph.train)
    sums = expected.hop_sums(graph.train, torch.eye(len(graph.train)))
    wanted = stored.scatter(torch.arange(len(graph.train))).float()
    assert torch.allclose(expected.scatter(sums @ sums.mT), wanted, rtol=1e-3, atol=1e-4 * float(wanted.abs().max()))


def _case(backbone: str, n: int = 60, width: int = 90) -> tuple[GraphOperator, SparseMatrix]:
    rng = np.random.default_rng(0)
    x = SparseMatrix(sp.random(n, width, density=0.03, random_state=1, dtype=np.float32))
    edges = torch.from_numpy(rng.integers(0, n, (2, 150)))  # directed, with isolated nodes and loops
    return build_operator(x, edges, backbone), x


@pytest.mark.parametrize("backbone", ["gcn", "sage", "gin"])
@pytest.mark.parametrize("expect", [None, [5, 5, 1], []])
def test_the_same_hops_and_expectation(
    backbone: str, expect: list[int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator, x = _case(backbone)
    scale = operator.growth_rate if backbone == "gin" else 1.0
    spec = Propagation(backbone, 4, RandomWeights(seed=1), operator_scale=scale)
    rows, others = torch.tensor([3, 0, 3]), None if expect is None else torch.tensor(expect, dtype=torch.int64)
    found = []
    for worth in (0, 1 << 60):
        monkeypatch.setattr(polynomial, "WORTH_IT", worth)
        assert few_rows_pay(spec, operator, x, rows, others) == (worth == 0)
        part = PolynomialFilter(spec, operator, x, rows, others)
        found.append((part.hops, part.expected))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def _path(n: int) -> torch.Tensor:
    one = torch.stack([torch.arange(n - 1), torch.arange(1, n)])
    return torch.cat([one, one.flip(0)], dim=1)


@settings(max_examples=40)
@given(
    n=st.integers(1, 30),
    edges=st.lists(st.tuples(st.integers(0, 29), st.integers(0, 29)), max_size=60),
    rows=st.lists(st.integers(0, 29), max_size=6),
    backbone=st.sampled_from(["gcn", "sage", "gin"]),
    depth=st.integers(1, 4),
)
def test_the_same_numbers(n: int, edges: list[tuple[int, int]], rows: list[int], backbone: str, depth: int) -> None:
    edge_index = torch.tensor(edges, dtype=torch.int64).reshape(-1, 2).T % n
    x = torch.rand(n, 5, generator=torch.Generator().manual_seed(0))
    operator = build_operator(x, edge_index, backbone)
    spec, wanted = Propagation(backbone, depth, RandomWeights(seed=1)), torch.tensor(rows, dtype=torch.int64) % n
    with pytest.MonkeyPatch.context() as patch:
        found = []
        for worth in (0, 1 << 60):
            patch.setattr(hops, "WORTH_IT", worth)
            part = PolynomialFilter(spec, operator, x, wanted, expect=wanted.flip(0))
            found.append((part.hops, part.expected, *expectation_and_covariance(spec, operator, x, wanted)))
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)


def test_the_last_hops_visit_few_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hops, "WORTH_IT", 0)
    matrix = build_operator(torch.ones(101, 1), _path(101), "gcn").matrix
    reach = Reach(matrix, 4, [torch.tensor([50])], 1)
    assert [reach.step(k).shape[0] for k in (1, 2, 3, 4)] == [7, 5, 3, 1]
    assert reach.step(1).shape[1] == 101
    assert reach.places(3, torch.tensor([50])).tolist() == [1]  # type: ignore[union-attr]


def test_a_small_component_is_stored_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once no further node is reached, all earlier hops share one matrix."""
    monkeypatch.setattr(hops, "WORTH_IT", 0)
    clique = torch.combinations(torch.arange(10), 2).T
    edges = torch.cat([clique, clique.flip(0)], dim=1)
    x = torch.rand(40, 3, generator=torch.Generator().manual_seed(0))
    operator = build_operator(x, edges, "gcn")
    reach = Reach(operator.matrix, 30, [torch.tensor([2])], 3)
    assert len({id(reach.step(k)) for k in range(1, 31)}) <= 4
    spec = Propagation("gcn", 30, RandomWeights(seed=1))
    found = []
    for worth in (0, 1 << 60):
        monkeypatch.setattr(hops, "WORTH_IT", worth)
        found.append(PolynomialFilter(spec, operator, x, torch.tensor([2, 7])).hops)
    assert torch.equal(*found)


@pytest.fixture
def graph():
    g = torch.Generator().manual_seed(0)
    x, edges = torch.rand(30, 5, generator=g), torch.randint(0, 30, (2, 90), generator=g)
    return x, edges


@pytest.mark.parametrize("backbone", ["gcn", "sage"])
@pytest.mark.parametrize("width", [1, 2, 100])
def test_cached_hops_are_those_computed_anew(graph, backbone, width, monkeypatch):
    x, edges = graph
    monkeypatch.setattr("rapgnn.network.hops.BLOCK_BYTES", 4 * 30 * width)
    monkeypatch.setattr(polynomial, "BLOCK_BYTES", 4 * 30 * width)
    operator = build_operator(x, edges, backbone)
    train, val = torch.tensor([3, 1, 8]), torch.tensor([20, 4])
    cache = Hops(operator.matrix, x, torch.cat([val, train]))
    for depth, jumping in (
        (2, "last"),
        (5, "cat"),
        (1, "last"),
        (3, "cat"),
        (6, "last"),
    ):  # deeper, and shallower again
        spec = Propagation(backbone, depth, RandomWeights(seed=1), jumping=jumping)
        assert cache.suits(spec, x, train, val)
        fresh = PolynomialFilter(spec, operator, x, train, val)
        shared = PolynomialFilter(spec, operator, x, train, val, cache=cache)
        assert torch.equal(shared.hops, fresh.hops)
        assert torch.equal(shared.expected, fresh.expected)


def test_what_is_not_in_the_cache_is_not_taken_from_it(graph):
    x, edges = graph
    operator = build_operator(x, edges, "gcn")
    rows = torch.tensor([1, 2])
    cache = Hops(operator.matrix, x, rows)
    spec = Propagation("gcn", 2)
    assert cache.suits(spec, x, rows)
    assert not cache.suits(spec, x, torch.tensor([1, 5]))
    assert not cache.suits(spec, x.clone(), rows)
    assert not cache.suits(Propagation("gcn", 2, operator_scale=2.0), x, rows)
    assert not Hops.fits(torch.empty(1 << 16, 1 << 14, device="meta"))


@pytest.mark.parametrize("head", ["ridge", "linear"])
def test_training_with_shared_inputs_gives_the_same_model(small_graph, head):
    reuse = Reuse()
    common = {"embedding": "identity", "activation": "identity", "head": head, "epochs": 5, "ridge": None}
    for change in ({"num_layers": 3}, {"num_layers": 1}, {"backbone": "sage"}, {"self_loops": True}, {"num_layers": 4}):
        for normalize in (False, True):
            config = Config(num_layers=2, normalize_features=normalize, **common).update(**change)
            alone, shared = fit_rap(small_graph, config, 0), fit_rap(small_graph, config, 0, reuse=reuse)
            assert alone.loop.history == shared.loop.history
            rows = small_graph.test
            assert torch.equal(alone.predict(rows).scores, shared.predict(rows).scores)


@pytest.mark.parametrize("error_bars", [False, True])
def test_every_hop_of_a_prediction_is_told(small_graph, error_bars):
    how = {"backbone": "gcn", "jumping": "last", "head": "ridge", "embedding": "identity"}
    model = RAPNodeClassifier(num_layers=5, **how).fit(small_graph)
    calls = []
    predict = predictor_on(model.model_, small_graph, error_bars=error_bars, on_hop=lambda: calls.append(1))
    predict(torch.arange(10))
    assert len(calls) == 6  # h⁰ and five hops, one block of columns
