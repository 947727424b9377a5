"""What heads see of a node, which are trained, and students that are taught; only training labels reach them."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
import torch

from rapgnn import InputNotice, RAPNodeClassifier
from rapgnn.datasets.catalog import BlockModel
from rapgnn.estimators import average
from rapgnn.graph.graph import Graph, make_graph
from rapgnn.network.config import Config
from rapgnn.search.candidate import NetCandidate
from rapgnn.search.portfolio import (
    COVERED,
    FAR,
    FAR_TELEPORT,
    FEW,
    HEADS,
    KNOWN,
    ROUNDS,
    SCARCE,
    STUDENTS,
    Views,
    all_nodes,
    can_teach,
    lesson,
    node_filters,
    node_heads,
    node_lifts,
    node_probes,
    second_candidates,
    student_configs,
    treatments,
)
from rapgnn.search.validation import ENOUGH

HOPS = Config(features="standard", places=True, jumping="cat", num_layers=2)
VIEWS = {
    (False, 0): replace(HOPS, num_layers=0, lift=8),
    (True, 0): replace(HOPS, lift=8),
    (True, KNOWN): replace(HOPS, known=KNOWN, lift=8),
}


def own_features(seed=0, nodes=600, columns=4) -> Graph:
    """Classes that a node's own features tell, in a way that is not linear; its neighbours are anyone."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((nodes, columns))
    y = (x[:, 0] * x[:, 1] > 0).astype(int)
    return make_graph(x, rng.integers(0, nodes, (2, 4 * nodes)), y, *np.split(rng.permutation(nodes), [300, 450]))


def view_of(config: Config) -> tuple[bool, int]:
    return config.num_layers > 0, config.known


def views_of(configs) -> list[tuple[bool, int]]:
    """Every view once, in the order of the first network that has it."""
    return list(dict.fromkeys(view_of(config) for config in configs))


def with_rows(graph: Graph, **counts: int) -> Graph:
    return replace(graph, **{split: torch.arange(count) for split, count in counts.items()})


@pytest.mark.parametrize("order", list(permutations(VIEWS)))
def test_the_best_to_see_comes_first_in_probes_and_trained_heads(order):
    nets = [VIEWS[view] for view in order]
    graph = own_features()
    assert Views.of(graph, nets).order == list(order)
    assert views_of(node_probes(graph, nets)) == list(order)
    heads = list(node_heads(graph, nets))
    assert views_of(heads) == list(order)[:HEADS]
    assert all(head.hidden and not head.lift for head in heads)


def test_what_was_not_tried_yet_comes_after_what_was():
    labelled, few = own_features(), with_rows(own_features(), train=FEW - 1)
    assert Views.of(labelled, [HOPS]).order == [(True, 0), (False, 0), (True, KNOWN)]
    assert Views.of(few, [HOPS]).order == [(True, 0), (False, 0)]
    assert Views.of(labelled, [VIEWS[True, KNOWN], HOPS]).order == [(True, KNOWN), (True, 0), (False, 0)]


def test_many_columns_are_also_trained_on_as_they_are():
    few, many = own_features(), own_features(columns=COVERED + 1)
    assert not any(head.features == "none" for head in node_heads(few, [HOPS]))
    first, second = list(node_heads(many, [HOPS]))[:2]
    assert (first.features, first.whiten) == ("none", False)
    assert second == replace(first, features="standard", whiten=True)
    assert [probe.lift for probe in node_probes(many, [HOPS])] == [0] * 4


def test_a_second_look_at_many_columns_is_trained_first_and_on_them_as_they_are():
    for columns, hidden, features in ((4, [0, 128], "standard"), (COVERED + 1, [128, 0], "none")):
        graph = own_features(columns=columns)
        looks = [wanted.config for _, wanted in second_candidates(graph, [NetCandidate(graph, HOPS, 0, {})])]
        assert [look.hidden for look in looks] == hidden
        (trained,) = [look for look in looks if look.hidden]
        assert (trained.features, trained.whiten) == (features, features == "standard")
        assert all(look.first == HOPS for look in looks)
        few = with_rows(graph, val=ENOUGH - 1)
        assert [w.config.hidden for _, w in second_candidates(few, [NetCandidate(few, HOPS, 0, {})])] == [0]


