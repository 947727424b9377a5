"""The degrees of a graph on disk, by blocks of rows, and the diagonals that scale its adjacency matrix."""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from rapgnn.graph.backbones import Scaling
from rapgnn.graph.csr import degree_power
from rapgnn.scale.disk_graph import DiskGraph
from rapgnn.sparse import row_sums

CHUNK = 1 << 20  # nodes, or edges, that are looked at together


def largest_row(graph: DiskGraph) -> int:
    """The most edges that a node receives."""
    starts = range(0, graph.num_nodes, CHUNK)
    return max((int(np.diff(graph.indptr[s : s + CHUNK + 1]).max(initial=0)) for s in starts), default=0)


def cut(ends: np.ndarray, entries: int, most_rows: int) -> Iterator[slice]:
    """Rows in blocks of so many entries and rows at most; ``ends`` says where the entries of each row begin."""
    row, n = 0, len(ends) - 1
    while row < n:
        reach = int(np.searchsorted(ends, int(ends[row]) + entries, side="right")) - 1
        stop = min(n, row + most_rows, max(row + 1, reach))
        yield slice(row, stop)
        row = stop


class Degrees:
    """What each node receives and sends: summed magnitudes of weights, or counts.

    Args:
        entries: edges that are looked at together.
    """

    def __init__(self, graph: DiskGraph, entries: int):
        self.graph, self.entries, weights = graph, entries, graph.weights
        starts = range(0, 0 if weights is None else len(weights), CHUNK)
        self.negative = weights is not None and any(bool((weights[s : s + CHUNK] < 0).any()) for s in starts)

    def diagonals(self, scaling: Scaling, added: Tensor | None = None) -> tuple[Tensor | None, Tensor | None]:
        """D_in^received and D_out^sent, ``[n, 1]`` each; None: no change.

        Args:
            added: ``[n, 1]``, the weights of loops that the graph does not have.
        """
        left = _power(self.received(), added, scaling.received) if scaling.received else None
        return left, _power(self.sent(), added, scaling.sent) if scaling.sent else None

    def without_loop(self) -> Tensor:
        """``[n, 1]``: one where a node has no loop."""
        bare = torch.ones(self.graph.num_nodes, 1, dtype=torch.float32)
        for rows in self._blocks():
            receiver, sender = self._ends(rows)
            bare[receiver[receiver == sender].astype(np.int64)] = 0.0
        return bare

    def received(self) -> np.ndarray:
        """``[n]``."""
        if self.graph.weights is None:
            return np.diff(self.graph.indptr)
        total = np.empty(self.graph.num_nodes)
        for rows in self._blocks():
            size, crow = self._magnitudes(rows)
            total[rows] = row_sums(torch.from_numpy(crow), torch.from_numpy(size)).numpy()
        return total

    def sent(self) -> np.ndarray:
        """``[n]``."""
        if self.graph.weights is None:
            total = np.zeros(self.graph.num_nodes, dtype=np.int64)
            for start in range(0, self.graph.num_edges, CHUNK):
                np.add.at(total, self.graph.indices[start : start + CHUNK], 1)
            return total
        weighted = np.zeros(self.graph.num_nodes)
        for rows in self._blocks():
            first, last = self.graph.indptr[[rows.start, rows.stop]].tolist()
            np.add.at(weighted, self.graph.indices[first:last], self._magnitudes(rows)[0])
        return weighted

    def _blocks(self) -> Iterator[slice]:
        return cut(self.graph.indptr, self.entries, CHUNK)

    def _magnitudes(self, rows: slice) -> tuple[np.ndarray, np.ndarray]:
        """How much each entry of these rows counts, in double precision, and where each row begins.

        An edge that is listed twice counts with the magnitude of its sum, at the first of its places.
        """
        assert self.graph.weights is not None
        crow = np.array(self.graph.indptr[rows.start : rows.stop + 1])
        size = self.graph.weights[int(crow[0]) : int(crow[-1])].astype(np.float64)
        if self.negative and len(size):
            receiver, sender = self._ends(rows)
            first = np.ones(len(size), dtype=bool)
            first[1:] = (receiver[1:] != receiver[:-1]) | (sender[1:] != sender[:-1])
            begins = np.flatnonzero(first)
            total = np.add.reduceat(size, begins)
            size[:] = 0.0
            size[begins] = total
        return np.abs(size), crow - crow[0]

    def _ends(self, rows: slice) -> tuple[np.ndarray, np.ndarray]:
        """Receiver and sender of the entries of these rows."""
        crow = self.graph.indptr[rows.start : rows.stop + 1]
        receiver = np.repeat(np.arange(rows.start, rows.stop, dtype=np.int32), np.diff(crow))
        return receiver, np.asarray(self.graph.indices[int(crow[0]) : int(crow[-1])])


def _power(degree: np.ndarray, added: Tensor | None, exponent: float) -> Tensor:
    """degree^exponent, rounded to 32 bits part by part."""
    out = torch.empty(len(degree), 1, dtype=torch.float32)
    for start in range(0, len(degree), CHUNK):
        part = torch.from_numpy(degree[start : start + CHUNK])
        if added is not None:
            part = part + added[start : start + CHUNK, 0].to(part.dtype)
        power = degree_power(part, exponent)
        assert power is not None
        out[start : start + CHUNK, 0] = power
    return out
