"""Tasks: the metric, what training minimises, and how scores are read. One row per kind of label."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor


def accuracies(scores: Tensor, y: Tensor) -> Tensor:
    """``accuracy`` of many scores ``[E, rows, classes]`` at once, ``[E]``, on their device."""
    right = (scores.argmax(dim=-1) == y).double().mean(-1)
    return right.masked_fill(scores.flatten(1).isnan().any(-1), float("nan"))


def rocaucs(scores: Tensor, y: Tensor) -> Tensor:
    """``rocauc`` of many scores ``[E, rows, labels]`` at once, ``[E]``, on their device."""
    known, positive = ~y.T.isnan(), y.T == 1
    p, q = positive.sum(1).double(), (known & ~positive).sum(1).double()
    values = scores.transpose(1, 2).masked_fill(~known, float("inf")).contiguous()
    ordered = values.sort(-1).values  # unknown rows come last
    below = torch.searchsorted(ordered, values)
    upto = torch.minimum(torch.searchsorted(ordered, values, right=True), known.sum(1)[:, None])
    ranks = (below + upto + 1).double() / 2  # equal scores share the mean of their ranks
    areas = ((ranks * positive).sum(-1) - p * (p + 1) / 2) / (p * q)
    areas = areas.masked_fill(values.isnan().any(-1), float("nan"))
    both = (p > 0) & (q > 0)
    return areas.masked_fill(~both, 0.0).sum(-1) / both.sum()


def rmses(scores: Tensor, y: Tensor) -> Tensor:
    """``rmse`` of many scores ``[E, rows, targets]`` at once, ``[E]``, on their device."""
    known = ~y.isnan()
    errors = (scores.double() - y.double()).square().masked_fill(~known, 0.0)
    return (errors.sum((-1, -2)) / known.sum()).sqrt()


def _of_one(many: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], float]:
    def measure(scores: Tensor, y: Tensor) -> float:
        return float(many(scores[None], y))

    measure.many = many  # type: ignore[attr-defined]
    return measure


accuracy = _of_one(accuracies)
"""Share of rows whose highest score is at the true class; NaN where there is no row, or a score is NaN."""
rocauc = _of_one(rocaucs)
"""Area under the ROC curve, averaged over the labels that have both a positive and a negative known row."""
rmse = _of_one(rmses)
"""Root of the mean squared error over the known entries."""


def average_precision(scores: Tensor, y: Tensor) -> float:
    """Mean precision over the positives in order of score, averaged over labels as ``rocauc`` is.

    Where positives are rare it tells more than the ROC curve; chance level is their share.
    """
    from sklearn.metrics import average_precision_score

    values = []
    for score, truth in zip(scores.T.cpu().numpy(), y.T.cpu().numpy(), strict=True):
        known = ~np.isnan(truth)
        positive = truth[known] == 1
        if positive.any() and not positive.all():
            ordered = np.isfinite(score[known]).all()  # a diverged run has no order of scores
            values.append(average_precision_score(positive, score[known]) if ordered else float("nan"))
    return float(np.mean(values)) if values else float("nan")


def _cross_entropy(scores: Tensor, y: Tensor, by_row: bool = False) -> Tensor:
    if by_row or (scores.is_cuda and len(y) > 4096):
        # torch adds up the rows of its own mean one after another there.
        losses = torch.nn.functional.cross_entropy(scores, y, reduction="none")
        return losses if by_row else losses.mean()
    return torch.nn.functional.cross_entropy(scores, y)


def _of_known(loss: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The mean loss over the entries that are not NaN. A weight of 0 is many times cheaper than taking entries out."""

    def mean(scores: Tensor, y: Tensor, by_row: bool = False) -> Tensor:
        known = (y == y).to(scores.dtype)
        losses = loss(scores, y.nan_to_num(), reduction="none") * known
        if by_row:
            return losses.sum(-1) / known.sum(-1).clamp(min=1.0)
        return losses.sum() / known.sum().clamp(min=1.0)

    return mean


