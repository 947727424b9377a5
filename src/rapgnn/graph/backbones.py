"""Backbones: how an adjacency matrix becomes the propagation matrix S, and which weights a layer has. One row each.

An edge (u, v) of ``edge_index`` is a message from u to v, as in PyTorch Geometric, so S has the receiver as row and the
sender as column. On a directed graph a node is normalised by the edges it really has on that side: a receiver by its
in-degree, a sender by its out-degree. (PyTorch Geometric takes the in-degree for both, so a node that nothing points to
sends nothing.) Edges listed twice count twice; self-loops are kept; degrees sum the magnitudes of edge weights.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from torch import Tensor

from rapgnn.sparse import matrix_shape


def adjacency(
    edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int, self_loops: bool = False
) -> sp.csr_matrix:
    """A[v, u] = summed weight of the edges u -> v; with ``self_loops`` a loop of weight 1 where a node has none."""
    source, target = edge_index.cpu().numpy()
    weight = np.ones(len(source)) if edge_weight is None else edge_weight.cpu().numpy().astype(np.float64)
    matrix = sp.csr_matrix((weight, (target, source)), shape=(num_nodes, num_nodes))
    if self_loops:
        missing = np.ones(num_nodes)
        missing[source[source == target]] = 0.0
        matrix = matrix + sp.diags(missing)
    return sp.csr_matrix(matrix)


def _power(degree: np.ndarray, exponent: float) -> sp.dia_matrix:
    """diag(degree^exponent), zero where the degree is zero."""
    out = np.zeros_like(degree)
    np.power(degree, exponent, out=out, where=degree > 0)
    return sp.diags(out)


def symmetric(A: sp.csr_matrix) -> sp.csr_matrix:
    """D_in^-½ A D_out^-½, which is the paper's D^-½ A D^-½ where A is symmetric."""
    size = abs(A)
    received, sent = np.asarray(size.sum(axis=1)).ravel(), np.asarray(size.sum(axis=0)).ravel()
    return sp.csr_matrix(_power(received, -0.5) @ A @ _power(sent, -0.5))


def mean(A: sp.csr_matrix) -> sp.csr_matrix:
    """D_in^-1 A: the weighted mean over the nodes that send to a node, zero where none does."""
    return sp.csr_matrix(_power(np.asarray(abs(A).sum(axis=1)).ravel(), -1.0) @ A)


def plain(A: sp.csr_matrix) -> sp.csr_matrix:
    """A itself: the sum over the nodes that send to a node."""
    return A


@dataclass(frozen=True)
class Backbone:
    """One message-passing layer: h ← s·h + σ(Σ_terms term(h) · w_term), s the residual.

    Args:
        normalise: the adjacency matrix as the layer uses it.
        terms: what is multiplied with a weight of its own: ``"root"`` is h, ``"neighbour"`` is S h.
        residual: whether the layer's input is added to its output unless the settings say otherwise.
        includes_self: whether a node receives its own features too, with weight 1 + ε: S = (1 + ε) I + A.
        edges: whether a message is ReLU(h_u + e_uv), with an embedding e of the edge's features.
    """

    normalise: Callable[[sp.csr_matrix], sp.csr_matrix]
    terms: tuple[str, ...]
    residual: bool
    includes_self: bool = False
    edges: bool = False

    def operator(self, A: sp.csr_matrix, eps: float = 0.0) -> sp.csr_matrix:
        """S from the adjacency matrix."""
        matrix = self.normalise(A)
        if self.includes_self:
            matrix = matrix + (1.0 + eps) * sp.identity(matrix_shape(A)[0], format="csr")
        return sp.csr_matrix(matrix)


BACKBONES = {
    "gcn": Backbone(symmetric, terms=("neighbour",), residual=True),
    "sage": Backbone(mean, terms=("root", "neighbour"), residual=False),
    "gin": Backbone(plain, terms=("neighbour",), residual=False, includes_self=True),
    "gine": Backbone(plain, terms=("neighbour",), residual=False, includes_self=True, edges=True),
}
"""The message-passing layers by name; a new one is a row here."""
