"""One graph type, and everything a user may hand in becomes one, checked once.

In: PyG data, networkx graphs, arrays, tables, labels and splits as a user has them. Out: a ``Graph``, and for a
backbone its propagation operator S. What docs teach of this room is importable from here.
"""

from rapgnn.graph.backbones import BACKBONES, Backbone, adjacency
from rapgnn.graph.graph import Graph, from_pyg, make_graph, make_graphs
from rapgnn.graph.operator import GraphOperator, build_operator
from rapgnn.graph.tasks import TASKS, Objective

__all__ = [
    "BACKBONES",
    "TASKS",
    "Backbone",
    "Graph",
    "GraphOperator",
    "Objective",
    "adjacency",
    "build_operator",
    "from_pyg",
    "make_graph",
    "make_graphs",
]
