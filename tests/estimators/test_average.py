"""The average that a search ends in: its members, how sure it is, draws, what candidates share, what decides."""

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from fuzzing import alter
from rapgnn import RAPGraphClassifier, RAPGraphRegressor, RAPNodeClassifier
from rapgnn.errors import InputError
from rapgnn.estimators import average
from rapgnn.estimators import average as draws
from rapgnn.estimators.evaluation import chosen_words
from rapgnn.graph.graph import Graph, make_graph
from rapgnn.graph.lists import make_graphs
from rapgnn.graph.scores import BALANCED, metrics_for, with_goal
from rapgnn.network.average import Average, Config
from rapgnn.network.config import Config
from rapgnn.network.hop_network import HopNetwork
from rapgnn.search.candidate import NetCandidate, RapCandidate, with_all_rows
from rapgnn.search.portfolio import Wanted
from rapgnn.search.search import (
    DRAWS,
    FACTORS,
    chosen_members,
    drawn_again,
    only,
    sharpening,
    sharper,
    together,
)
from rapgnn.search.validation import Judge, Verdict
from rapgnn.training.checkpoint import load_checkpoint
from rapgnn.training.predict import model_on, scores_of
from samples import collection, rare


def judged_by(rows: int, task: str = "classification") -> Judge:
    rng = np.random.default_rng(0)
    n = rows + 10
    y = np.arange(n) % 2 if task == "classification" else rng.standard_normal(n).astype(np.float32)
    rows_of = np.split(np.arange(n), [10, n])
    graph: Graph = make_graph(np.ones((n, 1)), np.zeros((2, 0), int), y, *rows_of, [], task=task)
    return Judge(graph, graph.objective)


def verdict(judge: Judge, right: float, seed: int) -> Verdict:
    """Probabilities that give the true class about as much as ``right``, with chance in them."""
    rng = np.random.default_rng(seed)
    p = torch.from_numpy(np.clip(right + 0.2 * rng.standard_normal(len(judge.y)), 0.02, 0.98)).float()
    both = torch.stack([torch.where(judge.y == 0, p, 1 - p), torch.where(judge.y == 1, p, 1 - p)], dim=1)
    merit, loss = judge.of(both.log())
    return Verdict(None, 1.0, 1.0, merit, loss, both, merit)  # type: ignore[arg-type]


def test_a_member_that_errs_elsewhere_joins_before_more_of_the_same():
    judge = judged_by(600)
    same = verdict(judge, 0.62, 0)
    other = verdict(judge, 0.6, 1)
    seen = [same, *(replace(same, probabilities=same.probabilities.clone()) for _ in range(3)), other]
    members = chosen_members(seen, judge, False)
    assert members[0] is same
    assert members[1] is other


def test_the_metric_of_a_user_decides_by_itself():
    judge = judged_by(400)
    seen = [verdict(judge, 0.7 - 0.05 * seed, seed) for seed in range(6)]
    members = chosen_members(seen, judge, True)
    score = judge.validation_score(together(members, judge))
    order = sorted(seen, key=lambda v: -v.merit)
    reached = [
        judge.validation_score(torch.stack([v.probabilities for v in order[:size]]).mean(0).log())
        for size in (1, 2, 3, 4, 6)
    ]
    assert score == max(reached)
    assert len(members) in (1, 2, 3, 4, 6)


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_losses_by_row_have_the_loss_as_their_mean(task):
    judge = judged_by(150, task)
    scores = torch.randn(150, 2 if task == "classification" else 1, generator=torch.Generator().manual_seed(0))
    assert float(judge.by_row(scores).mean()) == pytest.approx(judge.of(scores)[1], rel=1e-5)


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


def judged(graph: Graph, *configs: Config):
    judge, kept = Judge(graph, graph.objective), {}
    found = [judge.see(NetCandidate(graph, config, 0, kept)) for config in configs]
    return judge, [verdict for verdict in found if verdict is not None]


