"""Metrics and losses against values worked out by hand."""

import math

import numpy as np
import pytest
import torch

from rapgnn.graph.tasks import TASKS, accuracy, average_precision, rmse, rocauc


def test_metrics_by_hand():
    assert accuracy(torch.tensor([[0.1, 0.9], [0.8, 0.2]]), torch.tensor([1, 1])) == 0.5
    scores = torch.tensor([[0.1], [0.4], [0.35], [0.8]])
    assert rocauc(scores, torch.tensor([[0.0], [0.0], [1.0], [1.0]])) == 0.75  # scikit-learn's own example
    ties = torch.tensor([[0.5], [0.5]])
    assert rocauc(ties, torch.tensor([[0.0], [1.0]])) == 0.5
    # The second label has no positive and does not count; the unknown row is left out.
    two = torch.cat([scores, scores], dim=1)
    y = torch.tensor([[0.0, 0.0], [0.0, 0.0], [1.0, 0.0], [1.0, float("nan")]])
    assert rocauc(two, y) == 0.75
    loss = TASKS["node-multilabel"].loss
    assert loss(torch.zeros(2, 2), torch.tensor([[1.0, float("nan")], [0.0, 1.0]])) == pytest.approx(np.log(2))


def test_rmse_by_hand():
    scores, y = torch.tensor([[1.0], [2.0], [5.0]]), torch.tensor([[1.0], [4.0], [float("nan")]])
    assert rmse(scores, y) == pytest.approx(2**0.5)  # (0² + 2²) / 2
    assert float(TASKS["graph-regression"].loss(scores, y)) == pytest.approx(2.0)
    assert TASKS["graph-regression"].merit(1.0) > TASKS["graph-regression"].merit(2.0)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_average_precision_of_a_diverged_run_is_not_a_number(bad):
    scores, y = torch.tensor([[0.5], [bad], [0.1]]), torch.tensor([[1.0], [0.0], [1.0]])
    assert math.isnan(average_precision(scores, y))


def test_average_precision_by_hand():
    # In order of score: positive, negative, positive: precisions 1 and 2/3 at the positives.
    assert average_precision(torch.tensor([[0.9], [0.8], [0.7]]), torch.tensor([[1.0], [0.0], [1.0]])) == pytest.approx(
        (1 + 2 / 3) / 2
    )


def test_rocauc_averages_over_tasks_with_both_classes():
    nan = float("nan")
    scores = torch.tensor([[0.1, 0.2, 0.3], [0.9, 0.1, 0.1], [0.8, 0.3, 0.5], [0.2, 0.9, 0.9]])
    y = torch.tensor([[0.0, 1.0, nan], [1.0, 1.0, nan], [1.0, 1.0, 1.0], [0.0, nan, 0.0]])
    # Label 0: every positive above every negative, 1. Label 1: no negative, left out. Label 2: one pair, wrong way, 0.
    assert rocauc(scores, y) == 0.5
    binary = TASKS["graph-multilabel"].loss(torch.zeros(4, 3), y)
    assert float(binary) == pytest.approx(np.log(2))


def test_missing_labels_do_not_move_the_weights():
    """A label that is unknown has no gradient, whatever the score."""
    scores = torch.tensor([[5.0, -3.0]], requires_grad=True)
    TASKS["graph-multilabel"].loss(scores, torch.tensor([[1.0, float("nan")]])).backward()
    assert float(scores.grad[0, 1]) == 0.0
    assert float(scores.grad[0, 0]) != 0.0
