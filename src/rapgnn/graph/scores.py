"""What predictions are judged by beside the task's own metric: one row per metric, and what tells where they fail."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rapgnn.errors import InputError, check_choice, shown
from rapgnn.graph.graph import Graph
from rapgnn.graph.labels import shown_label
from rapgnn.graph.scorers import measure_by, scorer_of
from rapgnn.graph.tasks import TASKS, Objective, accuracy, average_precision, rmse, rocauc

Values = Callable[[Tensor, Tensor], float]


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


def class_accuracy(p: Tensor, y: Tensor) -> float:
    """Share of right answers: rows for classes, known entries for many labels."""
    if y.dim() == 1:
        return accuracy(p, y)
    known = ~y.isnan()
    return float(((p > 0.5) == (y == 1))[known].double().mean()) if bool(known.any()) else float("nan")


def balanced_accuracy(p: Tensor, y: Tensor) -> float:
    """The mean recall over the classes that occur; for many labels the mean over labels."""
    recalls = [recall for _, _, recall in _counts(p, y) if recall == recall]
    if y.dim() == 1:
        return float(np.mean(recalls)) if recalls else float("nan")
    negatives = [recall for _, _, recall in _counts(1 - p, 1 - y) if recall == recall]
    return float(np.mean([*recalls, *negatives])) if recalls or negatives else float("nan")


def f1_macro(p: Tensor, y: Tensor, weighted: bool = False) -> float:
    """The mean over classes of 2 · precision · recall / (precision + recall); ``weighted``: by their rows."""
    values, rows = [], []
    for count, precision, recall in _counts(p, y):
        if count or precision == precision:  # a class that neither occurs nor is answered does not count
            right = 0.0 if not (precision > 0 and recall > 0) else 2 * precision * recall / (precision + recall)
            values.append(right)
            rows.append(count)
    if weighted and not sum(rows):
        return float("nan")
    return float(np.average(values, weights=rows if weighted else None)) if values else float("nan")


def log_loss(p: Tensor, y: Tensor, least: float = 1e-12) -> float:
    """Minus the mean logarithm of the probability given to what is true, of ``least`` where it is below."""
    p = p.double().clamp(least, 1 - least)
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


def calibration_error(p: Tensor, y: Tensor, bins: int = 15) -> float:
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
        answers: whether it judges answers alone, which a threshold decides.
    """

    title: str
    percent: bool
    higher: bool
    measure: Values
    answers: bool = False


class Metrics(dict[Any, Metric]):
    """The metrics of a kind of label by name; those of scikit-learn's names, and metrics themselves, are found too."""

    def __init__(self, kind: str, named: Mapping[str, Metric]):
        super().__init__(named)
        self.kind = kind

    def __missing__(self, name: Any) -> Metric:
        return name if isinstance(name, Metric) else scorer_metric(name, self.kind)

    def __contains__(self, name: object) -> bool:
        from sklearn.metrics import get_scorer_names

        if not isinstance(name, str):
            return isinstance(name, Metric)
        return super().__contains__(name) or name in get_scorer_names()


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
    scorer, name, answers = scorer_of(scoring)

    def measure(p: Tensor, y: Tensor) -> float:
        two = isinstance(scoring, str) and y.dim() == 1 and p.shape[1] == 2
        j = (rarer_class(y) if positive is None else positive) if two else None
        try:
            return measure_by(scorer, kind, p, y, None if isinstance(scoring, str) else classes, j)
        except ValueError:
            if strict:
                raise
            return float("nan")

    return Metric(name, False, True, measure, answers)


def goal_metric(scoring: Any, graph: Graph, positive: int | None = None) -> Any:
    """``scoring`` with all it needs of a graph: the name of a metric, or a metric; refused where it is none.

    Args:
        positive: as in ``scorer_metric``.
    """
    kind = graph.task.partition("-")[2]
    if scoring is None or isinstance(scoring, Metric):
        return scoring
    if isinstance(scoring, str):
        check_metric(scoring, graph.task)
    if isinstance(scoring, str) and dict.__contains__(metrics_for(graph.task), scoring):
        areas = {"rocauc": rocauc, "average_precision": average_precision}
        if scoring not in areas or positive is None:
            return scoring
        return replace(CLASS_METRICS[scoring], measure=_ranked(areas[scoring], positive))
    y = graph.y[graph.train].cpu()
    p = y.nan_to_num() if y.dim() == 2 else torch.nn.functional.one_hot(y, graph.num_outputs).double()
    try:  # once where its error is seen
        scorer_metric(scoring, kind, graph.classes, positive, strict=True).measure(p, y)
    except (ValueError, TypeError) as error:
        raise InputError(f"{scorer_of(scoring)[1]} cannot judge these labels: {str(error).splitlines()[0]}") from error
    return scorer_metric(scoring, kind, graph.classes, positive)


def metric_name(scoring: Any) -> Any:
    """What records call a metric."""
    if not isinstance(scoring, Metric):
        return scoring
    return next((name for name, metric in CLASS_METRICS.items() if metric.title == scoring.title), scoring.title)


def _ranked(area: Values, positive: int | None = None) -> Values:
    return lambda p, y: float("nan") if bool(p.isnan().any()) else area(*_columns(p, y, positive))


