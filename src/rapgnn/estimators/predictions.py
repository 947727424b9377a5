"""What a fitted estimator says about data: labels, numbers, error bars, representations, scores."""

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch
from sklearn.exceptions import NotFittedError
from sklearn.metrics import r2_score
from torch import Tensor

from rapgnn.datasets import load_dataset
from rapgnn.datasets.columns import OPTIONS, Reading, named_options
from rapgnn.datasets.keyed import are_tables
from rapgnn.datasets.tables import tabular
from rapgnn.device import own_settings, pick_device
from rapgnn.errors import InputError, check_choice, notice, shown
from rapgnn.estimators.evaluation import evaluate
from rapgnn.estimators.explain import Explainer, Explanation, explain_types
from rapgnn.estimators.importances import Importances, Shuffling
from rapgnn.estimators.rows import NodeRows, asked_rows, named_rows
from rapgnn.estimators.serving import Served
from rapgnn.estimators.table import prediction_table
from rapgnn.estimators.threshold import check_threshold, class_number, find_threshold
from rapgnn.estimators.threshold import decided as answers_of
from rapgnn.graph.graph import Graph
from rapgnn.graph.labels import NO_SPLIT, unseen_labels_note, unseen_note
from rapgnn.graph.rows import check_weights, goal_metric
from rapgnn.graph.scores import metrics_for
from rapgnn.graph.table import FILLED, UNSEEN
from rapgnn.graph.validate import SPLITS, check_whole
from rapgnn.network.config import Config, bounds
from rapgnn.network.known_labels import FitRows
from rapgnn.training.predict import Nearby, Prediction, model_on, no_error_bars, represented_by
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
    scoring: Any
    pos_label: Any
    device: str
    threshold: Any

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
        before = data.notes if isinstance(data, Graph) else ()
        if is_named(data):
            data, y, given = load_named(data, y, given or {}, Reading(**reading_of(self.schema_, labelled))), None, None
            data = data if labelled else without_labels(data, self.schema_)
        reading = Reading(**reading_of(self.schema_, labelled))
        if isinstance(data, Graph):
            graph = check_graph(as_read(data, self.schema_, labelled), self._task, self.schema_, y, given)
        else:
            graph = tabular(data, y, given or {}, reading)
            graph = graph or self._graph_for(self.schema_, data, y, given or {}, labelled)
            graph = as_schema(graph, self.schema_, labelled)
        for note in graph.notes:
            if note.startswith((UNSEEN, FILLED)) and note not in before:  # what else was decided, fit has said
                notice(note)
        return graph

    def _graph_for(self, schema: Schema, data: Any, y: Any, given: dict[str, Any], labelled: bool) -> Graph:
        raise NotImplementedError

    def _prediction(self, graph: Graph, rows: Tensor, **how: Any) -> Prediction:
        return model_on(self.model_, graph, **how)(rows)

    def _read(self, probabilities: Tensor) -> np.ndarray:
        """Labels, or numbers, as the user gave them."""
        metric = self.schema_.objective.metric
        values = self.decided(probabilities).numpy()
        if metric == "accuracy":
            return self.classes_[values.argmax(axis=1)]
        if metric == "rocauc":
            return (values > 0.5).astype(np.int64)
        return values[:, 0] if values.shape[1] == 1 else values

    def _positive(self) -> int:
        """The number of the class that is looked for: that of ``pos_label``, or the rarer of the rows that judge."""
        judged = self.model_.fit_rows
        y = torch.zeros(0, dtype=torch.int64) if judged is None else judged.y
        return class_number(self.pos_label, self.classes_.tolist(), y)

    @property
    def threshold_(self) -> float | None:
        """From which probability the class that is looked for is the answer; None: the likelier class is."""
        self._fitted()
        check_threshold(self.threshold, self.schema_, self.schema_.out_channels)
        if self.threshold is None or isinstance(self.threshold, float):
            return self.threshold
        return find_threshold(self.threshold, self.judges(), self._kind_of_label, self._positive())

    @property
    def _kind_of_label(self) -> str:
        return self.schema_.task.rpartition("-")[2]

    def decided(self, probabilities: Tensor) -> Tensor:
        """Probabilities, or 1 and 0 where a threshold decides."""
        if self.threshold is None or self.schema_.objective.metric == "rmse":
            return probabilities
        return answers_of(probabilities, self.threshold_, self._positive())

    def goal(self, graph: Graph) -> Any:
        positive = None if self.pos_label is None else self._positive()
        return goal_metric(self.scoring, graph, positive)

    def _asked(self, data: Any, rows: Any, given: dict[str, Any]) -> tuple[Any, Tensor]:
        """The checked graph and the rows that are asked for; of some rows the part that they depend on."""
        self._fitted()
        graph = self._graph(data, given=given)
        if rows is None:
            return graph, asked_rows(data, graph)
        numbers = named_rows(graph, rows)
        return Nearby(self.model_, graph).part(numbers) if isinstance(graph, Graph) else (graph, numbers)

    @own_settings()
    def predict(self, data: Any, *, rows: Any = None, **given: Any) -> np.ndarray:
        """Labels (or numbers) of all rows, or of some; the same in every call.

        Args:
            data: as in ``fit``, the graph of the training or another. Labels of training rows are known by node id;
                where none of these nodes is there, members that know none answer, and a notice says so.
            rows: ids, numbers or a mask of the rows that are wanted, in this order; only the nodes that they depend on
                are looked at, and the answers are the same.
            given: ``edge_index``, ``adjacency``, ``edge_weight``, where ``data`` is features.
        """
        return self._read(self._prediction(*self._asked(data, rows, given)).probabilities)

    @own_settings()
    def explain(self, data: Any, rows: Any, *, label: Any = None, **given: Any) -> list[Explanation]:
        """Why each of some rows has its prediction: which columns, distances, neighbours and known labels moved it.

        Args:
            data, rows, given: as in ``predict``.
            label: the label (or target) whose score is explained; None: the one predicted.
        """
        self._fitted()
        graph = self._graph(data, given=given)
        if not isinstance(graph, Graph):
            raise InputError("explanations are for graphs in memory, and this one is on disk.")
        names = list(self.schema_.classes or range(self.schema_.out_channels))
        names = [names[c] for c in getattr(self.model_, "classes", None) or range(len(names))]
        if label is not None and label not in names:
            raise InputError(f"label {shown(label)} is none of this model's: {', '.join(map(str, names[:10]))}.")
        explainer = Explainer(self.model_, graph, names, None if label is None else names.index(label))
        if graph.typed is not None:
            return explain_types(explainer, named_rows(graph, rows))
        return [explainer.of(row) for row in named_rows(graph, rows).tolist()]

    @own_settings()
    def importances(self, data: Any, y: Any = None, *, repeats: int | None = None, **given: Any) -> Importances:
        """How much worse the model is when a column, or the features of all nodes at a distance, are shuffled.

        Of graphs with types: when the features of one type are shuffled, or which nodes a relation joins.

        Args:
            data, y, given: as in ``fit``, with labels. The test rows count, else those of validation, else all with a
                label; where the data name no splits, those that ``fit`` made.
            repeats: how often each column is shuffled; None: as often as counted operations allow, 2 to 5 times.
        """
        model, graph = self._fitted(), self._graph(data, y, given, labelled=True)
        if not isinstance(graph, Graph):
            raise InputError("importances are for graphs in memory, and this one is on disk.")
        graph = self.with_splits(graph)
        rows = next((graph.rows(split) for split in ("test", "val") if len(graph.rows(split))), graph.labelled)
        if not len(rows):
            raise InputError("there are no labelled rows to measure on.")
        shuffling = Shuffling(model, graph, rows.numpy())
        measured = metrics_for(graph.task)[self.goal(graph) or graph.objective.metric]
        columns, together = shuffling.columns(measured, repeats)
        hops = pd.DataFrame(columns=["hop", "importance", "spread", "noise"])
        if graph.ptr is None and graph.edge_index.shape[1]:
            hops = shuffling.hops()
        return Importances(columns, hops, measured.measure(shuffling.before, graph.y[rows]), together)

    @own_settings()
    def evaluate(self, data: Any, y: Any = None, **given: Any) -> dict[str, Any]:
        """All that ``rapgnn evaluate`` says, as one record: the metric of every split, what a constant answer and a
        model without edges reach, further metrics, and a verdict. The test rows count, else those of validation.

        Args:
            data, y, given: as in ``fit``, with labels. Where the data name no splits, those that ``fit`` made count.
        """
        self._fitted()
        graph = self._graph(data, y, given, labelled=True)
        if not isinstance(graph, Graph):
            raise InputError("this graph is on disk: score gives its metric.")
        graph = self.with_splits(graph)
        return evaluate(graph, model_on(self.model_, graph, device=pick_device(self.device)), self)

    @own_settings()
    def serve(self, data: Any, *, walk: bool = True, **given: Any) -> Served:
        """The model with a graph, ready to answer for rows by id, and to take new nodes and edges.

        Args:
            data, given: as in ``predict``.
            walk: predict all rows now; False: each when it is first asked for.
        """
        self._fitted()
        graph = self._graph(data, given=given)
        check_untyped(graph, "serving is")
        return Served(self, graph, walk)

    def _with_spread(
        self, data: Any, n_samples: int | None, spread: bool, method: str, rows: Any, given: dict[str, Any]
    ) -> Prediction:
        """Predictions and, where asked for, their standard deviations over draws: of so many, or exact."""
        self._fitted()
        check_choice("method", method, ERROR_BARS)
        if n_samples is not None:
            n_samples = check_whole("n_samples", n_samples, *bounds("num_samples"))
        if spread and n_samples == 1:
            raise InputError(
                "one draw has no spread: give n_samples of 2 or more, or leave it out for exact error bars."
            )
        if method == "exact" and n_samples is not None:
            raise InputError('method "exact" draws no samples: leave n_samples out.')
        graph, rows = self._asked(data, rows, given)
        if method == "exact":
            found = self._prediction(graph, rows, inference="expected", error_bars=True)
        elif n_samples is not None or method == "sample":
            found = self._prediction(graph, rows, inference="mean", num_samples=n_samples)
        else:
            found = self._own_way(graph, rows, spread)
        if spread and not found.parts:
            notice(no_error_bars(found))
        return found

    def _own_way(self, graph: Graph, rows: Tensor, spread: bool = True) -> Prediction:
        """As the model predicts; the spread, where asked for, stands beside the same numbers."""
        if spread and self.config_.inference in ("auto", "expected"):
            with contextlib.suppress(InputError):  # there may be no exact form
                return self._prediction(graph, rows, inference="expected", error_bars=True)
        found = self._prediction(graph, rows)
        if not spread or found.parts is not None:
            return found
        drawn = self._prediction(graph, rows, inference="mean")
        return replace(found, parts=drawn.parts, missing=drawn.missing)

    @own_settings()
    def error_bars(self, data: Any, **given: Any) -> pd.DataFrame:
        """How sure the predictions are, and what that comes from: a table with a line per row.

        Columns ``id``, then ``label, probability`` (or ``value``), its standard deviation ``spread``, the root of the
        sum of squares of its parts, and these: ``draws``, over draws of the random weights; ``head``, over the
        posterior of heads that were solved; ``members``, between the members of an average. A part that does not exist
        is empty, and ``table.attrs["missing"]`` says why. With several labels or numbers each has columns of its own.

        Args:
            data, given: as in ``predict``.
        """
        self._fitted()
        graph = self._graph(data, given=given)
        rows = asked_rows(data, graph)
        classes = getattr(self, "classes_", None)
        return prediction_table(
            graph, lambda rows: self._own_way(graph, rows), classes, rows=rows, parts=True, decide=self.decided
        )

    @own_settings()
    def transform(self, data: Any, **given: Any) -> np.ndarray:
        """The propagated representation ``[rows, channels]``: its expectation, or else a draw."""
        self._fitted()
        graph = self._graph(data, given=given)
        return represented_by(self.model_, graph, asked_rows(data, graph)).numpy()

    def fit_transform(self, data: Any, y: Any = None, **given: Any) -> np.ndarray:  # type: ignore[override]
        """``fit``, then ``transform`` of the same data."""
        self.fit(data, y, **given)  # type: ignore[attr-defined]
        shape = {key: value for key, value in given.items() if key.removesuffix("_mask") not in SPLITS}
        return self.transform(data, **shape)

    @own_settings()
    def score(
        self,
        data: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        split: str | None = None,
        scoring: str | None = None,
        **given: Any,
    ) -> float:
        """Accuracy, ROC-AUC of many labels, R² of numbers, or the metric ``scoring``; more is better.

        Args:
            sample_weight: how much each row counts, for accuracy and R².
            split: ``"train"``, ``"val"`` or ``"test"``; None: every labelled row. Where the data name no splits, those
                that ``fit`` made count.
            scoring: another metric, for this call; its negative is returned where less is better.
        """
        if sample_weight is None:
            return self._score(data, y, split, scoring, given)
        weights = data.of_all(sample_weight) if isinstance(data, NodeRows) else sample_weight
        graph, rows = self._scored_rows(data, y, split, given)
        weights = check_weights(weights, graph)[rows].numpy()
        if (self.scoring if scoring is None else scoring) is not None or self._kind_of_label == "multilabel":
            raise InputError("sample_weight is for accuracy and R²: leave scoring, or sample_weight, out.")
        p, truth = self._prediction(graph, rows).probabilities, graph.y[rows].numpy()
        if self._kind == "regression":
            return float(r2_score(truth, p.numpy(), sample_weight=weights))
        return float(np.average(self.decided(p).argmax(1).numpy() == truth, weights=weights))

    def _scored_rows(self, data: Any, y: Any, split: str | None, given: dict[str, Any]) -> tuple[Any, Tensor]:
        self._fitted()
        if split is not None:
            check_choice("split", split, SPLITS)
        graph = self._graph(data, y, given, labelled=True)
        for note in unseen_labels_note(graph.classes or (), self.schema_.out_channels):
            notice(note)
        if split is None:
            rows = asked_rows(data, graph)
            rows = rows[torch.isin(rows, graph.labelled)]
        else:
            rows = self.with_splits(graph).rows(split)
        if not len(rows):
            raise InputError(
                "there are no labelled rows to score."
                if split is None
                else f"the {split} split is empty (validation_score_ is the score of what fit held out)."
            )
        return graph, rows

    def _score(self, data: Any, y: Any, split: str | None, scoring: str | None, given: dict[str, Any]) -> float:
        graph, rows = self._scored_rows(data, y, split, given)
        found = self._prediction(graph, rows)
        y, scoring = graph.y[rows], self.scoring if scoring is None else scoring
        if scoring is None and self.threshold is None:
            return self._metric(found.scores, y)
        positive = None if self.pos_label is None else self._positive()
        known = replace(graph, train=rows, classes=graph.classes or tuple(range(graph.num_outputs)))
        metric = metrics_for(self.schema_.task)[goal_metric(scoring, known, positive) or graph.objective.metric]
        p = self.decided(found.probabilities) if metric.answers else found.probabilities
        value = metric.measure(_with_columns(p, y), y)
        return value if metric.higher else -value  # as in scikit-learn: more is better

    def judges(self) -> FitRows:
        rows = self._fitted().fit_rows
        if rows is None or not len(rows.labels):
            raise InputError("no rows judged this model, so no coverage can be promised: fit it with validation rows.")
        return rows

    def with_splits(self, graph: Graph) -> Graph:
        """The graph with the splits of the fit, by ids or features of its rows, where it names none itself."""
        by_chance = any(note.startswith(NO_SPLIT) for note in graph.notes)
        named = any(len(graph.rows(split)) for split in SPLITS)
        if self.model_.fit_rows is None or (named and not by_chance):
            return graph
        known = {s: rows[torch.isin(rows, graph.labelled)] for s, rows in self.model_.fit_rows.splits_in(graph).items()}
        return replace(graph, **known) if any(map(len, known.values())) else graph

    def _metric(self, scores: Tensor, y: Tensor) -> float:
        return self.schema_.objective.score(scores, y)


