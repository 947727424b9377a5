"""The average that a search ends in: its members, how sure it is, draws, what candidates share, what decides."""

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from fuzzing import alter
from rapgnn import (
    Config,
    Graph,
    InputError,
    RAPGraphClassifier,
    RAPGraphRegressor,
    RAPNodeClassifier,
    make_graph,
    make_graphs,
)
from rapgnn.graph.rows import BALANCED, with_goal
from rapgnn.graph.scores import metrics_for
from rapgnn.network.heads import INVERSE_TEMPERATURES
from rapgnn.network.network import Average, HopNetwork
from rapgnn.search import average, search
from rapgnn.search.average import (
    Member,
    Scored,
    Validation,
    chosen_members,
    cross_chosen,
    mean_of_draws,
    mean_scores,
    temperature_of,
    with_draws,
)
from rapgnn.search.candidate import Candidate
from rapgnn.search.portfolio import Stage
from rapgnn.search.preset import PRESET
from rapgnn.search.start import HOPS
from rapgnn.training.checkpoint import load_checkpoint
from rapgnn.training.predict import model_on, scores_of
from samples import collection, rare


def rows_that_judge(rows: int, task: str = "classification") -> Validation:
    rng = np.random.default_rng(0)
    n = rows + 10
    y = np.arange(n) % 2 if task == "classification" else rng.standard_normal(n).astype(np.float32)
    rows_of = np.split(np.arange(n), [10, n])
    graph: Graph = make_graph(np.ones((n, 1)), np.zeros((2, 0), int), y, *rows_of, [], task=task)
    return Validation(graph)


def scored(validation: Validation, right: float, seed: int) -> Scored:
    """Probabilities that give the true class about as much as ``right``, with chance in them."""
    rng = np.random.default_rng(seed)
    p = torch.from_numpy(np.clip(right + 0.2 * rng.standard_normal(len(validation.y)), 0.02, 0.98)).float()
    y = validation.y
    both = torch.stack([torch.where(y == 0, p, 1 - p), torch.where(y == 1, p, 1 - p)], dim=1)
    merit, loss = validation.merit(both.log()), validation.loss(both.log())
    return Scored(None, 1.0, 1.0, merit, loss, both, merit)


def test_a_member_that_errs_elsewhere_joins_before_more_of_the_same():
    validation = rows_that_judge(600)
    same, other = scored(validation, 0.62, 0), scored(validation, 0.6, 1)
    copies = [replace(same, probabilities=same.probabilities.clone()) for _ in range(3)]
    members = chosen_members([same, *copies, other], validation, False)
    assert members[0] is same
    assert members[1] is other


def test_only_what_lowers_the_loss_by_more_than_chance_is_a_gain():
    validation = rows_that_judge(600)
    good = scored(validation, 0.8, 0)
    assert validation.gains([good], scored(validation, 0.8, 1))  # errs elsewhere
    assert not validation.gains([good], good)
    assert not validation.gains([good], scored(validation, 0.4, 2))


def test_some_of_many_rows_choose_the_members_that_all_would(monkeypatch):
    validation = rows_that_judge(600)
    seen = [scored(validation, 0.8, 0), scored(validation, 0.8, 1), scored(validation, 0.3, 2)]
    chosen = chosen_members(seen, validation, by_metric=False)
    monkeypatch.setattr(average, "PRESET", replace(PRESET, judges=200))
    some = chosen_members(seen, validation, by_metric=False)
    assert [id(one) for one in some] == [id(one) for one in chosen]
    assert len(some[0].probabilities) == 600


def test_a_penalty_that_only_chance_prefers_scores_as_chance():
    """Forty penalties of one candidate, of which none says anything: rows that chose none see nothing in the best."""
    validation, merits = rows_that_judge(200), []
    for first in range(0, 800, 40):
        tried = [replace(scored(validation, 0.5, first + i), candidate="one", penalty=i) for i in range(40)]
        best = max(tried, key=lambda one: one.merit)
        seen = [replace(best, others=tuple(one for one in tried if one is not best))]
        assert best.merit > 0.54
        merits.append(validation.merit(scores_of(cross_chosen(seen, validation, False), validation.objective)))
    assert abs(np.mean(merits) - 0.5) < 0.02


