"""From which probability the class that is looked for is the answer: as given, or the best for a metric or costs."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rapgnn.errors import InputError, shown
from rapgnn.graph.scores import CLASS_METRICS, check_metric, rarer_class, scorer_metric
from rapgnn.network.known_labels import FitRows

COSTS = ("false_positive", "false_negative")
MOST_TRIED = 200  # thresholds, between the probabilities of the rows that judge


def check_threshold(given: Any, about: Any, outputs: int) -> None:
    """Refuse what is no threshold for the labels of a graph, or of its schema."""
    if given is None:
        return
    task = about.task
    if about.objective.metric == "accuracy" and outputs != 2:
        raise InputError(f"a threshold is for two classes, or many labels, and these are {outputs} classes.")
    if task.endswith("regression"):
        raise InputError("a threshold is for classes or labels: leave it out here.")
    number = isinstance(given, int | float | np.number) and not isinstance(given, bool)
    fine = True
    if isinstance(given, str):
        check_metric(given, task)
    elif isinstance(given, Mapping):
        fine = set(given) == set(COSTS) and all(isinstance(cost, int | float) and cost >= 0 for cost in given.values())
    else:
        fine = number and 0.0 < float(given) < 1.0
    if not fine:
        raise InputError(
            "threshold must be a number between 0 and 1, the name of a metric, or costs "
            f"{{'false_positive': 1, 'false_negative': 5}}, got {shown(given)}."
        )


def class_number(name: Any, classes: list[Any], y: Tensor) -> int:
    """The number of the class that is looked for: the one of this name, or the rarer of two among some rows."""
    if name is None:
        return rarer_class(y) if y.dim() == 1 else 1
    names = [str(one) for one in classes]
    if str(name) not in names:
        raise InputError(f"the positive class {shown(name)} is none of the classes: {', '.join(names[:10])}.")
    return names.index(str(name))


def decided(p: Tensor, threshold: float | None, positive: int) -> Tensor:
    """Probabilities, or where there is a threshold 1 for what is the answer and 0 for what is not.

    Args:
        positive: of two classes the one that is the answer from the threshold on; of many labels each is.
    """
    if threshold is None:
        return p
    if p.shape[1] != 2:
        return (p >= threshold).to(p.dtype)
    yes = p[:, positive] >= threshold
    return torch.stack([yes if j == positive else ~yes for j in range(2)], dim=1).to(p.dtype)


def find_threshold(given: Any, rows: FitRows, kind: str, positive: int) -> float:
    """The threshold that is meant: the number itself, or the one that is best for the rows that judged the model.

    Args:
        given: a number; the name of a metric; or what a wrong yes and a wrong no cost.
        kind: of label, the last word of a task.
    """
    if isinstance(given, int | float):
        return float(given)
    p, y = rows.probabilities, rows.y
    truth = (y == positive) if y.dim() == 1 else y == 1
    stated = (p[:, positive] if y.dim() == 1 else p[~y.isnan()]).double().unique()
    between = (stated[1:] + stated[:-1]) / 2
    tried = between[torch.linspace(0, len(between) - 1, min(MOST_TRIED, len(between))).long()].tolist()
    if isinstance(given, Mapping):

        def gain(threshold: float) -> float:
            answer = decided(p, threshold, positive)
            yes = answer[:, positive] > 0.5 if y.dim() == 1 else answer > 0.5
            known = ~y.isnan() if y.dim() == 2 else torch.ones_like(yes)
            wrong = (yes & ~truth & known).sum(), (~yes & truth & known).sum()
            return -float(sum(given[cost] * int(count) for cost, count in zip(COSTS, wrong, strict=True)))
    else:
        metric = CLASS_METRICS.get(given) or scorer_metric(given, kind, None, positive)
        sign = 1.0 if metric.higher else -1.0

        def gain(threshold: float) -> float:
            return sign * metric.measure(decided(p, threshold, positive), y)

    gains = np.array([gain(threshold) for threshold in tried])
    if not len(gains) or np.isnan(gains).all():
        return 0.5
    best = np.flatnonzero(gains == np.nanmax(gains))
    return float(tried[best[len(best) // 2]])  # the middle of equal ones