@pytest.mark.parametrize("of", [node_probes, node_heads, node_lifts])
def test_few_training_rows_have_linear_heads_alone(of):
    nets = list(VIEWS.values())
    assert list(of(with_rows(own_features(), train=FEW), nets))
    assert not list(of(with_rows(own_features(), train=FEW - 1), nets))


@pytest.mark.parametrize("of", [node_heads, node_lifts])
def test_few_validation_rows_train_no_head(of):
    nets = list(VIEWS.values())
    assert any(config.hidden for config in of(with_rows(own_features(), val=ENOUGH), nets))
    assert not any(config.hidden for config in of(with_rows(own_features(), val=ENOUGH - 1), nets))


def test_a_search_trains_first_on_features_alone_where_neighbours_say_nothing():
    graph = own_features()
    model = RAPNodeClassifier(seed=0, time_budget=600).fit_graph(graph)  # everything is tried
    heads = [trial.settings for trial in model.trials_ if trial.settings.get("hidden")]
    assert (heads[0]["num_layers"], heads[0]["known"]) == (0, 0)
    assert model.score(graph, split="test") > 0.8  # what is linear: a half


def wide(values, rows=40):
    """A graph of 600 columns, so many training rows of 400 nodes."""
    rng = np.random.default_rng(0)
    x = np.where(rng.random((400, 600)) < 0.02, values(rng), 0)
    order = rng.permutation(400)
    return make_graph(
        x, rng.integers(400, size=(2, 1600)), np.arange(400) % 2, order[:rows], order[300:350], order[350:]
    )


@pytest.mark.parametrize(
    ("values", "second"),
    [
        (lambda rng: rng.integers(1, 4, (400, 600)), "tfidf"),
        (lambda rng: rng.random((400, 600)), "none"),
        (lambda rng: rng.standard_normal((400, 600)), "standard"),
    ],
)
def test_counts_alone_are_weighted_as_words(values, second):
    assert treatments(wide(values)) == (("length", 256), (second, 256))


def test_nodes_far_away_count_where_labels_are_scarce():
    few, many = (list(node_filters(wide(lambda rng: 1.0, rows))) for rows in (100, 101))
    assert {net.teleport for net in few if net.num_layers == FAR} == {FAR_TELEPORT}
    assert not any(net.num_layers == FAR for net in many)


FAR_NET = Config(features="standard", jumping="ppr", num_layers=8)
NEAR = Config(features="standard", jumping="cat", num_layers=2)


def few_labels(seed=0) -> Graph:
    """600 nodes of three classes, 15 of them training rows."""
    return BlockModel(nodes=600, classes=3, features=16, signal=0.5, train=5, val=150, test=200, seed=seed).generate()


def other_labels(graph: Graph, *splits: str) -> Graph:
    """Other labels in these splits, every one of them."""
    y = graph.y.clone()
    for split in splits:
        y[graph.rows(split)] = (y[graph.rows(split)] + 1) % graph.num_outputs
    return replace(graph, y=y)


def taught(model: RAPNodeClassifier) -> list[bool]:
    return [trial.settings.get("taught", False) for trial in model.trials_]


def log_loss(model: RAPNodeClassifier, graph: Graph) -> float:
    return -model.score(graph, split="val", scoring="log_loss")


@pytest.fixture(scope="module")
def chosen():
    graph = few_labels()
    return graph, RAPNodeClassifier(seed=0).fit_graph(graph)


