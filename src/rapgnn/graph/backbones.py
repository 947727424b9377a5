"""Backbones: how an adjacency matrix becomes the propagation matrix S, and which weights a layer has. One row each.

An edge (u, v) of ``edge_index`` is a message from u to v, as in PyTorch Geometric, so S has the receiver as row and the
sender as column. On a directed graph a node is normalised by the edges it really has on that side: a receiver by its
in-degree, a sender by its out-degree. (PyTorch Geometric takes the in-degree for both, so a node that nothing points to
sends nothing.) Edges listed twice count twice; self-loops are kept; degrees sum the magnitudes of edge weights.
"""

from collections.abc import Callable
from dataclasses import dataclass

import scipy.sparse as sp
import torch
from torch import Tensor

from rapgnn.graph.csr import Adjacency, compress, degree_power
from rapgnn.sparse import SparseMatrix, matrix_shape


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
