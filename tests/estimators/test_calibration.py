"""An average is as sure as the rows that judge say it should be."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from rapgnn import RAPNodeClassifier
from rapgnn.estimators import average
from rapgnn.estimators.calibration import FACTORS, sharpening, sharper
from rapgnn.estimators.draws import only
from rapgnn.estimators.judge import Judge
from rapgnn.estimators.members import NetCandidate, RapCandidate
from rapgnn.graph.graph import Graph, make_graph
from rapgnn.graph.scores import metrics_for
from rapgnn.graph.tasks import TASKS
from rapgnn.models.config import Config
from rapgnn.models.net_config import NetConfig
from rapgnn.models.treated import TreatedConfig
from rapgnn.training.averaged import model_on, scores_of

LINEAR = {"embedding": "identity", "head": "ridge", "activation": "identity", "normalize_features": False}


def noisy(nodes=1200, seed=0) -> Graph:
    """Every column tells a part of the class: candidates that see different hops are sure of different rows."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, nodes)
    x = rng.standard_normal((nodes, 6))
    x[np.arange(nodes), y] += 1.2
    near = np.where(rng.random(4 * nodes) < 0.4, 0, rng.integers(0, nodes, 4 * nodes))
    target = np.array([rng.choice(np.flatnonzero(y == y[u])) for u in range(nodes)]).repeat(4)
    edges = np.stack([np.arange(nodes).repeat(4), np.where(near == 0, target, near)])
    return make_graph(x, edges, y, *np.split(rng.permutation(nodes), [300, 800]))


def judged(graph: Graph, *configs: NetConfig):
    judge, kept = Judge(graph, graph.objective), {}
    found = [judge.see(NetCandidate(graph, config, 0, kept)) for config in configs]
    return judge, [verdict for verdict in found if verdict is not None]


def test_the_factor_gives_the_rows_that_judge_the_lowest_loss():
    graph = noisy()
    judge, members = judged(graph, NetConfig(num_layers=0), NetConfig(num_layers=1), NetConfig(lift=64))
    for spoiled in (0.5, 1.0, 2.0):  # members that are less sure, or surer, than they should be
        altered = [
            replace(v, probabilities=graph.objective.read(spoiled * scores_of(v.probabilities, graph.objective)))
            for v in members
        ]
        draws = only(altered)
        factor = sharpening(draws, judge)
        losses = {f: judge.loss_of(scores_of(draws.mean(graph.objective, f), graph.objective)) for f in FACTORS}
        assert losses[factor] == min(losses.values())
        assert 0.8 < factor * spoiled < 1.7
    assert 1.0 in FACTORS


def test_numbers_have_none():
    graph = noisy()
    numbers = make_graph(
        graph.x, graph.edge_index, graph.x[:, 0].double(), graph.train, graph.val, graph.test, task="regression"
    )
    judge, members = judged(numbers, NetConfig(num_layers=1))
    assert sharpening(only(members), judge) == 1.0
    assert TASKS["node-regression"].metric == "rmse"


@pytest.mark.parametrize("kind", ["net", "treated", "rap"])
def test_a_sharper_member_has_larger_scores_and_leaves_the_one_it_came_from(kind):
    graph = noisy()
    if kind == "net":
        candidate = NetCandidate(graph, NetConfig(lift=16), 0, {})
    else:
        features = "standard" if kind == "treated" else "none"
        candidate = RapCandidate(graph, TreatedConfig(features, 0, Config(**LINEAR)), 0, {})
    model = candidate.finished(0.1, 2.0)
    before = model_on(model, graph)(graph.test)
    twin = sharper(model, 3.0)
    after = model_on(twin, graph)(graph.test)
    assert torch.allclose(after.probabilities, graph.objective.read(3 * before.scores), atol=1e-5)
    if kind == "net":  # it may stand before another network
        assert twin is not model
        assert torch.equal(model_on(model, graph)(graph.test).probabilities, before.probabilities)


def test_an_estimator_is_calibrated_on_the_whole(monkeypatch, tmp_path):
    graph = noisy()
    model = RAPNodeClassifier().fit_graph(graph)
    monkeypatch.setattr(average, "sharpening", lambda draws, judge: 0.4)
    unsure = RAPNodeClassifier().fit_graph(graph)
    error, losses = (metrics_for(graph.task)[name].measure for name in ("calibration_error", "log_loss"))
    found, worse = (torch.from_numpy(m.predict_proba(graph)[graph.test]) for m in (model, unsure))
    y = graph.y[graph.test]
    assert losses(found, y) < losses(worse, y)
    assert error(found, y) < 0.08 < error(worse, y)
    model.save(tmp_path)
    assert np.array_equal(RAPNodeClassifier.load(tmp_path).predict_proba(graph), model.predict_proba(graph))


def test_networks_before_others_stay_as_they_were(monkeypatch):
    """A second look sees the first network's predictions as it was solved with, whatever factor the first one gets."""
    graph = noisy()
    seen = {}
    for factor in (1.0, 2.0):
        monkeypatch.setattr(average, "sharpening", lambda draws, judge, factor=factor: factor)
        members = RAPNodeClassifier(time_budget=600).fit_graph(graph).model_.members
        seen[factor] = [m for m in members if getattr(m, "first", None) is not None]
    for one, other in zip(*seen.values(), strict=True):
        assert torch.equal(one.first.sharpness, other.first.sharpness)
        assert torch.equal(2 * one.sharpness, other.sharpness)
