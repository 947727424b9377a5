"""Backbones: how an adjacency matrix becomes the propagation matrix S, and which weights a layer has. One row each.

An edge (u, v) of ``edge_index`` is a message from u to v, as in PyTorch Geometric, so S has the receiver as row and the
sender as column. On a directed graph a node is normalised by the edges it really has on that side: a receiver by its
in-degree, a sender by its out-degree. (PyTorch Geometric takes the in-degree for both, so a node that nothing points to
sends nothing.) Edges listed twice count twice; self-loops are kept; degrees sum the magnitudes of edge weights.

Matrices are made on the device where they will be used. On the CPU scipy's counting sort is the fastest; on a GPU an
edge becomes one whole number, receiver first, and the numbers are sorted. Degrees of graphs without weights are counts,
so exact; sums of weights are taken in a fixed order, so that a matrix made twice on one device is bitwise the same.
Nothing wider than a whole number per edge is alive for all edges: values are computed in blocks of rows, in double
precision, and rounded there.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from rapgnn.device import threads
from rapgnn.errors import InputError
from rapgnn.sparse import INT32_MAX, SparseMatrix, bounds_of, matrix_shape, row_sums, without_zeros

BLOCK = {"cpu": 1 << 17, "cuda": 1 << 24}  # entries at a time: what fits into a core's cache, what fills a GPU

_ONE_THREAD = threads(1)  # a block is so little work that a second thread only waits, long where the machine is busy


@dataclass(frozen=True)
class Adjacency:
    """A[v, u] = summed weight of the edges u -> v: rows and columns ascending, every place once.

    Args:
        crow: ``[n + 1]``, where each row begins.
        col: ``[nnz]``, the sender of each entry.
        weight: ``[nnz]``, of whole numbers where edges have no weights; None: all are one.
    """

    crow: Tensor
    col: Tensor
    weight: Tensor | None

    @property
    def num_nodes(self) -> int:
        return len(self.crow) - 1

    @staticmethod
    def of(matrix: Any) -> "Adjacency":
        """From a scipy matrix."""
        csr = sp.csr_matrix(matrix, dtype=np.float64, copy=True)
        csr.sum_duplicates()
        return Adjacency(*(torch.from_numpy(part) for part in (csr.indptr, csr.indices, csr.data)))

    def scipy(self) -> sp.csr_matrix:
        """As a scipy matrix of doubles, on the CPU."""
        col, crow = self.col.cpu().numpy(), self.crow.cpu().numpy()
        weight = np.ones(len(col)) if self.weight is None else self.weight.cpu().numpy().astype(np.float64)
        return sp.csr_matrix((weight, col, crow), shape=(self.num_nodes, self.num_nodes))

    @_ONE_THREAD
    def received(self) -> Tensor:
        """[n]: the magnitudes a node receives, summed; whole numbers where edges have no weights."""
        if self.weight is None:
            return self.crow.diff()
        parts = [row_sums(crow, self._magnitude(entries)) for _, crow, entries in self._blocks()]
        return torch.cat([self.crow.new_zeros(0, dtype=torch.float64), *parts])

    @_ONE_THREAD
    def sent(self) -> Tensor:
        """[n]: the magnitudes a node sends, summed."""
        if self.weight is None:
            return torch.bincount(self.col, minlength=self.num_nodes)
        if self.col.device.type == "cpu":
            total = torch.zeros(self.num_nodes, dtype=torch.float64)
            for _, _, entries in self._blocks():
                total.index_add_(0, self.col[entries], self._magnitude(entries))  # one after another on the CPU
            return total
        order = torch.sort(self.col, stable=True).indices
        crow = bounds_of(torch.bincount(self.col, minlength=self.num_nodes))
        return Adjacency(crow, order, self.weight[order]).received()

    @_ONE_THREAD
    def scaled(self, left: Tensor | None, right: Tensor | None, dtype: torch.dtype = torch.float64) -> SparseMatrix:
        """diag(left) A diag(right), without zeros."""
        n, nnz, device = self.num_nodes, self.col.numel(), self.col.device
        values = torch.empty(nnz, dtype=dtype, device=device)
        can_vanish = self.weight is not None and self.weight.is_floating_point()
        filled = torch.empty(nnz, dtype=torch.bool, device=device) if can_vanish else None
        for rows, crow, entries in self._blocks():
            value = self._values(rows, crow, entries, left, right)
            values[entries] = value
            if filled is not None:
                filled[entries] = value != 0
        crow, col = self.crow, self.col
        if filled is not None:
            crow, col, values = without_zeros(crow, col, values, filled)
        return SparseMatrix.from_csr(crow, col, values, (n, n))

    def _values(self, rows: slice, crow: Tensor, entries: slice, left: Tensor | None, right: Tensor | None) -> Tensor:
        """(left · weight) · right, in double precision and in this order, of one block."""
        col, device = self.col[entries], self.col.device
        value = torch.ones((), dtype=torch.float64, device=device)
        if self.weight is not None:
            value = self.weight[entries].double()
        if left is not None:
            value = torch.repeat_interleave(left[rows], crow.diff(), output_size=len(col)) * value
        if right is not None:
            value = value * right.index_select(0, col)
        return value.expand(len(col))

    def _magnitude(self, entries: slice) -> Tensor:
        assert self.weight is not None
        return self.weight[entries].abs().double()

    def _blocks(self) -> Iterator[tuple[slice, Tensor, slice]]:
        """(rows, where they begin within the block, entries) of whole rows, about ``BLOCK`` entries at a time."""
        crow, nnz, size = self.crow, self.col.numel(), BLOCK.get(self.col.device.type, BLOCK["cpu"])
        marks = torch.arange(size, max(size, nnz), size, dtype=crow.dtype, device=crow.device)
        rows = torch.searchsorted(crow, marks)
        ends = crow[rows].tolist()
        first, begin = 0, 0
        for row, end in [*zip(rows.tolist(), ends, strict=True), (self.num_nodes, nnz)]:
            if row > first:
                yield slice(first, row), crow[first : row + 1] - begin, slice(begin, end)
            first, begin = row, end


def compress(
    edge_index: Tensor,
    edge_weight: Tensor | None,
    num_nodes: int,
    device: torch.device | str = "cpu",
    *,
    self_loops: bool = False,
) -> Adjacency:
    """The adjacency matrix of a list of edges, on ``device`` or, where that cannot sort them, on the CPU.

    Args:
        edge_index: ``[2, m]``, senders and receivers, on any device.
        edge_weight: ``[m]``; None: every edge counts one.
        self_loops: a loop of weight 1 where a node has none.
    """
    if edge_weight is not None and edge_weight.requires_grad:
        raise InputError("edge weights are constants here and get no gradient: detach them first.")
    m = edge_index.shape[1]
    by_keys = torch.device(device).type == "cuda" and m + num_nodes <= INT32_MAX
    with threads(torch.get_num_threads() if by_keys else 1):  # scipy has one, and what is left is short
        without = _without_loop(edge_index, num_nodes) if self_loops else None
        weight = edge_weight
        if weight is not None:
            weight = weight if weight.dtype in (torch.float32, torch.float64) else weight.double()
            if without is not None:
                weight = torch.cat([weight, weight.new_ones(len(without))])
        if by_keys:
            return _by_keys(edge_index, without, weight, num_nodes, device)
        return _by_counting(edge_index, without, weight, num_nodes)


def _without_loop(edge_index: Tensor, n: int) -> Tensor:
    """The nodes that have no loop."""
    source, target = edge_index
    looped = torch.zeros(n, dtype=torch.bool, device=edge_index.device)
    looped[source[source == target].long()] = True
    return looped.logical_not_().nonzero().flatten()


def _by_counting(edge_index: Tensor, loops: Tensor | None, weight: Tensor | None, n: int) -> Adjacency:
    """By scipy's counting sort. Values are narrow until it is known that they must add up."""
    m, size = edge_index.shape[1], edge_index.shape[1] + (0 if loops is None else len(loops))
    ends = torch.empty(2, size, dtype=torch.int32 if n <= INT32_MAX else torch.int64)
    ends[:, :m] = edge_index
    if loops is not None:
        ends[:, m:] = loops
    source, target = ends.numpy()
    values: Any = np.ones(size, dtype=np.uint8) if weight is None else weight.cpu().numpy()
    matrix = sp.coo_matrix((values, (target, source)), shape=(n, n)).tocsr()
    if matrix.nnz < size:  # some edges are listed twice
        wide = np.float64 if weight is not None else np.int64
        if weight is not None or int(matrix.data.sum(dtype=np.int64)) != size:  # more often than a byte can count
            matrix = sp.coo_matrix((values.astype(wide), (target, source)), shape=(n, n)).tocsr()
    plain = weight is None and matrix.nnz == size
    crow, col, data = (torch.from_numpy(part) for part in (matrix.indptr, matrix.indices, matrix.data))
    return Adjacency(crow, col, None if plain else data)


