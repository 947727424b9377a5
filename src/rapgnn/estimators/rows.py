"""The nodes of one graph as rows that scikit-learn can divide, for cross-validation and grid search."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from rapgnn.datasets.columns import Reading
from rapgnn.datasets.tables import tabular
from rapgnn.errors import InputError, shown
from rapgnn.graph.convert import RawGraph, unpack
from rapgnn.graph.graph import Graph
from rapgnn.graph.labels import UNKNOWN, fill_gaps, find_classes, label_column, to_numbers
from rapgnn.graph.validate import as_array, check_rows, shape_of


class NodeRows:
    """Some nodes of one graph, as scikit-learn's X: ``cross_val_score(RAPNodeClassifier(), rows, rows.y, cv=5)``.

    An estimator that is fitted to them learns from their labels alone, and predicts for them alone. The features and
    edges of all nodes are seen, as always where a graph is one.

    Args:
        data: the graph, as in the node estimators' ``fit``.
        y: labels (or numbers) of all nodes; None takes those that ``data`` has.
        rows: the nodes, as a mask or as node numbers; None: all that have a label.
        given: ``edge_index`` or ``adjacency``, ``edge_weight``, ``directed``, where ``data`` is features.
    """

    def __init__(self, data: Any, y: Any = None, *, rows: Any = None, **given: Any):
        if (graph := tabular(data, y, given, Reading(labelled=None))) is not None:
            data, y, given = graph, None, {}
        if isinstance(data, Graph):
            if y is not None or given:
                raise InputError("a rapgnn Graph brings its own labels and edges: give nothing beside it but rows.")
            if data.ptr is not None:
                raise InputError("these are many graphs: scikit-learn divides a list of graphs as it is.")
            self._source, self._labels = data, _named(data)
            count = data.num_nodes
        else:
            raw = unpack(data, y=y, **given)
            self._source = replace(raw, y=None, train=None, val=None, test=None)
            self._labels = None if raw.y is None else _as_array(raw.y)
            count = _count(raw, self._labels)
        if rows is None and self._labels is None:
            raise InputError("there are no labels: give y, or rows (a mask, or node numbers).")
        known = _known(self._labels) if rows is None else rows
        self.index = check_rows(known, count, "rows").numpy()
        self._all, self._nodes = self.index, count
        if not len(self.index):
            raise InputError("no node has a label (every label is -1 or missing).")

    @property
    def y(self) -> np.ndarray:
        """The labels of these rows."""
        if self._labels is None:
            raise InputError("these rows came without labels.")
        return self._labels[self.index]

    @property
    def shape(self) -> tuple[int]:
        """``(number of rows,)``, by which scikit-learn takes it for an array."""
        return (len(self.index),)

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, key: Any) -> "NodeRows":
        part = object.__new__(NodeRows)
        part.__dict__ = {**self.__dict__, "index": np.atleast_1d(self.index[key[0] if isinstance(key, tuple) else key])}
        return part

    def __repr__(self) -> str:
        return f"NodeRows({len(self)} of {self._nodes} nodes)"

    def of_graph(self, y: Any = None, classes: Sequence[Any] | None = None, labelled: bool = True) -> Graph | None:
        """The graph with the labels y (None: their own) of these rows; None where it is not a rapgnn ``Graph``.

        Args:
            classes: what a trained model calls its classes.
            labelled: whether labels are needed.
        """
        if not isinstance(self._source, Graph):
            return None
        graph, rest = self._source, torch.from_numpy(self._rest(y) if classes is None else self._all[:0])
        found = torch.full_like(graph.y, UNKNOWN if graph.y.dim() == 1 else float("nan"))
        given = self.y if y is None else _as_array(y)
        self._check(given)
        if graph.y.dim() == 2:
            found[rest] = graph.y[rest]
            found[self.index] = torch.as_tensor(given).to(graph.y).reshape(-1, graph.y.shape[1])
        else:
            if classes is None:
                own = tuple(range(graph.num_outputs)) if graph.classes is None else graph.classes
                classes = own if self._same(y) else find_classes(label_column(given))
            if labelled:
                found[rest] = graph.y[rest]
                found[self.index] = torch.from_numpy(to_numbers(label_column(given), classes))
            graph = replace(graph, classes=tuple(classes), num_outputs=len(classes))
        none = torch.zeros(0, dtype=torch.int64)
        return replace(graph, y=found, train=torch.from_numpy(self.index), val=none, test=rest)

    def of_all(self, weights: Any) -> Any:
        """Weights of these rows as weights of all nodes; None stays None."""
        if weights is None:
            return None
        full, given = np.ones(self._nodes), as_array(weights, "sample_weight")
        if given.shape != self.shape:
            raise InputError(f"there are {len(self)} rows but sample_weight of shape {given.shape}.")
        full[self.index] = given
        return full

    def unpacked(self, y: Any, numbers: bool) -> RawGraph:
        """The arrays of the graph, with the labels y (None: their own) of these rows."""
        assert isinstance(self._source, RawGraph)
        if y is None and self._labels is None:
            return replace(self._source, train=self.index)
        given, rest = self.y if y is None else _as_array(y), self._rest(y)
        self._check(given)
        gaps = numbers or given.ndim == 2 or given.dtype.kind == "f"
        full = np.full((self._nodes, *given.shape[1:]), np.nan if gaps else None, dtype=np.float64 if gaps else object)
        try:
            full[self.index] = given
            if self._labels is not None:
                full[rest] = self._labels[rest]
        except (ValueError, TypeError) as error:
            raise InputError("the labels of these rows must be numbers, as many for every row.") from error
        return replace(self._source, y=full, train=self.index, test=rest)

    def _rest(self, y: Any) -> np.ndarray:
        """The other rows that there were at first, for testing: a class that only they have is a class too.

        None where y are other labels than their own: scikit-learn numbers, or shuffles, labels now and then.
        """
        return np.setdiff1d(self._all, self.index) if self._same(y) else self._all[:0]

    def _same(self, y: Any) -> bool:
        return self._labels is not None and (y is None or _alike(self.y, _as_array(y)))

    def _check(self, labels: np.ndarray) -> None:
        if labels.ndim not in (1, 2) or len(labels) != len(self):
            raise InputError(f"there are {len(self)} rows but labels of shape {labels.shape}.")


def _as_array(y: Any) -> np.ndarray:
    if isinstance(y, Tensor):
        y = y.detach().cpu().numpy()
    if not isinstance(y, np.ndarray):
        y = fill_gaps(y) if _numeric(y) else y
        shape_of(y, "labels")  # refuses rows that differ in length
    found = np.asarray(y)
    return found[:, 0] if found.ndim == 2 and found.shape[1] == 1 else found


def _numeric(y: Any) -> bool:
    """Whether these are numbers with gaps, and floats among them: whole numbers are classes and stay as they are."""
    if isinstance(y, pd.DataFrame):
        return True
    values = pd.Series(list(y))
    nested = values.map(lambda v: isinstance(v, list | tuple | np.ndarray)).any()
    return bool(nested) or pd.api.types.is_float_dtype(values)


def _known(labels: np.ndarray | None) -> np.ndarray:
    assert labels is not None
    if labels.ndim == 2:
        return np.asarray(~pd.isna(labels).all(axis=1))
    known = ~pd.isna(labels) & (labels != "" if labels.dtype.kind in "OU" else True)
    return known & (labels != UNKNOWN) if labels.dtype.kind in "iu" else known


def _named(graph: Graph) -> np.ndarray:
    if graph.y.dim() == 2:
        values = graph.y.cpu().numpy()
        return values[:, 0] if values.shape[1] == 1 else values
    names = range(graph.num_outputs) if graph.classes is None else graph.classes
    return np.array([*names, None], dtype=object)[graph.y.cpu().numpy()]


def _alike(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether these are the same labels; numbers may be of different types."""
    if one.shape != other.shape:
        return False
    return bool(((one == other) | (pd.isna(one) & pd.isna(other))).all())


