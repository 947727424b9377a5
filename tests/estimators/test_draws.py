"""Few labelled graphs: members of an average are drawn several times, and all draws of one count as one."""

import json
from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
import torch

from altered import alter
from rapgnn import RAPGraphClassifier, RAPGraphRegressor
from rapgnn.errors import InputError
from rapgnn.estimators import average, draws
from rapgnn.estimators.candidates import Wanted
from rapgnn.estimators.draws import DRAWS, drawn_again
from rapgnn.estimators.judge import Judge
from rapgnn.estimators.members import NetCandidate, with_all_rows
from rapgnn.graph.goals import BALANCED, with_goal
from rapgnn.graph.graph import Graph
from rapgnn.models.average import Average
from rapgnn.models.net_config import NetConfig
from rapgnn.models.random_net import RandomNet
from rapgnn.training.averaged import model_on
from rapgnn.training.checkpoint import load_checkpoint
from samples import collection

RANDOM, PLAIN = NetConfig(backbone="gin", width=8, num_layers=2), NetConfig(backbone="gin", num_layers=2)


def few(task: str = "classification") -> Graph:
    rows = torch.arange(120)
    return replace(collection(task), train=rows[:60], val=rows[60:80], test=rows[80:])


def judged(graph: Graph, *configs: NetConfig):
    judge, kept = Judge(graph, graph.objective), {}
    found = [judge.see(NetCandidate(graph, config, 0, kept)) for config in configs]
    return judge, [verdict for verdict in found if verdict is not None]


def never() -> bool:
    return False


def test_random_members_are_drawn_again_and_others_are_not():
    graph = few()
    judge, members = judged(graph, RANDOM, PLAIN)
    found = drawn_again(members, graph, judge, 100.0, never)
    assert [len(others) for others in found.further] == [DRAWS - 1, 0]
    assert len({one.candidate.seed for one in [members[0], *found.further[0]]}) == DRAWS
    assert not any(torch.equal(members[0].probabilities, other.probabilities) for other in found.further[0])
    mean = torch.stack([one.probabilities for one in [members[0], *found.further[0]]]).mean(0)
    assert torch.allclose(found.mean(graph.objective), (mean + members[1].probabilities) / 2, atol=1e-6)


@pytest.mark.parametrize(("left", "late"), [(0.0, never), (100.0, lambda: True)])
def test_none_where_nothing_may_be_spent(left, late):
    graph = few()
    judge, members = judged(graph, RANDOM)
    assert drawn_again(members, graph, judge, left, late).further == [[]]


def test_none_where_rows_are_many(monkeypatch):
    graph = few()
    judge, members = judged(graph, RANDOM)
    monkeypatch.setattr(draws, "FEW", 60)
    assert drawn_again(members, graph, judge, 100.0, never).further == [[]]


def test_a_draw_weighs_the_classes_as_its_member_does():
    graph = few()
    balanced = with_goal(graph, "balanced_accuracy", {0: 1.0, 1: 9.0})
    judge = Judge(graph, graph.objective)
    member = judge.see(NetCandidate(balanced, RANDOM, 0, {}))
    assert member is not None
    (others,) = drawn_again([member], graph, judge, 100.0, never).further
    again = NetCandidate(balanced, RANDOM, others[0].candidate.seed, {})
    assert torch.equal(others[0].candidate.scores(0.1, True), again.scores(0.1, True))
    plain = NetCandidate(graph, RANDOM, others[0].candidate.seed, {})
    assert not torch.equal(others[0].candidate.scores(0.1, True), plain.scores(0.1, True))


@pytest.fixture(scope="module")
def model():
    return RAPGraphClassifier().fit(few())


