"""GIN of PyTorch Geometric for sets of graphs: batch norm, sum pooling of every layer, and a head on all of them."""

from typing import Any

import torch
from torch import Tensor, nn

from rapgnn.experiments.bench.suite.inputs import rival_features
from rapgnn.experiments.bench.suite.propagate import Adjacency, gin
from rapgnn.graph.graph import Graph
from rapgnn.graph.operator import edge_bounds
from rapgnn.sparse import dense, ranges

Settings = dict[str, Any]
EVALUATED = 1024  # graphs that are scored at a time

SET_SPACES: dict[str, dict[str, tuple[Any, ...]]] = {
    "gin": {
        "hidden_channels": (16, 32, 64, 128),
        "num_layers": (2, 3, 4, 5),
        "dropout": (0.0, 0.2, 0.5),
        "lr": (0.001, 0.003, 0.01),
        "weight_decay": (0.0, 1e-4, 1e-3),
        "batch_size": (64, 256),
        "scale": ("none", "columns"),
    }
}
"""What a search draws from, each value as likely as the others."""


class JumpingGIN(nn.Module):
    """GINConv, or GINEConv where edges have features; the pooled sums of all layers go into the head."""

    def __init__(self, in_channels: int, edge_channels: int, out_channels: int, settings: Settings):
        from torch_geometric.nn import GINConv, GINEConv

        super().__init__()
        d, depth, self.p = settings["hidden_channels"], settings["num_layers"], settings["dropout"]
        self.embedding = nn.Linear(in_channels, d)
        networks = [
            nn.Sequential(nn.Linear(d, d), nn.BatchNorm1d(d), nn.ReLU(), nn.Linear(d, d), nn.BatchNorm1d(d), nn.ReLU())
            for _ in range(depth)
        ]
        self.layers = nn.ModuleList(
            GINEConv(network, train_eps=True, edge_dim=edge_channels)
            if edge_channels
            else GINConv(network, train_eps=True)
            for network in networks
        )
        self.head = nn.Sequential(
            nn.Linear(d * (depth + 1), d), nn.ReLU(), nn.Dropout(self.p), nn.Linear(d, out_channels)
        )

    def forward(self, batch: "Batch") -> Tensor:
        from torch_geometric.nn import global_add_pool

        h = self.embedding(batch.x)
        pooled = [global_add_pool(h, batch.graph, batch.count)]
        for layer in self.layers:
            h = gin(layer, h, batch.adjacency, batch.edge_attr)
            h = nn.functional.dropout(h, self.p, self.training)
            pooled.append(global_add_pool(h, batch.graph, batch.count))
        return self.head(torch.cat(pooled, dim=1))


class Batch:
    """Some of the graphs side by side."""

    def __init__(self, x: Tensor, adjacency: Adjacency, edge_attr: Tensor | None, graph: Tensor, count: int):
        self.x, self.adjacency, self.edge_attr, self.graph, self.count = x, adjacency, edge_attr, graph, count


class SetTrainer:
    """One rival on one set of graphs: an epoch is one pass over the shuffled training graphs.

    Numbers to be told are scaled by the training graphs' mean and deviation.
    """

    def __init__(self, rival: str, graph: Graph, settings: Settings, own: bool, device: str = "cpu"):
        assert graph.ptr is not None
        if rival != "gin":
            raise ValueError(rival)
        x = rival_features(graph, settings["scale"])
        bounds = edge_bounds(graph.ptr, graph.edge_index[0].numpy())
        graph = graph.to(device)
        assert graph.ptr is not None
        self.graph, self.ptr, self.size, self.own = graph, graph.ptr, settings["batch_size"], own
        self.x, self.edges = dense(x).to(device), graph.edge_index.to(device)
        self.bounds = torch.as_tensor(bounds, device=device).long()
        self.edge_attr = None if graph.edge_attr is None else dense(graph.edge_attr)
        self.y, self.shift, self.spread = graph.y, torch.zeros(1, device=device), torch.ones(1, device=device)
        if graph.objective.metric == "rmse":
            known = graph.y[graph.train]
            self.shift, self.spread = known.mean(0), known.std(0).clamp(min=1e-6)
            self.y = (graph.y - self.shift) / self.spread
        self.module = JumpingGIN(x.shape[1], graph.num_edge_features, graph.num_outputs, settings).to(device)
        self._kept = {split: self._batches(graph.rows(split), EVALUATED) for split in ("val", "test")}

    def _batch(self, rows: Tensor) -> Batch:
        sizes = self.ptr[rows + 1] - self.ptr[rows]
        starts, nodes = ranges(self.ptr[rows], sizes)
        counts = self.bounds[rows + 1] - self.bounds[rows]
        _, edges = ranges(self.bounds[rows], counts)
        shift = torch.repeat_interleave(self.ptr[rows] - starts[:-1], counts)
        attributes = None if self.edge_attr is None else self.edge_attr[edges]
        home = torch.repeat_interleave(torch.arange(len(rows), device=rows.device), sizes)
        adjacency = Adjacency(self.edges[:, edges] - shift, len(nodes), self.own)
        return Batch(self.x[nodes], adjacency, attributes, home, len(rows))

    def _batches(self, rows: Tensor, size: int) -> list[Batch]:
        return [self._batch(part) for part in rows.split(size)]

    def train_epoch(self, optimizer: torch.optim.Optimizer) -> None:
        """One step per batch; a last batch of one graph is left out, for batch norm needs two."""
        rows = self.graph.train[torch.randperm(len(self.graph.train))]
        for part in rows.split(self.size):
            if len(part) < 2:
                continue
            optimizer.zero_grad()
            self.graph.objective.loss(self.module(self._batch(part)), self.y[part]).backward()
            optimizer.step()

    def scores(self) -> dict[str, Tensor]:
        """Of the validation and the test graphs, before softmax."""
        return {
            split: torch.cat([self.module(batch) for batch in batches]) * self.spread + self.shift
            for split, batches in self._kept.items()
        }
