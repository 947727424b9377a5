"""Batches of several networks at once, each with graphs of its own, in tensors whose shapes do not change.

A batch is made where its graphs lie, by counting and gathering alone: nothing waits for the device, so that a captured
graph of GPU work can make one batch after another. Network m has N places for nodes, of which its graphs take the first
ones; what is left is padding: features of zero, no edges, part of no graph.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from rapgnn.fused import FusedProduct, available
from rapgnn.graph.graph import Graph
from rapgnn.graph.operator import GraphOperator
from rapgnn.sparse import SparseMatrix, bounds_of, dense


class Csr:
    """A sparse matrix as CSR whose arrays may be longer than what ``crow`` names.

    Products always add up in the order of the entries.
    """

    def __init__(self, crow: Tensor, col: Tensor, values: Tensor):
        self.crow, self.col, self.values = crow, col, values

    def __matmul__(self, h: Tensor) -> Tensor:
        if available(h):
            return _WholeRows(self.crow, self.col, self.values).layer(h)
        sent = h.index_select(0, self.col).mul_(self.values[:, None])
        return torch.segment_reduce(sent, "sum", offsets=self.crow, axis=0, unsafe=True, initial=0)


class _WholeRows(FusedProduct):
    """The GPU kernel on rows that are not cut into pieces, so that nothing has to be counted beforehand."""

    def __init__(self, crow: Tensor, col: Tensor, values: Tensor):
        self.col, self.values, self.num_rows = col, values, crow.numel() - 1
        row = torch.arange(self.num_rows, dtype=torch.int32, device=crow.device)
        self.pieces, self.long, self.sums = (row, crow, row), (row[:0], row[:0]), 0


@dataclass(frozen=True)
class JoinedMatrix:
    """The block-diagonal matrix of all networks' graphs, and its transpose for the gradient."""

    matrix: Csr
    transpose: Csr

    def __matmul__(self, h: Tensor) -> Tensor:
        """``[M, columns, d]`` -> ``[M, rows, d]``."""
        out = _Product.apply(h.flatten(0, 1), self.matrix, self.transpose)
        assert isinstance(out, Tensor)
        return out.view(h.shape[0], -1, h.shape[2])


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, h: Tensor, matrix: Csr, transpose: Csr) -> Tensor:
        ctx.transpose = transpose
        return matrix @ h

    @staticmethod
    def backward(ctx, *grads: Tensor):
        return ctx.transpose @ grads[0].contiguous(), None, None


class Places:
    """The places of every network, and which of them are taken.

    Shapes:
        taken ``[M, N]``; count ``[M, 1]``; most ``[M, N, 1]``: infinite where taken, 0 elsewhere.
    """

    def __init__(self, taken: Tensor, dtype: torch.dtype):
        self.taken = taken
        self.count = taken.sum(1, keepdim=True).to(dtype)
        self.most = torch.zeros_like(taken, dtype=dtype).masked_fill_(taken, float("inf"))[:, :, None]

    @cached_property
    def several(self) -> Tensor:
        """``[M, 1]``: which networks have two rows or more, so that there is a variance."""
        return self.count > 1

    @cached_property
    def share(self) -> Tensor:
        """1/k ``[M, 1]``, k the rows of a network; 0 where it has fewer than two."""
        return self.several / self.count.clamp(min=1)

    @cached_property
    def moments(self) -> tuple[Tensor, Tensor, Tensor]:
        """N/k, 1 - k/N and k/(k-1), ``[M, 1]``: what turns moments over N places into those of k rows."""
        rows, places = self.count.clamp(min=1), self.taken.shape[1]
        return places / rows, 1 - rows / places, rows / (rows - 1).clamp_(min=1)


@dataclass(frozen=True)
class Batch:
    """The graphs of every network's batch.

    Shapes:
        x ``[M, N, c]``; matrix ``[M·N, M·N]``; pool ``[M·B, M·N]``; y ``[M, B]``, 0 where there is no graph.
    """

    x: Tensor
    matrix: JoinedMatrix
    pool: JoinedMatrix
    nodes: Places
    graphs: Places
    y: Tensor


@dataclass(frozen=True)
class Shape:
    """Bounds of a batch: graphs and nodes of each network, entries of the matrix over all networks."""

    graphs: int
    nodes: int
    entries: int


