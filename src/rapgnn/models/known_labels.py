"""Labels that are known: those of a node's neighbours in the training rows, without the node's own."""

import numpy as np
import torch
from torch import Tensor, nn

from rapgnn.graph.graph import Graph
from rapgnn.graph.operator import GraphOperator
from rapgnn.models.hashing import GOLDEN, mixed, row_hash
from rapgnn.sparse import row_block

GAP = torch.finfo(torch.float32).min  # stands for a label that is not known: a model is saved without NaN
MOST_HOPS = 2  # for which a node's own label can be left out exactly


class KnownLabels(nn.Module):
    """The training rows of a graph and their labels, as something that can be propagated.

    A training row must not see its own label, which comes back to it on a walk of two steps (and of one, through a
    self-loop): (S Y)_i and (S² Y)_i lose S_ii y_i and (S²)_ii y_i. What is left is what a node without a label would
    see in its place, so that a head that was trained on these rows suits all others.

    Args:
        rows: how many there are.
        columns: of the labels: 1 for classes, by their number; otherwise one per output, gaps and all.
        out_channels: number of classes, labels or targets.
    """

    rows: Tensor
    y: Tensor
    features_seen: Tensor

    def __init__(self, rows: int, columns: int, out_channels: int):
        super().__init__()
        self.out_channels = out_channels
        self.register_buffer("rows", torch.zeros(rows, dtype=torch.int64))
        self.register_buffer("y", torch.zeros(rows, columns, dtype=torch.float32))
        self.register_buffer("features_seen", torch.zeros((), dtype=torch.int64))

    @classmethod
    def of(cls, graph: Graph) -> "KnownLabels":
        """Those of a single graph's training rows."""
        y = graph.y[graph.train]
        known = cls(*known_shape(graph), graph.num_outputs).to(y.device)
        known.rows.copy_(graph.train)
        known.y.copy_(y.reshape(len(y), -1).nan_to_num(GAP) if y.is_floating_point() else y.reshape(len(y), -1))
        known.features_seen.copy_(known.feature_mark(graph))
        return known

    def suits(self, graph: Graph) -> bool:
        """Whether a graph has these rows, with the same features: others may have other labels by now."""
        if len(self.rows) and int(self.rows.max()) >= graph.num_rows:
            return False
        return int(self.feature_mark(graph)) == int(self.features_seen)

    def feature_mark(self, graph: Graph) -> Tensor:
        """A number that tells the features of these rows from others."""
        rows = self.rows.to(graph.y.device)
        return mixed(row_hash(row_block(graph.x, rows)) + GOLDEN * rows).sum()

    def columns(self, nodes: int, like: Tensor) -> Tensor:
        """``[nodes, out_channels]``: a 1 for the class, or numbers less their mean; 0 where nothing is known."""
        found = like.new_zeros(nodes, self.out_channels)
        if self.y.shape[1] < self.out_channels:
            found[self.rows, self.y[:, 0].long()] = 1.0
        else:
            y = self.y.masked_fill(self.y == GAP, float("nan"))
            found[self.rows] = (y - y.nanmean(dim=0)).nan_to_num().to(found.dtype)
        return found

    def hops(self, operator: GraphOperator, like: Tensor, count: int) -> list[Tensor]:
        """Hops 1 to ``count`` of the labels, for all nodes; each row's own label is left out."""
        matrix = operator.matrix
        own = self.columns(matrix.shape[0], like)
        once = matrix @ own
        diagonal, returns = (part.to(like)[:, None] for part in _returns(operator))
        found = [once - diagonal * own]
        if count > 1:
            found.append(matrix @ once - returns * own)
        return found


def known_shape(graph: Graph) -> tuple[int, int]:
    """Rows and columns of what is kept of the labels."""
    return len(graph.train), 1 if graph.y.dim() == 1 else graph.num_outputs


def _returns(operator: GraphOperator) -> tuple[Tensor, Tensor]:
    """The diagonals of S and of S²."""
    matrix = operator.matrix.scipy()
    squared = np.asarray(matrix.multiply(matrix.T).sum(axis=1)).ravel()
    return torch.from_numpy(matrix.diagonal()), torch.from_numpy(squared)
