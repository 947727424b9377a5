"""Random edge lists with everything that real ones hold: isolated nodes, self-loops, duplicates, one direction only."""

import torch
from hypothesis import strategies as st

from rapgnn.graph.backbones import BACKBONES, adjacency
from rapgnn.graph.operator import GraphOperator
from rapgnn.sparse import SparseMatrix


@st.composite
def edge_lists(draw, max_nodes: int = 24, max_edges: int = 60):
    """(number of nodes, edge_index, edge_weight or None)."""
    n = draw(st.integers(1, max_nodes))
    node = st.integers(0, n - 1)
    pairs = draw(st.lists(st.tuples(node, node), max_size=max_edges))
    if draw(st.booleans()):
        pairs = pairs + [(v, u) for u, v in pairs]  # undirected, with loops listed twice
    edge_index = torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).T
    weight = None
    if draw(st.booleans()):
        values = draw(st.lists(st.floats(0.0, 4.0, width=32), min_size=len(pairs), max_size=len(pairs)))
        weight = torch.tensor(values, dtype=torch.float32)
    return n, edge_index, weight


def operator(backbone: str, graph, self_loops: bool = False, dtype: torch.dtype = torch.float64) -> GraphOperator:
    n, edge_index, weight = graph
    A = adjacency(edge_index, weight, n, self_loops)
    return GraphOperator(SparseMatrix(BACKBONES[backbone].operator(A), dtype=dtype))


def relative_error(a: torch.Tensor, b: torch.Tensor) -> float:
    """‖a − b‖ / ‖b‖, and plain ‖a − b‖ where b is zero."""
    size = float(b.double().norm())
    difference = float((a.double() - b.double()).norm())
    return difference / size if size else difference
