"""Metrics, losses and slopes of many scores at once are those of one after another."""

import pytest
import torch
from torch import Tensor

from rapgnn.graph.tasks import TASKS, accuracies, rmses, rocaucs

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


def test_labels_of_one_kind_have_no_roc_curve() -> None:
    assert rocaucs(torch.randn(2, 5, 1), torch.ones(5, 1)).isnan().all()
