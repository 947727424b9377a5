"""What a user would train instead on one graph: SGC, SIGN, APPNP and GCN of PyTorch Geometric, from arrays to the state
that is best on validation, with the settings their authors publish and the ranges that are searched."""

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, dropout

from rapgnn.experiments.bench.timing import wait
from rapgnn.graph.graph import Graph

Settings = dict[str, Any]
Ranges = dict[str, tuple[Any, ...]]
_DECAY = tuple(float(f"{10.0**e:.2g}") for e in np.linspace(-7, -3, 41))


@dataclass(frozen=True)
class Outcome:
    """A trained peer: its best merit on validation (accuracy, minus the loss), test accuracy, and what it took."""

    merit: tuple[float, float]
    test: float
    seconds: float
    preprocess_seconds: float


@dataclass(frozen=True)
class Rival:
    """A method: how its network is made of the arrays, and its settings.

    Args:
        title: its name in tables.
        build: (x, edges, outputs, settings) -> module, rows -> scores, and the parameters by weight decay. What it
            computes once, before any training, counts as preprocessing.
        published: the authors' settings; ``search`` says what they chose on validation themselves.
        ranges: what a search draws from, each value as likely as the others.
    """

    title: str
    build: Callable[..., tuple[nn.Module, Callable[[Tensor], Tensor], list[dict[str, Any]]]]
    published: Settings
    ranges: Ranges
    search: Ranges


