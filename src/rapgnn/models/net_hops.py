"""What random networks see of a graph before any weight: hops, edges and nodes as columns."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from rapgnn.graph.graph import Graph
from rapgnn.graph.operator import GraphOperator
from rapgnn.models.known_labels import MOST_HOPS, KnownLabels
from rapgnn.models.net_config import NetConfig
from rapgnn.propagation.hops import next_hop
from rapgnn.sparse import Features, dense, row_block

BLOCK_BYTES = 1 << 26  # of a block's rows, so that all rows at full width never live at once
NEAR = 8  # hops that are kept one by one


class Hops:
    """S^k z one after another, each computed when it is first asked for; of all nodes."""

    def __init__(self, operator: GraphOperator, inputs: Features, back: GraphOperator | None = None):
        self.operator, self._back = operator, back
        self._hops: list[Features] = [inputs]
        self._against: list[Features] = [inputs]
        self.said: dict[int, Hops] = {}  # of what other networks predict, by network
        self._labels: dict[int, tuple[KnownLabels, list[list[Tensor]]]] = {}
        self._sums: dict[tuple[int, float], Tensor] = {}  # of personalised PageRank, by depth and α

    def of(self, k: int, rows: Tensor | None = None) -> Tensor:
        """Hop k of some nodes, or of all."""
        return self._hop(self._hops, self.operator, k, rows)

    def against(self, k: int, rows: Tensor | None = None) -> Tensor:
        """Likewise, against the direction of the edges."""
        assert self._back is not None
        return self._hop(self._against, self._back, k, rows)

    def labels(self, graph: Graph, known: KnownLabels, count: int) -> list[Tensor]:
        """Hops 1 to ``count`` of known labels, for all nodes; then against the edges too, where both ways count."""
        if id(known) not in self._labels:
            like = self.of(0, known.nodes.keys[:0])
            ways = [way for way in (self.operator, self._back) if way is not None]
            # The labels are kept with their hops, so that no others get their number.
            self._labels[id(known)] = known, [known.hops(graph, way, like, MOST_HOPS) for way in ways]
        return [hop for way in self._labels[id(known)][1] for hop in way[:count]]

    def joined(self, config: NetConfig, rows: Tensor | None = None) -> Tensor:
        """The hops of some nodes, or of all, joined as the settings say."""
        depth = config.num_layers
        if config.jumping == "last":
            return self.of(depth, rows)
        if config.jumping == "cat":
            found = [self.of(k, rows) for k in range(depth + 1)]
            if config.edges == "both":
                found += [self.against(k, rows) for k in range(1, depth + 1)]
            return torch.cat(found, dim=1)
        total = self._sum(depth, config.teleport)
        return total if rows is None else total[rows]

    def _sum(self, depth: int, alpha: float) -> Tensor:
        """Σ α (1 - α)^k S^k z over hops 0 to depth, of all nodes; hops past ``NEAR`` are not kept themselves."""
        if (depth, alpha) not in self._sums:
            hop = self.of(0)
            total = alpha * hop
            for k in range(1, depth + 1):
                hop = self.of(k) if k <= NEAR else dense(next_hop(self.operator.matrix, hop, BLOCK_BYTES))
                total.add_(hop, alpha=alpha * (1 - alpha) ** k)
            self._sums[depth, alpha] = total
        return self._sums[depth, alpha]

    @staticmethod
    def _hop(walked: list[Any], operator: GraphOperator, k: int, rows: Tensor | None) -> Tensor:
        while len(walked) <= k:
            walked.append(next_hop(operator.matrix, walked[-1], BLOCK_BYTES))
        return dense(walked[k] if rows is None else row_block(walked[k], rows))


def undirected(graph: Graph) -> Graph:
    """The graph with the reverse of every edge."""
    edges = torch.cat([graph.edge_index, graph.edge_index.flip(0)], dim=1)
    weight = None if graph.edge_weight is None else torch.cat([graph.edge_weight, graph.edge_weight])
    return replace(graph, edge_index=edges, edge_weight=weight, edge_attr=None)


def signed_log(z: Tensor) -> Tensor:
    """sign(z) log(1 + |z|)."""
    return z.sign() * z.abs().log1p()


def received(graph: Graph, edges: Tensor) -> Tensor:
    """The sum of the edge features that each node receives."""
    target = graph.edge_index[1].to(edges.device)
    return edges.new_zeros(graph.num_nodes, edges.shape[1]).index_add_(0, target, edges)


def chosen_graphs(operator: GraphOperator, inputs: Features, graphs: Tensor) -> tuple[GraphOperator, Tensor]:
    part, nodes = operator.select(graphs)
    return part, dense(row_block(inputs, nodes))