CLASS_METRICS = {
    "accuracy": Metric("accuracy", True, True, class_accuracy, True),
    "balanced_accuracy": Metric("balanced accuracy", True, True, balanced_accuracy, True),
    "rocauc": Metric("ROC-AUC", True, True, _ranked(rocauc)),
    "average_precision": Metric("average precision", True, True, _ranked(average_precision)),
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


def metrics_for(kind: str) -> Metrics:
    """The metrics for a task, or for a kind of label: ``classification``, ``multilabel`` or ``regression``."""
    kind = kind.rpartition("-")[2]
    return Metrics(kind, NUMBER_METRICS if kind == "regression" else CLASS_METRICS)


def check_metric(name: Any, task: str) -> None:
    """Refuse a metric that is not one of the task's."""
    other = {**CLASS_METRICS, **NUMBER_METRICS}
    allowed = metrics_for(task)
    if isinstance(name, Metric) or (isinstance(name, str) and name not in other and name in allowed):
        return
    if isinstance(name, str) and name in other and not dict.__contains__(allowed, name):
        kind = "numbers" if allowed.kind == "regression" else "classes"
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


# A goal of the user's own: another metric to choose by, and classes that count more than others.


BALANCED = "balanced"


@dataclass(frozen=True)
class GoalGraph(Graph):
    """A graph that is trained on for another goal than its task's own.

    Args:
        scoring: a metric, or the name of one.
        class_weight: how much a row of each class counts; their mean over the training rows is 1.
    """

    scoring: Any = None
    class_weight: tuple[float, ...] | None = None

    @property
    def objective(self) -> Objective:
        """The task's objective with the metric and the weights asked for."""
        return _objective(self.task, self.scoring, self.class_weight)


def with_goal(graph: Graph, scoring: Any = None, class_weight: Any = None) -> Graph:
    """The graph with a goal; itself, where nothing is asked for.

    Args:
        scoring: a metric for the task, or its name; None: its own.
        class_weight: ``"balanced"``: every class counts the same in sum; {label: weight}; None: all rows the same.
    """
    if scoring is not None:
        check_metric(scoring, graph.task)
    weights = None if class_weight is None else class_weights(graph, class_weight)
    if scoring == graph.objective.metric and not isinstance(graph, GoalGraph):
        scoring = None
    if scoring is None and weights is None:
        return graph
    own = {f.name: getattr(graph, f.name) for f in fields(Graph)}
    return GoalGraph(**own, scoring=scoring, class_weight=weights)


def class_weights(graph: Graph, given: Any) -> tuple[float, ...]:
    """The weight of each class, scaled so that the training rows' mean is 1."""
    if graph.objective.metric != "accuracy":
        raise InputError("class_weight is for rows with one class each: leave it out here.")
    counts = torch.bincount(graph.y[graph.train], minlength=graph.num_outputs).cpu().double().numpy()
    if isinstance(given, str) and given == BALANCED:
        weights = np.where(counts > 0, 1.0 / np.maximum(counts, 1.0), 1.0)
    elif isinstance(given, Mapping):
        weights = _named(graph, given)
    else:
        raise InputError(f'class_weight must be "balanced", {{label: weight}} or None, got {shown(given)}.')
    total = float((weights * counts).sum())
    if not (np.isfinite(total) and total > 0):
        raise InputError("class_weight leaves no training row with a weight above 0.")
    return tuple(float(w) for w in weights * counts.sum() / total)


def _named(graph: Graph, given: Mapping[Any, Any]) -> np.ndarray:
    names = list(range(graph.num_outputs)) if graph.classes is None else list(graph.classes)
    weights = np.ones(len(names))
    for label, weight in given.items():
        if label not in names:
            raise InputError(f"class_weight names {shown_label(label)}, which is not a class of the training rows.")
        number = isinstance(weight, int | float | np.number) and not isinstance(weight, bool)
        if not (number and 0 <= weight <= 1e12):
            raise InputError(f"the weight of class {shown_label(label)} must be a number from 0, got {shown(weight)}.")
        weights[names.index(label)] = float(weight)
    return weights


@cache
def _objective(task: str, scoring: Any, weights: tuple[float, ...] | None) -> Objective:
    objective = TASKS[task]
    if scoring is not None:
        metric, read = metrics_for(task)[scoring], objective.read
        shown = {"title": metric.title, "percent": metric.percent, "higher": metric.higher}
        objective = replace(
            objective, **shown, scoring=scoring, measure=lambda scores, y: metric.measure(read(scores), y)
        )
    if weights is not None:

        @cache  # made once: a captured graph of GPU work cannot wait for a copy from the host
        @torch.inference_mode(False)
        def placed(device: torch.device, dtype: torch.dtype) -> Tensor:
            return torch.tensor(weights, device=device, dtype=dtype)

        def loss(scores: Tensor, y: Tensor) -> Tensor:
            w = placed(scores.device, scores.dtype)
            losses = torch.nn.functional.cross_entropy(scores, y, reduction="none")
            # Divided by the number of rows, not by their weights: a batch of rare rows counts for more.
            return (losses * w[y]).sum() / max(1, len(y))

        objective = replace(objective, loss=loss, slope=None, class_weight=weights)
    return objective
