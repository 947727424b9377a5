"""What a user would pick instead from PyTorch Geometric, at any depth: GCNConv trained end to end, SGConv, SIGN."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from rapgnn.experiments.bench.timing import Scores
from rapgnn.graph.graph import Graph
from rapgnn.models.config import Config
from rapgnn.sparse import dense


def gcn(graph: Graph, config: Config) -> Scores:
    """Linear embedding, residual GCNConv layers, linear head: every pass goes over the whole graph."""
    from torch_geometric.nn import GCNConv

    device, d = graph.y.device, config.hidden_channels
    x, edges = dense(graph.x), graph.edge_index.to(device)
    with torch.random.fork_rng():
        layers = nn.ModuleList(
            GCNConv(d, d, bias=False, cached=True, add_self_loops=False) for _ in range(config.num_layers)
        )
        embedding, head = nn.Linear(graph.num_features, d), nn.Linear(d, graph.num_outputs)
        module = nn.ModuleDict({"embedding": embedding, "layers": layers, "head": head}).to(device)

    def every() -> Tensor:
        h = torch.relu(embedding(x))
        for layer in layers:
            h = h + torch.relu(layer(h, edges))
        return head(h)

    return _of_rows(module, every, graph)


def sgconv(graph: Graph, config: Config) -> Scores:
    """SGConv with its propagated features cached."""
    from torch_geometric.nn import SGConv

    device = graph.y.device
    x, edges = dense(graph.x), graph.edge_index.to(device)
    with torch.random.fork_rng():
        module = SGConv(graph.num_features, graph.num_outputs, K=config.num_layers, cached=True).to(device)
    return _of_rows(module, lambda: module(x, edges), graph)


def sign(graph: Graph, config: Config) -> Scores:
    """Scalable Inception Graph Networks: a linear map per hop, hops kept for the rows of each split."""
    device, d = graph.y.device, config.hidden_channels
    matrix, x = graph.operator(config.backbone).matrix, dense(graph.x)
    splits = {split: graph.rows(split) for split in ("train", "val", "test")}
    kept: dict[str, list[Tensor]] = {split: [] for split in splits}
    for hop in _hops(matrix, x, config.num_layers):
        for split, rows in splits.items():
            kept[split].append(hop[rows])
    with torch.random.fork_rng():
        hops = nn.ModuleList(nn.Linear(graph.num_features, d) for _ in range(config.num_layers + 1))
        head = nn.Linear(d * len(hops), graph.num_outputs)
        module = nn.ModuleDict({"hops": hops, "head": head}).to(device)

    def scores(parts: list[Tensor]) -> Tensor:
        return head(torch.cat([torch.relu(linear(h)) for linear, h in zip(hops, parts, strict=True)], dim=1))

    def every() -> Tensor:
        weights = head.weight.split(d, dim=1)
        out = head.bias.expand(graph.num_nodes, -1)
        for linear, weight, hop in zip(hops, weights, _hops(matrix, x, config.num_layers), strict=True):
            out = out + torch.relu(linear(hop)) @ weight.T
        return out

    return Scores(
        module, lambda: scores(kept["train"]), lambda: scores(kept["val"]), lambda: scores(kept["test"]), every
    )


def _hops(matrix, x: Tensor, count: int):
    hop = x
    yield hop
    for _ in range(count):
        hop = matrix @ hop
        yield hop


def _of_rows(module: nn.Module, every: Callable[[], Tensor], graph: Graph) -> Scores:
    """A network that scores all nodes at once."""
    return Scores(module, lambda: every()[graph.train], lambda: every()[graph.val], lambda: every()[graph.test], every)