def test_the_metric_of_a_user_decides_by_itself():
    validation = rows_that_judge(400)
    seen = [scored(validation, 0.7 - 0.05 * seed, seed) for seed in range(6)]
    members = chosen_members(seen, validation, True)
    score = validation.validation_score(mean_scores(members, validation))
    order = sorted(seen, key=lambda v: -v.merit)
    reached = [
        validation.validation_score(torch.stack([v.probabilities for v in order[:size]]).mean(0).log())
        for size in (1, 2, 3, 4, 6)
    ]
    assert score == max(reached)
    assert len(members) in (1, 2, 3, 4, 6)


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_losses_by_row_have_the_loss_as_their_mean(task):
    validation = rows_that_judge(150, task)
    scores = torch.randn(150, 2 if task == "classification" else 1, generator=torch.Generator().manual_seed(0))
    assert float(validation.loss_by_row(scores).mean()) == pytest.approx(validation.loss(scores), rel=1e-5)


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


def judged(graph: Graph, *configs: Config) -> tuple[Validation, list[Scored]]:
    validation, shared = Validation(graph), {}
    found = [validation.score(Candidate(graph, config, 0, shared)) for config in configs]
    return validation, [one for one in found if one is not None]


def as_members(scored: list[Scored]) -> list[Member]:
    return [Member(one, 1.0, one) for one in scored]


def test_the_factor_gives_the_rows_that_judge_the_lowest_loss():
    graph = noisy()
    validation, members = judged(
        graph, HOPS.update(num_layers=0), HOPS.update(num_layers=1), HOPS.update(units=64, num_layers=2)
    )
    for spoiled in (0.5, 1.0, 2.0):  # members that are less sure, or surer, than they should be
        scores = [spoiled * scores_of(one.probabilities, graph.objective) for one in members]
        altered = [
            replace(one, probabilities=graph.objective.read(score)) for one, score in zip(members, scores, strict=True)
        ]
        altered = as_members(altered)
        factor = temperature_of(altered, validation)
        losses = {f: validation.loss(mean_of_draws(altered, validation, f)) for f in INVERSE_TEMPERATURES}
        assert losses[factor] == min(losses.values())
        assert 0.8 < factor * spoiled < 1.7


@pytest.mark.parametrize("classes", [2, 3])
def test_rows_that_are_told_apart_do_not_make_a_model_certain(classes):
    """Scores had gaps of thousands after 60 rows, and probabilities were 1.0000001."""
    rng, n = np.random.default_rng(14), 300
    y = rng.integers(0, classes, n)
    x = rng.normal(size=(n, 5)) + 9 * np.eye(5)[y]
    model = RAPNodeClassifier().fit(x, y, edge_index=rng.integers(0, n, (2, 900)))
    judged = model.model_.fit_rows
    assert float((1 - judged.probabilities.amax(1)).mean()) > 0.2 / (len(judged.y) + 1)
    assert judged.probabilities.max() <= 1


@pytest.mark.parametrize(
    "config",
    [
        HOPS.update(units=16),
        HOPS.update(head="mlp", hidden_channels=8, epochs=5),
        Config(**LINEAR, scaling="standard"),
        Config(**LINEAR),
    ],
)
def test_a_surer_member_has_larger_scores_and_leaves_the_one_it_came_from(config):
    graph = noisy()
    _, (one,) = judged(graph, config)
    before = average.finished(as_members([one]), [one])
    scores = model_on(before, graph)(graph.test).scores
    surer = average.finished(as_members([one]), [one], factor=3.0)
    after = model_on(surer, graph)(graph.test).probabilities
    assert torch.allclose(after, graph.objective.read(3 * scores), atol=1e-5)
    assert torch.equal(model_on(before, graph)(graph.test).scores, scores)


def test_an_estimator_is_calibrated_on_the_whole(monkeypatch, tmp_path):
    graph = noisy()
    model = RAPNodeClassifier().fit_graph(graph)
    monkeypatch.setattr(search, "temperature_of", lambda members, validation: 0.4)
    unsure = RAPNodeClassifier().fit_graph(graph)
    error, losses = (metrics_for(graph.task)[name].measure for name in ("calibration_error", "log_loss"))
    probabilities, worse = (torch.from_numpy(m.predict_proba(graph)[graph.test]) for m in (model, unsure))
    y = graph.y[graph.test]
    assert losses(probabilities, y) < losses(worse, y)
    assert error(probabilities, y) < 0.08 < error(worse, y)
    model.save(tmp_path)
    assert np.array_equal(RAPNodeClassifier.load(tmp_path).predict_proba(graph), model.predict_proba(graph))