def _with_columns(probabilities: Tensor, y: Tensor) -> Tensor:
    if y.dim() == 2 or not len(y):
        return probabilities
    missing = max(0, int(y.max()) + 1 - probabilities.shape[1])
    return torch.nn.functional.pad(probabilities, (0, missing))


# Whether an estimator, a trained model and data go together; refused in one sentence where they do not.


def suits(task: str, other: str) -> bool:
    """Whether an estimator for one task is for the other too: classes and many labels go together, numbers do not."""
    (level, kind), (other_level, other_kind) = task.split("-"), other.split("-")
    return level == other_level and (kind == "regression") == (other_kind == "regression")


def check_untyped(graph: Any, what: str) -> None:
    """Refuse a graph with types, for ``what`` is not."""
    if getattr(graph, "typed", None) is not None:
        raise InputError(f"{what} for graphs without types so far: call predict instead.")


def check_graph(graph: Graph, task: str, schema: Schema | None, y: Any, given: dict[str, Any] | None) -> Graph:
    if y is not None or given:
        raise InputError("a rapgnn Graph brings its own labels, edges and splits: give nothing beside it.")
    if not suits(task, graph.task):
        raise InputError(f"this is an estimator for {task}, but the data are for {graph.task}.")
    if schema is not None:
        schema.check(graph)
        return graph
    if not len(graph.labelled):
        raise InputError("there are no labels: a file of edges has none, so load a folder with a nodes.csv beside it.")
    if graph.classes is None and graph.objective.metric != "rmse":
        graph = replace(graph, classes=tuple(range(graph.num_outputs)))
    said = unseen_note(graph.y, {split: graph.rows(split) for split in SPLITS}, graph.classes)
    return replace(graph, notes=(*graph.notes, *(note for note in said if note not in graph.notes)))


