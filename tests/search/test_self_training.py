"""Self-training: filters that learn what the average says of all nodes; labels that are hidden never reach them."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from rapgnn import Graph, InputNotice, RAPNodeClassifier
from rapgnn.datasets.catalog import BlockModel
from rapgnn.search import search
from rapgnn.search.candidate import Candidate
from rapgnn.search.portfolio import can_self_train, self_training_points
from rapgnn.search.preset import PRESET
from rapgnn.search.search import Search
from rapgnn.search.start import HOPS, start_config

FAR_NET = HOPS.update(scaling="standard", jumping="ppr", num_layers=8)
NEAR = HOPS.update(scaling="standard")


def few_labels(seed=0) -> Graph:
    """600 nodes of three classes, 15 of them training rows."""
    return BlockModel(nodes=600, classes=3, features=16, signal=0.5, train=5, val=150, test=200, seed=seed).generate()


def other_labels(graph: Graph, *splits: str) -> Graph:
    """Other labels in these splits, every one of them."""
    y = graph.y.clone()
    for split in splits:
        y[graph.rows(split)] = (y[graph.rows(split)] + 1) % graph.num_outputs
    return replace(graph, y=y)


def self_trained(model: RAPNodeClassifier) -> list[bool]:
    return [trial.settings.get("self_training", False) for trial in model.trials_]


def pseudo_labels(model, graph: Graph) -> Tensor:
    return Search(graph, start_config(graph), {}, 0, lambda: False)._pseudo_labels(model)


def on_all_nodes(graph: Graph) -> Graph:
    return replace(graph, train=torch.arange(graph.num_nodes))


def log_loss(model: RAPNodeClassifier, graph: Graph) -> float:
    return -model.score(graph, split="val", scoring="log_loss")


@pytest.fixture(scope="module")
def chosen():
    graph = few_labels()
    return graph, RAPNodeClassifier(seed=0).fit_graph(graph)


@pytest.mark.parametrize(
    ("split", "enough", "short"),
    [
        ("train", 600 // PRESET.scarce, 600 // PRESET.scarce + 1),
        ("val", PRESET.enough_validation, PRESET.enough_validation - 1),
    ],
)
def test_it_takes_few_labels_and_validation_rows_enough(split, enough, short):
    graph = few_labels()
    assert can_self_train(replace(graph, **{split: torch.arange(enough)}))
    assert not can_self_train(replace(graph, **{split: torch.arange(short)}))


@pytest.mark.parametrize(
    "more",
    [{"known_labels": 1}, {"node_columns": 8}, {"head": "mlp"}, {"units": 4}, {"previous": HOPS}],
    ids=lambda more: next(iter(more)),
)
def test_none_sees_labels_or_predictions_or_is_not_linear(more):
    nets = [NEAR.update(**more), FAR_NET.update(**more), NEAR]
    assert self_training_points(few_labels(), nets) == [NEAR]


def test_pseudo_labels_are_labels_that_are_known_and_sharper_probabilities(chosen):
    graph, model = chosen
    labels = pseudo_labels(model.model_, graph)
    assert torch.equal(labels[graph.train], torch.eye(3, dtype=torch.float64)[graph.y[graph.train]])
    others = torch.ones(600, dtype=torch.bool)
    others[graph.train] = False
    probabilities = torch.from_numpy(model.predict_proba(graph)).double()[others]
    sharp = labels[others]
    torch.testing.assert_close(sharp.sum(1), torch.ones(len(sharp), dtype=torch.float64))
    assert bool((sharp >= 0).all())
    assert torch.equal(sharp.argmax(1), probabilities.argmax(1))
    unsure = probabilities.max(1).values < 0.999
    assert int(unsure.sum()) > 100
    assert bool((sharp.max(1).values > probabilities.max(1).values)[unsure].all())


@pytest.mark.parametrize("kind", ["average", "one that knows labels"])
def test_labels_of_validation_and_test_rows_are_no_part_of_them(kind, chosen):
    graph, model = chosen
    knowing = Candidate(graph, NEAR.update(known_labels=2), 0, {})
    teacher = model.model_ if kind == "average" else knowing.finished(1.0, 1.0)
    labels = pseudo_labels(teacher, graph)
    assert torch.equal(pseudo_labels(teacher, other_labels(graph, "val", "test")), labels)
    assert not torch.equal(pseudo_labels(teacher, other_labels(graph, "train")), labels)


@pytest.mark.parametrize("config", [FAR_NET, NEAR, NEAR.update(degree_columns=True, edges="both")])
def test_a_candidate_learns_them_and_no_label_beside_them(config, chosen):
    graph, model = chosen
    labels = pseudo_labels(model.model_, graph)
    others = other_labels(graph, "train", "val", "test")
    one, same = (Candidate(on_all_nodes(g), config, 0, {}, pseudo_labels=labels) for g in (graph, others))
    solution, again = one._solution(0.1), same._solution(0.1)
    assert torch.equal(again.weight, solution.weight)
    assert torch.equal(again.bias, solution.bias)
    assert one.final
    assert one.settings["self_training"] is True
    assert not torch.equal(Candidate(on_all_nodes(graph), config, 0, {})._solution(0.1).weight, solution.weight)


def test_they_are_tried_last_and_make_validation_better(chosen, monkeypatch):
    graph, model = chosen
    tried = self_trained(model)
    assert sum(tried) > 0
    assert tried == sorted(tried)
    monkeypatch.setattr(search, "can_self_train", lambda graph: False)
    without = RAPNodeClassifier(seed=0).fit_graph(graph)
    assert not any(self_trained(without))
    assert [t.settings for t in without.trials_] == [t.settings for t in model.trials_[: len(without.trials_)]]
    assert model.validation_score_ >= without.validation_score_
    assert log_loss(model, graph) < 0.9 * log_loss(without, graph)


def test_a_class_that_no_training_row_has_is_never_taught():
    graph = few_labels()
    graph = replace(graph, y=graph.y.clone(), num_outputs=4)
    for split in ("val", "test"):
        graph.y[graph.rows(split)[:10]] = 3
    model = RAPNodeClassifier(seed=0)
    with pytest.warns(InputNotice, match="not learned"):
        model.fit(graph)
    assert any(self_trained(model))
    assert float(pseudo_labels(model.model_, graph)[:, 3].max()) < 0.01
    assert 3 not in model.predict(graph)
