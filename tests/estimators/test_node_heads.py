"""What heads see of a node: probes of every view, then trained heads on the best of them."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
import torch

from rapgnn import Config, RAPNodeClassifier
from rapgnn.estimators import average
from rapgnn.estimators.candidates import Wanted, second_candidates
from rapgnn.estimators.judge import ENOUGH
from rapgnn.estimators.members import NetCandidate
from rapgnn.estimators.node_filters import FAR, FAR_TELEPORT, node_filters, treatments
from rapgnn.estimators.node_heads import COVERED, FEW, HEADS, KNOWN, Views, node_heads, node_lifts, node_probes
from rapgnn.graph.graph import Graph, make_graph
from rapgnn.models.net_config import NetConfig

HOPS = NetConfig(features="standard", places=True, jumping="cat", num_layers=2)
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


def view_of(config: NetConfig) -> tuple[bool, int]:
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


def test_networks_that_tell_nodes_apart_are_no_view():
    marks = NetConfig(identity=8, jumping="last", num_layers=3)
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


@pytest.mark.parametrize(("val", "tried"), [(ENOUGH, 2), (ENOUGH - 1, 6)])
def test_filters_leave_most_of_the_time_to_heads_that_can_be_trained(val, tried, monkeypatch):
    wanted = [Wanted(replace(HOPS, num_layers=depth), 1.0) for depth in range(1, 12)]
    monkeypatch.setattr(average, "first_candidates", lambda *given: iter(wanted))
    for stage in ("probing_candidates", "trained_candidates", "further_candidates"):
        monkeypatch.setattr(average, stage, lambda *given: iter(()))
    monkeypatch.setattr(average, "second_candidates", lambda *given: iter(()))
    graph = with_rows(own_features(), val=val)
    found = average.choose_average(graph, Config(), 0, 10.0, lambda: False)
    assert len(found.trials) == tried


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
