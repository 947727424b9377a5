"""What a fitted estimator says about data: labels, numbers, error bars, representations, scores."""

import contextlib
import warnings
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch
from sklearn.exceptions import NotFittedError
from torch import Tensor

from rapgnn.errors import InputError, InputNotice, check_choice
from rapgnn.estimators.compatible import as_schema, check_graph
from rapgnn.estimators.rows import NodeRows, asked_rows
from rapgnn.graph.graph import Graph
from rapgnn.graph.labels import unseen_labels_note
from rapgnn.graph.scores import check_metric, metrics_for
from rapgnn.graph.table import UNSEEN
from rapgnn.graph.validate import SPLITS, check_whole
from rapgnn.models.config import BOUNDS, Config
from rapgnn.training.averaged import model_on, represented_by
from rapgnn.training.predict import Prediction
from rapgnn.training.schema import Schema

ERROR_BARS = ("auto", "sample", "exact")  # ways to get them


class UnfittedError(NotFittedError, InputError):
    """Used before ``fit``."""


class Predicting:
    """The part of an estimator that needs a trained model and its schema, and no arguments but ``scoring``."""

    _task: ClassVar[str]
    model_: Any
    schema_: Schema
    config_: Config
    classes_: np.ndarray
    scoring: str | None

    @property
    def _kind(self) -> str:
        """``"classification"`` or ``"regression"``."""
        return self._task.partition("-")[2]

    def _fitted(self) -> Any:
        if not hasattr(self, "model_"):
            raise UnfittedError(f"this {type(self).__name__} is not fitted yet: call fit first.")
        return self.model_

    def _graph(self, data: Any, y: Any = None, given: dict[str, Any] | None = None, labelled: bool = False) -> Graph:
        """The checked graph for the trained model; ``given`` is what the user gave by name."""
        if isinstance(data, NodeRows):
            graph = data.of_graph(y, self.schema_.classes, labelled)
            data, y = (data, y) if graph is None else (graph, None)
        if isinstance(data, Graph):
            return check_graph(data, self._task, self.schema_, y, given)
        graph = self._graph_for(self.schema_, data, y, given or {}, labelled)
        for note in graph.notes:
            if UNSEEN in note:  # what else was decided, fit has said
                warnings.warn(note, InputNotice, stacklevel=4)
        return as_schema(graph, self.schema_, labelled)

    def _graph_for(self, schema: Schema, data: Any, y: Any, given: dict[str, Any], labelled: bool) -> Graph:
        """A user's data as a graph for a trained model."""
        raise NotImplementedError

    def _prediction(self, graph: Graph, rows: Tensor, **how: Any) -> Prediction:
        """``how`` as in ``model_on``."""
        return model_on(self.model_, graph, **how)(rows)

    def _read(self, probabilities: Tensor) -> np.ndarray:
        """Labels, or numbers, as the user gave them."""
        metric = self.schema_.objective.metric
        values = probabilities.numpy()
        if metric == "accuracy":
            return self.classes_[values.argmax(axis=1)]
        if metric == "rocauc":
            return (values > 0.5).astype(np.int64)
        return values[:, 0] if values.shape[1] == 1 else values

    def predict(self, data: Any, **given: Any) -> np.ndarray:
        """Labels (or numbers) of all rows; the same in every call.

        Args:
            data: as in ``fit``, the graph of the training or another. Members of an average that see labels of
                neighbours count on the graph of the training alone; on another, members without labels do.
            given: ``edge_index``, ``adjacency``, ``edge_weight``, where ``data`` is features.
        """
        self._fitted()
        graph = self._graph(data, given=given)
        return self._read(self._prediction(graph, asked_rows(data, graph)).probabilities)

    def _with_spread(
        self, data: Any, n_samples: int | None, spread: bool, method: str, given: dict[str, Any]
    ) -> Prediction:
        """Predictions and, where asked for, their standard deviations over draws: of so many, or exact."""
        self._fitted()
        check_choice("method", method, ERROR_BARS)
        if n_samples is not None:
            n_samples = check_whole("n_samples", n_samples, *BOUNDS["num_samples"])
        if spread and n_samples == 1:
            raise InputError(
                "one draw has no spread: give n_samples of 2 or more, or leave it out for exact error bars."
            )
        if method == "exact" and n_samples is not None:
            raise InputError('method "exact" draws no samples: leave n_samples out.')
        graph = self._graph(data, given=given)
        rows = asked_rows(data, graph)
        if method == "exact":
            return self._prediction(graph, rows, inference="expected", error_bars=True)
        if n_samples is not None or method == "sample":
            return self._prediction(graph, rows, inference="mean", num_samples=n_samples)
        return self._own_way(graph, rows, spread)

    def _own_way(self, graph: Graph, rows: Tensor, spread: bool) -> Prediction:
        """As the model predicts; the spread, where asked for, stands beside the same numbers."""
        if spread and self.config_.inference in ("auto", "expected"):
            with contextlib.suppress(InputError):  # there may be no exact form
                return self._prediction(graph, rows, inference="expected", error_bars=True)
        found = self._prediction(graph, rows)
        if not spread or found.spread is not None:
            return found
        return replace(found, spread=self._prediction(graph, rows, inference="mean").spread)

    def transform(self, data: Any, **given: Any) -> np.ndarray:
        """The propagated representation ``[rows, channels]``: its expectation, or else a draw."""
        self._fitted()
        graph = self._graph(data, given=given)
        return represented_by(self.model_, graph, asked_rows(data, graph)).numpy()

    def fit_transform(self, data: Any, y: Any = None, **given: Any) -> np.ndarray:  # type: ignore[override]
        """``fit``, then ``transform`` of the same data."""
        self.fit(data, y, **given)  # type: ignore[attr-defined]
        names = ("edge_index", "adjacency", "edge_weight", "directed")
        shape = {key: value for key, value in given.items() if key in names}
        return self.transform(data, **shape)

    def _score(self, data: Any, y: Any, split: str | None, scoring: str | None, given: dict[str, Any]) -> float:
        self._fitted()
        if split is not None:
            check_choice("split", split, SPLITS)
        graph = self._graph(data, y, given, labelled=True)
        for note in unseen_labels_note(graph.classes or (), self.schema_.out_channels):
            warnings.warn(note, InputNotice, stacklevel=3)
        if split is None:
            rows = asked_rows(data, graph)
            rows = rows[torch.isin(rows, graph.labelled)]
        else:
            own = graph.rows(split)
            rows = own if any(len(graph.rows(s)) for s in SPLITS) else self._own_split(split, graph)
        if not len(rows):
            raise InputError(
                "there are no labelled rows to score."
                if split is None
                else f"the {split} split is empty (validation_score_ is the score of what fit held out)."
            )
        found = self._prediction(graph, rows)
        scoring = self.scoring if scoring is None else scoring
        if scoring is not None:
            check_metric(scoring, self.schema_.task)
            metric = metrics_for(self.schema_.task)[scoring]
            y = graph.y[rows]
            value = metric.measure(_with_columns(found.probabilities, y), y)
            return value if metric.higher else -value  # as in scikit-learn: more is better
        return self._metric(found.scores, graph.y[rows])

    def _own_split(self, split: str, graph: Graph) -> Tensor:
        rows = getattr(self, "split_", {}).get(split, np.zeros(0, dtype=np.int64))
        if len(rows) and rows.max() >= graph.num_rows:
            raise InputError("the splits that fit made belong to another graph: give masks.")
        return torch.from_numpy(rows)

    def _metric(self, scores: Tensor, y: Tensor) -> float:
        return self.schema_.objective.score(scores, y)


def _with_columns(probabilities: Tensor, y: Tensor) -> Tensor:
    """Probabilities with a column of zeros for every class that the model does not know."""
    if y.dim() == 2 or not len(y):
        return probabilities
    missing = max(0, int(y.max()) + 1 - probabilities.shape[1])
    return torch.nn.functional.pad(probabilities, (0, missing))