def test_networks_before_others_stay_as_they_were(monkeypatch):
    """A second look sees the first network's predictions as it was solved with, whatever factor the first one gets."""
    graph = noisy()
    seen = {}
    for factor in (1.0, 2.0):
        monkeypatch.setattr(search, "temperature_of", lambda members, validation, factor=factor: factor)
        members = RAPNodeClassifier(time_budget=600).fit_graph(graph).model_.members
        seen[factor] = [m for m in members if m.config.previous is not None]
    assert seen[1.0]
    for one, other in zip(*seen.values(), strict=True):
        mine, its = one.previous.head.state_dict(), other.previous.head.state_dict()
        assert all(torch.equal(mine[name], its[name]) for name in mine)
        assert other.head.inverse_temperature == 2 * one.head.inverse_temperature


PLAIN = HOPS.update(backbone="gin", self_loops=False)
RANDOM = PLAIN.update(coefficients="layers", width=8)


def few(task: str = "classification") -> Graph:
    rows = torch.arange(120)
    return replace(collection(task), train=rows[:60], val=rows[60:80], test=rows[80:])


def never() -> bool:
    return False


def test_random_members_are_drawn_again_and_others_are_not():
    graph = few()
    validation, (random, plain) = judged(graph, RANDOM, PLAIN)
    members = with_draws([random, plain], graph, validation, 100.0, never)
    draws = [member.scored for member in members if member.chosen is random]
    assert [member.scored for member in members if member.chosen is plain] == [plain]
    assert len({one.candidate.seed for one in draws}) == len(draws) == PRESET.draws
    assert not any(torch.equal(random.probabilities, other.probabilities) for other in draws[1:])
    mean = torch.stack([one.probabilities for one in draws]).mean(0)
    expected = scores_of((mean + plain.probabilities) / 2, graph.objective)
    assert torch.allclose(mean_of_draws(members, validation), expected, atol=1e-5)


@pytest.mark.parametrize(("left", "late"), [(0.0, never), (100.0, lambda: True)])
def test_none_where_nothing_may_be_spent(left, late):
    graph = few()
    validation, members = judged(graph, RANDOM)
    assert with_draws(members, graph, validation, left, late) == as_members(members)


def test_a_draw_weighs_the_classes_as_its_member_does():
    graph = few()
    balanced = with_goal(graph, "balanced_accuracy", {0: 1.0, 1: 9.0})
    validation = Validation(graph)
    member = validation.score(Candidate(balanced, RANDOM, 0, {}))
    assert member is not None
    drawn = with_draws([member], graph, validation, 100.0, never)[1].scored.candidate
    again, plain = (Candidate(one, RANDOM, drawn.seed, {}) for one in (balanced, graph))
    assert torch.equal(drawn.scores(0.1, True), again.scores(0.1, True))
    assert not torch.equal(drawn.scores(0.1, True), plain.scores(0.1, True))


@pytest.fixture(scope="module")
def model():
    return RAPGraphClassifier().fit(few())


def test_an_estimator_averages_them_each_member_with_the_same_share(model):
    shares: dict[str, list[float]] = defaultdict(list)
    for member, weight in zip(model.model_.members, model.model_.weights, strict=True):
        shares[repr(member.config)].append(weight)
    assert any(len(weights) == PRESET.draws for weights in shares.values())
    assert all(sum(weights) == pytest.approx(1.0) for weights in shares.values())
    seeds = {m.seed for m in model.model_.members if isinstance(m, HopNetwork)}
    assert seeds == {draw * PRESET.seed_step for draw in range(PRESET.draws)}
    graph = few()
    parts = [model_on(member, graph)(graph.test).probabilities for member in model.model_.members]
    weights = torch.tensor(model.model_.weights)
    expected = (torch.stack(parts) * weights[:, None, None]).sum(0) / weights.sum()
    assert np.allclose(model.predict_proba(graph)[graph.test], expected, atol=1e-6)


def test_the_score_is_that_of_all_draws_of_numbers_too(monkeypatch):
    monkeypatch.setattr(search, "PORTFOLIO", (Stage(lambda graph, base, best: iter([RANDOM])),))
    graph = few("regression")
    graph.y.add_(torch.randn(graph.y.shape, generator=torch.Generator().manual_seed(0)))
    model = RAPGraphRegressor().fit(graph)
    assert all(weight < 1 for weight in model.model_.weights)
    missed = model.predict(graph)[graph.val] - graph.y[graph.val].numpy()[:, 0]
    assert model.validation_score_ == pytest.approx(np.sqrt(np.square(missed).mean()), rel=1e-4)