def _count(raw: RawGraph, labels: np.ndarray | None) -> int:
    if raw.x is not None:
        return shape_of(raw.x, "the node features")[0]
    if labels is not None:
        return len(labels)
    return raw.num_nodes or 0


def asked_rows(data: Any, graph: Graph) -> Tensor:
    """The rows that a user asks about: all of the graph's, or those of ``NodeRows``."""
    return torch.from_numpy(data.index) if isinstance(data, NodeRows) else torch.arange(graph.num_rows)


def named_rows(graph: Graph, rows: Any) -> Tensor:
    """The numbers of rows that a user names: by their ids, by their numbers where these are no ids, or by a mask."""
    given = rows.detach().cpu() if isinstance(rows, Tensor) else rows
    array, count = np.atleast_1d(np.asarray(given)), graph.num_rows
    if array.dtype == bool:
        return check_rows(array, count, "rows")
    if graph.ids is not None:
        names = array.ravel().astype(str).tolist()
        wanted = set(names)
        places = {name: i for i, name in enumerate(map(str, graph.ids.tolist())) if name in wanted}
        numbers_too = graph.ids.dtype.kind not in "iu" and array.dtype.kind in "iu"
        if len(places) == len(wanted) or not numbers_too:
            if missing := [row for row, name in zip(array.ravel().tolist(), names, strict=True) if name not in places]:
                raise InputError(f"no row has the id {shown(missing[0])}: rows are ids, or a mask of all rows.")
            return torch.tensor([places[name] for name in names], dtype=torch.int64)
    if array.ndim != 1 or (array.size and (array.dtype.kind not in "iu" or array.min() < 0 or array.max() >= count)):
        raise InputError(f"rows must be a mask, or name rows 0 to {count - 1}.")
    return torch.from_numpy(array.astype(np.int64))