class _Blocks:
    """The diagonal blocks of a block-diagonal matrix, one per graph; the last one, of no graph, is empty."""

    def __init__(self, matrix: SparseMatrix, ptr: Tensor):
        nothing = matrix.crow.new_zeros(1)
        self.degree = torch.cat([matrix.crow.diff(), nothing])
        starts = matrix.crow[ptr].long()
        self.sizes = torch.cat([starts.diff(), nothing.long()])
        self.starts = starts
        self.col = torch.cat([matrix.col.long(), nothing.long()])
        self.values = torch.cat([matrix.values, matrix.values.new_zeros(1)])

    def join(self, ids: Tensor, node: Tensor, shift: Tensor, entries: int) -> Csr:
        """The chosen blocks as one matrix.

        Args:
            ids: of the graphs ``[M, B]``.
            node: at each place ``[M, N]``.
            shift: from a graph's nodes to their places ``[M, B]``.
            entries: the most that the blocks have.
        """
        home, entry, inside = _ranges(self.starts[ids].flatten(), self.sizes[ids].flatten(), entries)
        entry = entry.masked_fill_(~inside, len(self.values) - 1)
        col = (self.col[entry] + shift.flatten()[home]).masked_fill_(~inside, 0)
        return Csr(_bounds(self.degree[node].flatten()), col.int(), self.values[entry])


class GraphSet:
    """Graphs of which batches are made, on their device. Graph number G and node number n are padding.

    Args:
        graph: many graphs with one label each.
        operator: theirs.
        pooling: ``"sum"`` or ``"mean"``.
    """

    def __init__(self, graph: Graph, operator: GraphOperator, pooling: str):
        assert operator.ptr is not None
        ptr, x = operator.ptr, dense(graph.x)
        self.count, self.pooling = len(ptr) - 1, pooling
        self.starts, self.sizes = ptr, torch.cat([ptr.diff(), ptr.new_zeros(1)])
        self.x = torch.cat([x, x.new_zeros(1, x.shape[1])])
        self.y = torch.cat([graph.y, graph.y.new_zeros(1)])
        matrix = operator.matrix
        self.blocks = self.transposed = _Blocks(matrix, ptr)
        if not _symmetric(matrix):
            self.transposed = _Blocks(matrix.T, ptr)

    def join(self, ids: Tensor, shape: Shape) -> Batch:
        """The batch of these graphs ``[M, B]``, in the order given."""
        (networks, graphs), places = ids.shape, shape.nodes
        sizes = self.sizes[ids]
        ends = sizes.cumsum(1)
        first = ends - sizes
        place = torch.arange(places, device=ids.device).expand(networks, places).contiguous()
        home = torch.searchsorted(ends, place, right=True)
        taken = home < graphs
        node = place + (self.starts[ids] - first).gather(1, home.clamp_(max=graphs - 1))
        node = node.masked_fill_(~taken, len(self.x) - 1)
        first = first + places * torch.arange(networks, device=ids.device)[:, None]
        shift = first - self.starts[ids]
        matrix = self.blocks.join(ids, node, shift, shape.entries)
        transpose = matrix
        if self.transposed is not self.blocks:
            transpose = self.transposed.join(ids, node, shift, shape.entries)
        return Batch(
            self.x[node],
            JoinedMatrix(matrix, transpose),
            self._pool(first, sizes, taken),
            Places(taken, self.x.dtype),
            Places(ids < self.count, self.x.dtype),
            self.y[ids],
        )

    def _pool(self, first: Tensor, sizes: Tensor, taken: Tensor) -> JoinedMatrix:
        sizes = sizes.flatten()
        home, place, inside = _ranges(first.flatten(), sizes, taken.numel())
        weights = torch.ones_like(sizes, dtype=self.x.dtype)
        if self.pooling == "mean":
            weights = weights / sizes.clamp(min=1)
        values = weights[home]
        matrix = Csr(_bounds(sizes), place.masked_fill_(~inside, 0).int(), values)
        return JoinedMatrix(matrix, Csr(_bounds(taken.flatten()), home.int(), values))


def _bounds(sizes: Tensor) -> Tensor:
    return bounds_of(sizes).int()


def _ranges(starts: Tensor, sizes: Tensor, length: int) -> tuple[Tensor, Tensor, Tensor]:
    """The numbers start, start + 1, ... of one range after another, in a tensor of a given length.

    Returns:
        of each of them its range, the number itself, and whether it is there: after the last one there is padding.
    """
    ends = sizes.cumsum(0)
    place = torch.arange(length, device=sizes.device)
    home = torch.searchsorted(ends, place, right=True)
    inside = home < len(sizes)
    home = home.clamp_(max=len(sizes) - 1)
    return home, place + (starts - ends + sizes)[home], inside


def _symmetric(matrix: SparseMatrix) -> bool:
    other = matrix.T
    return all(torch.equal(getattr(matrix, part), getattr(other, part)) for part in ("crow", "col", "values"))
