r"""S of a graph on disk, multiplied one block of rows after another, so that memory holds a block and no more.

.. math:: S x = D_{in}^p (A (D_{out}^q x)) + (1 + ε) x

A is read from the folder as it lies there; both diagonals are applied to the columns instead of the entries, which need
no values of their own then. A thread reads the next block while the last one is multiplied.
"""

import math
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from rapgnn.errors import InputError
from rapgnn.graph.backbones import BACKBONES, Scaling
from rapgnn.graph.csr import degree_power
from rapgnn.scale.disk_graph import DiskGraph
from rapgnn.sparse import SparseMatrix, ranges, row_sums

ENTRIES = {"cpu": 1 << 21, "cuda": 1 << 24}  # of S that are read at a time
PRODUCT_BYTES = {"cpu": 16 << 20, "cuda": 256 << 20}  # of one block's product

Block = tuple[slice, SparseMatrix]
Arrays = tuple[Tensor, Tensor, Tensor]  # of a matrix by compressed rows


class StreamedMatrix:
    """S ``[n, n]`` by its products alone.

    Args:
        graph: on disk.
        backbone: whose S it is; one without edge features.
        self_loops, eps: as in ``Config``.
        device: where products run.
        keep: whether the blocks stay on the device, where all of them fit.
    """

    def __init__(
        self,
        graph: DiskGraph,
        backbone: str,
        *,
        self_loops: bool = False,
        eps: float = 0.0,
        device: torch.device | str = "cpu",
        keep: bool = False,
    ):
        rule, self.graph, self.device = BACKBONES[backbone], graph, torch.device(device)
        if rule.edges or not isinstance(rule.normalise, Scaling):
            raise InputError(f"{backbone} cannot be streamed from disk: use gcn, sage or gin.")
        self.shape = graph.num_nodes, graph.num_nodes
        self.own = 1.0 + eps if rule.includes_self else None
        self.entries = max(ENTRIES[self.device.type], largest_row(graph))
        self._ones = torch.ones(min(self.entries, graph.num_edges), dtype=torch.float32, device=self.device)
        self._buffers = [self._buffer() for _ in range(2)]
        degrees = Degrees(graph, self.entries)
        self.negative = degrees.negative
        bare = degrees.without_loop() if self_loops and not rule.includes_self else None
        self.left, self.right = (
            None if part is None else part.to(self.device) for part in degrees.diagonals(rule.normalise, bare)
        )
        self.bare = None if bare is None else bare.to(self.device)
        self._kept: list[Block] | None = None
        self._keep = keep and self.device.type != "cpu"  # there the blocks lie in buffers that are written again

    @property
    def nonnegative(self) -> bool:
        """Whether no entry is below zero."""
        return not self.negative and (self.own is None or self.own >= 0)

    @torch.no_grad()
    def product(self, x: Tensor, out: Tensor, magnitude: bool = False) -> Tensor:
        """S x, written to ``out``. x is used up: it holds other numbers afterwards.

        Args:
            magnitude: of \\|S\\| instead.
        """
        apart = self.own is not None and not (magnitude and self.negative)  # else the blocks have it
        if apart:
            torch.mul(x, abs(self.own) if magnitude else self.own, out=out)  # type: ignore[arg-type]
        if self.right is not None:
            x.mul_(self.right)
        for rows, matrix in self._blocks(x.shape[1], magnitude):
            found = self._finished(matrix @ x, x, rows)
            if not apart:
                out[rows] = found
            else:
                out[rows].add_(found)
        return out

    @torch.no_grad()
    def product_of(self, x: Tensor, rows: np.ndarray) -> Tensor:
        """Some rows of S x ``[rows, w]``, from the entries of these rows alone; x is used up."""
        out = x.new_empty(len(rows), x.shape[1])
        index = torch.from_numpy(np.ascontiguousarray(rows)).to(x.device)
        if self.own is not None:
            torch.mul(x[index], self.own, out=out)
        if self.right is not None:
            x.mul_(self.right)
        for part, matrix in self._chosen(rows, x.shape[1]):
            found = self._finished(matrix @ x, x, index[part])
            if self.own is None:
                out[part] = found
            else:
                out[part].add_(found)
        return out

    def growth_rate(self) -> float:
        """As ``GraphOperator.growth_rate``: how much one product enlarges at most, in the long run."""
        ones = torch.ones(self.shape[0], 1, dtype=torch.float32, device=self.device)
        other, logarithm, steps = torch.empty_like(ones), 0.0, 16
        for _ in range(steps):
            ones, other = self.product(ones, other, magnitude=True), ones
            size = float(ones.max()) if len(ones) else 0.0
            if size <= 0:
                return 1.0
            logarithm += math.log(size)
            ones.div_(size)
        mantissa, exponent = math.frexp(math.exp(logarithm / steps))
        return math.ldexp(round(64 * mantissa) / 64, exponent)

    def _finished(self, product: Tensor, x: Tensor, rows: slice | Tensor) -> Tensor:
        """What is left to do for a block: the loops that were added, and the receivers' diagonal."""
        if self.bare is not None:
            product.addcmul_(x[rows], self.bare[rows])
        return product if self.left is None else product.mul_(self.left[rows])

    def _blocks(self, width: int, magnitude: bool = False) -> Iterator[Block]:
        if self._kept is not None and not magnitude:
            yield from self._kept
            return
        kept: list[Block] = []
        for rows, matrix in self._streamed(cut(self.graph.indptr, self.entries, self._most_rows(width)), self._read):
            if magnitude and self.negative:
                matrix = self._magnitudes(rows, matrix)
            if self._keep and not magnitude:
                kept.append((rows, matrix))
            yield rows, matrix
        if self._keep and not magnitude:
            self._kept = kept

    def _magnitudes(self, rows: slice, matrix: SparseMatrix) -> SparseMatrix:
        """The magnitudes of a block's entries; an edge that is listed twice has that of its sum."""
        whole = sp.csr_matrix(matrix.scipy(), dtype=np.float64)
        if self.own is not None:
            own = self.own * sp.eye(len(matrix.crow) - 1, self.shape[1], k=rows.start, format="csr")
            whole = sp.csr_matrix(whole + own)
        whole.sum_duplicates()
        return SparseMatrix(abs(whole), device=self.device)

    def _chosen(self, rows: np.ndarray, width: int) -> Iterator[Block]:
        sizes = self.graph.indptr[rows + 1] - self.graph.indptr[rows]
        ends = np.concatenate([[0], np.cumsum(sizes)])
        bounds = cut(ends, max(self.entries // 2, int(sizes.max(initial=0))), self._most_rows(width))
        yield from self._streamed(bounds, lambda rows_, slot: self._gather(rows[rows_], slot))

    def _streamed(self, bounds: Iterator[slice], read: Callable[[slice, int], Arrays]) -> Iterator[Block]:
        """One block is read while the one before is used."""
        with ThreadPoolExecutor(1) as pool:
            ahead: list[tuple[slice, Future[Arrays]]] = []
            for number, rows in enumerate(bounds):
                ahead.append((rows, pool.submit(read, rows, number % 2)))
                if number:
                    yield self._block(*ahead.pop(0))
            for rows, arrays in ahead:
                yield self._block(rows, arrays)

    def _block(self, rows: slice, arrays: "Future[Arrays]") -> Block:
        crow, col, values = arrays.result()
        return rows, SparseMatrix.from_csr(crow, col, values, (len(crow) - 1, self.shape[1]))

    def _most_rows(self, width: int) -> int:
        return max(1, PRODUCT_BYTES[self.device.type] // (4 * max(1, width)))

    def _read(self, rows: slice, slot: int) -> Arrays:
        crow = self.graph.indptr[rows.start : rows.stop + 1]
        first, last = int(crow[0]), int(crow[-1])
        return self._arrays(crow - first, slice(first, last), slot)

    def _gather(self, rows: np.ndarray, slot: int) -> Arrays:
        starts = torch.from_numpy(np.array(self.graph.indptr[rows]))
        sizes = torch.from_numpy(np.array(self.graph.indptr[rows + 1])) - starts
        crow, entries = ranges(starts, sizes)
        return self._arrays(crow.numpy(), entries.numpy(), slot)

    def _arrays(self, crow: np.ndarray, entries: slice | np.ndarray, slot: int) -> Arrays:
        count = int(crow[-1])
        col, weight = self._buffers[slot]
        np.copyto(col[:count].numpy(), self.graph.indices[entries])
        values = self._ones[:count]
        if weight is not None:
            assert self.graph.weights is not None
            np.copyto(weight[:count].numpy(), self.graph.weights[entries])
            values = weight[:count]
        begins, col = torch.from_numpy(crow.astype(np.int32)), col[:count]
        return begins.to(self.device), col.to(self.device), values.to(self.device)

    def _buffer(self) -> tuple[Tensor, Tensor | None]:
        size = min(self.entries, self.graph.num_edges)
        weight = None if self.graph.weights is None else torch.empty(size, dtype=torch.float32)
        return torch.empty(size, dtype=torch.int32), weight


def held_bytes(graph: DiskGraph, self_loops: bool, width: int = 1) -> int:
    """What a ``StreamedMatrix`` on the CPU holds at most besides the columns it multiplies."""
    entries = min(max(ENTRIES["cpu"], largest_row(graph)), max(1, graph.num_edges))
    edge = 2 * (4 + 4 * graph.weighted) + 4 + 24  # two blocks, ones, and what a choice of rows takes
    node = 8 + 4 * self_loops + 8  # both diagonals, and the degrees that they are made of
    return entries * edge + graph.num_nodes * node + 3 * max(PRODUCT_BYTES["cpu"], 4 * width)


# The degrees of a graph on disk, by blocks of rows, and the diagonals that scale its adjacency matrix.


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
