"""A graph, or many graphs side by side, as the layers see it: S, edge types, and the pooling into one row each.

Many graphs are one graph whose parts do not touch: S is block-diagonal, ``ptr`` says where each part's nodes begin, and
a row of the representation is then a graph instead of a node.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rapgnn.errors import InputError
from rapgnn.graph.backbones import BACKBONES
from rapgnn.sparse import Features, SparseMatrix, indicator, ranges, row_block

POOLINGS = ("sum", "mean", "max")


@dataclass(frozen=True)
class EdgeTypes:
    """The edges of a graph with features, kept as the distinct feature rows and which of them each edge has.

    Shapes:
        features ``[t, c]``; kind ``[m]``; sender ``[m, n]`` and receiver ``[n, m]`` (the edges' weights) as matrices.
    """

    features: Features
    kind: Tensor
    sender: SparseMatrix
    receiver: SparseMatrix

    @cached_property
    def counts(self) -> SparseMatrix:
        """[n, t]: how much of each type a node receives, so that E = counts @ e."""
        kinds = indicator(self.kind, self.features.shape[0])
        total = self.receiver.scipy().astype(np.float64) @ kinds
        return SparseMatrix(total, dtype=self.receiver.dtype, device=self.kind.device)


@dataclass(frozen=True)
class GraphOperator:
    """What message passing needs of a graph.

    Args:
        matrix: S ``[n, n]``.
        ptr: ``[G + 1]``, where each graph's nodes begin; None: one graph, and rows are nodes.
        edges: with their features, where the backbone uses them.
        edge_ptr: ``[G + 1]``, where each graph's edges begin, with ``edges`` and ``ptr``.
        eps: of the node's own part, for layers that cannot use S because they act on each message.
    """

    matrix: SparseMatrix
    ptr: Tensor | None = None
    edges: EdgeTypes | None = None
    edge_ptr: Tensor | None = None
    eps: float = 0.0

    @property
    def num_rows(self) -> int:
        return self.matrix.shape[0] if self.ptr is None else len(self.ptr) - 1

    @cached_property
    def growth_rate(self) -> float:
        """How much one product with S enlarges at most, in the long run."""
        matrix = self.matrix.with_values(self.matrix.values.abs())
        ones = torch.ones(matrix.shape[0], 1, dtype=matrix.dtype, device=matrix.device)
        return growth_rate(lambda x: matrix @ x, ones)

    @cached_property
    def graph_of_node(self) -> Tensor:
        assert self.ptr is not None
        return torch.repeat_interleave(torch.arange(len(self.ptr) - 1, device=self.ptr.device), self.ptr.diff())

    def pooling(self, how: str) -> SparseMatrix:
        """[G, n]: the matrix that sums or averages each graph's nodes."""
        assert self.ptr is not None
        n, dtype = self.matrix.shape[0], self.matrix.dtype
        if how == "mean":
            sizes = self.ptr.diff().clamp(min=1)
            values = (1.0 / sizes.to(dtype))[self.graph_of_node]
        else:
            values = torch.ones(n, dtype=dtype, device=self.ptr.device)
        columns = torch.arange(n, device=self.ptr.device)
        return SparseMatrix.from_csr(self.ptr, columns, values, (len(self.ptr) - 1, n))

    def pool(self, h: Tensor, how: str) -> Tensor:
        """One row per graph ``[G, d]``, zero for a graph without nodes; without ``ptr`` h itself."""
        if self.ptr is None:
            return h
        if how == "max":
            return group_max(h, self.graph_of_node, len(self.ptr) - 1)
        return self._pooling[how] @ h

    @cached_property
    def _pooling(self) -> dict[str, SparseMatrix]:
        return {how: self.pooling(how) for how in ("sum", "mean")}

    def select(self, graphs: Tensor) -> "tuple[GraphOperator, Tensor]":
        """The given graphs alone, side by side, and the numbers of their nodes."""
        assert self.ptr is not None
        ptr, nodes = _members(self.ptr, graphs)
        matrix = _diagonal_blocks(self.matrix, self.ptr, self.ptr, graphs)
        if self.edges is None:
            return GraphOperator(matrix, ptr, eps=self.eps), nodes
        assert self.edge_ptr is not None
        edge_ptr, chosen = _members(self.edge_ptr, graphs)
        edges = EdgeTypes(
            self.edges.features,
            self.edges.kind[chosen],
            _diagonal_blocks(self.edges.sender, self.edge_ptr, self.ptr, graphs),
            _diagonal_blocks(self.edges.receiver, self.ptr, self.edge_ptr, graphs),
        )
        return GraphOperator(matrix, ptr, edges, edge_ptr, self.eps), nodes


def growth_rate(product: Callable[[Tensor], Tensor], ones: Tensor, steps: int = 16) -> float:
    """‖|S|^16‖^(1/16), ‖·‖ the largest row sum; rounded to six bits, so that every float type holds it exactly.

    Args:
        product: x -> |S| x.
        ones: ``[n, 1]``.
    """
    logarithm = 0.0
    for _ in range(steps):
        ones = product(ones)
        size = float(ones.max()) if len(ones) else 0.0
        if size <= 0:
            return 1.0
        logarithm += math.log(size)
        ones = ones / size
    mantissa, exponent = math.frexp(math.exp(logarithm / steps))
    return math.ldexp(round(64 * mantissa) / 64, exponent)


def group_max(h: Tensor, group: Tensor, count: int) -> Tensor:
    """The largest entry of every channel in each of ``count`` groups of rows; zero for a group without rows."""
    index = group[:, None].expand_as(h)
    return h.new_zeros(count, h.shape[1]).scatter_reduce(0, index, h, "amax", include_self=False)


def _members(ptr: Tensor, parts: Tensor) -> tuple[Tensor, Tensor]:
    """The chosen parts' new boundaries, and their members one after another."""
    starts = ptr[parts]
    return ranges(starts, ptr[parts + 1] - starts)


def _diagonal_blocks(matrix: SparseMatrix, row_ptr: Tensor, column_ptr: Tensor, parts: Tensor) -> SparseMatrix:
    """The chosen diagonal blocks of a block-diagonal matrix, moved together; costs what they hold."""
    rows, members = _members(row_ptr, parts)
    column_starts = column_ptr[parts]
    columns, _ = ranges(column_starts, column_ptr[parts + 1] - column_starts)
    starts = matrix.crow[row_ptr[parts]].long()
    sizes = matrix.crow[row_ptr[parts + 1]].long() - starts
    _, entries = ranges(starts, sizes)  # the rows of a block follow one another, and so do their entries
    crow = torch.zeros(len(members) + 1, dtype=torch.int64, device=members.device)
    crow[1:] = (matrix.crow[members + 1] - matrix.crow[members]).cumsum(0)
    shift = torch.repeat_interleave(columns[:-1] - column_starts, sizes)
    col = matrix.col[entries].long() + shift
    return SparseMatrix.from_csr(crow, col, matrix.values[entries], (int(rows[-1]), int(columns[-1])))


def distinct_rows(x: Features) -> tuple[Tensor, Tensor]:
    """(one row number per distinct row, which distinct row each row is): equal rows need embedding only once."""
    if x.shape[0] == 0:
        empty = torch.zeros(0, dtype=torch.int64, device=x.device)
        return empty, empty
    if isinstance(x, SparseMatrix):
        # Random projections tell sparse rows apart; that they told all of them apart is checked.
        matrix: Any = x.scipy().astype(np.float64)
        keys = np.random.default_rng(0).standard_normal((x.shape[1], 2))
        first, inverse = _distinct(np.ascontiguousarray(matrix @ keys).view(np.complex128).ravel())
        if (matrix != matrix[first[inverse]]).nnz:
            first = inverse = np.arange(x.shape[0])
    elif x.shape[1]:
        table = np.ascontiguousarray(x.detach().cpu().numpy())
        first, inverse = _distinct(table.view(np.dtype((np.void, table.dtype.itemsize * table.shape[1]))).ravel())
    else:
        first, inverse = _distinct(np.zeros(x.shape[0]))
    return torch.from_numpy(first).to(x.device), torch.from_numpy(inverse).to(x.device)


def _distinct(marks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    _, first, inverse = np.unique(marks, return_index=True, return_inverse=True)
    return first.astype(np.int64), inverse.reshape(-1).astype(np.int64)


def build_operator(
    x: Features,
    edge_index: Tensor,
    backbone: str,
    edge_weight: Tensor | None = None,
    edge_attr: Features | None = None,
    ptr: Tensor | None = None,
    self_loops: bool = False,
    eps: float = 0.0,
) -> GraphOperator:
    """The backbone's operator on x's device, with the edge types where its messages use them."""
    rule, n = BACKBONES[backbone], x.shape[0]
    matrix = rule.matrix(edge_index, edge_weight, n, self_loops=self_loops, eps=eps, dtype=x.dtype, device=x.device)
    if not rule.edges:
        return GraphOperator(matrix, ptr, eps=eps)
    if edge_attr is None:
        raise InputError(f"{backbone} needs edge features, and this graph has none: use gin.")
    first, kind = distinct_rows(edge_attr)
    source, target = edge_index.to(x.device)
    m = len(source)
    each = torch.arange(m + 1, device=x.device)
    ones = torch.ones(m, dtype=x.dtype, device=x.device)
    weight = ones if edge_weight is None else edge_weight.to(device=x.device, dtype=x.dtype)
    sender = SparseMatrix.from_csr(each, source, ones, (m, n))
    receiver = SparseMatrix.from_csr(each, target, weight, (m, n)).T
    edges = EdgeTypes(row_block(edge_attr, first), kind, sender, receiver)
    edge_ptr = None if ptr is None else edge_bounds(ptr, source).to(x.device)
    return GraphOperator(matrix, ptr, edges, edge_ptr, eps)


def edge_bounds(ptr: Tensor, source: np.ndarray | Tensor) -> Tensor:
    """[G + 1]: where each graph's edges begin, given the graphs' nodes and the edges' senders."""
    graph_of_edge = torch.searchsorted(ptr, torch.as_tensor(source).to(ptr), right=True) - 1
    if bool((graph_of_edge.diff() < 0).any()):
        raise InputError("the edges must be listed graph by graph, in the order of the nodes.")
    return torch.searchsorted(graph_of_edge, torch.arange(len(ptr), device=ptr.device))
