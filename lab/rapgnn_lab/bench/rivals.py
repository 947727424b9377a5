"""Networks of PyTorch Geometric that are trained end to end, and a training of each, in which the state of the best
validation epoch counts: GCN, GraphSAGE, APPNP, SGC and SIGN for one graph, GIN for sets of graphs."""

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from rapgnn import Config, Graph
from rapgnn.graph.operator import edge_bounds
from rapgnn.graph.scores import metrics_for
from rapgnn.sparse import Features, SparseMatrix, dense, ranges
from rapgnn_lab.bench.suite.graphs import both_ways
from rapgnn_lab.bench.timing import Network, train, wait
from rapgnn_lab.store import packaged

Settings = dict[str, Any]
Ranges = dict[str, Sequence[Any]]
Stop = Callable[[Sequence[float]], bool]  # asked after every epoch with the best merit after each


TITLES = {"gcn": "GCN", "sage": "GraphSAGE", "appnp": "APPNP", "gin": "GIN"}
EPOCHS = 200
WIDE = 256  # columns from which sparse features stay sparse
EVALUATED = 1024  # graphs that are scored at a time
SPACES: dict[str, Ranges] = packaged("bench/spaces.toml")["rivals"]
"""What a search draws from, each value as likely as the others."""


def sparse_adjacency(edge_index: Tensor, nodes: int) -> Tensor:
    """The form of the adjacency matrix that PyG's layers are fastest with."""
    ends = edge_index.flip(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch calls its sparse matrices a beta
        ones = torch.ones(ends.shape[1], device=ends.device)
        return torch.sparse_coo_tensor(ends, ones, (nodes, nodes)).coalesce().to_sparse_csr()


def rival_features(graph: Graph, scale: str, ids: bool = False) -> Features:
    """The node features: as they are; by ``"rows"``, each node's divided by their sum; by ``"columns"``, mean 0 and
    deviation 1, sparse ones without moving the mean; or with ``ids`` a column per node."""
    if ids:
        return SparseMatrix(sp.identity(graph.num_nodes, format="csr"))
    x = (graph.normalized_features() if scale == "rows" else graph).x
    if isinstance(x, SparseMatrix) and x.shape[1] >= WIDE:
        if scale != "columns":
            return x
        table = x.scipy()
        square = np.asarray(table.multiply(table).mean(axis=0)).ravel()
        return SparseMatrix(table @ sp.diags(1 / np.sqrt(np.maximum(square, 1e-6))))
    x = dense(x)
    return (x - x.mean(0)) / x.std(0).clamp(min=1e-6) if scale == "columns" else x


class FirstMap(nn.Linear):
    """A linear map that also takes sparse features."""

    def forward(self, input: Features) -> Tensor:
        if not isinstance(input, SparseMatrix):
            return super().forward(input)
        out = input @ self.weight.t()
        return out if self.bias is None else out + self.bias


def drop(x: Features, p: float, training: bool) -> Features:
    """Dropout; of sparse features the entries that are there."""
    if not (training and p):
        return x
    if isinstance(x, SparseMatrix):
        return x.with_values(nn.functional.dropout(x.values, p))
    return nn.functional.dropout(x, p)


class Stack(nn.Module):
    """GCN or GraphSAGE layers between a first map and a last one.

    With ``residual``, as in Platonov et al. (2023): h ← h + dropout(relu(layer(norm(h)))). Without: the plain stack, a
    GCN's first layer then takes the features themselves.
    """

    def __init__(self, kind: str, in_channels: int, out_channels: int, settings: Settings):
        from torch_geometric.nn import GCNConv, SAGEConv

        super().__init__()
        d, depth = settings["hidden_channels"], settings["num_layers"]
        self.p, self.residual = settings["dropout"], settings["residual"]
        narrow = kind == "gcn" and not self.residual  # the features go into the first layer
        widths = [in_channels if narrow else d, *[d] * (depth - 1), d if self.residual else out_channels]
        make = (lambda a, b: GCNConv(a, b, cached=True)) if kind == "gcn" else SAGEConv
        self.layers = nn.ModuleList(make(a, b) for a, b in pairwise(widths))
        self.first = None if narrow else FirstMap(in_channels, d)
        self.norms = nn.ModuleList(nn.LayerNorm(d) for _ in range(depth + 1)) if self.residual else None
        self.last = nn.Linear(d, out_channels) if self.residual else None
        self.normal: Any = None
        if narrow:
            first: Any = self.layers[0]
            weight = first.lin.weight
            first.lin = FirstMap(in_channels, widths[1], bias=False)
            first.lin.weight = weight  # as GCNConv drew it

    def forward(self, x: Features, adjacency: Tensor) -> Tensor:
        h: Any = drop(x, self.p, self.training)
        if self.first is not None:
            h = drop(torch.relu(self.first(h)), self.p, self.training)
        if self.norms is None or self.last is None:
            for i, layer in enumerate(self.layers):
                h = self._sparse(layer, h, adjacency) if isinstance(h, SparseMatrix) else layer(h, adjacency)
                if i + 1 < len(self.layers):
                    h = drop(torch.relu(h), self.p, self.training)
            return h
        for layer, norm in zip(self.layers, self.norms, strict=False):
            h = h + drop(torch.relu(layer(norm(h), adjacency)), self.p, self.training)
        return self.last(self.norms[-1](h))

    def _sparse(self, layer: Any, x: SparseMatrix, adjacency: Tensor) -> Tensor:
        """GCNConv of sparse features, which it does not take: its map first, then its propagation."""
        from torch_geometric.nn.conv.gcn_conv import gcn_norm

        self.normal = self.normal or gcn_norm(adjacency, None, len(adjacency), dtype=torch.float32)
        return layer.propagate(self.normal[0], x=layer.lin(x), edge_weight=self.normal[1]) + layer.bias


class Personalized(nn.Module):
    """APPNP: an MLP whose scores walk over the graph."""

    def __init__(self, in_channels: int, out_channels: int, settings: Settings):
        from torch_geometric.nn import APPNP

        super().__init__()
        self.p = settings["dropout"]
        self.first = FirstMap(in_channels, settings["hidden_channels"])
        self.second = nn.Linear(settings["hidden_channels"], out_channels)
        self.walk = APPNP(settings["num_layers"], settings["alpha"], cached=True)

    def forward(self, x: Features, adjacency: Tensor) -> Tensor:
        h: Any = drop(torch.relu(self.first(drop(x, self.p, self.training))), self.p, self.training)
        return self.walk(self.second(h), adjacency)


class GIN(nn.Module):
    """GINConv layers, or GINEConv where edges have features, and sum pooling.

    ``jumping``: the pooled sums of all layers go into a head with a hidden layer; else, as in PyTorch Geometric's and
    OGB's examples, the last one's into a linear head.
    """

    def __init__(self, in_channels: int, edge_channels: int, out_channels: int, settings: Settings, factors: int = 0):
        from torch_geometric.nn import MLP, GINConv, GINEConv

        super().__init__()
        d, depth, self.p = settings["hidden_channels"], settings["num_layers"], settings["dropout"]
        self.jumping = not factors

        def network() -> nn.Module:
            half = lambda: [nn.Linear(d, d), nn.BatchNorm1d(d), nn.ReLU()]  # noqa: E731
            return nn.Sequential(*half(), *half()) if self.jumping else MLP([d] * (factors + 1), norm="batch_norm")

        self.embedding = nn.Linear(in_channels, d)
        networks = [network() for _ in range(depth)]
        more: dict[str, Any] = {"edge_dim": edge_channels} if edge_channels else {}
        kind = GINEConv if more else GINConv
        self.layers = nn.ModuleList(kind(net, train_eps=self.jumping, **more) for net in networks)
        last = nn.Linear(d * (depth + 1), d), nn.ReLU(), nn.Dropout(self.p), nn.Linear(d, out_channels)
        self.head = nn.Sequential(*last) if self.jumping else nn.Linear(d, out_channels)

    def forward(self, x: Tensor, edges: tuple[Tensor, ...], home: Tensor, count: int) -> Tensor:
        """Scores of some graphs side by side: edges with or without features, and the graph of every node."""
        from torch_geometric.nn import global_add_pool

        h = self.embedding(x) if self.jumping else torch.relu(self.embedding(x))
        pooled = [global_add_pool(h, home, count)] if self.jumping else []
        for layer in self.layers:
            h = nn.functional.dropout(torch.relu(layer(h, *edges)), self.p, self.training)
            if self.jumping or layer is self.layers[-1]:
                pooled.append(global_add_pool(h, home, count))
        return self.head(torch.cat(pooled, dim=1))


def gcn(graph: Graph, config: Config) -> Network:
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

    return _network(module, lambda split: every()[graph.rows(split)], every, graph)


def sgconv(graph: Graph, config: Config) -> Network:
    """SGConv with its propagated features cached."""
    from torch_geometric.nn import SGConv

    device = graph.y.device
    x, edges = dense(graph.x), graph.edge_index.to(device)
    with torch.random.fork_rng():
        module = SGConv(graph.num_features, graph.num_outputs, K=config.num_layers, cached=True).to(device)
    return _network(module, lambda split: module(x, edges)[graph.rows(split)], lambda: module(x, edges), graph)


class Sign(nn.Module):
    """Scalable Inception Graph Networks: a linear map per hop, and a head on all of them."""

    def __init__(self, in_channels: int, hidden: int, outputs: int, num_layers: int, dropout: float = 0.0):
        super().__init__()
        self.hops = nn.ModuleList(nn.Linear(in_channels, hidden) for _ in range(num_layers + 1))
        self.head, self.drop = nn.Linear(hidden * (num_layers + 1), outputs), nn.Dropout(dropout)

    def forward(self, hops: Sequence[Tensor]) -> Tensor:
        parts = [self.drop(torch.relu(linear(hop))) for linear, hop in zip(self.hops, hops, strict=True)]
        return self.head(torch.cat(parts, dim=1))


def sign(graph: Graph, config: Config) -> Network:
    d, matrix, x = config.hidden_channels, graph.operator(config.backbone).matrix, dense(graph.x)

    def walk() -> Iterator[Tensor]:
        yield (hop := x)
        for _ in range(config.num_layers):
            yield (hop := matrix @ hop)

    stored: dict[str, list[Tensor]] = {split: [] for split in ("train", "val", "test")}
    for hop in walk():
        for split, parts in stored.items():
            parts.append(hop[graph.rows(split)])
    with torch.random.fork_rng():
        module = Sign(graph.num_features, d, graph.num_outputs, config.num_layers, config.dropout).to(graph.y.device)

    def every() -> Tensor:
        out = module.head.bias.expand(graph.num_nodes, -1)
        for linear, weight, hop in zip(module.hops, module.head.weight.split(d, dim=1), walk(), strict=True):
            out = out + torch.relu(linear(hop)) @ weight.T
        return out

    return _network(module, lambda split: module(stored[split]), every, graph)


def _network(module: nn.Module, scores: Callable[[str], Tensor], every: Callable[[], Tensor], graph: Graph) -> Network:
    """A network whose epoch is one step over all training rows."""
    y = graph.y[graph.train]
    return Network(module, lambda: [(scores("train"), y)], lambda: scores("val"), lambda: scores("test"), every)


HOPS = {"sgc": sgconv, "sign": sign}  # networks of stored hops
SIZES = ("num_layers", "hidden_channels", "dropout")


def node_network(rival: str, graph: Graph, settings: Settings, device: str = "cpu") -> Network:
    """One rival on one graph: an epoch is one pass over the whole graph, or over hops of a split's rows."""
    x = rival_features(graph, settings["scale"], settings.get("ids", False)).to(device)
    edges = graph.edge_index.unique(dim=1)  # an edge that is listed twice counts once
    edges = edges[:, edges[0] != edges[1]]  # GCN's layers add self-loops, in one form even to those that are there
    if settings.get("both_ways", False):
        edges = torch.from_numpy(both_ways(*edges.numpy()))
    edges, graph = edges.to(device), graph.to(device)
    if rival in HOPS:
        sizes = {name: settings[name] for name in SIZES if name in settings}
        return HOPS[rival](replace(graph, x=dense(x), edge_index=edges), Config(**sizes))
    adjacency, sizes = sparse_adjacency(edges, graph.num_nodes), (x.shape[1], graph.num_outputs, settings)
    module = (Personalized(*sizes) if rival == "appnp" else Stack(rival, *sizes)).to(device)
    scores = lambda split: module(x, adjacency)[graph.rows(split)]  # noqa: E731
    steps = lambda: [(scores("train"), graph.y[graph.train])]  # noqa: E731
    return Network(module, steps, lambda: scores("val"), lambda: scores("test"))


def set_network(graph: Graph, settings: Settings, device: str = "cpu", factors: int = 0) -> Network:
    """GIN on a set of graphs: an epoch is one pass over the shuffled training graphs.

    Numbers to be told are scaled by the training graphs' mean and deviation.
    """
    assert graph.ptr is not None
    x = dense(rival_features(graph, settings["scale"])).to(device)
    bounds = torch.as_tensor(edge_bounds(graph.ptr, graph.edge_index[0].numpy()), device=device).long()
    graph = graph.to(device)
    ptr, listed = graph.ptr, graph.edge_index.to(device)
    assert ptr is not None
    attributes = None if graph.edge_attr is None else dense(graph.edge_attr)
    y, shift, spread = graph.y, torch.zeros(1, device=device), torch.ones(1, device=device)
    if graph.objective.metric == "rmse":
        known = y[graph.train]
        shift, spread = known.mean(0), known.std(0).clamp(min=1e-6)
        y = (y - shift) / spread
    module = GIN(x.shape[1], graph.num_edge_features, graph.num_outputs, settings, factors).to(device)

    def batch(rows: Tensor) -> tuple[Tensor, tuple[Tensor, ...], Tensor, int]:
        sizes, counts = ptr[rows + 1] - ptr[rows], bounds[rows + 1] - bounds[rows]
        starts, nodes = ranges(ptr[rows], sizes)
        _, edges = ranges(bounds[rows], counts)
        ends = listed[:, edges] - torch.repeat_interleave(ptr[rows] - starts[:-1], counts)
        home = torch.repeat_interleave(torch.arange(len(rows), device=rows.device), sizes)
        return x[nodes], (ends,) if attributes is None else (ends, attributes[edges]), home, len(rows)

    def steps() -> Iterator[tuple[Tensor, Tensor]]:
        rows = graph.train[torch.randperm(len(graph.train))]
        for part in rows.split(settings["batch_size"]):
            if len(part) > 1:  # batch norm needs two graphs
                yield module(*batch(part)), y[part]

    made = {split: [batch(part) for part in graph.rows(split).split(EVALUATED)] for split in ("val", "test")}

    def scores(split: str) -> Tensor:
        return torch.cat([module(*parts) for parts in made[split]]) * spread + shift

    return Network(module, steps, lambda: scores("val"), lambda: scores("test"))


def gin(graph: Graph, config: Config, factors: int) -> Network:
    """GIN as in PyTorch Geometric's examples."""
    given = {name: getattr(config, name) for name in SIZES} | {"scale": "none"}
    with torch.random.fork_rng():
        size = config.batch_size or len(graph.train)
        return set_network(graph, given | {"batch_size": size}, str(graph.y.device), factors)


@dataclass(frozen=True)
class Run:
    """One training: the metric at the best validation epoch, the loss there, seconds with validation, the best
    validation merit after each epoch, and seconds of what is computed once before."""

    val: float
    test: float
    val_loss: float
    seconds: float
    curve: list[float]
    build_seconds: float = 0.0

    @property
    def epochs(self) -> int:
        return len(self.curve)


def merit(metric: str, task: str, value: float) -> float:
    """The metric turned so that more is better; of no number the least."""
    if value != value:
        return -float("inf")
    return value if metrics_for(task)[metric].higher else -value


adam = lambda module, s: torch.optim.Adam(module.parameters(), lr=s["lr"], weight_decay=s["weight_decay"])  # noqa: E731


def train_rival(
    rival: str,
    graph: Graph,
    metric: str,
    settings: Settings,
    seed: int,
    epochs: int = EPOCHS,
    patience: int | None = None,
    stop: Stop = lambda curve: False,
    device: str = "cpu",
    optimizer: Callable[[nn.Module, Settings], torch.optim.Optimizer] = adam,
) -> Run:
    measure, rule, y = metrics_for(graph.task)[metric].measure, graph.objective, graph.y.cpu()

    def judge(out: Tensor) -> tuple[float, float]:
        out, wanted = out.cpu(), y[graph.val]
        loss = float(rule.loss(out, wanted))
        value = merit(metric, graph.task, measure(rule.read(out), wanted))
        return value, -loss if loss == loss else -float("inf")

    with torch.random.fork_rng():
        torch.manual_seed(seed)
        start, sets = time.perf_counter(), graph.ptr is not None
        network = set_network(graph, settings, device) if sets else node_network(rival, graph, settings, device)
        wait(device)
        built = time.perf_counter() - start
        done = train(network, optimizer(network.module, settings), rule.loss, judge, epochs, patience, stop)
        with torch.no_grad():
            test = measure(rule.read(network.test().cpu()), y[graph.test])
    val = abs(done.best[0]) if done.best[0] > -float("inf") else float("nan")
    seconds = sum(done.train_ms + done.eval_ms) / 1e3
    return Run(val, test, -done.best[1], seconds, done.curve, built)
