"""Metrics are scikit-learn's, of one score or of many at once; a goal changes what is chosen by and what counts."""

import pickle
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from sklearn import metrics as sk
from torch import Tensor

from rapgnn import InputError, make_graph
from rapgnn.graph.rows import class_weights, with_goal
from rapgnn.graph.scores import CLASS_METRICS, NUMBER_METRICS, check_metric, per_class
from rapgnn.graph.tasks import TASKS, accuracies, rmses, rocaucs


def predictions(classes: int, rows: int = 200, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(seed)
    y = rng.integers(classes, size=rows)
    scores = rng.normal(size=(rows, classes)) + 1.5 * np.eye(classes)[y]
    return torch.softmax(torch.from_numpy(scores), 1), torch.from_numpy(y)


def expected_calibration_error(p: np.ndarray, y: np.ndarray) -> float:
    """By its definition: 15 even bins of the likeliest class's probability, weighted by their rows."""
    stated, right = p.max(1), p.argmax(1) == y
    edges, total = np.linspace(0, 1, 16), 0.0
    for low, high in pairwise(edges):
        inside = (stated > low) & (stated <= high)
        total += inside.mean() * abs(right[inside].mean() - stated[inside].mean()) if inside.any() else 0.0
    return total


@pytest.mark.parametrize("classes", [2, 4])
def test_metrics_of_classes_are_those_of_scikit_learn(classes):
    p, y = predictions(classes)
    answer, truth = p.argmax(1), np.eye(classes)[y]
    rare = int(2 * y.sum() <= len(y))  # of two classes the one that is looked for
    columns = (p[:, rare], y == rare) if classes == 2 else (p, truth)
    expected = {
        "accuracy": sk.accuracy_score(y, answer),
        "balanced_accuracy": sk.balanced_accuracy_score(y, answer),
        "rocauc": sk.roc_auc_score(y, p[:, 1] if classes == 2 else p, multi_class="ovr"),
        "average_precision": sk.average_precision_score(columns[1], columns[0]),
        "f1_macro": sk.f1_score(y, answer, average="macro"),
        "f1_weighted": sk.f1_score(y, answer, average="weighted"),
        "log_loss": sk.log_loss(y, p),
        "calibration_error": expected_calibration_error(p.numpy(), y.numpy()),
    }
    assert {name: metric.measure(p, y) for name, metric in CLASS_METRICS.items()} == pytest.approx(expected)


def test_metrics_of_numbers_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    y, p = (torch.from_numpy(rng.normal(size=(50, 2))) for _ in range(2))
    expected = {
        "rmse": sk.mean_squared_error(y, p) ** 0.5,
        "mae": sk.mean_absolute_error(y, p),
        "r2": sk.r2_score(y, p),
    }
    assert {name: metric.measure(p, y) for name, metric in NUMBER_METRICS.items()} == pytest.approx(expected)


def test_many_labels_leave_unknown_entries_out():
    rng = np.random.default_rng(0)
    y = torch.from_numpy(rng.integers(2, size=(60, 3))).float()
    p = torch.from_numpy(rng.random((60, 3)))
    known = y.clone()
    known[::5, 1] = float("nan")
    kept = ~known[:, 1].isnan()
    found = CLASS_METRICS["log_loss"].measure(p[:, 1:2], known[:, 1:2])
    assert found == pytest.approx(sk.log_loss(y[kept, 1], p[kept, 1]))
    assert CLASS_METRICS["balanced_accuracy"].measure(p[:, 1:2], known[:, 1:2]) == pytest.approx(
        sk.balanced_accuracy_score(y[kept, 1], p[kept, 1] > 0.5)
    )


@pytest.mark.parametrize(
    ("name", "task", "words"),
    [
        ("rmse", "node-classification", "rmse is no metric for classes"),
        ("rocauc", "graph-regression", "rocauc is no metric for numbers: choose one of rmse, mae, r2"),
        ("f2", "node-classification", "metric 'f2' is unknown"),
        (3, "node-classification", "metric 3 is unknown"),
    ],
)
def test_a_metric_of_another_task_is_refused(name, task, words):
    with pytest.raises(InputError, match=words):
        check_metric(name, task)


def lopsided():
    rng = np.random.default_rng(0)
    y = np.array([0] * 30 + [1] * 10)
    return make_graph(
        rng.random((40, 3)), rng.integers(40, size=(2, 80)), y, np.arange(0, 40, 2), np.arange(1, 40, 2), []
    )


def test_balanced_classes_weigh_the_same_in_sum_and_rows_one_on_average():
    graph = lopsided()
    weights = class_weights(graph, "balanced")
    counts = torch.bincount(graph.y[graph.train]).tolist()
    assert weights[0] * counts[0] == pytest.approx(weights[1] * counts[1])
    assert sum(w * c for w, c in zip(weights, counts, strict=True)) == pytest.approx(sum(counts))
    named = class_weights(replace(graph, classes=("a", "b")), {"b": 3})
    assert named[1] == pytest.approx(3 * named[0])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("even", "class_weight must be"),
        ({7: 1.0}, "names 7, which is not a class"),
        ({0: -1.0}, "must be a number from 0"),
        ({0: True}, "must be a number from 0"),
        ({0: 0, 1: 0}, "leaves no training row"),
        (3, "class_weight must be"),
    ],
)
def test_weights_that_make_no_sense_are_refused(given, words):
    with pytest.raises(InputError, match=words):
        class_weights(lopsided(), given)


