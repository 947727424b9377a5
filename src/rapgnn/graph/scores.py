"""What predictions are judged by beside the task's own metric: one row per metric, and what tells where they fail."""

import inspect
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rapgnn.errors import InputError, check_choice, shown
from rapgnn.graph.tasks import TASKS, Objective, accuracy, average_precision, rmse, rocauc

Values = Callable[[Tensor, Tensor], float]
NAN = float("nan")


def _columns(p: Tensor, y: Tensor, positive: int | None = None) -> tuple[Tensor, Tensor]:
    """Class numbers as columns of 0 and 1; of two classes only the one that is looked for, or else the rarer."""
    if y.dim() == 2:
        return p, y
    truth = torch.nn.functional.one_hot(y, p.shape[1]).to(p.dtype)
    j = rarer_class(y) if positive is None else positive
    return (p[:, j : j + 1], truth[:, j : j + 1]) if p.shape[1] == 2 else (p, truth)


def rarer_class(y: Tensor) -> int:
    """Of two classes the rarer among some rows; the second where they are as many."""
    return int(2 * int((y == 1).sum()) <= len(y))


def _counts(p: Tensor, y: Tensor) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of every class or label: rows that have it, rows that are said to, and rows where both are so."""
    if y.dim() == 1:
        answer = torch.nn.functional.one_hot(p.argmax(dim=-1), p.shape[1]) == 1
        truth, known = torch.nn.functional.one_hot(y, p.shape[1]) == 1, torch.ones_like(answer)
    else:
        truth, answer, known = y == 1, p > 0.5, ~y.isnan()
    parts = truth, answer & known, truth & answer
    return tuple(part.sum(0).cpu().numpy().astype(np.float64) for part in parts)  # type: ignore[return-value]


def _share(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """A quotient, NaN where the divisor is 0."""
    return np.divide(part, whole, where=whole > 0, out=np.full(len(whole), np.nan))


def _mean(values: Any, weights: np.ndarray | None = None) -> float:
    """The mean over those that exist; NaN where none does."""
    values = np.asarray(values, dtype=np.float64).ravel()
    weights = np.ones(len(values)) if weights is None else weights
    known = ~np.isnan(values) & (weights > 0)
    return float(np.average(values[known], weights=weights[known])) if known.any() else NAN


def class_accuracy(p: Tensor, y: Tensor) -> float:
    """Share of right answers: rows for classes, known entries for many labels."""
    return accuracy(p, y) if y.dim() == 1 else _mean(((p > 0.5) == (y == 1))[~y.isnan()].cpu())


def balanced_accuracy(p: Tensor, y: Tensor) -> float:
    """The mean recall over the classes that occur; for many labels the mean over labels."""
    sides = [(p, y)] if y.dim() == 1 else [(p, y), (1 - p, 1 - y)]
    counts = [_counts(*side) for side in sides]
    return _mean([_share(hit, rows) for rows, _, hit in counts])


def f1_macro(p: Tensor, y: Tensor, weighted: bool = False) -> float:
    """The mean over classes of 2 · precision · recall / (precision + recall); ``weighted``: by their rows."""
    rows, said, hit = _counts(p, y)  # a class that neither occurs nor is answered does not count
    return _mean(_share(2 * hit, rows + said), rows if weighted else None)


def log_loss(p: Tensor, y: Tensor, least: float = 1e-12) -> float:
    """Minus the mean logarithm of the probability given to what is true, of ``least`` where it is below."""
    p = p.double().clamp(least, 1 - least)
    right = p.gather(1, y[:, None]) if y.dim() == 1 else torch.where(y == 1, p, 1 - p)[~y.isnan()]
    return float(-right.log().mean())


def mae(p: Tensor, y: Tensor) -> float:
    """The mean absolute error over the known entries."""
    return float((p.double() - y.double()).abs()[~y.isnan()].mean())


def r2(p: Tensor, y: Tensor) -> float:
    """1 - squared error / variance, the mean over targets; NaN where no target has two known values."""
    from sklearn.metrics import r2_score

    p, y = p.cpu(), y.cpu()
    return _mean([r2_score(y[k, j], p[k, j]) for j, k in enumerate((~y.isnan()).T) if int(k.sum()) > 1])


def calibration_error(p: Tensor, y: Tensor, bins: int = 15) -> float:
    """Expected calibration error: Σ_b (rows in b / rows) · |share that came true in b - mean stated probability in b|.

    The bins b divide 0 to 1 evenly. For classes the stated probability is that of the answer, the likeliest class
    (Guo et al., 2017); for many labels that of every known label.
    """
    if y.dim() == 1:
        stated, answer = p.double().max(dim=1)
        right = answer == y
    else:
        stated, right = p.double()[~y.isnan()], y[~y.isnan()] == 1
    if not len(stated) or bool(stated.isnan().any()):
        return NAN
    place = (stated * bins).long().clamp(max=bins - 1)
    gaps = torch.zeros(bins, dtype=torch.float64, device=p.device).index_add_(0, place, right.double() - stated)
    return float(gaps.abs().sum() / len(stated))


@dataclass(frozen=True)
class Metric:
    """A metric of probabilities (or numbers) and labels.

    Args:
        title: its name for people; with ``percent`` it is a share, shown times 100.
        higher: whether more is better.
        measure: probabilities, or numbers, and labels -> the value.
        answers: whether it judges answers alone, which a threshold decides.
    """

    title: str
    percent: bool
    higher: bool
    measure: Values
    answers: bool = False


def ranked(area: Values, positive: int | None = None) -> Values:
    """An area under a curve, as a metric of classes too."""
    return lambda p, y: NAN if bool(p.isnan().any()) else area(*_columns(p, y, positive))


CLASS_METRICS = {
    "accuracy": Metric("accuracy", True, True, class_accuracy, True),
    "balanced_accuracy": Metric("balanced accuracy", True, True, balanced_accuracy, True),
    "rocauc": Metric("ROC-AUC", True, True, ranked(rocauc)),
    "average_precision": Metric("average precision", True, True, ranked(average_precision)),
    "f1_macro": Metric("macro F1", True, True, f1_macro, True),
    "f1_weighted": Metric("weighted F1", True, True, partial(f1_macro, weighted=True), True),
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


class Metrics(dict[Any, Metric]):
    """The metrics of a kind of label by name; those of scikit-learn's names, and metrics themselves, are there too."""

    def __init__(self, kind: str):
        super().__init__(NUMBER_METRICS if kind == "regression" else CLASS_METRICS)
        self.kind = kind

    def __missing__(self, name: Any) -> Metric:
        return name if isinstance(name, Metric) else scorer_metric(name, self.kind)

    def __contains__(self, name: object) -> bool:
        from sklearn.metrics import get_scorer_names

        if not isinstance(name, str):
            return isinstance(name, Metric)
        return name in self.keys() or name in get_scorer_names()


