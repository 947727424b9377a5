"""Features as a rival takes them: scaled in one of a few ways, sparse where the graph's are."""

import numpy as np
import scipy.sparse as sp
from torch import Tensor, nn

from rapgnn.graph.graph import Graph
from rapgnn.sparse import Features, SparseMatrix, dense

SCALES = ("none", "rows", "columns")
WIDE = 256  # columns from which sparse features stay sparse
IDS = "ids"  # instead of features that are not there: which node it is


def rival_features(graph: Graph, scale: str, ids: bool = False) -> Features:
    """The node features.

    Args:
        scale: ``"none"``; ``"rows"``: each node's divided by their sum; ``"columns"``: mean 0 and deviation 1, sparse
            ones without moving the mean.
        ids: a column per node instead.
    """
    if ids:
        return SparseMatrix(sp.identity(graph.num_nodes, format="csr"))
    if scale == "rows":
        graph = graph.normalized_features()
    x = graph.x
    if isinstance(x, SparseMatrix) and x.shape[1] >= WIDE:
        if scale != "columns":
            return x
        table = x.scipy()
        square = np.asarray(table.multiply(table).mean(axis=0)).ravel()
        return SparseMatrix(table @ sp.diags(1 / np.sqrt(np.maximum(square, 1e-6))))
    x = dense(x)
    return (x - x.mean(0)) / x.std(0).clamp(min=1e-6) if scale == "columns" else x


class FirstMap(nn.Linear):
    """A linear map that also takes sparse features."""

    def forward(self, input: Features) -> Tensor:
        if not isinstance(input, SparseMatrix):
            return super().forward(input)
        out = input @ self.weight.t()
        return out if self.bias is None else out + self.bias


def drop(x: Features, p: float, training: bool) -> Features:
    """Dropout; of sparse features the entries that are there."""
    if not (training and p):
        return x
    if isinstance(x, SparseMatrix):
        return x.with_values(nn.functional.dropout(x.values, p))
    return nn.functional.dropout(x, p)
