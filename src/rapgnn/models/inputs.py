"""A graph as a model's settings want it."""

from rapgnn.graph.graph import Graph
from rapgnn.graph.operator import GraphOperator
from rapgnn.models.config import Config


def model_inputs(graph: Graph, config: Config) -> tuple[Graph, GraphOperator]:
    """The graph with its features as the settings want them, and its operator for the backbone."""
    graph = graph.normalized_features() if config.normalize_features else graph
    return graph, graph.operator(config.backbone, config.self_loops, config.eps)