def metrics_for(kind: str) -> Metrics:
    """The metrics for a task, or for a kind of label: ``classification``, ``multilabel`` or ``regression``."""
    return Metrics(kind.rpartition("-")[2])


def check_metric(name: Any, task: str) -> None:
    """Refuse a metric that is not one of the task's."""
    own, allowed = {**CLASS_METRICS, **NUMBER_METRICS}, metrics_for(task)
    if isinstance(name, str) and name in own and name not in list(allowed):
        kind = "numbers" if allowed.kind == "regression" else "classes"
        raise InputError(f"{name} is no metric for {kind}: choose one of {', '.join(allowed)}.")
    if name not in allowed:
        check_choice("metric", name, list(allowed))


def metric_name(scoring: Any) -> Any:
    """What records call a metric."""
    if not isinstance(scoring, Metric):
        return scoring
    return next((name for name, metric in CLASS_METRICS.items() if metric.title == scoring.title), scoring.title)


def per_class(p: Tensor, y: Tensor, names: Sequence[Any] | None = None) -> list[dict[str, Any]]:
    """For every class, or label: its name, how many rows have it, precision (None: never answered) and recall."""
    rows, said, hit = _counts(p, y)
    shares = [[None if value != value else float(value) for value in _share(hit, of)] for of in (said, rows)]
    return [
        {"class": j if names is None else names[j], "rows": int(rows[j]), "precision": precision, "recall": recall}
        for j, (precision, recall) in enumerate(zip(*shares, strict=True))
    ]


# Scorers of scikit-learn, by name or as a callable, as metrics of probabilities and labels.


def scorer_of(scoring: Any) -> tuple[Any, str]:
    """(``scorer(estimator, X, y)``, its name); more is better.

    Args:
        scoring: a name of scikit-learn's, one of its scorers or metrics, or a scorer of the user's own.
    """
    from sklearn.metrics import get_scorer, make_scorer

    if isinstance(scoring, str):
        return get_scorer(scoring), scoring
    if not callable(scoring):
        raise InputError(f"scoring must be the name of a metric, or a scorer(estimator, X, y), got {shown(scoring)}.")
    bare = next(iter(inspect.signature(scoring).parameters), "") == "y_true"  # a function of sklearn.metrics
    scorer = make_scorer(scoring) if bare else scoring
    return scorer, getattr(getattr(scorer, "_score_func", scorer), "__name__", type(scorer).__name__)


