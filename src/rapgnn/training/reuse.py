"""What trainings on one graph share, so that trying many settings does not build the same things again and again."""

from dataclasses import replace

import torch

from rapgnn.graph.graph import Graph
from rapgnn.graph.operator import GraphOperator
from rapgnn.models.config import Config
from rapgnn.propagation.cache import HopCache
from rapgnn.sparse import Features


class Reuse:
    """Features, operators and hops by the settings that decide them; nodes, edges and splits must stay the same.

    Args:
        features: what the features are, by whether they are normalised; None: what the graph says.
        columns: of them that are propagated at a time; None: many.
    """

    def __init__(self, features: dict[bool, Features] | None = None, columns: int | None = None) -> None:
        self._features: dict[bool, Features] = features or {}
        self._columns = columns
        self._operators: dict[tuple, GraphOperator] = {}
        self._hops: dict[tuple, HopCache] = {}

    def inputs(self, graph: Graph, config: Config) -> tuple[Graph, GraphOperator]:
        """As ``model_inputs``."""
        wanted = config.normalize_features
        if wanted not in self._features:
            self._features[wanted] = graph.normalized_features().x if wanted else graph.x
        layer = config.backbone, config.self_loops, config.eps
        if layer not in self._operators:
            self._operators[layer] = graph.operator(*layer)
        return replace(graph, x=self._features[wanted]), self._operators[layer]

    def for_features_of(self, graph: Graph) -> "Reuse":
        """The same operators for a graph with other features and the same edges."""
        other = Reuse({False: graph.x})
        other._operators = self._operators
        return other

    def hops(self, graph: Graph, config: Config) -> HopCache | None:
        """The hops of the features themselves; None where rows are graphs, or where they would take too much memory."""
        graph, operator = self.inputs(graph, config)
        if graph.ptr is not None or not HopCache.fits(graph.x):
            return None
        key = config.normalize_features, config.backbone, config.self_loops, config.eps
        if key not in self._hops:
            self._hops[key] = HopCache(operator.matrix, graph.x, torch.cat([graph.train, graph.val]), self._columns)
        return self._hops[key]
