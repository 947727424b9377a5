"""Parts of a graph: the surroundings of some rows, which are enough for exact answers about them.

A part has all edges of its nodes, so that degrees are those of the whole; what lies beyond it is one node that stands
in for the rest. S is then exact in the rows and columns of the part, and hop k in the rows that are k steps inside it.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from rapgnn.graph.graph import Graph, Known, Part
from rapgnn.sparse import Features, SparseMatrix, ranges, row_block


class Incidence:
    """The edges that every node receives and sends; nodes and edges may be added, in time that grows with these alone.

    Shapes:
        edge_index ``[2, m]``.
    """

    def __init__(self, edge_index: Tensor, num_nodes: int):
        self.first, self.later = edge_index.cpu().numpy(), np.zeros((2, 0), dtype=np.int64)
        self.num_nodes = num_nodes
        self._sides: list[sp.csr_matrix] = []
        self._more: list[dict[int, list[int]]] = [defaultdict(list), defaultdict(list)]

    def index(self) -> None:
        """Sort the edges by their ends, which pays where nodes are looked up again and again."""
        m = self.first.shape[1]
        ones, each, shape = np.ones(m, dtype=np.int8), np.arange(m + 1), (self.num_nodes, m)
        self._sides = [sp.csr_matrix(sp.csc_matrix((ones, side, each), shape=shape)) for side in self.first]

    @property
    def num_edges(self) -> int:
        return self.first.shape[1] + self.later.shape[1]

    def add(self, edge_index: np.ndarray, num_nodes: int) -> None:
        """Further edges, between ``num_nodes`` nodes in all."""
        start, self.num_nodes = self.num_edges, num_nodes
        self.later = np.concatenate([self.later, edge_index], axis=1)
        for side, more in zip(edge_index.tolist(), self._more, strict=True):
            for number, node in enumerate(side, start):
                more[node].append(number)

    def ends(self, edges: np.ndarray) -> np.ndarray:
        """Senders and receivers of some edges, ``[2, k]``."""
        m = self.first.shape[1]
        late = edges >= m
        pairs = self.first[:, np.where(late, 0, edges)].astype(np.int64) if m else np.zeros((2, len(edges)), np.int64)
        pairs[:, late] = self.later[:, edges[late] - m]
        return pairs

    def edges_of(self, nodes: np.ndarray, side: int) -> np.ndarray:
        """The edges that nodes send (side 0) or receive (1)."""
        if self._sides:
            by_node = self._sides[side]
            first = sp.csr_matrix(by_node[nodes[nodes < len(by_node.indptr) - 1]]).indices
        else:
            chosen = np.zeros(self.num_nodes, dtype=bool)
            chosen[nodes] = True
            first = np.flatnonzero(chosen[self.first[side]])
        more = self._more[side]
        few = nodes.tolist() if len(nodes) < len(more) else np.intersect1d(np.fromiter(more, np.int64), nodes).tolist()
        later = [edge for node in few if node in more for edge in more[node]]
        return np.concatenate([first, np.array(later, dtype=np.int64)]).astype(np.int64)

    def around(self, nodes: np.ndarray, steps: int, sides: tuple[int, ...] = (1,), most: int | None = None) -> Any:
        """All nodes from which a message reaches these in so many steps, ascending; None where they are more than
        ``most``.

        Args:
            sides: 1: along the edges they receive; 0: those they send.
        """
        inside = last = np.unique(nodes)
        for _ in range(steps):
            ends = [self.ends(self.edges_of(last, side))[1 - side] for side in sides]
            last = np.setdiff1d(np.concatenate(ends), inside)
            inside = np.union1d(inside, last)
            if most is not None and len(inside) > most:
                return None
            if not len(last):
                break
        return inside


def surroundings(
    graph: Graph, incidence: Incidence, nodes: np.ndarray, take: Callable[[str, Tensor], Any], known: Known
) -> Graph:
    """The part of a graph that has these nodes and all their edges; last comes the node that stands in for the rest.

    Args:
        graph: what the part has in common with the whole.
        nodes: ascending.
        take: (field, rows) -> these rows of ``x``, or of the edges' weights or features.
    """
    edges = np.union1d(incidence.edges_of(nodes, 0), incidence.edges_of(nodes, 1))
    ends = incidence.ends(edges)
    place = np.minimum(np.searchsorted(nodes, ends), len(nodes) - 1)
    local = np.where(nodes[place] == ends, place, len(nodes))
    rows, chosen = torch.from_numpy(nodes), torch.from_numpy(edges)
    x, none = _with_zeros(take("x", rows)), torch.zeros(0, dtype=torch.int64)
    y = torch.full((len(nodes) + 1, *graph.y.shape[1:]), -1).to(graph.y.dtype)
    fields = {f: take(f, chosen) for f in ("edge_weight", "edge_attr") if getattr(graph, f) is not None}
    part = Part(torch.cat([rows, torch.tensor([-1])]), known)
    fields |= {"train": none, "val": none, "test": none, "ids": None, "part": part}
    return replace(graph, x=x, y=y, edge_index=torch.from_numpy(local), **fields)


def _with_zeros(x: Features) -> Features:
    """One more row, of zeros."""
    if not isinstance(x, SparseMatrix):
        return torch.cat([x, x.new_zeros(1, x.shape[1])])
    return SparseMatrix.from_csr(torch.cat([x.crow, x.crow[-1:]]), x.col, x.values, (x.shape[0] + 1, x.shape[1]))


class Parts:
    """The surroundings of any rows of one graph.

    Args:
        steps: how far messages come to a row.
        both: whether messages go against the edges, too.
    """

    def __init__(self, graph: Graph, steps: int, both: bool):
        self.graph, self.known, self.steps, self.sides = graph, Known(graph), steps, (0, 1) if both else (1,)

    @cached_property
    def incidence(self) -> Incidence:
        return Incidence(self.graph.edge_index, self.graph.num_nodes)

    def around(self, rows: Tensor) -> tuple[Graph, Tensor]:
        """The part that is enough for exact answers about these rows, and their places in it.

        The graph itself, where that part would be most of it.
        """
        graph, asked = self.graph, rows.cpu().numpy()
        if graph.ptr is not None:
            return _chosen_graphs(graph, rows)
        nodes = self.incidence.around(asked, self.steps, self.sides, graph.num_nodes // 2)
        if nodes is None:
            return graph, rows

        def take(field: str, at: Tensor) -> Features:
            return taken(getattr(graph, field), at)

        part = surroundings(graph, self.incidence, nodes, take, self.known)
        return part, torch.from_numpy(np.searchsorted(nodes, asked))


def taken(values: Features, rows: Tensor) -> Features:
    """These rows of features, or of weights."""
    return values[rows] if isinstance(values, Tensor) and values.dim() == 1 else row_block(values, rows)


def _chosen_graphs(graph: Graph, rows: Tensor) -> tuple[Graph, Tensor]:
    """Some graphs of a set."""
    ptr = graph.ptr
    assert ptr is not None
    bounds, nodes = ranges(ptr[rows], ptr[rows + 1] - ptr[rows])
    edge_ptr = torch.searchsorted(torch.searchsorted(ptr, graph.edge_index[0], right=True) - 1, torch.arange(len(ptr)))
    edge_bounds, edges = ranges(edge_ptr[rows], edge_ptr[rows + 1] - edge_ptr[rows])
    shift = torch.repeat_interleave(bounds[:-1] - ptr[rows], edge_bounds.diff())
    fields = {f: taken(getattr(graph, f), edges) for f in ("edge_weight", "edge_attr") if getattr(graph, f) is not None}
    fields |= {"train": rows[:0], "val": rows[:0], "test": rows[:0], "ids": None, "ptr": bounds, "y": graph.y[rows]}
    x, edge_index = row_block(graph.x, nodes), graph.edge_index[:, edges] + shift
    return replace(graph, x=x, edge_index=edge_index, **fields), torch.arange(len(rows))
