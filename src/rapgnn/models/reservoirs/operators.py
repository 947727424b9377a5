"""The matrices that reservoir systems multiply with."""

import torch
from torch import Tensor

from rapgnn.graph.backbones import Backbone, plain, symmetric
from rapgnn.graph.graph import Graph
from rapgnn.graph.operator import GraphOperator
from rapgnn.sparse import SparseMatrix, row_sums

_RULES = {"adjacency": plain, "normalised": symmetric}


def graph_operator(graph: Graph, kind: str, self_loops: bool = False) -> GraphOperator:
    """A, or D^-½ A D^-½, of a graph or of many, without the edges' features."""
    rule = Backbone(_RULES[kind], terms=("neighbour",), residual=False)
    x = graph.x
    matrix = rule.matrix(
        graph.edge_index, graph.edge_weight, x.shape[0], self_loops=self_loops, dtype=x.dtype, device=x.device
    )
    return GraphOperator(matrix, graph.ptr)


def largest_degree(matrix: SparseMatrix) -> float:
    """The largest sum of magnitudes in a row; 1 where there is no edge."""
    found = row_sums(matrix.crow, matrix.values.double().abs()) if matrix.nnz else matrix.values.new_zeros(1)
    degree = float(found.max())
    return degree if degree > 0 else 1.0


def pool_all(operator: GraphOperator, h: Tensor) -> Tensor:
    """Mean, sum and maximum of each graph's nodes side by side ``[G, 3 d]``; for nodes h itself."""
    if operator.ptr is None:
        return h
    return torch.cat([operator.pool(h, how) for how in ("mean", "sum", "max")], dim=1)
