"""A model and its graph, kept ready: answers by id, and new nodes and edges in time that grows with their surroundings.

Answers are kept. What an update changes is what lies within as many steps of it as the model looks: those rows lose
their answer, and get a new one from their own surroundings when they are asked for.
"""

import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
import torch
from torch import Tensor

from rapgnn.device import own_settings, threads, threads_for
from rapgnn.errors import InputError, shown
from rapgnn.graph.convert import as_table
from rapgnn.graph.graph import Graph, Part
from rapgnn.graph.part import Parts, surroundings, taken
from rapgnn.graph.validate import check_edge_weight
from rapgnn.network.network import Average
from rapgnn.sparse import Features, SparseMatrix, dense
from rapgnn.training.predict import is_local, members_on, model_on, span_of

SLACK = 1.25  # room for nodes that come later


class Served:
    """What ``model.serve(data)`` gives. Several threads may use it.

    Args:
        estimator: fitted.
        graph: its nodes have features of their own.
        walk: predict all rows now; False: each when it is first asked for.
    """

    def __init__(self, estimator: Any, graph: Any, walk: bool = True):
        if not isinstance(graph, Graph) or graph.ptr is not None:
            raise InputError("only the nodes of one graph in memory can be served: predict other data as they are.")
        if graph.edge_attr is not None or (graph.encoding is not None and graph.encoding.kind == "structural"):
            raise InputError("features that are made of edges cannot be kept up to date: predict the whole data anew.")
        self._estimator, self._model, self._lock = estimator, estimator.model_, threading.RLock()
        self._all = list(self._model.members) if isinstance(self._model, Average) else [self._model]
        encoding = estimator.schema_.encoding
        self._mirrored = graph.read_as is not None and encoding is not None and not encoding.directed
        self._begin(graph)
        if walk:
            self._walk()

    def _begin(self, graph: Graph) -> None:
        """From a whole graph, without any answers."""
        n, ids = graph.num_nodes, graph.ids
        numbered = ids is None or (ids.dtype.kind in "iu" and np.array_equal(ids, np.arange(n)))
        self._graph, self._parts = replace(graph, ids=None if numbered else ids), Parts(graph, *span_of(self._all))
        self._local = all(is_local(member, graph) for member in self._all)
        self._parts.incidence.index()
        self._members = self._members_now(graph)
        self._later: dict[str, Features] = {}
        self._ids: list[Any] | None = None if ids is None or numbered else ids.tolist()
        self._places = {str(name): place for place, name in enumerate(self._ids or ())}
        self._answers = torch.zeros(int(SLACK * n) + 1, self._estimator.schema_.out_channels)
        self._stale = np.ones(len(self._answers), dtype=bool)

    def __len__(self) -> int:
        return self._parts.incidence.num_nodes

    @own_settings()
    def predict(self, rows: Any) -> np.ndarray:
        """Labels (or numbers) of rows, by their ids, or by their numbers where there are no ids."""
        return self._estimator._read(self._answered(rows))

    @own_settings()
    def predict_proba(self, rows: Any) -> np.ndarray:
        """Probabilities ``[rows, classes]`` (or numbers) likewise."""
        return self._answered(rows).numpy()

    def graph(self) -> Graph:
        """The graph as it is now, for ``model.explain`` and the like."""
        with self._lock:
            graph, later = self._graph, torch.from_numpy(self._parts.incidence.later)
            fields = {name: _stacked(getattr(graph, name), more) for name, more in self._later.items()}
            y = torch.full((len(self) - graph.num_nodes, *graph.y.shape[1:]), -1).to(graph.y)
            ids = None if self._ids is None else _as_objects(self._ids)
            edges = torch.cat([graph.edge_index, later], dim=1)
            return replace(graph, edge_index=edges, y=torch.cat([graph.y, y]), ids=ids, read_as=None, **fields)

    @own_settings()
    def update(
        self,
        nodes: Any = None,
        edges: Any = None,
        *,
        ids: Any = None,
        edge_weight: Any = None,
        directed: bool | None = None,
    ) -> "Served":
        """Add nodes and edges: all of them, or, where something is refused, none.

        Args:
            nodes: features of the new nodes, as ``fit`` takes them: a table (its column ``id`` names them) or an array.
            edges: two rows, senders and receivers, by id (by number where there are no ids), new nodes among them.
            ids: of the new nodes, where the graph's have ids and ``nodes`` has no column of them.
            edge_weight: of the new edges; None: 1.
            directed: False adds the reverse of every edge, too; None: as the folder was read, otherwise as listed.
        """
        with self._lock, threads(1):  # so little work that a second thread would only be waited for
            added, names = self._new_nodes(as_table(nodes), ids)
            first, count = len(self), 0 if added is None else added.num_nodes
            new = {str(name): first + i for i, name in enumerate(names)}
            places = self._numbers([[], []] if edges is None else edges, first + count, new)
            if places.ndim != 2 or len(places) != 2:
                raise InputError(f"edges must be two rows, senders and receivers, got shape {places.shape}.")
            if edge_weight is not None and self._graph.edge_weight is None:
                raise InputError("the edges of the graph have no weights: leave edge_weight out.")
            weight = torch.ones(places.shape[1])
            weight = weight if edge_weight is None else check_edge_weight(edge_weight, places.shape[1])
            if directed is False or (directed is None and self._mirrored):
                places, weight = np.concatenate([places, places[::-1]], axis=1), weight.repeat(2)
            if added is not None:
                self._later["x"] = _stacked(self._later.get("x"), _like(added.x, self._graph.x))
                # Nodes without ids are none of those that a model knows by their places: they are new.
                known_by = names if self._ids is not None else [f"new {i}" for i in range(count)]
                self._parts.known.add(replace(added, ids=_as_objects(known_by)))
                self._places |= new
                if self._ids is not None:
                    self._ids += names
            if self._graph.edge_weight is not None:
                weight = weight.to(self._graph.edge_weight)
                self._later["edge_weight"] = _stacked(self._later.get("edge_weight"), weight)
            self._parts.incidence.add(places, first + count)
            self._forget(np.union1d(places.ravel(), np.arange(first, first + count)), weight)
        return self

    def _new_nodes(self, nodes: Any, ids: Any) -> tuple[Graph | None, list[Any]]:
        """The new nodes as a graph without edges, and their ids."""
        if nodes is None:
            return None, []
        none = {"edge_index": np.zeros((2, 0), dtype=np.int64)}
        added: Graph = self._estimator._graph(nodes, given=none)
        encoding = self._estimator.schema_.encoding
        named = (encoding.id if encoding is not None else None) or "id"
        if ids is None and isinstance(nodes, pd.DataFrame) and named in nodes:
            ids = nodes[named]
        names, first = [] if ids is None else list(ids), len(self)
        if self._ids is None:
            if names and list(map(str, names)) != [str(first + i) for i in range(added.num_nodes)]:
                raise InputError(f"nodes are numbered here: {added.num_nodes} new ones begin with {first}.")
            return added, []
        new = set(map(str, names))
        if len(new) != added.num_nodes or len(names) != len(new) or any(name in self._places for name in new):
            raise InputError(f"{added.num_nodes} new nodes need as many ids that no node has: give ids.")
        return added, names

    def _numbers(self, rows: Any, count: int, new: dict[str, int]) -> np.ndarray:
        """The numbers of nodes that are named by their ids, or of ``count`` by their numbers."""
        rows = as_table(rows)
        rows = rows.iloc[:, :2].to_numpy().T if isinstance(rows, pd.DataFrame) else rows
        rows = rows.detach().cpu().numpy() if isinstance(rows, Tensor) else np.asarray(rows)
        if self._ids is None:
            with suppress(ValueError):
                numbers = rows.astype(np.int64) if rows.dtype.kind in "iu" else rows.astype(str).astype(np.int64)
                if not numbers.size or (numbers.min() >= 0 and numbers.max() < count):
                    return numbers
            raise InputError(f"nodes are named by their numbers here, 0 to {count - 1}.")
        found = [self._places.get(str(name), new.get(str(name), -1)) for name in rows.ravel().tolist()]
        if -1 in found:
            raise InputError(f"no node has the id {shown(rows.ravel()[found.index(-1)])}.")
        return np.array(found, dtype=np.int64).reshape(rows.shape)

    def _forget(self, changed: np.ndarray, weight: Tensor) -> None:
        """Answers that these nodes, and the weights of their new edges, may have changed count no more."""
        n, incidence = len(self), self._parts.incidence
        if n > len(self._answers):
            room = int(SLACK * n) + 1 - len(self._answers)
            self._answers = torch.cat([self._answers, self._answers.new_zeros(room, self._answers.shape[1])])
            self._stale = np.concatenate([self._stale, np.ones(room, dtype=bool)])
        now, before = replace(self._graph, edge_weight=weight), self._members
        self._local = self._local and all(is_local(member, now) for member in self._all)
        self._members = self._members_now(now)
        others = [id(member) for member in before] != [id(member) for member in self._members]
        reached = None
        if self._local and not others:
            sides = tuple(1 - side for side in self._parts.sides)
            reached = incidence.around(changed, self._parts.steps, sides, n // 2)
        self._stale[slice(n) if reached is None else reached] = True

    def _members_now(self, graph: Graph) -> list[Any]:
        """The networks that count, by the nodes that there are."""
        return members_on(self._model, replace(graph, part=Part(torch.zeros(0, dtype=torch.int64), self._parts.known)))

    def _answered(self, rows: Any) -> Tensor:
        """What is predicted for some rows."""
        with self._lock:
            numbers = np.atleast_1d(self._numbers(rows, len(self), {}))
            stale = np.unique(numbers[self._stale[numbers]])
            if len(stale):
                self._answer(stale)
            return self._answers[torch.from_numpy(numbers)]

    def _answer(self, stale: np.ndarray) -> None:
        """Predict these rows, ascending, from their surroundings; all rows where those are most of the graph."""
        parts = self._parts
        nodes = parts.incidence.around(stale, parts.steps, parts.sides, len(self) // 2) if self._local else None
        if nodes is None:
            self._walk()
            return
        part = surroundings(self._graph, parts.incidence, nodes, self._taken, parts.known)
        places = torch.from_numpy(np.searchsorted(nodes, stale))
        with threads_for(part.edge_index.shape[1] * part.num_features):
            self._answers[torch.from_numpy(stale)] = model_on(self._model, part)(places).probabilities
        self._stale[stale] = False

    def _walk(self) -> None:
        """Predict all rows of the graph as it is now, which is the one that later changes are noted beside."""
        if self._later or self._parts.incidence.later.size:
            self._begin(self.graph())
        n = len(self)
        self._answers[:n] = model_on(self._model, self._graph)(torch.arange(n)).probabilities
        self._stale[:n] = False

    def _taken(self, field: str, rows: Tensor) -> Features:
        """Some rows, ascending, of features or of edge weights, those that came later among them."""
        first: Features = getattr(self._graph, field)
        early = rows < first.shape[0]
        part = taken(first, rows[early])
        return part if bool(early.all()) else _stacked(part, taken(self._later[field], rows[~early] - first.shape[0]))


def _as_objects(values: Sequence[Any]) -> np.ndarray:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _like(x: Features, other: Features) -> Features:
    if isinstance(other, SparseMatrix) and isinstance(x, Tensor):
        return SparseMatrix(sp.csr_matrix(x.numpy()), dtype=other.dtype)
    return dense(x) if isinstance(other, Tensor) else x


def _stacked(one: Features | None, other: Features) -> Features:
    if one is None:
        return other
    if isinstance(one, SparseMatrix) and isinstance(other, SparseMatrix):
        return SparseMatrix(sp.vstack([one.scipy(), other.scipy()]), dtype=one.dtype)
    assert isinstance(one, Tensor)
    assert isinstance(other, Tensor)
    return torch.cat([one, other])