def test_a_goal_changes_the_metric_and_the_loss_and_goes_where_the_graph_goes():
    graph = lopsided()
    assert with_goal(graph) is graph
    assert with_goal(graph, "accuracy").objective is TASKS["node-classification"]
    goal = pickle.loads(pickle.dumps(with_goal(graph, "log_loss", "balanced"))).to("cpu")
    objective = replace(goal, name="other").objective
    assert (objective.metric, objective.chosen_by, objective.higher) == ("accuracy", "log_loss", False)
    scores = torch.randn(40, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert objective.score(scores, graph.y) == pytest.approx(sk.log_loss(graph.y, torch.softmax(scores, 1)))
    assert goal.class_weight is not None
    w = torch.tensor(goal.class_weight, dtype=torch.float64)[graph.y]
    plain = torch.nn.functional.cross_entropy(scores, graph.y, reduction="none")
    assert float(objective.loss(scores, graph.y)) == pytest.approx(float((plain * w).mean()))


KINDS = ["node-classification", "node-multilabel", "node-regression"]
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))]


def _labels(kind: str, rows: int, columns: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    if kind == "node-classification":
        return torch.randint(columns, (rows,), generator=generator)
    y = torch.randn(rows, columns, generator=generator)
    y = (y > 0).float() if kind == "node-multilabel" else y
    y[torch.rand(rows, columns, generator=generator) < 0.3] = float("nan")
    y[:, -1] = 1.0  # of one kind only
    return y


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_many_scores_are_judged_as_one(kind: str, seed: int, device: str) -> None:
    objective, y = TASKS[kind], _labels(kind, 41, 4, seed).to(device)
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(6, 41, 4, generator=generator).mul(2).round().to(device)  # many are equal
    one = [objective.score(part, y) for part in scores]
    assert objective.score_many(scores, y).tolist() == pytest.approx(one, abs=1e-7)
    losses = [float(objective.loss(part, y)) for part in scores]
    assert objective.loss_many(scores, y).tolist() == pytest.approx(losses, abs=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_slope_is_the_derivative_of_the_loss(kind: str) -> None:
    objective, y = TASKS[kind], _labels(kind, 17, 3, 0)
    scores = torch.randn(17, 3, dtype=torch.float64, requires_grad=True)
    y = y if y.dim() == 1 else y.double()
    (wanted,) = torch.autograd.grad(objective.loss(scores, y), scores)
    assert objective.slope is not None
    before = y.clone()
    torch.testing.assert_close(objective.slope(scores.detach(), y), wanted)
    torch.testing.assert_close(y, before, equal_nan=True)


def test_scores_that_are_no_numbers_have_no_metric() -> None:
    scores = torch.randn(2, 5, 3)
    scores[1, 2, 0] = float("nan")
    y = _labels("node-multilabel", 5, 3, 0)
    y[:, 0] = torch.tensor([0.0, 1.0, 1.0, 0.0, 1.0])
    for many in (
        accuracies(scores, torch.zeros(5, dtype=torch.int64)),
        rmses(scores, torch.zeros(5, 3)),
        rocaucs(scores, y),
    ):
        assert many.isnan().tolist() == [False, True]


def test_a_class_that_is_never_answered_has_no_precision():
    p = torch.tensor([[0.9, 0.1, 0.0], [0.8, 0.2, 0.0], [0.4, 0.6, 0.0]])
    rows = per_class(p, torch.tensor([0, 1, 1]), ["a", "b", "c"])
    assert rows[0] == {"class": "a", "rows": 1, "precision": 0.5, "recall": 1.0}
    assert rows[1] == {"class": "b", "rows": 2, "precision": 1.0, "recall": 0.5}
    assert rows[2] == {"class": "c", "rows": 0, "precision": None, "recall": None}
