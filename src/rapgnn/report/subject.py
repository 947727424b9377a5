"""What the page is about: a fitted estimator, its data, and the predictions that all parts of the page share."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np
import torch
from sklearn.base import clone

from rapgnn.errors import InputError, InputNotice
from rapgnn.estimators.evaluation import counting_split, evaluate, goal_of, shown
from rapgnn.estimators.importances import Shuffling
from rapgnn.graph.graph import Graph
from rapgnn.graph.scores import metric_name, metrics_for
from rapgnn.search.portfolio import decides
from rapgnn.training.predict import Prediction

MANY_ROWS = 100_000  # beyond which error bars are left out, and fewer rows are looked at one by one
MANY_SPREADS = 2e10  # rows × features × layers² beyond which error bars are left out, too


class AbsentError(Exception):
    """Why a part of the page cannot be there, in one sentence."""


class Subject:
    """The estimator and its data.

    Args:
        graph: with labels, and with the splits of the training where the data name none.

    Attributes:
        y: labels ``[rows]`` or ``[rows, t]``.
        rows: the rows that count, of the split ``split``.
        numbers, classes: whether labels are numbers; whether every row has one class.
        metric: what the model is judged by, of the name ``metric_name``.
        config: the settings chosen.
        names: what classes, labels or targets are called.
        seed: of everything random on the page.
    """

    def __init__(self, estimator: Any, graph: Graph):
        graph = estimator.with_splits(graph)
        if not len(graph.labelled):
            raise InputError("a report needs labels: there are none in the data.")
        self.estimator, self.graph, self.y = estimator, graph, graph.y.cpu().numpy()
        self.split, rows = counting_split(graph)
        self.rows = rows.cpu().numpy()
        self.numbers, self.classes = graph.objective.metric == "rmse", graph.objective.metric == "accuracy"
        scoring, self._class_weight = goal_of(estimator, graph)
        self.metric_name = metric_name(scoring) or graph.objective.metric
        self.metric = metrics_for(graph.task)[scoring or graph.objective.metric]
        self.config, self.seed, self.depth = estimator.config_, int(estimator.seed), estimator.config_.num_layers
        self.names = [str(name) for name in (range(graph.num_outputs) if graph.classes is None else graph.classes)]

    def row_names(self, rows: np.ndarray) -> list[str]:
        ids = self.graph.ids
        return [str(row if ids is None else ids[row]) for row in rows.tolist()]

    @cached_property
    def _both(self) -> tuple[np.ndarray, np.ndarray | None]:
        work = self.graph.num_rows * self.graph.num_features * (self.depth + 1) ** 2
        if work > MANY_SPREADS or self.graph.num_rows > MANY_ROWS:
            return self.predict(self.graph), None
        with quiet():
            predict = self.estimator.predict if self.numbers else self.estimator.predict_proba
            p, spread = predict(self.graph, return_std=True)
        return _as_columns(p), _as_columns(spread)

    @property
    def p(self) -> np.ndarray:
        """Probabilities, or numbers, of all rows ``[rows, t]``."""
        return self._both[0]

    @property
    def spread(self) -> np.ndarray | None:
        """Their standard deviation, of all its parts; None where there are too many rows for it."""
        return self._both[1]

    def predict(self, graph: Graph, estimator: Any = None) -> np.ndarray:
        model = self.estimator if estimator is None else estimator
        with quiet():
            return _as_columns(model.predict(graph) if self.numbers else model.predict_proba(graph))

    def score(self, p: np.ndarray) -> float:
        return self.metric.measure(torch.from_numpy(p[self.rows]), torch.from_numpy(self.y[self.rows]))

    @cached_property
    def shuffling(self) -> Shuffling:
        """Predictions of the rows that count with features shuffled."""
        return Shuffling(self.estimator.model_, self.graph, self.rows)

    @cached_property
    def record(self) -> dict[str, Any]:
        p = torch.from_numpy(self.p)
        with quiet():
            return evaluate(self.graph, lambda rows: Prediction(p[rows], p[rows]), self.estimator)

    def shown(self, value: float | None) -> str:
        return shown(self.metric, value)

    @property
    def unit(self) -> str:
        """The metric's name and unit, for an axis; shares are drawn times ``factor``."""
        return f"{self.metric.title}{' (%)' if self.metric.percent else ''}"

    @property
    def factor(self) -> int:
        """What values of the metric are multiplied with in plots."""
        return 100 if self.metric.percent else 1

    def refit(self, graph: Graph, **changes: Any) -> np.ndarray:
        """Predictions of one model with the chosen settings, and these changes, trained anew without a search."""
        again: Any = clone(self.estimator)
        config = self.config.update(previous=None, **changes)
        settings = {name: value for name, value in config.settings().items() if decides(config, name)}
        again.set_params(search=False, settings=settings, class_weight=self._class_weight)
        with quiet():
            again.fit_graph(graph)
        return self.predict(graph, again)

    def sample(self, rows: np.ndarray, most: int) -> np.ndarray:
        """At most so many of the rows, in order, the same in every call."""
        if len(rows) <= most:
            return rows
        return np.sort(np.random.default_rng(self.seed).choice(rows, most, replace=False))


@contextmanager
def quiet() -> Iterator[None]:
    """Notices about the data were given at the fit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputNotice)
        yield


def _as_columns(values: np.ndarray) -> np.ndarray:
    values = np.asarray(values, dtype=np.float64)
    return values[:, None] if values.ndim == 1 else values