def test_the_factor_gives_the_rows_that_judge_the_lowest_loss():
    graph = noisy()
    judge, members = judged(graph, Config(num_layers=0), Config(num_layers=1), Config(lift=64))
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


@pytest.mark.parametrize("kind", ["net", "treated", "rap"])
def test_a_sharper_member_has_larger_scores_and_leaves_the_one_it_came_from(kind):
    graph = noisy()
    if kind == "net":
        candidate = NetCandidate(graph, Config(lift=16), 0, {})
    else:
        features = "standard" if kind == "treated" else "none"
        candidate = RapCandidate(graph, Config(features, 0, Config(**LINEAR)), 0, {})
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


RANDOM, PLAIN = Config(backbone="gin", width=8, num_layers=2), Config(backbone="gin", num_layers=2)


def few(task: str = "classification") -> Graph:
    rows = torch.arange(120)
    return replace(collection(task), train=rows[:60], val=rows[60:80], test=rows[80:])


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
    seeds = {m.seed for m in model.model_.members if isinstance(m, HopNetwork)}
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


def test_it_is_loaded_bitwise_the_same(model, tmp_path):
    model.save(tmp_path)
    loaded = RAPGraphClassifier.load(tmp_path)
    assert loaded.model_.weights == model.model_.weights
    assert np.array_equal(loaded.predict_proba(few()), model.predict_proba(few()))


@pytest.mark.parametrize("weight", [0, 2.0, True, float("nan")])
def test_a_weight_that_is_none_is_refused(model, tmp_path, weight):
    model.save(tmp_path)
    alter(tmp_path, lambda index: index["members"][0].update(weight=weight))
    with pytest.raises(InputError, match="members is not what it should be"):
        load_checkpoint(tmp_path)
    net = HopNetwork(3, 2, config=PLAIN)
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


SHAPES = {
    "hops": Config(backbone="gin", places=True),
    "layers": Config(backbone="gin", width=12, num_layers=3, activation="tanh"),
    "lift": Config(backbone="gin", lift=20, logarithm=True, lift_hops=1),
}
GIN_LINEAR = {"backbone": "gin", "num_layers": 2, "embedding": "identity", "head": "ridge", "activation": "identity"}


def sets(count=40):
    rng = np.random.default_rng(0)
    sizes = rng.integers(0, 7, count)  # some graphs have no nodes
    starts = np.cumsum(sizes) - sizes
    edges = [rng.integers(0, n, (2, 2 * n)) + s for n, s in zip(sizes, starts, strict=True) if n]
    split = {"train": np.arange(25), "val": np.arange(25, 33), "test": np.arange(33, count)}
    return make_graphs(
        rng.random((int(sizes.sum()), 4)), np.concatenate(edges, 1), sizes, np.arange(count) % 2, **split
    )


@pytest.mark.parametrize("name", SHAPES)
def test_networks_that_differ_in_the_pooling_share_one_pass_bitwise(name, monkeypatch):
    graph, kept, passes, once = sets(), {}, [], HopNetwork.pooled
    monkeypatch.setattr(HopNetwork, "pooled", lambda *args, **how: passes.append(1) or once(*args, **how))
    configs = [replace(SHAPES[name], pooling=pooling) for pooling in ("log", "sum", "mean")]
    candidates = [NetCandidate(graph, config, 3, kept) for config in configs]
    assert len(passes) == 2  # of training and of validation rows
    for config, shared in zip(configs, candidates, strict=True):
        alone = NetCandidate(graph, config, 3, {})
        assert torch.equal(shared.scores(0.1, True), alone.scores(0.1, True))
        found, expected = (one.finished(0.1, 2.0).state_dict() for one in (shared, alone))
        assert found.keys() == expected.keys()
        assert all(torch.equal(found[name], expected[name]) for name in expected)
        assert torch.equal(shared.net.represent(graph, graph.val), shared.val)


