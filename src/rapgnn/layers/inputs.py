"""What an embedding sees of every node: its features, or counts of equal nodes and messages, each embedded once."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from rapgnn.graph.operator import GraphOperator, distinct_rows
from rapgnn.sparse import Features, SparseMatrix, indicator, row_block


@dataclass(frozen=True)
class Messages:
    """The distinct nodes, and the distinct (sender, edge type) pairs that send a message, of a graph."""

    nodes: Features
    sender: Tensor
    edge_type: Tensor
    edge_features: Features


@dataclass(frozen=True)
class Inputs:
    """What an embedding sees of every node; for graph tasks nodes that look alike are listed once.

    Args:
        rows: one row per node, or per distinct node.
        index: which row each node has; None: its own.
        messages: for one layer with edge features, what the columns of ``rows`` count.
    """

    rows: Features
    index: Tensor | None = None
    messages: Messages | None = None

    def choose(self, rows: Tensor) -> "Inputs":
        """Some of the rows."""
        return Inputs(row_block(self.rows, rows), None, self.messages)


def append(x: Features, extra: Features) -> Features:
    """Further columns, sparse where x is."""
    if isinstance(x, SparseMatrix):
        other = extra.scipy() if isinstance(extra, SparseMatrix) else sp.csr_matrix(extra.cpu().numpy())
        return SparseMatrix(sp.hstack([x.scipy(), other]), dtype=x.dtype, device=x.device)
    assert isinstance(extra, Tensor)
    return torch.cat([x, extra], dim=1)


def one_hop(matrix: SparseMatrix, x: Features) -> Features:
    """S x, sparse where x is."""
    if isinstance(x, SparseMatrix):
        return SparseMatrix(matrix.scipy() @ x.scipy(), dtype=x.dtype, device=x.device)
    return matrix @ x


def distinct_inputs(x: Features) -> Inputs:
    """Every row once."""
    first, index = distinct_rows(x)
    return Inputs(x, None) if len(first) == x.shape[0] else Inputs(row_block(x, first), index)


def neighbourhoods(x: Features, operator: GraphOperator) -> Inputs:
    """Every node as counts: of itself among the distinct nodes, and of the messages it receives."""
    edges = operator.edges
    assert edges is not None
    types = edges.features.shape[0]
    first, node = distinct_rows(x)
    own = indicator(node, len(first), 1.0 + operator.eps)
    pair = node[edges.sender.col.long()] * max(1, types) + edges.kind
    distinct, place = torch.unique(pair, return_inverse=True)
    received = edges.receiver.scipy().astype(np.float64) @ indicator(place, len(distinct))
    counts = SparseMatrix(sp.hstack([own, received]), dtype=edges.receiver.dtype, device=x.device)
    messages = Messages(row_block(x, first), distinct // max(1, types), distinct % max(1, types), edges.features)
    rows, index = distinct_rows(counts)
    return Inputs(counts.rows(rows), index, messages)
