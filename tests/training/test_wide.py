"""The ridge head without the matrix: the same head as with it, at a cost that does not grow with the features."""

from dataclasses import replace

import pytest
import torch

from rapgnn.graph.scores import BALANCED, with_goal
from rapgnn.network.config import Config
from rapgnn.training import predict, wide
from rapgnn.training.fit import fit_rap
from samples import word_graph

RIDGE = Config(embedding="identity", head="ridge", normalize_features=False, activation="identity")


@pytest.fixture(scope="module")
def words():
    return word_graph(nodes=900, features=1500, edges=5000, topics=3, train=20)


@pytest.fixture
def anything_is_wide(monkeypatch):
    monkeypatch.setattr(wide, "LONG", 0.0)
    monkeypatch.setattr(wide, "NARROW", 8)
    monkeypatch.setattr(predict, "NARROW", 8)
    monkeypatch.setattr(wide, "matrix_free_cost", lambda graph, config: 0.0)
    monkeypatch.setattr(wide, "SMALL_ERROR", 1e-6)
    monkeypatch.setattr(wide, "STEPS", 300)


@pytest.mark.parametrize(("backbone", "jumping"), [("gcn", "last"), ("gcn", "cat"), ("sage", "cat"), ("gin", "last")])
def test_few_rows_give_the_same_head_as_the_matrix(words, request, backbone, jumping):
    config = RIDGE.update(backbone=backbone, jumping=jumping, num_layers=2, ridge=1.0)
    plain = fit_rap(words, config, 0)
    request.getfixturevalue("anything_is_wide")
    assert wide.too_wide(words, config)
    free = fit_rap(words, config, 0)
    largest = float(plain.model.head.weight.abs().max())
    assert torch.allclose(free.model.head.weight, plain.model.head.weight, atol=2e-3 * largest)
    wanted, found = plain.predict(words.test), free.predict(words.test)
    assert torch.allclose(found.probabilities, wanted.probabilities, atol=2e-3)
    assert free.loop.best == pytest.approx(plain.loop.best, abs=1e-3)


def test_weighted_rows_too(words, request):
    few = torch.cat([words.train[:20], words.train[25:]])  # classes of different sizes
    graph = with_goal(replace(words, train=few), None, BALANCED)
    config = RIDGE.update(num_layers=2, ridge=0.1)
    plain = fit_rap(graph, config, 0).predict(graph.test)
    request.getfixturevalue("anything_is_wide")
    assert torch.allclose(fit_rap(graph, config, 0).predict(graph.test).probabilities, plain.probabilities, atol=2e-3)


def test_many_rows_are_close_and_the_seed_decides(request):
    graph = word_graph(nodes=1500, features=1200, edges=8000, topics=3, train=0.6)
    config = RIDGE.update(num_layers=2, ridge=None)
    plain = fit_rap(graph, config, 0)
    request.getfixturevalue("anything_is_wide")
    free, again, other = (fit_rap(graph, config, seed) for seed in (0, 0, 1))
    assert torch.equal(free.model.head.weight, again.model.head.weight)
    assert not torch.equal(free.model.head.weight, other.model.head.weight)  # other random sums of rows
    agree = free.predict(graph.test).scores.argmax(1) == plain.predict(graph.test).scores.argmax(1)
    assert float(agree.float().mean()) > 0.98


def test_what_is_not_linear_or_not_wide_keeps_the_matrix(words, anything_is_wide):
    for change in ({"embedding": "pretrained"}, {"head": "linear"}, {"engine": "stepwise"}, {"structure": "identity"}):
        assert not wide.too_wide(words, RIDGE.update(**change))
    assert not wide.too_wide(replace(words, x=words.x.columns(0, 8)), RIDGE)


def test_narrow_or_quick_graphs_are_not_wide(words, small_graph):
    assert not wide.too_wide(small_graph, RIDGE)
    assert not wide.too_wide(words, RIDGE.update(num_layers=1))


def test_wide_error_bars_are_those_of_one_walk(words, monkeypatch):
    fitted = fit_rap(words, RIDGE.update(num_layers=2), 0)
    whole = predict.predictor_on(fitted.model, words, error_bars=True)(words.test)
    monkeypatch.setattr(predict, "MOMENT_BYTES", 1 << 20)
    parts = predict.predictor_on(fitted.model, words, error_bars=True)(words.test)
    assert torch.allclose(parts.spread, whole.spread, atol=1e-5)
    assert torch.equal(parts.scores, whole.scores)
    assert torch.equal(parts.scores, predict.predictor_on(fitted.model, words)(words.test).scores)
    monkeypatch.setattr(predict, "NARROW", 1 << 20)
    plain = predict.predictor_on(fitted.model, words, error_bars=True)(words.test)
    assert torch.allclose(plain.spread, parts.spread, atol=1e-5)
    assert torch.allclose(plain.probabilities, parts.probabilities, atol=1e-5)
