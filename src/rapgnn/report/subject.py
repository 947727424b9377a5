"""What the page is about: a fitted estimator, its data, and the predictions that all parts of the page share."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from sklearn.base import clone

from rapgnn.errors import InputError, InputNotice
from rapgnn.estimators.evaluation import counting_split, evaluate, fit_without_edges
from rapgnn.graph.graph import Graph
from rapgnn.graph.scores import Metric, metrics_for
from rapgnn.graph.validate import SPLITS
from rapgnn.training.predict import Prediction

MANY_ROWS = 100_000  # beyond which error bars are left out, and fewer rows are looked at one by one
MANY_SPREADS = 2e10  # rows × features × layers² beyond which error bars are left out, too


class AbsentError(Exception):
    """Why a part of the page cannot be there, in one sentence."""


@dataclass
class Subject:
    """The estimator and its data.

    Args:
        estimator: fitted.
        graph: with labels, and with the splits of the training where the data name none.
    """

    estimator: Any
    graph: Graph

    def __post_init__(self) -> None:
        own = getattr(self.estimator, "split_", None)
        if own and not any(len(self.graph.rows(s)) for s in SPLITS):
            parts = {split: torch.as_tensor(rows) for split, rows in own.items()}
            if all(not len(rows) or int(rows.max()) < self.graph.num_rows for rows in parts.values()):
                self.graph = replace(self.graph, **parts)
        if not len(self.graph.labelled):
            raise InputError("a report needs labels: there are none in the data.")
        self.split, rows = counting_split(self.graph)
        self.rows = rows.cpu()

    @property
    def numbers(self) -> bool:
        """Whether labels are numbers."""
        return self.graph.objective.metric == "rmse"

    @property
    def classes(self) -> bool:
        """Whether every row has one class."""
        return self.graph.objective.metric == "accuracy"

    @property
    def seed(self) -> int:
        """Of everything random on the page."""
        return int(getattr(self.estimator, "seed", 0))

    @property
    def metric_name(self) -> str:
        """What the model is judged by."""
        return getattr(self.estimator, "scoring", None) or self.graph.objective.metric

    @property
    def metric(self) -> Metric:
        """The same with its reading."""
        return metrics_for(self.graph.task)[self.metric_name]

    @property
    def config(self) -> Any:
        """The settings chosen; None where the estimator does not say."""
        return getattr(self.estimator, "config_", None)

    @property
    def depth(self) -> int:
        """Number of layers."""
        return int(getattr(self.config, "num_layers", 2))

    @cached_property
    def names(self) -> list[str]:
        """What classes, labels or targets are called."""
        known = self.graph.classes
        return [str(name) for name in (range(self.graph.num_outputs) if known is None else known)]

    def row_names(self, rows: np.ndarray) -> list[str]:
        """What rows are called."""
        ids = self.graph.ids
        return [str(row if ids is None else ids[row]) for row in rows.tolist()]

    @cached_property
    def _both(self) -> tuple[np.ndarray, np.ndarray | None]:
        work = self.graph.num_rows * self.graph.num_features * (self.depth + 1) ** 2
        if work > MANY_SPREADS or self.graph.num_rows > MANY_ROWS:
            return self.predict(self.graph), None
        with quiet():
            ask = self.estimator.predict if self.numbers else self.estimator.predict_proba
            p, spread = ask(self.graph, return_std=True)
        return _two(p), _two(spread)

    @property
    def p(self) -> np.ndarray:
        """Probabilities, or numbers, of all rows ``[rows, t]``."""
        return self._both[0]

    @property
    def spread(self) -> np.ndarray | None:
        """Their standard deviation over draws of the weights; None where there are too many rows for it."""
        return self._both[1]

    def predict(self, graph: Graph, estimator: Any = None) -> np.ndarray:
        """Probabilities, or numbers, of all rows of another graph, or by another estimator."""
        model = self.estimator if estimator is None else estimator
        with quiet():
            return _two(model.predict(graph) if self.numbers else model.predict_proba(graph))

    def score(self, p: np.ndarray, rows: torch.Tensor | None = None) -> float:
        """The metric on the rows that count."""
        rows = self.rows if rows is None else rows
        return self.metric.measure(torch.from_numpy(p)[rows], self.graph.y.cpu()[rows])

    @cached_property
    def record(self) -> dict[str, Any]:
        """What ``rapgnn evaluate`` says, with the model without edges beside it where there is one."""
        bare, missing = None, None
        if self.config is not None:
            try:
                goal = {"scoring": getattr(self.estimator, "scoring", None), "class_weight": self._class_weight}
                with quiet():
                    bare = fit_without_edges(self.graph, self.config, self.seed, **goal)
            except InputError as error:
                missing = str(error)
        p = torch.from_numpy(self.p)

        def predicted(rows: torch.Tensor) -> Prediction:
            return Prediction(p[rows.cpu()], p[rows.cpu()])

        return evaluate(self.graph, predicted, getattr(self.estimator, "scoring", None), bare) | {"missing": missing}

    @property
    def _class_weight(self) -> Any:
        return getattr(self.estimator, "class_weight_", None) or getattr(self.estimator, "class_weight", None)

    def refit(self, graph: Graph, **changes: Any) -> np.ndarray:
        """Predictions of one model with the chosen settings, and these changes, trained anew without a search."""
        if self.config is None:
            raise AbsentError("the estimator does not say its settings.")
        again: Any = clone(self.estimator)
        settings = self.config.to_dict() | changes
        again.set_params(search=False, network=None, settings=settings, class_weight=self._class_weight)
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


def _two(values: np.ndarray) -> np.ndarray:
    values = np.asarray(values, dtype=np.float64)
    return values[:, None] if values.ndim == 1 else values