def _by_keys(
    edge_index: Tensor, loops: Tensor | None, weight: Tensor | None, n: int, device: torch.device | str
) -> Adjacency:
    """By sorting receiver · 2^bits + sender, with sorts that torch has on every device."""
    bits, block = max(1, (n - 1).bit_length()), BLOCK["cuda"]
    m, size = edge_index.shape[1], edge_index.shape[1] + (0 if loops is None else len(loops))
    key = torch.empty(size, dtype=torch.int64, device=device)
    for start in range(0, m, block):  # one number of an edge travels instead of two
        source, target = edge_index[:, start : min(m, start + block)].long()
        key[start : start + len(source)].copy_(torch.add(source, target, alpha=1 << bits))
    if loops is not None:
        key[m:].copy_(loops * ((1 << bits) + 1))
    if weight is None:
        listed, key = key, torch.unique(key)  # sorts the keys alone, without a permutation beside them
        if len(key) < size:
            key, weight = torch.unique(listed, return_counts=True)
        del listed
    else:
        key, order = torch.sort(key, stable=True)
        weight = weight.to(device)[order]
        del order
        first = torch.ones(size, dtype=torch.bool, device=device)
        torch.ne(key[1:], key[:-1], out=first[1:])
        if not bool(first.all()):
            begins = first.nonzero().flatten()
            crow = torch.cat([begins, begins.new_tensor([size])])
            key, weight = key[begins], row_sums(crow, weight.double())
    index = torch.int32 if max(size, n) <= INT32_MAX else torch.int64
    crow = torch.searchsorted(key, torch.arange(n + 1, device=device) << bits).to(index)
    return Adjacency(crow, (key & ((1 << bits) - 1)).to(index), weight)


