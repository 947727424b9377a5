"""Students: when there are any, which ones, what they are taught; no label but those of training rows reaches them."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from rapgnn import InputNotice, RAPNodeClassifier
from rapgnn.datasets.synthetic import BlockModel
from rapgnn.estimators import average, students
from rapgnn.estimators.judge import ENOUGH
from rapgnn.estimators.members import NetCandidate
from rapgnn.estimators.node_filters import SCARCE
from rapgnn.estimators.students import ROUNDS, STUDENTS, all_nodes, can_teach, lesson, student_configs
from rapgnn.graph.graph import Graph, make_graph
from rapgnn.models.net_config import NetConfig

FAR = NetConfig(features="standard", jumping="ppr", num_layers=8)
NEAR = NetConfig(features="standard", jumping="cat", num_layers=2)


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


def test_only_classes_of_the_nodes_of_one_graph_are_taught():
    graph = few_labels()
    assert can_teach(graph)
    numbers = make_graph(
        graph.x, graph.edge_index, graph.y.double() / 3, graph.train, graph.val, graph.test, task="regression"
    )
    assert not can_teach(numbers)
    labels = BlockModel(nodes=600, classes=3, features=4, labels=2, train=5, val=150, test=200).generate()
    assert not can_teach(labels)
    assert not can_teach(replace(graph, ptr=torch.arange(601), task="graph-classification"))


def test_students_are_personalised_pagerank_of_every_kind_and_the_best_linear_filters():
    other = replace(FAR, features="length", sketch=8)
    farther = replace(FAR, num_layers=FAR.num_layers + 8)
    worse = replace(FAR, teleport=0.3)
    last = replace(NEAR, jumping="last")
    nets = [NEAR, FAR, worse, farther, last, other]
    found = list(student_configs(few_labels(), nets))
    assert set(found[:3]) == {FAR, farther, other}
    assert found[3:] == [NEAR, worse, last]
    more = [replace(NEAR, jumping="last", num_layers=depth) for depth in range(3, 9)]
    assert list(student_configs(few_labels(), nets + more)) == found
    assert len(found) == STUDENTS


@pytest.mark.parametrize(
    "more",
    [{"known": 1}, {"identity": 8}, {"hidden": 4}, {"lift": 4}, {"first": NetConfig()}],
    ids=lambda more: next(iter(more)),
)
def test_no_student_sees_labels_or_predictions_or_is_not_linear(more):
    nets = [replace(NEAR, **more), replace(FAR, **more), NEAR]
    assert list(student_configs(few_labels(), nets)) == [NEAR]


@pytest.mark.parametrize(
    ("config", "columns"),
    [(FAR, 16), (NEAR, 3 * 16), (replace(FAR, sketch=5), 5), (replace(NEAR, sketch=5), 3 * 5)],
)
def test_rows_of_all_nodes_that_are_large_have_no_student(config, columns, monkeypatch):
    monkeypatch.setattr(students, "LARGE", 8 * 600 * columns)
    assert list(student_configs(few_labels(), [config])) == [config]
    monkeypatch.setattr(students, "LARGE", 8 * 600 * columns - 1)
    assert not list(student_configs(few_labels(), [config]))


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
    config = NetConfig(features="standard", known=2)
    teacher = model.model_ if kind == "average" else NetCandidate(graph, config, 0, {}).finished(1.0, 1.0)
    found = lesson(teacher, graph, {})
    assert torch.equal(lesson(teacher, other_labels(graph, "val", "test"), {}), found)
    assert not torch.equal(lesson(teacher, other_labels(graph, "train"), {}), found)


@pytest.mark.parametrize("config", [FAR, NEAR, replace(NEAR, places=True, edges="both")])
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


def test_a_seed_gives_the_same_students(chosen):
    graph, model = chosen
    again = RAPNodeClassifier(seed=0).fit_graph(graph)
    assert [(t.settings, t.value) for t in again.trials_] == [(t.settings, t.value) for t in model.trials_]
    assert np.array_equal(again.predict_proba(graph), model.predict_proba(graph))


def test_a_loaded_model_with_students_predicts_bitwise_the_same(chosen, tmp_path):
    graph, model = chosen
    model.save(tmp_path / "m")
    loaded = RAPNodeClassifier.load(tmp_path / "m")
    for data in (graph, few_labels(seed=1)):
        assert np.array_equal(loaded.predict_proba(data), model.predict_proba(data))


def test_a_class_that_no_training_row_has_is_never_taught(monkeypatch):
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
    monkeypatch.setattr(average, "can_teach", lambda graph: False)
    with pytest.warns(InputNotice, match="not learned"):
        without = RAPNodeClassifier(seed=0).fit(graph)
    seen = replace(graph, val=graph.val[10:])
    assert model.score(seen, split="val") >= without.score(seen, split="val")
    assert log_loss(model, seen) < log_loss(without, seen)
