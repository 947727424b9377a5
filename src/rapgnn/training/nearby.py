"""Exact predictions of a few rows from their surroundings alone."""

from typing import Any

from torch import Tensor

from rapgnn.graph.graph import Graph
from rapgnn.graph.part import Parts
from rapgnn.network.config import Config
from rapgnn.network.hop_network import PREVIOUS_HOPS, HopNetwork
from rapgnn.network.network import Average
from rapgnn.network.rapgnn import RAPGNN


class Nearby:
    """The parts of a graph that a model's predictions depend on."""

    def __init__(self, model: Any, graph: Graph):
        members = members_on(model, graph)
        self.graph, self.local = graph, graph.typed is None and all(is_local(member, graph) for member in members)
        self.parts = Parts(graph, *span_of(members))

    def part(self, rows: Tensor) -> tuple[Graph, Tensor]:
        """What is enough for these rows, and their places in it.

        The graph itself where they depend on most of it, or on what only the whole graph tells.
        """
        return self.parts.around(rows) if self.local and len(rows) else (self.graph, rows)


def members_on(model: Any, graph: Graph) -> list[Any]:
    return [member for member, _ in model.weighted_for(graph)] if isinstance(model, Average) else [model]


def span_of(members: list[Any]) -> tuple[int, bool]:
    """How many steps far predictions look, and whether against the edges, too."""
    configs = [member.config for member in members]
    return max(map(reach_of, configs)), any(looks_back(config) for config in configs)


def reach_of(config: Config) -> int:
    """How many steps far what a network says of a node depends on others."""
    if config.coefficients == "random":
        return config.num_layers + (config.embedding == "pretrained-gnn")
    before = 0 if config.previous is None else PREVIOUS_HOPS + reach_of(config.previous)
    return max(max(config.num_layers, before) + config.unit_hops, config.known_labels)


def looks_back(config: Config) -> bool:
    return config.edges != "given" or (config.previous is not None and looks_back(config.previous))


def is_local(member: Any, graph: Graph) -> bool:
    """Whether what a network says of a row depends on its surroundings alone.

    Random features of nodes are drawn for all nodes at once, and whether random layers have an exact expectation may
    depend on the signs of all features and weights.
    """
    if isinstance(member, HopNetwork):
        return True
    assert isinstance(member, RAPGNN)
    config, embedding = member.config, member.embedding
    if embedding.varies:
        return False
    if config.inference in ("sample", "mean") or (config.activation == "identity" and not member.spec.rule.edges):
        return True
    positive = graph.edge_weight is None or bool((graph.edge_weight >= 0).all())
    return positive and embedding.mlp is not None and not embedding.unchanged_output
