"""Which points the stages of a search give, in which order, and for which graphs."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
import torch

from rapgnn import Config, Graph, RAPNodeClassifier, make_graph
from rapgnn.network.hops import Hops
from rapgnn.network.network import walk_of
from rapgnn.search import search
from rapgnn.search.portfolio import (
    Stage,
    Views,
    expanded_points,
    further_kernel_points,
    head_points,
    kernel_points,
    probe_points,
    scalings,
    tree_points,
)
from rapgnn.search.preset import PRESET
from rapgnn.search.start import HOPS as START
from samples import rings

HOPS = START.update(scaling="standard", degree_columns=True)
LABELS = PRESET.label_hops
VIEWS = {
    (False, 0): HOPS.update(num_layers=0, units=8),
    (True, 0): HOPS.update(units=8),
    (True, LABELS): HOPS.update(known_labels=LABELS, units=8),
}


def own_features(seed=0, nodes=600, columns=4) -> Graph:
    """Classes that a node's own features tell, in a way that is not linear; its neighbours are anyone."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((nodes, columns))
    y = (x[:, 0] * x[:, 1] > 0).astype(int)
    return make_graph(x, rng.integers(0, nodes, (2, 4 * nodes)), y, *np.split(rng.permutation(nodes), [300, 450]))


def view_of(config: Config) -> tuple[bool, int]:
    return config.num_layers > 0, config.known_labels


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
    assert views_of(probe_points(graph, START, nets)) == list(order)
    heads = list(head_points(graph, START, nets))
    assert views_of(heads) == list(order)[: PRESET.head_views]
    assert all(head.head == "mlp" and not head.units for head in heads)


def test_many_columns_are_also_trained_on_as_they_are():
    few, many = own_features(), own_features(columns=PRESET.covered + 1)
    assert not any(head.scaling == "none" for head in head_points(few, START, [HOPS]))
    first, second = list(head_points(many, START, [HOPS]))[:2]
    assert (first.scaling, first.standardize) == ("none", False)
    assert second == first.update(scaling="standard", standardize=True)
    assert [probe.units for probe in probe_points(many, START, [HOPS])] == [0] * 4


def test_trees_are_grown_on_few_columns_of_many_rows_with_few_classes():
    few, many = own_features(nodes=1500), own_features(nodes=1500, columns=PRESET.covered + 1)
    rows = {"train": PRESET.many_rows, "val": 100}
    nets = [VIEWS[True, LABELS], HOPS]
    (grown,) = tree_points(with_rows(few, **rows), START, nets)
    assert (grown.head, grown.known_labels, grown.num_layers) == ("trees", LABELS, 2)
    y = torch.arange(1500) % (PRESET.tree_outputs + 1)
    classes = make_graph(few.x, few.edge_index, y, few.train, few.val, few.test)
    for graph in (with_rows(many, **rows), with_rows(few, train=PRESET.many_rows - 1), with_rows(classes, **rows)):
        assert not list(tree_points(graph, START, nets))


@pytest.mark.parametrize("of", [probe_points, head_points, expanded_points])
def test_few_training_rows_have_linear_heads_alone(of):
    nets = list(VIEWS.values())
    assert list(of(with_rows(own_features(), train=PRESET.few_rows), START, nets))
    assert not list(of(with_rows(own_features(), train=PRESET.few_rows - 1), START, nets))


@pytest.mark.parametrize("of", [head_points, expanded_points])
def test_few_validation_rows_train_no_head(of):
    nets = list(VIEWS.values())
    for rows, trains in ((PRESET.enough_validation, True), (PRESET.enough_validation - 1, False)):
        assert any(config.head == "mlp" for config in of(with_rows(own_features(), val=rows), START, nets)) == trains


def test_a_search_trains_first_on_features_alone_where_neighbours_say_nothing():
    graph = own_features()
    model = RAPNodeClassifier(seed=0, time_budget=600).fit_graph(graph)  # everything is tried
    heads = [trial.settings for trial in model.trials_ if trial.settings["head"] == "mlp"]
    assert (heads[0]["num_layers"], heads[0]["known_labels"]) == (0, 0)
    assert model.score(graph, split="test") > 0.8  # what is linear: a half


def test_a_stage_ends_where_nothing_gets_better(monkeypatch):
    """All points of a stage without a limit are tried."""
    graph, tried = own_features(), []

    def points(graph, base, best):
        for penalty in (1e3, 2e3, 3e3, 4e3, 5e3):
            tried.append(penalty)
            yield HOPS.update(scaling="standard", num_layers=1, ridge=penalty)

    counts = []
    for idle in (0, 2):
        stages = (Stage(lambda graph, base, best: iter([HOPS.update(ridge=1.0)])), Stage(points, idle=idle))
        monkeypatch.setattr(search, "PORTFOLIO", stages)
        tried.clear()
        search.Search(graph, START, {}, 0, lambda: False)._stages("rest", 10.0)
        counts.append(len(tried))
    assert counts == [5, 2]


def test_hops_that_were_used_longest_ago_are_let_go(monkeypatch):
    one = search.Search(own_features(), START, {}, 0, lambda: False)
    walks = [HOPS.update(scaling=scaling) for scaling in ("none", "standard", "length")]
    for room, kept in ((1 << 20, walks), (0, walks[-1:])):
        monkeypatch.setattr(search, "PRESET", replace(PRESET, stored=(room, 0.0)))
        for config in walks:
            one.attempt(config)
        held = [walk for walk, hops in one._shared.items() if isinstance(hops, Hops)]
        assert held == [walk_of(config) for config in kept]


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
    assert scalings(wide(values)) == (("length", 256), (second, 256))


FILTER = START.update(backbone="gin", pooling="log")
LAYERS = FILTER.update(coefficients="layers", width=16)
COLOURS = START.update(coefficients="colours", width=32, pooling="log", standardize=False)


def test_the_best_of_each_kind_and_the_next():
    nets = [LAYERS, LAYERS.update(pooling="mean"), COLOURS, FILTER, FILTER.update(num_layers=5)]
    points = list(kernel_points(rings(), START, nets))
    bare = [net.update(kernel="none", landmarks=0) for net in points]
    assert bare == [net for net in (LAYERS, COLOURS, FILTER, LAYERS.update(pooling="mean")) for _ in range(2)]
    assert [net.kernel for net in points] == 4 * ["gauss", "laplace"]
    assert {net.landmarks for net in points} == {252}  # all training graphs


def test_numbers_may_go_on_beyond_those_of_training():
    points = kernel_points(rings(numbers=True), START, [FILTER])
    assert [(net.kernel, net.trend) for net in points] == [("gauss", False), ("gauss", True), ("laplace", True)]


def test_the_best_kernel_is_tried_at_other_distances_and_with_more_landmarks():
    best = FILTER.update(kernel="gauss", landmarks=100)
    points = list(further_kernel_points(rings(), START, [FILTER, best, best.update(kernel="laplace")]))
    assert points == [*(best.update(bandwidth=b) for b in PRESET.bandwidths), best.update(landmarks=252)]
    assert not list(further_kernel_points(rings(), START, [FILTER]))