@pytest.mark.parametrize("fault", [torch.linalg.LinAlgError("no factor"), None])
def test_a_draw_that_cannot_be_solved_is_left_out(fault, monkeypatch):
    graph = few()
    validation, members = judged(graph, RANDOM)
    score, seen = Validation.score, []

    def once(self, candidate):
        seen.append(candidate)
        if len(seen) > 1:
            return score(self, candidate)
        if fault is not None:
            raise fault
        return None

    monkeypatch.setattr(Validation, "score", once)
    drawn = with_draws(members, graph, validation, 100.0, never)
    assert len(seen) == PRESET.draws - 1
    assert [member.weight for member in drawn] == [1 / (PRESET.draws - 1)] * (PRESET.draws - 1)


@pytest.mark.parametrize("weight", [0, 2.0, True, float("nan")])
def test_a_weight_that_is_none_is_refused(model, tmp_path, weight):
    model.save(tmp_path)
    alter(tmp_path, lambda index: index["members"][0].update(weight=weight))
    with pytest.raises(InputError, match="damaged"):
        load_checkpoint(tmp_path)
    net = HopNetwork(3, 2, config=PLAIN)
    with pytest.raises(InputError, match="weight"):
        Average([net], weights=[weight])


ONE_FIT = {"search": False, "num_layers": 2}


@pytest.mark.parametrize("given", [{}, {"class_weight": "balanced"}])
def test_the_metric_decides_members_also_where_classes_are_weighed(given, monkeypatch):
    by_metric = []
    monkeypatch.setattr(search, "chosen_members", lambda *args: by_metric.append(args[2]) or chosen_members(*args))
    for scoring in ("f1_macro", None):
        RAPNodeClassifier(scoring=scoring, **given).fit(rare(nodes=400))
        assert set(by_metric) == {scoring is not None}
        by_metric.clear()


def test_where_one_class_is_rare_candidates_are_ranked_by_the_order_of_the_rows():
    graph = rare()
    common = replace(graph, y=(graph.x[:, 1] > 0).long())
    for on, ranked_by_order in ((graph, True), (common, False)):
        _, (one,) = judged(on, HOPS.update(num_layers=1))
        scores = scores_of(one.probabilities, on.objective)
        auc = roc_auc_score(on.y[on.val].numpy(), one.probabilities[:, 1].numpy())
        assert one.order == pytest.approx(auc if ranked_by_order else on.objective.score(scores, on.y[on.val]))


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


GIN = HOPS.update(backbone="gin", self_loops=False)
SHAPES = {
    "hops": GIN.update(degree_columns=True),
    "layers": GIN.update(coefficients="layers", width=12, num_layers=3, activation="tanh"),
    "units": GIN.update(units=20, log_hops=True, unit_hops=1),
}


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
    graph, shared, passes, once = sets(), {}, [], HopNetwork.pooled
    monkeypatch.setattr(HopNetwork, "pooled", lambda *args, **how: passes.append(1) or once(*args, **how))
    configs = [SHAPES[name].update(pooling=pooling) for pooling in ("log", "sum", "mean")]
    candidates = [Candidate(graph, config, 3, shared) for config in configs]
    assert len(passes) == 2  # of training and of validation rows
    for config, one in zip(configs, candidates, strict=True):
        alone = Candidate(graph, config, 3, {})
        assert torch.equal(one.scores(0.1, True), alone.scores(0.1, True))
        state, expected = (each.finished(0.1, 2.0).state_dict() for each in (one, alone))
        assert state.keys() == expected.keys()
        assert all(torch.equal(state[name], expected[name]) for name in expected)
        assert torch.equal(one.network.represent(graph, graph.val), one._held_out)


def test_the_classes_weigh_the_same_when_heads_are_solved_again_with_all_rows():
    rows = torch.arange(120)
    graph = replace(collection(), train=rows[:60], val=rows[60:80], test=rows[80:])
    graph.y[graph.train[:20]] = 0
    everything = replace(graph, train=torch.cat([graph.train, graph.val]), val=graph.val[:0])
    balanced = with_goal(graph, "balanced_accuracy", BALANCED)
    again = Candidate(balanced, GIN, 0, {}).on(everything, {})
    expected = Candidate(with_goal(everything, "balanced_accuracy", BALANCED), GIN, 0, {})
    assert torch.equal(again.scores(0.1, True), expected.scores(0.1, True))
    assert not torch.equal(again.scores(0.1, True), Candidate(everything, GIN, 0, {}).scores(0.1, True))