def scorer_metric(
    scoring: Any, kind: str, classes: Sequence[Any] | None = None, positive: int | None = None, strict: bool = False
) -> Metric:
    """A scorer of scikit-learn, or of the user's own, as a metric; rows that it cannot judge have the value NaN.

    Args:
        scoring: as in ``scorer_of``; where it is a name, the class that is looked for is 1 of two classes.
        kind: of label, the last word of a task.
        classes: what class numbers are called, for a scorer of the user's own.
        positive: of two classes the one that is looked for; None: the rarer.
        strict: raise what the scorer raises.
    """
    scorer, name = scorer_of(scoring)

    def measure(p: Tensor, y: Tensor) -> float:
        two = isinstance(scoring, str) and y.dim() == 1 and p.shape[1] == 2
        j = (rarer_class(y) if positive is None else positive) if two else None
        try:
            return _measured(scorer, kind, p, y, None if isinstance(scoring, str) else classes, j)
        except ValueError:
            if strict:
                raise
            return NAN

    return Metric(name, False, True, measure, getattr(scorer, "_response_method", "predict") == "predict")


def _measured(
    scorer: Any, kind: str, p: Tensor, y: Tensor, classes: Sequence[Any] | None, positive: int | None
) -> float:
    """The score of answers; NaN where these rows have none, of one class alone for example.

    Args:
        positive: of two classes the one that is called 1, and the other 0; None: they keep their names.
    """
    values, truth = p.detach().cpu().double().numpy(), y.cpu().numpy()
    if truth.ndim == 2:
        known = ~np.isnan(truth).any(1)
        values, truth = values[known], truth[known]
    names = np.arange(values.shape[1]) if classes is None else np.array(classes)
    if kind == "multilabel" and truth.shape[1] == 1:
        values, truth, names = np.hstack([1 - values, values]), truth[:, 0].astype(int), np.arange(2)
    elif kind == "multilabel":
        truth, names = truth.astype(int), np.arange(max(3, truth.shape[1]))  # two would be taken for two classes
    elif kind == "classification" and positive is not None:
        values, truth, names = values[:, [1 - positive, positive]], (truth == positive).astype(int), np.arange(2)
    elif kind == "classification":
        truth = names[truth]
    else:
        values, truth = (part[:, 0] if part.shape[1] == 1 else part for part in (values, truth))
    if not len(truth) or np.isnan(values).any():
        return NAN
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a class that is never answered has no precision
        return float(scorer(_answers(kind, values, names), np.arange(len(truth)), truth))


def _answers(kind: str, values: np.ndarray, names: np.ndarray) -> Any:
    """What a scorer takes for an estimator."""
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

    class Answers(RegressorMixin if kind == "regression" else ClassifierMixin, BaseEstimator):  # type: ignore[misc]
        classes_ = names

        def predict(self, X: Any) -> np.ndarray:
            if kind == "regression":
                return values
            tables = values.ndim == 2 and kind == "multilabel" and len(names) > 2
            return (values > 0.5).astype(int) if tables else names[values.argmax(1)]

        def predict_proba(self, X: Any) -> np.ndarray:
            return values

    return Answers()


# The objective of a task with a goal of the user's own.


@cache
def objective_for(task: str, scoring: Any, weights: tuple[float, ...] | None) -> Objective:
    """The task's objective with another metric to choose by, and classes that count more than others."""
    objective = TASKS[task]
    if scoring is not None and scoring != objective.metric:
        metric, read = metrics_for(task)[scoring], objective.read
        own = {"title": metric.title, "percent": metric.percent, "higher": metric.higher, "scoring": scoring}
        objective = replace(objective, **own, measure=lambda scores, y: metric.measure(read(scores), y))
    if weights is None:
        return objective

    @cache  # made once: a captured graph of GPU work cannot wait for a copy from the host
    @torch.inference_mode(False)
    def placed(device: torch.device, dtype: torch.dtype) -> Tensor:
        return torch.tensor(weights, device=device, dtype=dtype)

    def loss(scores: Tensor, y: Tensor, by_row: bool = False) -> Tensor:
        losses = torch.nn.functional.cross_entropy(scores, y, reduction="none")
        losses = losses * placed(scores.device, scores.dtype)[y]
        # Divided by the number of rows, not by their weights: a batch of rare rows counts for more.
        return losses if by_row else losses.sum() / max(1, len(y))

    return replace(objective, loss=loss, slope=None, class_weight=weights)
