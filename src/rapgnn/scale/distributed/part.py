"""One worker's rows of the graph: its rows of S, and the rows of others that they need (the halo)."""

from bisect import bisect_left
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from rapgnn.errors import InputError
from rapgnn.graph.backbones import BACKBONES, Scaling
from rapgnn.graph.csr import Adjacency, compress, degree_power
from rapgnn.scale.disk_graph import DiskGraph
from rapgnn.scale.distributed.group import Workers
from rapgnn.sparse import INT32_MAX, SparseMatrix


@dataclass(frozen=True)
class Halo:
    """Who needs which rows from whom, found once; then rows travel in any number of hops.

    A worker numbers the nodes that it sees, its own and those of the halo, in their order in the graph. So its rows
    of S have their entries in the order of the whole matrix, and sums are the same to the last bit.

    Args:
        workers: the group.
        nodes: ``[seen]``, the nodes this worker sees, ascending.
        own: where its own are among them.
        wanted: for every worker the rows, counted among its own, that it must get from here.
        received: how many rows come from every worker; none from itself.
    """

    workers: Workers
    nodes: Tensor
    own: slice
    wanted: tuple[Tensor, ...]
    received: tuple[int, ...]

    @classmethod
    def find(cls, workers: Workers, bounds: np.ndarray, senders: np.ndarray) -> "Halo":
        """From the nodes that send to this worker's rows.

        Args:
            bounds: ``[workers + 1]``, the ranges of rows.
            senders: nodes of the whole graph, in any order and any number of times.
        """
        first, last = int(bounds[workers.rank]), int(bounds[workers.rank + 1])
        foreign = np.unique(senders[(senders < first) | (senders >= last)]).astype(np.int64)
        before = int(np.searchsorted(foreign, first))
        nodes = np.concatenate([foreign[:before], np.arange(first, last), foreign[before:]])
        places = np.searchsorted(foreign, bounds)
        needs = [torch.from_numpy(foreign[a:b]).to(workers.device) for a, b in pairwise(places)]
        wanted = tuple(rows - first for rows in workers.exchange(needs))
        own = slice(before, before + last - first)
        seen = torch.from_numpy(nodes).to(workers.device)
        return cls(workers, seen, own, wanted, tuple(len(rows) for rows in needs))

    @property
    def sent(self) -> list[int]:
        """How many rows go to every worker."""
        return [len(rows) for rows in self.wanted]

    def fetch(self, own: Tensor) -> Tensor:
        """The rows of all nodes that are seen, ``[seen, ...]``, from the worker's own."""
        if self.workers.size == 1:
            return own
        leaving = torch.cat([own[rows] for rows in self.wanted])
        arrived = torch.cat(self.workers.exchange_known(leaving, self.sent, list(self.received)))
        return torch.cat([arrived[: self.own.start], own, arrived[self.own.start :]])

    def add_up(self, seen: Tensor) -> Tensor:
        """The way back: what all workers have for this worker's rows, added up in the workers' order."""
        if self.workers.size == 1:
            return seen
        foreign = torch.cat([seen[: self.own.start], seen[self.own.stop :]])
        parts = self.workers.exchange_known(foreign, list(self.received), self.sent)
        total = torch.zeros_like(seen[self.own])
        for w, (rows, part) in enumerate(zip(self.wanted, parts, strict=True)):
            if w == self.workers.rank:
                total += seen[self.own]
            else:
                total[rows] += part
        return total


