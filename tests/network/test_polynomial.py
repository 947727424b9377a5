"""The shortcut's moments against draws, rows and columns split, hops that are shared or left out."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from operators import features, operator
from rapgnn import RandomWeights
from rapgnn.graph.operator import build_operator
from rapgnn.network import hops
from rapgnn.network.config import Config
from rapgnn.network.hops import Hops
from rapgnn.network.polynomial import PolynomialFilter, expectation_and_covariance, expected_product
from rapgnn.network.propagation import Propagation
from rapgnn.network.stepwise import propagate
from rapgnn.search.candidate import Candidate
from rapgnn.sparse import SparseMatrix
from rapgnn.training import predict
from rapgnn.training.fit import fit_rap
from rapgnn.training.predict import model_on
from samples import word_graph
from strategies import edge_lists


@settings(max_examples=30, deadline=None, derandomize=True)
@given(graph=edge_lists(), seed=st.integers(0, 1000), data=st.data())
def test_rows_and_columns_can_be_split(graph, seed, data):
    """Keeping some rows, or working in narrow column blocks, changes nothing."""

    n = graph[0]
    rows = torch.tensor(data.draw(st.lists(st.integers(0, n - 1), max_size=6)), dtype=torch.int64)
    spec, S, h = Propagation("gcn", 4, seed=seed), operator("gcn", graph), features(n, 7, seed)
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
    spec, S = Propagation("gcn", 6, seed=2), operator("gcn", graph)
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
    spec = Propagation(backbone, num_layers, **vars(weights), activation="identity" if signed else "relu")
    kept = PolynomialFilter(spec, operator(backbone, (12, edges, None)), features(12, 6, 4) + 0.1)
    drawn = kept.draw(range(20_000))
    torch.testing.assert_close(drawn.mean(0), kept.expectation(), rtol=0.02, atol=0)
    torch.testing.assert_close(drawn.std(0), kept.variance().sqrt(), rtol=0.02, atol=1e-12)


CASES = [
    ("gcn", 3, "last", False),
    ("gcn", 2, "cat", True),
    ("sage", 2, "cat", False),
    ("gin", 2, "last", False),
    ("gin", 2, "cat", False),
]


@pytest.mark.parametrize(("backbone", "layers", "jumping", "self_loops"), CASES)
def test_a_linear_head_may_go_before_the_hops(backbone, layers, jumping, self_loops, small_graph):
    settings = {"backbone": backbone, "num_layers": layers, "jumping": jumping, "self_loops": self_loops}
    operator = small_graph.operator(backbone, self_loops)
    scale = operator.growth_rate if backbone == "gin" else 1.0
    spec = replace(Propagation.of(Config(activation="identity", **settings), 0), operator_scale=scale)
    whole = PolynomialFilter(spec, operator, small_graph.x).expectation()
    weight = torch.randn(whole.shape[1], 3, generator=torch.Generator().manual_seed(0))
    found = expected_product(spec, operator, small_graph.x, weight)
    torch.testing.assert_close(found, whole @ weight, rtol=1e-4, atol=1e-4)


def test_wide_features_are_predicted_as_narrow_ones_are(monkeypatch):
    """Scores by products alone, error bars for some rows at a time: both as in one walk of hops."""
    words = word_graph(nodes=900, features=1500, edges=5000, topics=3, train=20)
    linear = {"embedding": "identity", "activation": "identity", "normalize_features": False}
    model = fit_rap(words, Config(num_layers=2, head="ridge", **linear), 0).model
    whole = model_on(model, words, error_bars=True)(words.test)
    assert torch.equal(model_on(model, words)(words.test).scores, whole.scores)
    monkeypatch.setattr(predict, "MOMENT_BYTES", 1 << 20)
    parts = model_on(model, words, error_bars=True)(words.test)
    by_rows = lambda spec, S, h, weight, on_hop: PolynomialFilter(spec, S, h).expectation() @ weight  # noqa: E731
    monkeypatch.setattr(predict, "expected_product", by_rows)
    narrow = model_on(model, words, error_bars=True)(words.test)
    for other in (parts, narrow):
        torch.testing.assert_close(other.spread, whole.spread, rtol=0, atol=1e-5)
        torch.testing.assert_close(other.probabilities, whole.probabilities, rtol=0, atol=1e-5)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    n=st.integers(1, 30),
    edges=st.lists(st.tuples(st.integers(0, 29), st.integers(0, 29)), max_size=60),
    rows=st.lists(st.integers(0, 29), max_size=6),
    backbone=st.sampled_from(["gcn", "sage", "gin"]),
    depth=st.integers(1, 9),
)
def test_a_last_hop_of_few_rows_is_that_of_all(
    n: int, edges: list[tuple[int, int]], rows: list[int], backbone: str, depth: int
) -> None:
    edge_index = torch.tensor(edges, dtype=torch.int64).reshape(-1, 2).T % n
    x = torch.rand(n, 5, generator=torch.Generator().manual_seed(0))
    operator = build_operator(x, edge_index, backbone)
    spec, wanted = Propagation(backbone, depth, seed=1), torch.tensor(rows, dtype=torch.int64) % n
    with pytest.MonkeyPatch.context() as patch:
        found = []
        for few in (hops.few_rows, lambda wanted, n: None):
            patch.setattr(hops, "few_rows", few)
            part = PolynomialFilter(spec, operator, x, wanted, expect=wanted.flip(0))
            found.append((part.hops, part.expected, *expectation_and_covariance(spec, operator, x, wanted)))
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)


def test_the_last_hop_visits_the_rows_that_are_wanted_where_they_are_few() -> None:
    few = hops.few_rows([torch.tensor([5, 3]), torch.tensor([3])], 6)
    assert few is not None
    assert few.tolist() == [3, 5]
    assert hops.few_rows([torch.tensor([5, 3]), torch.tensor([3, 2, 1])], 6) is None
    assert hops.few_rows([torch.tensor([5]), None], 6) is None


@pytest.fixture
def graph():
    g = torch.Generator().manual_seed(0)
    x, edges = torch.rand(30, 5, generator=g), torch.randint(0, 30, (2, 90), generator=g)
    return x, edges


@pytest.mark.parametrize("backbone", ["gcn", "sage"])
@pytest.mark.parametrize("width", [1, 2, 100])
def test_shared_hops_are_those_walked_anew(graph, backbone, width, monkeypatch):
    x, edges = graph
    monkeypatch.setattr(hops, "BLOCK_BYTES", 4 * 30 * width)
    monkeypatch.setattr(hops, "ROW_BLOCK_BYTES", 4 * 30 * width)
    operator = build_operator(x, edges, backbone)
    train, val = torch.tensor([3, 1, 8]), torch.tensor([20, 4])
    cache = Hops(operator, x)
    for depth, jumping in ((2, "last"), (5, "cat"), (1, "last"), (3, "cat"), (6, "last")):  # deeper, shallower again
        spec = Propagation(backbone, depth, seed=1, jumping=jumping)
        assert cache.suits(spec, x)
        fresh, shared = (PolynomialFilter(spec, operator, x, train, val, cache=c) for c in (None, cache))
        assert torch.equal(shared.hops, fresh.hops)
        assert torch.equal(shared.expected, fresh.expected)


def test_other_hops_are_not_taken_for_these(graph):
    x, edges = graph
    cache = Hops(build_operator(x, edges, "gcn"), x)
    assert cache.suits(Propagation("gcn", 2), x)
    assert not cache.suits(Propagation("gcn", 2), x.clone())
    assert not cache.suits(Propagation("gcn", 2, operator_scale=2.0), x)


@pytest.mark.parametrize("head", ["ridge", "linear"])
def test_what_candidates_share_changes_none_of_them(small_graph, head):
    shared = {}
    linear = {"embedding": "identity", "activation": "identity", "head": head, "epochs": 5, "ridge": None}
    for change in ({"num_layers": 3}, {"num_layers": 1}, {"backbone": "sage"}, {"self_loops": True}, {"num_layers": 4}):
        for encode in ({"normalize_features": True}, {"scaling": "standard"}, {"scaling": "length", "components": 5}):
            config = Config(**{"num_layers": 2, "normalize_features": False, **linear, **change, **encode})
            alone, together = Candidate(small_graph, config, 0, {}), Candidate(small_graph, config, 0, shared)
            assert torch.equal(alone.scores(1.0, False), together.scores(1.0, False))