@pytest.mark.parametrize("config", [SHAPES["hops"], Config(network=Config(**GIN_LINEAR))])
def test_heads_that_were_solved_outlive_the_rows(config):
    graph, kind = sets(), NetCandidate if isinstance(config, Config) else RapCandidate
    candidate, other = (kind(graph, config, 3, {}) for _ in range(2))
    candidate.scores(0.1, False)
    candidate.scores(1.0, False)
    candidate.forget_rows()
    found, expected = (one.finished(0.1, 2.0).state_dict() for one in (candidate, other))
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    with pytest.raises(AssertionError, match="forgotten"):
        candidate.finished(0.01, 2.0)
    held = [value for value in vars(candidate).values() if isinstance(value, torch.Tensor)]
    assert not any(len(value) for value in held)


ONE_FIT = {"search": False, "num_layers": 2}


@pytest.mark.parametrize("given", [{}, {"class_weight": "balanced"}])
def test_the_metric_decides_members_also_where_classes_are_weighed(given, monkeypatch):
    asked = []
    chosen = average.chosen_members
    monkeypatch.setattr(average, "chosen_members", lambda *args: asked.append(args[2]) or chosen(*args))
    RAPNodeClassifier(scoring="f1_macro", **given).fit(rare(nodes=400))
    assert set(asked) == {True}
    asked.clear()
    RAPNodeClassifier(**given).fit(rare(nodes=400))
    assert set(asked) == {False}


def test_where_one_class_is_rare_candidates_are_ranked_by_the_order_of_the_rows():
    graph = rare()
    common = replace(graph, y=(graph.x[:, 1] > 0).long())
    for on, ranked_by_order in ((graph, True), (common, False)):
        judge = Judge(on, on.objective)
        verdict = judge.see(NetCandidate(on, Config(num_layers=1), 0, {}))
        scores = scores_of(verdict.probabilities, on.objective)
        auc = roc_auc_score(on.y[on.val].numpy(), verdict.probabilities[:, 1].numpy())
        assert verdict.order == pytest.approx(auc if ranked_by_order else on.objective.score(scores, on.y[on.val]))


@pytest.mark.parametrize("given", [{}, ONE_FIT])
def test_a_saved_model_is_scored_by_the_same_metric(given, tmp_path):
    graph = rare(nodes=400)
    model = RAPNodeClassifier(scoring="average_precision", **given).fit(graph)
    model.save(tmp_path / "own")
    loaded = RAPNodeClassifier.load(tmp_path / "own")
    assert loaded.scoring == "average_precision"
    assert loaded.score(graph, split="test") == model.score(graph, split="test")
    alter(tmp_path / "own", lambda index: index["schema"].update(scoring="rmse"))
    with pytest.raises(InputError, match="metric is none of this task"):
        RAPNodeClassifier.load(tmp_path / "own")
    RAPNodeClassifier(**given).fit(graph).save(tmp_path / "usual")
    assert RAPNodeClassifier.load(tmp_path / "usual").scoring is None


def net(**settings):
    return HopNetwork(3, 2, config=Config(**settings))


def test_members_that_count_here_are_named_and_the_same_ones_once():
    far = net(num_layers=8, jumping="ppr")
    model = Average([net(known=1), far, far, net(num_layers=1)], ["here", "both", "both", "elsewhere"])
    assert chosen_words(model) == "the average of 3, gcn, 2 hops, known labels; 2 x gcn, 8 hops"


def test_draws_of_one_member_are_one():
    drawn = [HopNetwork(3, 2, seed=seed, config=Config(backbone="gin", width=8)) for seed in (0, 1000)]
    model = Average([drawn[0], net(num_layers=1), drawn[1]], weights=[0.5, 1.0, 0.5])
    assert chosen_words(model) == "the average of 2, gin, 2 hops, 8 random features, 2 draws; gcn, 1 hop"
