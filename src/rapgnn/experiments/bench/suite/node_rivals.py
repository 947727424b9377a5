"""GCN, GraphSAGE and APPNP of PyTorch Geometric for one graph, with everything a search may set."""

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from rapgnn.experiments.bench.suite.edges import both_ways
from rapgnn.experiments.bench.suite.inputs import FirstMap, drop, rival_features
from rapgnn.experiments.bench.suite.propagate import Adjacency, appnp, gcn, sage
from rapgnn.graph.graph import Graph
from rapgnn.sparse import Features

Settings = dict[str, Any]


class Stack(nn.Module):
    """Layers of one kind between a first map and a last one.

    With ``residual``, as in Platonov et al. (2023): h ← h + dropout(relu(layer(norm(h)))). Without: the plain stack, a
    GCN's first layer then takes the features themselves.
    """

    def __init__(self, kind: str, in_channels: int, out_channels: int, settings: Settings):
        from torch_geometric.nn import GCNConv, SAGEConv

        super().__init__()
        d, depth = settings["hidden_channels"], settings["num_layers"]
        self.p, self.residual = settings["dropout"], settings["residual"]
        self.apply_layer = gcn if kind == "gcn" else sage
        narrow = kind == "gcn" and not self.residual  # the features go into the first layer
        widths = [in_channels if narrow else d, *[d] * (depth - 1), d if self.residual else out_channels]
        make = (lambda a, b: GCNConv(a, b, cached=True)) if kind == "gcn" else SAGEConv
        self.layers = nn.ModuleList(make(a, b) for a, b in pairwise(widths))
        self.first = None if narrow else FirstMap(in_channels, d)
        self.norms = nn.ModuleList(nn.LayerNorm(d) for _ in range(depth + 1)) if self.residual else None
        self.last = nn.Linear(d, out_channels) if self.residual else None
        if narrow:
            first: Any = self.layers[0]
            weight = first.lin.weight
            first.lin = FirstMap(in_channels, widths[1], bias=False)
            first.lin.weight = weight  # as GCNConv drew it

    def forward(self, x: Features, adjacency: Adjacency) -> Tensor:
        h: Any = drop(x, self.p, self.training)
        if self.first is not None:
            h = drop(torch.relu(self.first(h)), self.p, self.training)
        if self.norms is None or self.last is None:
            for i, layer in enumerate(self.layers):
                h = self.apply_layer(layer, h, adjacency)
                if i + 1 < len(self.layers):
                    h = drop(torch.relu(h), self.p, self.training)
            return h
        for layer, norm in zip(self.layers, self.norms, strict=False):
            h = h + drop(torch.relu(self.apply_layer(layer, norm(h), adjacency)), self.p, self.training)
        return self.last(self.norms[-1](h))


class Personalized(nn.Module):
    """APPNP: an MLP whose scores walk over the graph."""

    def __init__(self, in_channels: int, out_channels: int, settings: Settings):
        from torch_geometric.nn import APPNP

        super().__init__()
        self.p = settings["dropout"]
        self.first = FirstMap(in_channels, settings["hidden_channels"])
        self.second = nn.Linear(settings["hidden_channels"], out_channels)
        self.walk = APPNP(settings["num_layers"], settings["alpha"], cached=True)

    def forward(self, x: Features, adjacency: Adjacency) -> Tensor:
        h: Any = drop(torch.relu(self.first(drop(x, self.p, self.training))), self.p, self.training)
        return appnp(self.walk, self.second(h), adjacency)


_COMMON = {
    "hidden_channels": (16, 32, 64, 128, 256),
    "dropout": (0.0, 0.2, 0.5, 0.8),
    "lr": (0.003, 0.01, 0.03),
    "weight_decay": (0.0, 5e-5, 5e-4, 5e-3),
    "scale": ("none", "rows", "columns"),
}
NODE_SPACES: dict[str, dict[str, tuple[Any, ...]]] = {
    "gcn": _COMMON | {"num_layers": (1, 2, 3, 5), "residual": (False, True)},
    "sage": _COMMON | {"num_layers": (1, 2, 3, 5), "residual": (False, True)},
    "appnp": _COMMON | {"num_layers": (5, 10, 20), "alpha": (0.05, 0.1, 0.2, 0.5)},
}
"""What a search draws from, each value as likely as the others."""


class NodeTrainer:
    """One rival on one graph: an epoch is one pass over the whole graph.

    Sparse matrices and scaled features are made here, before any clock starts.
    """

    def __init__(self, rival: str, graph: Graph, settings: Settings, own: bool, device: str = "cpu"):
        self.graph = graph.to(device)
        self.x = rival_features(graph, settings["scale"], settings.get("ids", False)).to(device)
        edges = graph.edge_index.unique(dim=1)  # an edge that is listed twice counts once
        edges = edges[:, edges[0] != edges[1]]  # GCN's layers add self-loops, in one form even to those that are there
        if settings.get("both_ways", False):
            edges = torch.from_numpy(both_ways(*edges.numpy()))
        self.adjacency = Adjacency(edges.to(device), graph.num_nodes, own)
        width, outputs = self.x.shape[1], graph.num_outputs
        module = Personalized(width, outputs, settings) if rival == "appnp" else Stack(rival, width, outputs, settings)
        self.module = module.to(device)

    def train_epoch(self, optimizer: torch.optim.Optimizer) -> None:
        """One step over all training nodes."""
        graph = self.graph
        optimizer.zero_grad()
        graph.objective.loss(self.module(self.x, self.adjacency)[graph.train], graph.y[graph.train]).backward()
        optimizer.step()

    def scores(self) -> dict[str, Tensor]:
        """Of the validation and the test nodes, before softmax."""
        out = self.module(self.x, self.adjacency)
        return {split: out[self.graph.rows(split)] for split in ("val", "test")}
