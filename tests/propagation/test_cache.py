"""Hops from the cache are those computed anew, and nothing that is not there is taken from it."""

import pytest
import torch

from rapgnn import Config, Propagation, RandomWeights
from rapgnn.graph import build_operator
from rapgnn.propagation import polynomial
from rapgnn.propagation.cache import HopCache
from rapgnn.propagation.polynomial import PolynomialFilter
from rapgnn.training.fit import fit_rap
from rapgnn.training.reuse import Reuse


@pytest.fixture
def graph():
    g = torch.Generator().manual_seed(0)
    x, edges = torch.rand(30, 5, generator=g), torch.randint(0, 30, (2, 90), generator=g)
    return x, edges


@pytest.mark.parametrize("backbone", ["gcn", "sage"])
@pytest.mark.parametrize("width", [1, 2, 100])
def test_cached_hops_are_those_computed_anew(graph, backbone, width, monkeypatch):
    x, edges = graph
    monkeypatch.setattr("rapgnn.propagation.hops.BLOCK_BYTES", 4 * 30 * width)
    monkeypatch.setattr(polynomial, "BLOCK_BYTES", 4 * 30 * width)
    operator = build_operator(x, edges, backbone)
    train, val = torch.tensor([3, 1, 8]), torch.tensor([20, 4])
    cache = HopCache(operator.matrix, x, torch.cat([val, train]))
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
    cache = HopCache(operator.matrix, x, rows)
    spec = Propagation("gcn", 2)
    assert cache.suits(spec, x, rows)
    assert not cache.suits(spec, x, torch.tensor([1, 5]))
    assert not cache.suits(spec, x.clone(), rows)
    assert not cache.suits(Propagation("gcn", 2, operator_scale=2.0), x, rows)
    assert not HopCache.fits(torch.empty(1 << 16, 1 << 14, device="meta"))


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
