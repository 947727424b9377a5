"""What predictions are judged by beside the task's own metric: one row per metric, and what tells where they fail."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rapgnn.errors import InputError, check_choice
from rapgnn.graph.tasks import accuracy, average_precision, rmse, rocauc

CALIBRATION_BINS = 15
LEAST = 1e-12  # of a probability whose logarithm is taken

Values = Callable[[Tensor, Tensor], float]


def _columns(p: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Class numbers as columns of 0 and 1; of two classes only the second, since the first says the same."""
    if y.dim() == 2:
        return p, y
    truth = torch.nn.functional.one_hot(y, p.shape[1]).to(p.dtype)
    return (p[:, 1:], truth[:, 1:]) if p.shape[1] == 2 else (p, truth)


def class_accuracy(p: Tensor, y: Tensor) -> float:
    """Share of right answers: rows for classes, known entries for many labels."""
    if y.dim() == 1:
        return accuracy(p, y)
    known = ~y.isnan()
    return float(((p > 0.5) == (y == 1))[known].double().mean()) if bool(known.any()) else float("nan")


def balanced_accuracy(p: Tensor, y: Tensor) -> float:
    """The mean recall over the classes that occur; for many labels the mean over labels."""
    found = [recall for _, _, recall in _counts(p, y) if recall == recall]
    if y.dim() == 1:
        return float(np.mean(found)) if found else float("nan")
    negatives = [recall for _, _, recall in _counts(1 - p, 1 - y) if recall == recall]
    return float(np.mean([*found, *negatives])) if found or negatives else float("nan")


def f1_macro(p: Tensor, y: Tensor) -> float:
    """The mean over classes of 2 · precision · recall / (precision + recall)."""
    values = []
    for count, precision, recall in _counts(p, y):
        if count or precision == precision:  # a class that neither occurs nor is answered does not count
            right = 0.0 if not (precision > 0 and recall > 0) else 2 * precision * recall / (precision + recall)
            values.append(right)
    return float(np.mean(values)) if values else float("nan")


def log_loss(p: Tensor, y: Tensor) -> float:
    """Minus the mean logarithm of the probability given to what is true."""
    p = p.double().clamp(LEAST, 1 - LEAST)
    if y.dim() == 1:
        return float(-p.gather(1, y[:, None]).log().mean()) if len(y) else float("nan")
    known = ~y.isnan()
    entries = torch.where(y == 1, p, 1 - p)[known]
    return float(-entries.log().mean()) if len(entries) else float("nan")


def mae(p: Tensor, y: Tensor) -> float:
    """The mean absolute error over the known entries."""
    known = ~y.isnan()
    return float((p[known].double() - y[known].double()).abs().mean()) if bool(known.any()) else float("nan")


def r2(p: Tensor, y: Tensor) -> float:
    """1 - squared error / variance, the mean over targets; NaN where no target has two known values."""
    from sklearn.metrics import r2_score

    p, y = p.cpu(), y.cpu()
    known = ~y.isnan()
    values = [r2_score(y[k, j], p[k, j]) for j, k in enumerate(known.T) if int(k.sum()) > 1]
    return float(np.mean(values)) if values else float("nan")


def calibration_error(p: Tensor, y: Tensor, bins: int = CALIBRATION_BINS) -> float:
    """Expected calibration error: Σ_b (rows in b / rows) · |share that came true in b - mean stated probability in b|.

    The bins b divide 0 to 1 evenly. For classes the stated probability is that of the answer, the likeliest class
    (Guo et al., 2017); for many labels that of every known label.
    """
    if y.dim() == 1:
        stated, answer = p.double().max(dim=1)
        right = (answer == y).double()
    else:
        known = ~y.isnan()
        stated, right = p.double()[known], (y[known] == 1).double()
    if not len(stated) or bool(stated.isnan().any()):
        return float("nan")
    place = (stated * bins).long().clamp(max=bins - 1)
    gaps = torch.zeros(bins, dtype=torch.float64, device=p.device).index_add_(0, place, right - stated)
    return float(gaps.abs().sum() / len(stated))


@dataclass(frozen=True)
class Metric:
    """A metric of probabilities (or numbers) and labels.

    Args:
        title: its name for people; with ``percent`` it is a share, shown times 100.
        higher: whether more is better.
        measure: probabilities, or numbers, and labels -> the value.
    """

    title: str
    percent: bool
    higher: bool
    measure: Values


def _ranked(area: Values) -> Values:
    return lambda p, y: float("nan") if bool(p.isnan().any()) else area(*_columns(p, y))


CLASS_METRICS = {
    "accuracy": Metric("accuracy", True, True, class_accuracy),
    "balanced_accuracy": Metric("balanced accuracy", True, True, balanced_accuracy),
    "rocauc": Metric("ROC-AUC", True, True, _ranked(rocauc)),
    "average_precision": Metric("average precision", True, True, _ranked(average_precision)),
    "f1_macro": Metric("macro F1", True, True, f1_macro),
    "log_loss": Metric("log loss", False, False, log_loss),
    "calibration_error": Metric("calibration error", True, False, calibration_error),
}
"""Metrics of classes and of many labels by name; a new one is a row here."""

NUMBER_METRICS = {
    "rmse": Metric("RMSE", False, False, rmse),
    "mae": Metric("mean absolute error", False, False, mae),
    "r2": Metric("R²", False, True, r2),
}
"""Metrics of numbers by name."""


def metrics_for(kind: str) -> dict[str, Metric]:
    """The metrics for a task, or for a kind of label: ``classification``, ``multilabel`` or ``regression``."""
    return NUMBER_METRICS if kind.endswith("regression") else CLASS_METRICS


def check_metric(name: Any, task: str) -> None:
    """Refuse a metric that is not one of the task's."""
    other = {**CLASS_METRICS, **NUMBER_METRICS}
    allowed = metrics_for(task)
    if isinstance(name, str) and name in other and name not in allowed:
        kind = "numbers" if allowed is NUMBER_METRICS else "classes"
        raise InputError(f"{name} is no metric for {kind}: choose one of {', '.join(allowed)}.")
    check_choice("metric", name, allowed)


def per_class(p: Tensor, y: Tensor, names: Sequence[Any] | None = None) -> list[dict[str, Any]]:
    """For every class, or label: its name, how many rows have it, precision (None: never answered) and recall."""
    rows = []
    for j, (count, precision, recall) in enumerate(_counts(p, y)):
        values = {"precision": precision, "recall": recall}
        known = {key: value if value == value else None for key, value in values.items()}
        rows.append({"class": j if names is None else names[j], "rows": count, **known})
    return rows


def _counts(p: Tensor, y: Tensor) -> list[tuple[int, float, float]]:
    """(rows, precision, recall) of every class or label; NaN where the divisor is 0."""
    if y.dim() == 1:
        answer = p.argmax(dim=-1)
        classes = p.shape[1]
        asked = torch.bincount(y, minlength=classes).tolist()
        said = torch.bincount(answer, minlength=classes).tolist()
        hit = torch.bincount(y[answer == y], minlength=classes).tolist()
    else:
        positive, said_so = y == 1, (p > 0.5) & ~y.isnan()
        asked, said, hit = (part.sum(0).tolist() for part in (positive, said_so, positive & said_so))
    nan = float("nan")
    return [(n, h / s if s else nan, h / n if n else nan) for n, s, h in zip(asked, said, hit, strict=True)]
