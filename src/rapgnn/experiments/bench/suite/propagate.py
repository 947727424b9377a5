"""The layers of PyTorch Geometric, computed by them or, faster on a CPU, by this library's sparse product."""

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from rapgnn.experiments.bench.rivals import sparse_adjacency
from rapgnn.sparse import SparseMatrix


class Adjacency:
    """A graph's edges as the layers take them.

    Args:
        edge_index: ``[2, m]``, no edge twice and, for GCN, none from a node to itself.
        nodes: their number.
        own: True: this library's product; False: the layers' own forward pass. The numbers are the same up to
            rounding: a search may use the first, a clock only the second.
    """

    def __init__(self, edge_index: Tensor, nodes: int, own: bool):
        self.own, self.nodes, self.edge_index = own, nodes, edge_index
        self._kept: dict[str, Any] = {}

    def _table(self) -> sp.csr_matrix:
        source, target = self.edge_index.cpu().numpy()
        ones = np.ones(len(source), dtype=np.float32)
        return sp.csr_matrix((ones, (target, source)), shape=(self.nodes, self.nodes))

    @property
    def csr(self) -> Tensor:
        """As PyG's layers are fastest with."""
        if "csr" not in self._kept:
            self._kept["csr"] = sparse_adjacency(self.edge_index, self.nodes)
        return self._kept["csr"]

    @property
    def normalized(self) -> Any:
        """What GCNConv makes of it."""
        from torch_geometric.nn.conv.gcn_conv import gcn_norm

        if "normalized" not in self._kept:
            self._kept["normalized"] = gcn_norm(self.csr, None, self.nodes, dtype=torch.float32)
        return self._kept["normalized"]

    def matrix(self, kind: str) -> SparseMatrix:
        """``"sum"``, ``"mean"`` over the neighbours, or ``"gcn"``: D^-½ (A + I) D^-½ by the receivers' degrees."""
        if kind not in self._kept:
            table = self._table()
            if kind == "mean":
                table = sp.diags(1 / np.maximum(np.asarray(table.sum(1)).ravel(), 1.0)) @ table
            elif kind == "gcn":
                table = table.copy()
                table.setdiag(1.0)
                root = sp.diags(1 / np.sqrt(np.asarray(table.sum(1)).ravel()))
                table = root @ table @ root
            self._kept[kind] = SparseMatrix(table, device=self.edge_index.device)
        return self._kept[kind]


def gcn(layer: Any, x: Any, adjacency: Adjacency) -> Tensor:
    """GCNConv."""
    if adjacency.own:
        return adjacency.matrix("gcn") @ layer.lin(x) + layer.bias
    if isinstance(x, SparseMatrix):  # which GCNConv does not take: its map first, then its propagation
        normal, weight = adjacency.normalized
        return layer.propagate(normal, x=layer.lin(x), edge_weight=weight) + layer.bias
    return layer(x, adjacency.csr)


def sage(layer: Any, x: Tensor, adjacency: Adjacency) -> Tensor:
    """SAGEConv."""
    if adjacency.own:
        return layer.lin_l(adjacency.matrix("mean") @ x) + layer.lin_r(x)
    return layer(x, adjacency.csr)


def appnp(layer: Any, x: Tensor, adjacency: Adjacency) -> Tensor:
    """APPNP's walk."""
    if not adjacency.own:
        return layer(x, adjacency.csr)
    S, h = adjacency.matrix("gcn"), x
    for _ in range(layer.K):
        h = (1 - layer.alpha) * (S @ h) + layer.alpha * x
    return h


def gin(layer: Any, x: Tensor, adjacency: Adjacency, edge_attr: Tensor | None = None) -> Tensor:
    """GINConv, or GINEConv where edges have features."""
    if not adjacency.own:
        edges = adjacency.edge_index
        return layer(x, edges) if edge_attr is None else layer(x, edges, edge_attr)
    if edge_attr is None:
        found = adjacency.matrix("sum") @ x
    else:
        source, target = adjacency.edge_index
        message = torch.relu(x.index_select(0, source) + layer.lin(edge_attr))
        found = torch.zeros_like(x).index_add(0, target, message)
    return layer.nn((1 + layer.eps) * x + found)