@dataclass(frozen=True)
class GraphPart:
    """One worker's rows of S, with what they need of others.

    Args:
        matrix: ``[own rows, seen nodes]``.
        bounds: ``[workers + 1]``, the ranges of rows of all workers.
    """

    matrix: SparseMatrix
    halo: Halo
    bounds: np.ndarray

    @property
    def workers(self) -> Workers:
        """The group that holds the graph."""
        return self.halo.workers

    @property
    def rows(self) -> slice:
        """This worker's rows of the graph."""
        rank = self.workers.rank
        return slice(int(self.bounds[rank]), int(self.bounds[rank + 1]))

    def with_values(self, values: Tensor) -> "GraphPart":
        """The same part with other values of S."""
        return replace(self, matrix=self.matrix.with_values(values))

    def hop(self, h: Tensor) -> Tensor:
        """S h of this worker's rows, ``[rows, d]``, from h of the same rows."""
        return self.matrix @ self.halo.fetch(h)

    @classmethod
    def read(
        cls, graph: DiskGraph, workers: Workers, backbone: str, *, self_loops: bool = False, eps: float = 0.0
    ) -> "GraphPart":
        """This worker's part of a graph on disk; only its rows are read. Degrees are those of the whole graph."""
        rule = BACKBONES[backbone]
        if rule.edges:
            raise InputError(f"{backbone} needs edge features, which a graph on disk does not have: use gin.")
        if not isinstance(rule.normalise, Scaling):
            raise InputError(f"{backbone} is normalised by a function of the whole matrix: use one process.")
        bounds = row_bounds(graph.indptr, workers.size)
        first, last = int(bounds[workers.rank]), int(bounds[workers.rank + 1])
        starts = np.array(graph.indptr[first : last + 1])
        edges = slice(int(starts[0]), int(starts[-1]))
        senders = np.array(graph.indices[edges])
        halo = Halo.find(workers, bounds, senders)
        weight = None if graph.weights is None else torch.from_numpy(np.array(graph.weights[edges]))
        A = _own_rows(halo, senders, np.diff(starts), weight, self_loops, rule.includes_self)
        left = degree_power(A.received(), rule.normalise.received)
        sent = halo.fetch(halo.add_up(A.sent().double().to(workers.device))).cpu() if rule.normalise.sent else None
        right = None if sent is None else degree_power(sent, rule.normalise.sent)
        own = 1.0 + eps if rule.includes_self else None
        whole = A.scaled(left, right, own, torch.float32)
        crow = whole.crow[halo.own.start : halo.own.stop + 1]  # the rows around them are empty
        shape = (last - first, A.num_nodes)
        return cls(SparseMatrix.from_csr(crow, whole.col, whole.values, shape).to(workers.device), halo, bounds)


def _own_rows(
    halo: Halo, senders: np.ndarray, sizes: np.ndarray, weight: Tensor | None, self_loops: bool, places: bool
) -> Adjacency:
    """A by the numbers of the seen nodes; rows of the halo, which other workers hold, are empty."""
    nodes, own = halo.nodes.cpu().numpy(), halo.own
    index = np.int32 if len(nodes) <= INT32_MAX else np.int64
    ends = np.empty((2, len(senders)), dtype=index)
    ends[0] = np.searchsorted(nodes, senders)
    ends[1] = np.repeat(np.arange(own.start, own.stop), sizes)
    A = compress(torch.from_numpy(ends), weight, len(nodes), self_loops=self_loops, placeholders=places)
    first, last = int(A.crow[own.start]), int(A.crow[own.stop])
    mine = slice(first, last)
    placeholders = A.placeholders
    if placeholders is not None:  # loops of the halo, where compress has made a place for them, are gone with its rows
        placeholders = placeholders.clone()
        placeholders[: own.start] = False
        placeholders[own.stop :] = False
    kept = None if A.weight is None else A.weight[mine]
    return Adjacency(A.crow.clamp(first, last) - first, A.col[mine], kept, placeholders)


# Which worker holds which rows: ranges that follow one another and have about the same work.


ROW_COST = 4  # a row without edges costs about as much as so many edges: it is read, kept and written


def row_bounds(indptr: np.ndarray, workers: int) -> np.ndarray:
    """``[workers + 1]``: worker w holds the rows from bounds[w] to bounds[w + 1]; some may hold none.

    Only a few entries of ``indptr`` are read, so that it may be a memory map larger than memory.

    Args:
        indptr: ``[n + 1]``, where each row's edges begin.
    """
    n = len(indptr) - 1

    def work_before(row: int) -> int:
        return int(indptr[row]) + ROW_COST * row

    total = work_before(n)
    bounds = [bisect_left(range(n + 1), total * w / workers, key=work_before) for w in range(workers)]
    return np.array([*bounds, n], dtype=np.int64)