def sparse_adjacency(edge_index: Tensor, nodes: int) -> Tensor:
    """The form of the adjacency matrix that PyG's layers are fastest with."""
    ends = edge_index.flip(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch calls its sparse matrices a beta
        ones = torch.ones(ends.shape[1], device=ends.device)
        return torch.sparse_coo_tensor(ends, ones, (nodes, nodes)).coalesce().to_sparse_csr()


def _gcn(x: Tensor, edges: Tensor, outputs: int, settings: Settings):
    from torch_geometric.nn import GCNConv

    hidden, depth, p = settings["hidden_channels"], settings["num_layers"], settings["dropout"]
    adjacency = sparse_adjacency(edges, len(x))
    widths = [x.shape[1], *[hidden] * (depth - 1), outputs]
    layers = nn.ModuleList(GCNConv(a, b, cached=True) for a, b in pairwise(widths))

    def scores(rows: Tensor) -> Tensor:
        h = x
        for i, layer in enumerate(layers):
            h = layer(dropout(h, p, layers.training), adjacency)
            h = torch.relu(h) if i + 1 < len(layers) else h
        return h[rows]

    return layers, scores, _decayed(layers, layers[0] if depth > 1 else layers, settings["weight_decay"])


def _sgc(x: Tensor, edges: Tensor, outputs: int, settings: Settings):
    from torch_geometric.nn import SGConv

    layer = SGConv(x.shape[1], outputs, K=settings["num_layers"], cached=True).to(x.device)
    with torch.no_grad():
        layer(x, sparse_adjacency(edges, len(x)))
    hop = layer._cached_x
    assert hop is not None
    kept: dict[int, Tensor] = {}

    def scores(rows: Tensor) -> Tensor:
        if id(rows) not in kept:  # rows of the labelled splits alone, as its authors do
            kept[id(rows)] = hop[rows]
        return layer.lin(kept[id(rows)])

    return layer, scores, _decayed(layer, layer, settings["weight_decay"])


def _sign(x: Tensor, edges: Tensor, outputs: int, settings: Settings):
    from torch_geometric.data import Data
    from torch_geometric.transforms import SIGN

    depth, hidden, p = settings["num_layers"], settings["hidden_channels"], settings["dropout"]
    data = SIGN(depth)(Data(x=x, edge_index=edges))
    hops = [x, *(data[f"x{i}"] for i in range(1, depth + 1))]
    linears = nn.ModuleList(nn.Linear(x.shape[1], hidden) for _ in hops)
    head = nn.Linear(hidden * len(hops), outputs)
    module = nn.ModuleDict({"hops": linears, "head": head})
    kept: dict[int, list[Tensor]] = {}

    def scores(rows: Tensor) -> Tensor:
        if id(rows) not in kept:
            kept[id(rows)] = [hop[rows] for hop in hops]
        parts = [dropout(torch.relu(f(h)), p, module.training) for f, h in zip(linears, kept[id(rows)], strict=True)]
        return head(torch.cat(parts, dim=1))

    return module, scores, _decayed(module, module, settings["weight_decay"])


def _appnp(x: Tensor, edges: Tensor, outputs: int, settings: Settings):
    from torch_geometric.nn import APPNP

    p = settings["dropout"]
    adjacency = sparse_adjacency(edges, len(x))
    first, second = nn.Linear(x.shape[1], settings["hidden_channels"]), nn.Linear(settings["hidden_channels"], outputs)
    spread = APPNP(settings["num_layers"], settings["alpha"], cached=True)
    module = nn.ModuleDict({"first": first, "second": second, "spread": spread})

    def scores(rows: Tensor) -> Tensor:
        h = torch.relu(first(dropout(x, p, module.training)))
        return spread(second(dropout(h, p, module.training)), adjacency)[rows]

    return module, scores, _decayed(module, first, settings["weight_decay"])


def _decayed(module: nn.Module, decayed: nn.Module, weight: float) -> list[dict[str, Any]]:
    """Adam's groups: weight decay on one part of a network, none on the rest."""
    chosen = {id(p) for p in decayed.parameters()}
    rest = [p for p in module.parameters() if id(p) not in chosen]
    groups = [{"params": list(decayed.parameters()), "weight_decay": weight}]
    return groups + ([{"params": rest, "weight_decay": 0.0}] if rest else [])


RIVALS = {
    "sgc": Rival(
        "SGC",
        _sgc,
        {"num_layers": 2, "lr": 0.2, "epochs": 100, "weight_decay": 5e-6},
        {"num_layers": (1, 2, 3, 4), "lr": (0.01, 0.05, 0.2), "weight_decay": _DECAY, "epochs": (100, 200)},
        {"weight_decay": _DECAY},
    ),
    "sign": Rival(
        "SIGN",
        _sign,  # PyG's example of it
        {"num_layers": 2, "hidden_channels": 1024, "dropout": 0.5, "lr": 0.01, "weight_decay": 0.0, "epochs": 200},
        {
            "num_layers": (1, 2, 3, 4),
            "hidden_channels": (64, 256, 512),
            "dropout": (0.2, 0.5, 0.8),
            "lr": (0.001, 0.003, 0.01),
            "weight_decay": (0.0, 1e-4, 5e-4, 5e-3),
            "epochs": (200,),
        },
        {},
    ),
    "appnp": Rival(
        "APPNP",
        _appnp,
        {
            "num_layers": 10,
            "alpha": 0.1,
            "hidden_channels": 64,
            "dropout": 0.5,
            "lr": 0.01,
            "weight_decay": 5e-3,
            "epochs": 200,
        },
        {
            "num_layers": (5, 10, 20),
            "alpha": (0.05, 0.1, 0.2),
            "hidden_channels": (16, 64, 128),
            "dropout": (0.2, 0.5, 0.8),
            "lr": (0.005, 0.01, 0.03),
            "weight_decay": (5e-4, 5e-3, 1e-2),
            "epochs": (200,),
        },
        {},
    ),
    "gcn": Rival(
        "PyG GCN",
        _gcn,
        {"num_layers": 2, "hidden_channels": 16, "dropout": 0.5, "lr": 0.01, "weight_decay": 5e-4, "epochs": 200},
        {
            "num_layers": (1, 2, 3),
            "hidden_channels": (16, 64, 128),
            "dropout": (0.0, 0.5, 0.8),
            "lr": (0.005, 0.01, 0.03),
            "weight_decay": (0.0, 5e-4, 5e-3),
            "epochs": (200,),
        },
        {},
    ),
}
"""The peers by name: published settings, the ranges of a search, and what the authors themselves searched."""


def train_rival(name: str, graph: Graph, x: Tensor, settings: Settings, seed: int) -> Outcome:
    """Train once, from arrays on the device; the state of the best validation epoch counts.

    Args:
        x: the features as a dense array.
    """
    device, y = x.device, graph.y
    edges, train, val = graph.edge_index.to(device), graph.train, graph.val
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        wait(device)
        start = time.perf_counter()
        normal = x / x.abs().sum(1, keepdim=True).clamp(min=1e-12)
        module, scores, groups = RIVALS[name].build(normal, edges, graph.num_outputs, settings)
        module.to(device)
        wait(device)
        before = time.perf_counter() - start
        optimizer = torch.optim.Adam(groups, lr=settings["lr"], fused=True)
        best, state = (-1.0, -float("inf")), {}
        for _ in range(settings["epochs"]):
            module.train()
            optimizer.zero_grad()
            cross_entropy(scores(train), y[train]).backward()
            optimizer.step()
            module.eval()
            with torch.no_grad():
                out = scores(val)
                merit = _accuracy(out, y[val]), -float(cross_entropy(out, y[val]))
            if merit > best:
                best, state = merit, {key: value.clone() for key, value in module.state_dict().items()}
        wait(device)
        seconds = time.perf_counter() - start
        module.load_state_dict(state)
        with torch.no_grad():
            return Outcome(best, _accuracy(scores(graph.test), y[graph.test]), seconds, before)


def draw_settings(ranges: Ranges, base: Settings, rng: np.random.Generator) -> Settings:
    """A random point of the ranges; what they leave out stays."""
    return base | {key: values[rng.integers(len(values))] for key, values in ranges.items()}


def _accuracy(out: Tensor, y: Tensor) -> float:
    return float((out.argmax(1) == y).double().mean())
