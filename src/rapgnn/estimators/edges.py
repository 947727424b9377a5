"""Labels and numbers of edges by scikit-learn's contract: an edge is a row, its description is what a node's features
are, and all else is that of the estimators of nodes."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from rapgnn.datasets.columns import Given, Labels, Reading, Roles, find_labels, learn_table
from rapgnn.datasets.tables import edge_rows
from rapgnn.errors import InputError
from rapgnn.estimators.base import RAPEstimator
from rapgnn.estimators.links import links_of, node_features, read_graph
from rapgnn.estimators.predictions import as_schema, check_graph
from rapgnn.graph.convert import RawGraph, as_table, unpack
from rapgnn.graph.graph import Graph, build_graph
from rapgnn.graph.table import Encoding
from rapgnn.graph.validate import SPLITS, as_array, check_edges
from rapgnn.network.known_labels import keys_of
from rapgnn.pairs.edges import EdgeColumns, EdgeConfig
from rapgnn.training.schema import Schema

UNLABELLED = "nothing says what the labels of the edges are: give y, labels or the name of a column of the edges."
READ = ("label", "task", "group", "time", "seed")  # options that are about the edges' table, not about the nodes


@dataclass(frozen=True)
class Edges:
    """The edges of a graph as rows.

    Args:
        ends: ``[m, 2]``, in the order in which the user lists them.
        labels: what the user says of their labels and splits.
    """

    graph: Graph
    ends: Tensor
    own: pd.DataFrame
    labels: Labels

    def raw(self, x: Any) -> RawGraph:
        """The edges as the rows of a graph without edges, with these features."""
        none = np.zeros((2, 0), dtype=np.int64)
        splits: dict[str, Any] = dict(self.labels.splits)
        return RawGraph(x, none, y=self.labels.values, num_nodes=len(self.ends), ids=self.ids, **splits)

    @property
    def task(self) -> str:
        """As the labels are."""
        return f"edge-{self.labels.task}"

    @property
    def ids(self) -> np.ndarray | None:
        """``"u -> v"``, and how many times there was such an edge before."""
        if self.graph.ids is None:
            return None
        u, v = (pd.Series(self.graph.ids[side.numpy()], dtype=object).astype(str) for side in self.ends.T)
        ids = u + " -> " + v
        before = ids.groupby(ids).cumcount()
        return np.where(before > 0, ids + " (" + (before + 1).astype(str) + ")", ids).astype(object)


def read_edges(
    data: Any, y: Any, given: dict[str, Any], kind: str | None, schema: Schema | None = None, nodes: Any = None
) -> Edges:
    """The edges of what a user gives, in any of the forms of ``RAPLinkPredictor.fit``.

    Args:
        kind: ``"classification"`` or ``"regression"``; None: as the labels are.
        schema, nodes: of a trained model, and how it reads the features of nodes; labels are then not needed.
    """
    if isinstance(data, Graph):
        raise InputError("a rapgnn Graph keeps no labels of edges: give its folder, tables, or a PyG Data.")
    trained = schema is not None
    given = {name: value for name, value in given.items() if value is not None}
    splits = {s: given.pop(n) for s in SPLITS for n in (s, f"{s}_mask") if n in given}
    about = {name: given.pop(name) for name in READ if name in given}
    attributes = given.pop("edge_attr", None)
    graph = read_graph(data, given, nodes, trained)
    if graph.encoding is not None and graph.encoding.uses:
        rows = edge_rows(data, given, graph)
        there = np.flatnonzero((rows.ends >= 0).all(0))
        table = rows.frame.table.iloc[there][list(rows.further)].reset_index(drop=True)
        frame, roles = replace(rows.frame, table=table), Roles()
        reading = Reading(about.get("label"), task=kind, labelled=not trained, trained=trained)
        if schema is not None:
            reading = replace(reading, encoding=schema.encoding, classes=schema.classes)
        else:
            told = {name: about[name] for name in ("group", "time", "seed") if name in about}
            reading = replace(reading, **told | ({"label": y} if isinstance(y, str) else {}))
        beside = Given(None if isinstance(y, str) else y, splits)
        labels = find_labels(frame, reading, roles, beside, range(len(there)))
        ends = torch.from_numpy(rows.ends[:, there].T.copy())
        return Edges(graph, ends, frame.without(list(roles)), labels)
    raw = unpack(data, **{name: value for name, value in given.items() if name != "directed"})
    ends = check_edges(raw.edge_index, graph.num_nodes).T
    own = as_table(raw.edge_attr if attributes is None else attributes)
    if own is not None and not isinstance(own, pd.DataFrame):
        own = pd.DataFrame(as_array(own, "edge_attr").reshape(len(ends), -1)).add_prefix("edge_attr ")
    own = pd.DataFrame(index=range(len(ends))) if own is None else own.reset_index(drop=True)
    if raw.edge_weight is not None:
        own = own.assign(weight=as_array(raw.edge_weight, "edge_weight").ravel())
    values: Any = getattr(data, "edge_label", None) if y is None else y
    if values is None and not trained:
        raise InputError(UNLABELLED)
    count = len(ends) if values is None else len(values)
    if not len(own) == len(ends) == count:
        raise InputError(f"there are {len(ends)} edges, but labels or features of another number of them.")
    return Edges(graph, ends, own, Labels(values, splits, task=kind or "classification"))


def _columns(config: dict[str, Any]) -> nn.Module:
    return EdgeColumns(EdgeConfig(**config))


class EdgeEstimator(RAPEstimator):
    """What estimators of edges share."""

    _columns = staticmethod(_columns)

    def fit(self, data: Any, y: Any = None, **given: Any) -> Self:
        """Train.

        Args:
            data: the graph, as for ``RAPLinkPredictor``: a folder or a file of edges, a PyG ``Data``, features, a
                network, or None with ``edges``.
            y: labels in the order of the edges, missing where unknown, or the name of a column of the edges; None: the
                column ``label``, or ``edge_label`` of a ``Data``. Other columns of the edges, or ``edge_attr``, are
                features.
            given: as for ``RAPLinkPredictor``; ``train``, ``val``, ``test`` (masks or numbers of edges), or ``time`` or
                ``group``, columns of the edges, for the splits. None: a column ``split``, else a stratified split.
        """
        return self.fit_graph(self.described(read_edges(data, y, given | {"seed": self._seed}, self._kind)))

    def described(self, edges: Edges) -> Graph:
        """The edges as rows, described by the labels of those for training: what ``fit_graph`` takes."""
        how = {"task": self._kind, "seed": self._seed}
        rows = build_graph(edges.raw(np.zeros((len(edges.ends), 1))), **how)  # splits and classes
        y = rows.y
        if y.dim() == 1:
            y = nn.functional.one_hot(y.clamp(min=0), rows.num_outputs)[:, 1 if rows.num_outputs == 2 else 0 :]
        encoding, names = edges.graph.encoding, keys_of(edges.graph.ids, edges.graph.num_nodes)[0]
        links, x = links_of(edges.graph), node_features(edges.graph)
        seen = rows.train[(y[rows.train] == y[rows.train]).all(1)]
        read = None if encoding is None else encoding.to_dict()
        self._describing = EdgeColumns.of(links, x, names, edges.ends[seen], y[seen].float(), encoding=read)
        table = self._describing.table(links, x, names, edges.ends, edges.own)
        made = table.iloc[:, edges.own.shape[1] :]
        varied = made.columns[(made.max() > made.min()).to_numpy()]
        learned = learn_table(table[[*edges.own, *varied]], Path("edges"), False, "edge")
        graph = build_graph(edges.raw(table), **how, name=edges.graph.name, encoding=learned)
        learned = replace(learned, label=edges.labels.column)
        notes = (*edges.graph.notes, *edges.labels.notes, *graph.notes)
        return replace(graph, encoding=learned, notes=notes, task=self._task)

    def fit_graph(self, graph: Graph, *arguments: Any, **told: Any) -> Self:
        """Train on what ``described`` gave."""
        super().fit_graph(graph, *arguments, **told)
        self.model_.edge_columns = getattr(self, "_describing", None)  # a page trains rows alone anew
        return self

    def _graph(self, data: Any, y: Any = None, given: dict[str, Any] | None = None, labelled: bool = False) -> Graph:
        if isinstance(data, Graph):
            return check_graph(data, self._task, self.schema_, y, given)
        columns, schema = self.model_.edge_columns, self.schema_
        read = columns.config.encoding
        told = {"label": None if schema.encoding is None else schema.encoding.label} | (given or {})
        edges = read_edges(data, y, told, self._kind, schema, None if read is None else Encoding.from_dict(read))
        if not labelled:
            edges = replace(edges, labels=replace(edges.labels, values=None))
        elif edges.labels.values is None:
            raise InputError(UNLABELLED)
        links = links_of(edges.graph, columns.config.directed)
        names = keys_of(edges.graph.ids, edges.graph.num_nodes)[0]
        table = columns.table(links, node_features(edges.graph), names, edges.ends, edges.own)
        classes = None if self._kind == "regression" else schema.classes
        known: dict[str, Any] = {"classes": classes, "encoding": schema.encoding, "unseen_classes": True}
        how = {"task": self._kind, "labelled": labelled, "trained": True, "name": edges.graph.name}
        return as_schema(replace(build_graph(edges.raw(table), **how, **known), task=self._task), schema, labelled)