def _slope_of_known(slope: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    def mean(scores: Tensor, y: Tensor) -> Tensor:
        known = y == y
        return slope(scores, y).masked_fill_(~known, 0.0).div_(known.sum().clamp(min=1))

    return mean


def _cross_entropy_slope(scores: Tensor, y: Tensor) -> Tensor:
    slope = torch.softmax(scores, dim=-1)
    return slope.scatter_add_(1, y[:, None], slope.new_full((1, 1), -1.0).expand(len(y), 1)).div_(len(y))


@dataclass(frozen=True)
class Objective:
    """What a task asks for: the metric, the loss and the reading of scores that go with a kind of label.

    Args:
        metric: its name in records; ``measure`` computes it.
        title: its name for people; with ``percent`` it is a share, shown times 100.
        higher: whether more is better.
        loss: what training minimises, a mean, or with ``by_row`` the loss of each row; unknown entries are left out.
        slope: the loss's derivative by the scores; None leaves it to torch.
        read: scores -> probabilities (or, for numbers, the numbers themselves).
        scoring: the metric that candidates and epochs are chosen by, where it is not ``metric``; title, percent, higher
            and ``measure`` are then its own, and ``metric`` still tells the kind of label.
        class_weight: how much a row of each class counts in training; None: all the same.
    """

    metric: str
    measure: Callable[[Tensor, Tensor], float]
    title: str
    percent: bool
    higher: bool
    loss: Callable[..., Tensor]
    read: Callable[[Tensor], Tensor]
    slope: Callable[[Tensor, Tensor], Tensor] | None = None
    scoring: Any = None
    class_weight: tuple[float, ...] | None = None

    @property
    def chosen_by(self) -> Any:
        """The name of the metric that ``measure`` computes."""
        return self.scoring or self.metric

    def score(self, scores: Tensor, y: Tensor) -> float:
        return self.measure(scores.detach(), y)

    def score_many(self, scores: Tensor, y: Tensor) -> Tensor:
        """``score`` of scores ``[E, rows, outputs]``, one after another: ``[E]``, float64."""
        scores = scores.detach()
        if (many := getattr(self.measure, "many", None)) is not None:
            return many(scores, y)
        return torch.tensor([self.measure(one, y.cpu()) for one in scores.cpu()], dtype=torch.float64)

    def loss_many(self, scores: Tensor, y: Tensor) -> Tensor:
        """``loss`` of scores ``[E, rows, outputs]``, ``[E]``."""
        return torch.vmap(lambda one: self.loss(one, y))(scores)

    def merit(self, value: float) -> float:
        """The metric turned so that more is better."""
        return value if self.higher else -value

    def show(self, value: float) -> str:
        """The number as tables print it."""
        return f"{100 * value:.2f}" if self.percent else f"{value:.3f}"


_CLASSES = Objective(
    "accuracy",
    accuracy,
    "accuracy",
    True,
    True,
    _cross_entropy,
    lambda scores: torch.softmax(scores, dim=-1),
    _cross_entropy_slope,
)
_LABELS = Objective(
    "rocauc",
    rocauc,
    "ROC-AUC",
    True,
    True,
    _of_known(torch.nn.functional.binary_cross_entropy_with_logits),
    torch.sigmoid,
    _slope_of_known(lambda scores, y: torch.sigmoid(scores) - y),
)
_NUMBERS = Objective(
    "rmse",
    rmse,
    "RMSE",
    False,
    False,
    _of_known(torch.nn.functional.mse_loss),
    lambda scores: scores,
    _slope_of_known(lambda scores, y: 2.0 * (scores - y)),
)
KINDS = {"classification": _CLASSES, "multilabel": _LABELS, "regression": _NUMBERS}
"""What the kinds of labels ask for, by name."""
TASKS = {f"{what}-{kind}": objective for what in ("node", "graph") for kind, objective in KINDS.items()}
TASKS |= {"link-classification": _CLASSES, "edge-classification": _CLASSES, "edge-regression": _NUMBERS}
"""The tasks by name: what is labelled, nodes, graphs, pairs of nodes (a link or none) or edges, and with what."""
