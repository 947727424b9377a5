r"""S of a graph on disk, multiplied one block of rows after another, so that memory holds a block and no more.

.. math:: S x = D_{in}^p (A (D_{out}^q x)) + (1 + ε) x

A is read from the folder as it lies there; both diagonals are applied to the columns instead of the entries, which need
no values of their own then. A thread reads the next block while the last one is multiplied.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from rapgnn.errors import InputError
from rapgnn.graph.backbones import BACKBONES, Scaling, degree_power
from rapgnn.graph.operator import growth_rate
from rapgnn.memory import blocks
from rapgnn.scale.disk_graph import DiskGraph
from rapgnn.sparse import SparseMatrix, ranges, row_sums

ENTRIES = {"cpu": 1 << 21, "cuda": 1 << 24}  # of S that are read at a time
PRODUCT_BYTES = {"cpu": 16 << 20, "cuda": 256 << 20}  # of one block's product

Block = tuple[slice, SparseMatrix]
Arrays = tuple[Tensor, Tensor, Tensor]  # of a matrix by compressed rows


class StreamedMatrix:
    """S by its products alone.

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
        rule, self.device = BACKBONES[backbone], torch.device(device)
        if rule.edges or not isinstance(rule.normalise, Scaling):
            raise InputError(f"{backbone} cannot be streamed from disk: use gcn, sage or gin.")
        self.graph, self.shape = graph, (graph.num_nodes, graph.num_nodes)
        self.own = 1.0 + eps if rule.includes_self else None
        self.entries = max(ENTRIES[self.device.type], largest_row(graph))
        self._ones = torch.ones(min(self.entries, graph.num_edges), dtype=torch.float32, device=self.device)
        self._buffers = [self._buffer() for _ in range(2)]
        weights = graph.weights
        chunks = blocks(0 if weights is None else len(weights), CHUNK)
        self.negative = weights is not None and any(bool((weights[part] < 0).any()) for part in chunks)
        self.nonnegative = not self.negative and (self.own is None or self.own >= 0)
        self._stored: list[Block] | None = None
        self._stores = keep and self.device.type != "cpu"  # there the blocks lie in buffers that are written again
        self.bare, self.left, self.right = self._diagonals(rule.normalise, self_loops and not rule.includes_self)

    @torch.no_grad()
    def product(self, x: Tensor, out: Tensor, magnitude: bool = False) -> Tensor:
        """S x, written to ``out``, from x of the same rows. x is used up: it holds other numbers afterwards.

        Args:
            magnitude: of \\|S\\| instead.
        """
        apart = self.own is not None and not (magnitude and self.negative)  # else the blocks have it
        if apart:
            torch.mul(x, abs(self.own) if magnitude else self.own, out=out)  # type: ignore[arg-type]
        return self._sum(self._blocks(x.shape[1], magnitude), x, out, apart)

    @torch.no_grad()
    def product_of(self, x: Tensor, rows: np.ndarray) -> Tensor:
        """Some rows of S x ``[rows, w]``, from the entries of these rows alone; x is used up."""
        out = x.new_empty(len(rows), x.shape[1])
        index = torch.from_numpy(np.ascontiguousarray(rows)).to(x.device)
        if self.own is not None:
            torch.mul(x[index], self.own, out=out)
        return self._sum(self._chosen(rows, x.shape[1]), x, out, self.own is not None, index)

    def _sum(self, parts: Iterator[Block], x: Tensor, out: Tensor, apart: bool, index: Tensor | None = None) -> Tensor:
        """The products of all blocks, in ``out``.

        Args:
            apart: what is there, the nodes' own part, is added.
            index: which rows these are; None: all.
        """
        x = x if self.right is None else x.mul_(self.right)
        for places, matrix in parts:
            rows = places if index is None else index[places]
            product = matrix @ x
            if self.bare is not None:  # the loops that were added
                product.addcmul_(x[rows], self.bare[rows])
            product = product if self.left is None else product.mul_(self.left[rows])
            if apart:
                out[places].add_(product)
            else:
                out[places] = product
        return out

    def growth_rate(self) -> float:
        """As ``GraphOperator.growth_rate``."""
        ones = torch.ones(self.shape[0], 1, dtype=torch.float32, device=self.device)
        return growth_rate(lambda x: self.product(x, torch.empty_like(x), magnitude=True), ones)

    # The blocks of S: whole ranges of rows, or rows that are chosen.

    def _blocks(self, width: int, magnitude: bool = False) -> Iterator[Block]:
        if self._stored is not None and not magnitude:
            yield from self._stored
            return
        passed: list[Block] = []
        for rows, matrix in self._streamed(cut(self.graph.indptr, self.entries, self._most_rows(width)), self._read):
            yield rows, self._magnitudes_of(rows, matrix) if magnitude and self.negative else matrix
            if self._stores and not magnitude:
                passed.append((rows, matrix))
        self._stored = passed or self._stored

    def _magnitudes_of(self, rows: slice, matrix: SparseMatrix) -> SparseMatrix:
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
            last: tuple[slice, Future[Arrays]] | None = None
            for number, rows in enumerate(chain(bounds, [None])):
                ahead = None if rows is None else (rows, pool.submit(read, rows, number % 2))
                if last is not None:
                    crow, col, values = last[1].result()
                    yield last[0], SparseMatrix.from_csr(crow, col, values, (len(crow) - 1, self.shape[1]))
                last = ahead

    def _most_rows(self, width: int) -> int:
        return max(1, PRODUCT_BYTES[self.device.type] // (4 * max(1, width)))

    def _read(self, rows: slice, slot: int) -> Arrays:
        crow = self.graph.indptr[rows.start : rows.stop + 1]
        return self._arrays(crow - crow[0], slice(int(crow[0]), int(crow[-1])), slot)

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

    def _diagonals(self, scaling: Scaling, loops: bool) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """One where a loop is added ``[rows, 1]``, and the powers of the degrees that scale receivers and senders.

        Degrees are summed magnitudes of weights, or counts. An edge that is listed twice counts with the magnitude of
        its sum, at the first of its places.
        """
        weights = self.graph.weights
        sent: np.ndarray = np.zeros(self.shape[1] if scaling.sent else 0, np.int64 if weights is None else np.float64)
        added = torch.ones(self.shape[0], 1, dtype=torch.float32) if loops else None
        left = torch.empty(self.shape[0], 1, dtype=torch.float32) if scaling.received else None
        for rows in cut(self.graph.indptr, self.entries, CHUNK):
            crow = self.graph.indptr[rows.start : rows.stop + 1]
            sender = np.asarray(self.graph.indices[int(crow[0]) : int(crow[-1])])
            degree, size, receiver = np.diff(crow), None, sender
            if added is not None or self.negative:
                receiver = np.repeat(np.arange(rows.start, rows.stop, dtype=np.int32), degree)
            if added is not None:
                added[receiver[receiver == sender].astype(np.int64)] = 0.0
            if weights is not None:
                size = weights[int(crow[0]) : int(crow[-1])].astype(np.float64)
                if self.negative and len(size):
                    first = np.ones(len(size), dtype=bool)
                    first[1:] = (receiver[1:] != receiver[:-1]) | (sender[1:] != sender[:-1])
                    begins = np.flatnonzero(first)
                    total = np.add.reduceat(size, begins)
                    size[:] = 0.0
                    size[begins] = total
                size = np.abs(size)
                degree = row_sums(torch.from_numpy(crow - crow[0]), torch.from_numpy(size)).numpy()
            if left is not None:
                left[rows] = _power(degree, None if added is None else added[rows], scaling.received)
            if scaling.sent:
                np.add.at(sent, sender, 1 if size is None else size)
        left = None if left is None else left.to(self.device)
        right = _power(sent, added, scaling.sent).to(self.device) if scaling.sent else None
        return None if added is None else added.to(self.device), left, right


CHUNK = 1 << 20  # nodes, or edges, that are looked at together


def held_bytes(graph: DiskGraph, self_loops: bool, width: int = 1) -> int:
    """What a ``StreamedMatrix`` on the CPU holds at most besides the columns it multiplies."""
    entries = min(max(ENTRIES["cpu"], largest_row(graph)), max(1, graph.num_edges))
    edge = 2 * (4 + 4 * graph.weighted) + 4 + 24  # two blocks, ones, and what a choice of rows takes
    node = 8 + 4 * self_loops + 8  # both diagonals, and the degrees that they are made of
    return entries * edge + graph.num_nodes * node + 3 * max(PRODUCT_BYTES["cpu"], 4 * width)


def largest_row(graph: DiskGraph) -> int:
    """The most edges that a node receives."""
    parts = blocks(graph.num_nodes, CHUNK)
    return max((int(np.diff(graph.indptr[p.start : p.stop + 1]).max(initial=0)) for p in parts), default=0)


def cut(ends: np.ndarray, entries: int, most_rows: int) -> Iterator[slice]:
    """Rows in blocks of so many entries and rows at most; ``ends`` says where the entries of each row begin."""
    row, n = 0, len(ends) - 1
    while row < n:
        full = int(np.searchsorted(ends, int(ends[row]) + entries, side="right")) - 1
        stop = min(n, row + most_rows, max(row + 1, full))
        yield slice(row, stop)
        row = stop


def _power(degree: np.ndarray, added: Tensor | None, exponent: float) -> Tensor:
    """degree^exponent, rounded to 32 bits part by part.

    Args:
        added: ``[n, 1]``, the weights of loops that the graph does not have.
    """
    out = torch.empty(len(degree), 1, dtype=torch.float32)
    for place in blocks(len(degree), CHUNK):
        part = torch.from_numpy(degree[place])
        power = degree_power(part if added is None else part + added[place, 0].to(part.dtype), exponent)
        assert power is not None
        out[place, 0] = power
    return out
