"""A goal of the user's own: another metric to choose by, and classes that count more than others."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rapgnn.errors import InputError, shown
from rapgnn.graph.graph import Graph
from rapgnn.graph.labels import shown_label
from rapgnn.graph.scores import check_metric, metrics_for
from rapgnn.graph.tasks import TASKS, Objective

BALANCED = "balanced"


@dataclass(frozen=True)
class GoalGraph(Graph):
    """A graph that is trained on for another goal than its task's own.

    Args:
        scoring: a metric's name.
        class_weight: how much a row of each class counts; their mean over the training rows is 1.
    """

    scoring: str | None = None
    class_weight: tuple[float, ...] | None = None

    @property
    def objective(self) -> Objective:
        """The task's objective with the metric and the weights asked for."""
        return _objective(self.task, self.scoring, self.class_weight)

    rule = objective


def with_goal(graph: Graph, scoring: str | None = None, class_weight: Any = None) -> Graph:
    """The graph with a goal; itself, where nothing is asked for.

    Args:
        scoring: a metric for the task; None: its own.
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
def _objective(task: str, scoring: str | None, weights: tuple[float, ...] | None) -> Objective:
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
            found = torch.nn.functional.cross_entropy(scores, y, reduction="none")
            # Divided by the number of rows, not by their weights: a batch of rare rows counts for more.
            return (found * w[y]).sum() / max(1, len(y))

        objective = replace(objective, loss=loss, slope=None, class_weight=weights)
    return objective