def test_an_estimator_averages_them_each_member_with_the_same_share(model):
    shares: dict[str, list[float]] = defaultdict(list)
    for member, weight in zip(model.model_.members, model.model_.weights, strict=True):
        shares[repr(member.config)].append(weight)
    assert any(len(weights) == DRAWS for weights in shares.values())
    assert all(sum(weights) == pytest.approx(1.0) for weights in shares.values())
    seeds = {m.seed for m in model.model_.members if isinstance(m, RandomNet)}
    assert seeds == {draw * draws.SEED_STEP for draw in range(DRAWS)}
    graph = few()
    parts = [model_on(member, graph)(graph.test).probabilities for member in model.model_.members]
    weights = torch.tensor(model.model_.weights)
    expected = (torch.stack(parts) * weights[:, None, None]).sum(0) / weights.sum()
    assert np.allclose(model.predict_proba(graph)[graph.test], expected, atol=1e-6)


def test_the_score_is_that_of_all_draws_of_numbers_too(monkeypatch):
    monkeypatch.setattr(average, "first_candidates", lambda *given: iter([Wanted(RANDOM, 0.01)]))
    graph = few("regression")
    graph.y.add_(torch.randn(graph.y.shape, generator=torch.Generator().manual_seed(0)))
    model = RAPGraphRegressor().fit(graph)
    assert all(weight < 1 for weight in model.model_.weights)
    missed = model.predict(graph)[graph.val] - graph.y[graph.val].numpy()[:, 0]
    assert model.validation_score_ == pytest.approx(np.sqrt(np.square(missed).mean()), rel=1e-4)


def test_several_labels_with_gaps_are_drawn_again_too():
    graph = few("multilabel")
    model = RAPGraphClassifier().fit(graph)
    assert any(weight < 1 for weight in model.model_.weights)
    assert np.isfinite(model.predict_proba(graph)).all()


@pytest.mark.parametrize("fault", [torch.linalg.LinAlgError("no factor"), None])
def test_a_draw_that_cannot_be_solved_is_left_out(fault, monkeypatch):
    graph = few()
    judge, members = judged(graph, RANDOM)
    see, seen = Judge.see, []

    def once(self, candidate):
        seen.append(candidate)
        if len(seen) > 1:
            return see(self, candidate)
        if fault is not None:
            raise fault
        return None

    monkeypatch.setattr(Judge, "see", once)
    found = drawn_again(members, graph, judge, 100.0, never)
    assert len(seen) == DRAWS - 1
    assert [len(others) for others in found.further] == [DRAWS - 2]
    assert [weight for _, weight, _ in found.weighted] == [1 / (DRAWS - 1)] * (DRAWS - 1)


def test_it_is_loaded_bitwise_the_same_and_earlier_releases_refuse_it(model, tmp_path):
    model.save(tmp_path)
    loaded = RAPGraphClassifier.load(tmp_path)
    assert loaded.model_.weights == model.model_.weights
    assert np.array_equal(loaded.predict_proba(few()), model.predict_proba(few()))
    assert json.loads((tmp_path / "checkpoint.json").read_text())["version"] == 5


@pytest.mark.parametrize("weight", [0, -1.0, 2.0, True, "1", None, float("nan")])
def test_a_weight_that_is_none_is_refused(model, tmp_path, weight):
    model.save(tmp_path)
    alter(tmp_path, lambda index: index["members"][0].update(weight=weight))
    with pytest.raises(InputError, match="members is not what it should be"):
        load_checkpoint(tmp_path)
    net = RandomNet(3, 2, config=PLAIN)
    with pytest.raises(InputError, match="weight"):
        Average([net], weights=[weight])


def test_the_classes_weigh_the_same_when_heads_are_solved_again_with_all_rows():
    graph = few()
    graph.y[graph.train[:20]] = 0
    everything = replace(graph, train=torch.cat([graph.train, graph.val]), val=graph.val[:0])
    balanced = with_goal(graph, "balanced_accuracy", BALANCED)
    again = with_all_rows(NetCandidate(balanced, PLAIN, 0, {}), everything, {}, {})
    expected = NetCandidate(with_goal(everything, "balanced_accuracy", BALANCED), PLAIN, 0, {})
    assert torch.equal(again.scores(0.1, True), expected.scores(0.1, True))
    assert not torch.equal(again.scores(0.1, True), NetCandidate(everything, PLAIN, 0, {}).scores(0.1, True))