def is_named(data: Any) -> bool:
    """Whether ``load_dataset`` reads it: a folder, a database, the name of a dataset, or tables with keys."""
    return isinstance(data, str | Path) or are_tables(data)


def load_named(data: Any, y: Any, given: dict[str, Any], reading: Reading) -> Graph:
    """The data of whatever ``is_named``, with the options of ``load_dataset`` that were given.

    Args:
        y: the label's column; None: as the options or the data say.
    """
    known = ("data_dir", "say", "attributes", "reading", *OPTIONS)
    if y is not None and not isinstance(y, str):
        raise InputError("such data bring their own labels: name their column.")
    named = {} if y is None else {"label": y}
    options: dict[str, Any] = {"reading": reading} | named_options(given, known) | named
    return load_dataset(data, **options)


def reading_of(schema: Schema, labelled: bool) -> dict[str, Any]:
    """How a trained model reads a folder: fields of ``Reading``."""
    kind = "regression" if schema.objective.metric == "rmse" else "classification"
    known = {"classes": schema.classes, "encoding": schema.encoding, "task": kind}
    return known | {"trained": True, "labelled": labelled, "types": schema.types}


def as_read(graph: Graph, schema: Schema, labelled: bool) -> Graph:
    """A folder's graph as the model reads it, whatever categories, means and scales the folder has of its own."""
    own, known = graph.encoding, schema.encoding
    if graph.read_as is not None and graph.typed is not None and schema.types is not None:
        if graph.typed.described() != schema.types:
            graph = graph.read_as(**reading_of(schema, labelled))
        return graph if labelled else without_labels(graph, schema)
    if graph.read_as is not None and known is not None and known.kind == "table" and own != known:
        splits = {split: graph.rows(split) for split in SPLITS}
        graph = replace(graph.read_as(**reading_of(schema, labelled)), **splits)
        return graph if labelled else without_labels(graph, schema)
    return graph


def without_labels(graph: Graph, schema: Schema) -> Graph:
    """A graph whose labels were not read, as one for the model's task."""
    same = graph.task.partition("-")[0] == schema.task.partition("-")[0]
    return replace(graph, task=schema.task, num_outputs=schema.out_channels) if same else graph


def as_schema(graph: Graph, schema: Schema, labelled: bool) -> Graph:
    """The graph as one for the model's task; refused where its features, or its labels, do not fit."""
    if labelled and graph.task != schema.task:
        raise InputError(f"the model is for {schema.task}, but the labels are for {graph.task}.")
    if labelled and graph.y.dim() == 2 and graph.y.shape[1] != schema.out_channels:
        raise InputError(f"the model gives {schema.out_channels} values per row, y has {graph.y.shape[1]}.")
    graph = replace(graph, task=schema.task, num_outputs=schema.out_channels)  # labels it does not know come after them
    schema.check(graph)
    return graph


def as_classes(classes: tuple[Any, ...]) -> np.ndarray:
    """As numpy holds them, unless that would change them: whole numbers too large for 64 bits."""
    found = np.array(classes)
    return found if found.tolist() == list(classes) else np.array(classes, dtype=object)