def degree_power(degree: Tensor, exponent: float) -> Tensor | None:
    """degree^exponent in double precision, zero where the degree is zero; None for the exponent zero.

    The power is numpy's on every device, so that all of them have the same numbers.
    """
    if exponent == 0:
        return None
    size = degree.cpu().numpy().astype(np.float64)
    out = np.zeros_like(size)
    np.power(size, exponent, out=out, where=size > 0)
    return torch.from_numpy(out).to(degree.device)


def adjacency(
    edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int, self_loops: bool = False
) -> sp.csr_matrix:
    """A[v, u] = summed weight of the edges u -> v; with ``self_loops`` a loop of weight 1 where a node has none."""
    return compress(edge_index, edge_weight, num_nodes, self_loops=self_loops).scipy()


@dataclass(frozen=True)
class Scaling:
    """D_in^received A D_out^sent, with zero for the power of a degree that is zero.

    Args:
        received, sent: the exponents; zero leaves that side as it is.
    """

    received: float
    sent: float

    def factors(self, A: Adjacency) -> tuple[Tensor | None, Tensor | None]:
        """The diagonals of both sides, in double precision; None: no change."""
        left = degree_power(A.received(), self.received) if self.received else None
        return left, degree_power(A.sent(), self.sent) if self.sent else None

    def __call__(self, A: sp.csr_matrix) -> sp.csr_matrix:
        """The same for a scipy matrix."""
        if not self.received and not self.sent:
            return A
        given = Adjacency.of(A)
        return given.scaled(*self.factors(given)).scipy()


symmetric = Scaling(-0.5, -0.5)
"""D_in^-½ A D_out^-½, which is the paper's D^-½ A D^-½ where A is symmetric."""

mean = Scaling(-1.0, 0.0)
"""D_in^-1 A: the weighted mean over the nodes that send to a node, zero where none does."""

plain = Scaling(0.0, 0.0)
"""A itself: the sum over the nodes that send to a node."""


@dataclass(frozen=True)
class Backbone:
    """One message-passing layer: h ← s·h + σ(Σ_terms term(h) · w_term), s the residual.

    Args:
        normalise: the adjacency matrix as the layer uses it: a ``Scaling``, or any function of a scipy matrix.
        terms: what is multiplied with a weight of its own: ``"root"`` is h, ``"neighbour"`` is S h.
        residual: whether the layer's input is added to its output unless the settings say otherwise.
        includes_self: whether a node receives its own features too, with weight 1 + ε: S = (1 + ε) I + A.
        edges: whether a message is ReLU(h_u + e_uv), with an embedding e of the edge's features.
    """

    normalise: Scaling | Callable[[sp.csr_matrix], sp.csr_matrix]
    terms: tuple[str, ...]
    residual: bool
    includes_self: bool = False
    edges: bool = False

    def operator(self, A: sp.csr_matrix, eps: float = 0.0) -> sp.csr_matrix:
        """S from the adjacency matrix, both of scipy."""
        matrix = self.normalise(A)
        if self.includes_self:
            matrix = matrix + (1.0 + eps) * sp.identity(matrix_shape(A)[0], format="csr")
        return sp.csr_matrix(matrix)

    def matrix(
        self,
        edge_index: Tensor,
        edge_weight: Tensor | None,
        num_nodes: int,
        *,
        self_loops: bool = False,
        eps: float = 0.0,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> SparseMatrix:
        """S from the edges, made on ``device``; by scipy where that is no mere scaling."""
        if not isinstance(self.normalise, Scaling) or self.includes_self:
            A = adjacency(edge_index, edge_weight, num_nodes, self_loops)
            return SparseMatrix(self.operator(A, eps), dtype=dtype, device=device)
        A = compress(edge_index, edge_weight, num_nodes, device, self_loops=self_loops)
        return A.scaled(*self.normalise.factors(A), dtype=dtype).to(device)


BACKBONES = {
    "gcn": Backbone(symmetric, terms=("neighbour",), residual=True),
    "sage": Backbone(mean, terms=("root", "neighbour"), residual=False),
    "gin": Backbone(plain, terms=("neighbour",), residual=False, includes_self=True),
    "gine": Backbone(plain, terms=("neighbour",), residual=False, includes_self=True, edges=True),
}
"""The message-passing layers by name; a new one is a row here."""