@pytest.mark.parametrize(
    ("split", "enough", "short"),
    [("train", 600 // SCARCE, 600 // SCARCE + 1), ("val", ENOUGH, ENOUGH - 1)],
)
def test_few_labels_and_validation_rows_enough_make_a_teacher(split, enough, short):
    graph = few_labels()
    assert can_teach(replace(graph, **{split: torch.arange(enough)}))
    assert not can_teach(replace(graph, **{split: torch.arange(short)}))


def test_students_are_personalised_pagerank_of_every_kind_and_the_best_linear_filters():
    other = replace(FAR_NET, features="length", sketch=8)
    farther = replace(FAR_NET, num_layers=FAR_NET.num_layers + 8)
    worse = replace(FAR_NET, teleport=0.3)
    last = replace(NEAR, jumping="last")
    nets = [NEAR, FAR_NET, worse, farther, last, other]
    found = list(student_configs(few_labels(), nets))
    assert set(found[:3]) == {FAR_NET, farther, other}
    assert found[3:] == [NEAR, worse, last]
    more = [replace(NEAR, jumping="last", num_layers=depth) for depth in range(3, 9)]
    assert list(student_configs(few_labels(), nets + more)) == found
    assert len(found) == STUDENTS


@pytest.mark.parametrize(
    "more",
    [{"known": 1}, {"identity": 8}, {"hidden": 4}, {"lift": 4}, {"first": Config()}],
    ids=lambda more: next(iter(more)),
)
def test_no_student_sees_labels_or_predictions_or_is_not_linear(more):
    nets = [replace(NEAR, **more), replace(FAR_NET, **more), NEAR]
    assert list(student_configs(few_labels(), nets)) == [NEAR]


def test_a_lesson_is_labels_that_are_known_and_sharper_probabilities(chosen):
    graph, model = chosen
    found = lesson(model.model_, graph, {})
    assert torch.equal(found[graph.train], torch.eye(3, dtype=torch.float64)[graph.y[graph.train]])
    others = torch.ones(600, dtype=torch.bool)
    others[graph.train] = False
    said = torch.from_numpy(model.predict_proba(graph)).double()[others]
    sharp = found[others]
    torch.testing.assert_close(sharp.sum(1), torch.ones(len(sharp), dtype=torch.float64))
    assert bool((sharp >= 0).all())
    assert torch.equal(sharp.argmax(1), said.argmax(1))
    unsure = said.max(1).values < 0.999
    assert int(unsure.sum()) > 100
    assert bool((sharp.max(1).values > said.max(1).values)[unsure].all())


@pytest.mark.parametrize("kind", ["average", "one that knows labels"])
def test_labels_of_validation_and_test_rows_are_no_part_of_a_lesson(kind, chosen):
    graph, model = chosen
    config = Config(features="standard", known=2)
    teacher = model.model_ if kind == "average" else NetCandidate(graph, config, 0, {}).finished(1.0, 1.0)
    found = lesson(teacher, graph, {})
    assert torch.equal(lesson(teacher, other_labels(graph, "val", "test"), {}), found)
    assert not torch.equal(lesson(teacher, other_labels(graph, "train"), {}), found)


@pytest.mark.parametrize("config", [FAR_NET, NEAR, replace(NEAR, places=True, edges="both")])
def test_a_student_learns_its_lesson_and_no_label_beside_it(config, chosen):
    graph, model = chosen
    told = lesson(model.model_, graph, {})
    splits = ("train", "val", "test")
    one, same = (NetCandidate(all_nodes(g), config, 0, {}, taught=told) for g in (graph, other_labels(graph, *splits)))
    for found, wanted in zip(same.path.solve(0.1), one.path.solve(0.1), strict=True):
        assert torch.equal(found, wanted)
    assert one.final
    assert one.settings["taught"] is True
    assert not torch.equal(NetCandidate(all_nodes(graph), config, 0, {}).path.solve(0.1)[0], one.path.solve(0.1)[0])


def test_a_lesson_of_labels_is_training_on_them(chosen):
    graph, _ = chosen
    labels = torch.eye(3, dtype=torch.float64)[graph.y]
    told = NetCandidate(all_nodes(graph), NEAR, 0, {}, taught=labels)
    trained = NetCandidate(all_nodes(graph), NEAR, 0, {})
    for found, wanted in zip(told.path.solve(0.1), trained.path.solve(0.1), strict=True):
        torch.testing.assert_close(found, wanted)


def test_students_are_tried_last_and_make_validation_better(chosen, monkeypatch):
    graph, model = chosen
    tried = taught(model)
    assert 0 < sum(tried) <= ROUNDS * STUDENTS
    assert tried == sorted(tried)
    monkeypatch.setattr(average, "can_teach", lambda graph: False)
    without = RAPNodeClassifier(seed=0).fit_graph(graph)
    assert not any(taught(without))
    assert [t.settings for t in without.trials_] == [t.settings for t in model.trials_[: len(without.trials_)]]
    assert model.validation_score_ >= without.validation_score_
    assert log_loss(model, graph) < 0.9 * log_loss(without, graph)


def test_a_teacher_with_nothing_to_say_has_one_round_and_changes_nothing(monkeypatch):
    graph = few_labels(seed=1)
    alike = torch.full((600, 3), 1 / 3, dtype=torch.float64)
    monkeypatch.setattr(average, "lesson", lambda teacher, graph, kept: alike)
    model = RAPNodeClassifier(seed=0).fit_graph(graph)
    assert 0 < sum(taught(model)) <= STUDENTS
    monkeypatch.setattr(average, "can_teach", lambda graph: False)
    without = RAPNodeClassifier(seed=0).fit_graph(graph)
    assert np.array_equal(model.predict_proba(graph), without.predict_proba(graph))


def test_labels_of_test_rows_change_no_model(chosen):
    graph, model = chosen
    again = RAPNodeClassifier(seed=0).fit_graph(other_labels(graph, "test"))
    assert np.array_equal(again.predict_proba(graph), model.predict_proba(graph))


def test_a_class_that_no_training_row_has_is_never_taught():
    graph = few_labels()
    graph = replace(graph, y=graph.y.clone(), num_outputs=4)
    for split in ("val", "test"):
        graph.y[graph.rows(split)[:10]] = 3
    model = RAPNodeClassifier(seed=0)
    with pytest.warns(InputNotice, match="not learned"):
        model.fit(graph)
    assert any(taught(model))
    assert float(lesson(model.model_, graph, {})[:, 3].max()) < 0.01
    assert 3 not in model.predict(graph)


def test_networks_that_tell_nodes_apart_are_no_view():
    marks = Config(identity=8, jumping="last", num_layers=3)
    assert Views.of(own_features(), [marks]).walks == []
    assert not list(node_heads(own_features(), [marks]))
    assert next(node_probes(own_features(), [marks, HOPS])) == replace(marks, known=KNOWN)
    assert Views.of(own_features(), [marks, HOPS]) == Views.of(own_features(), [HOPS])


def test_two_propagations_are_kept_the_best_first_with_all_their_hops():
    walk = replace(HOPS, backbone="sage", jumping="ppr", num_layers=8, whiten=False)
    third = replace(HOPS, features="none")
    deep = replace(HOPS, num_layers=4, hidden=8, dropout=0.5, lift=4, lift_inputs=2, lift_hops=1, known=1)
    walks = Views.of(own_features(), [walk, deep, HOPS, third]).walks
    assert walks == [replace(HOPS, backbone="sage"), replace(HOPS, num_layers=4)]
    directed = replace(walk, edges="undirected")
    assert [one.edges for one in Views.of(own_features(), [directed, HOPS]).walks] == ["both", "both"]


def test_probes_differ_in_what_they_see_alone():
    wide = replace(HOPS, features="length", sketch=4)
    for first, lift in ((HOPS, 512), (wide, 0)):
        probes = list(node_probes(own_features(), [first]))[:3]
        assert [probe.lift for probe in probes] == [lift] * 3
        assert len({replace(probe, num_layers=2, known=0, edges="given") for probe in probes}) == 1
