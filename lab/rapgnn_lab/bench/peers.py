"""From arrays in memory to a trained model: seconds and test accuracy of RAP and of what a user would train instead
from PyTorch Geometric, with the settings that its authors publish and tuned on the same validation rows."""

import statistics
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from torch import nn

from rapgnn.compare import Record
from rapgnn.datasets.catalog import BlockModel
from rapgnn.errors import InputError, InputNotice
from rapgnn.estimators.estimators import RAPNodeClassifier
from rapgnn.graph.graph import Graph
from rapgnn.sparse import dense
from rapgnn_lab.bench.suite.compare import draw_points
from rapgnn_lab.bench.suite.rivals import Personalized, Ranges, Run, Settings, Stack, train_rival
from rapgnn_lab.bench.timing import seconds_of
from rapgnn_lab.store import Row, machine, with_ratios


@dataclass(frozen=True)
class Peer:
    """A method.

    Args:
        published: the authors' settings; ``search`` says what they chose on validation themselves.
        ranges: what a search draws from.
    """

    title: str
    published: Settings
    ranges: Ranges
    search: Ranges


_DECAY = tuple(float(f"{10.0**e:.2g}") for e in np.linspace(-7, -3, 41))
_TRAINED: Settings = {"dropout": 0.5, "lr": 0.01, "epochs": 200}
PEERS = {
    "sgc": Peer(
        "SGC",
        {"num_layers": 2, "lr": 0.2, "epochs": 100, "weight_decay": 5e-6},
        {"num_layers": (1, 2, 3, 4), "lr": (0.01, 0.05, 0.2), "weight_decay": _DECAY, "epochs": (100, 200)},
        {"weight_decay": _DECAY},
    ),
    "sign": Peer(
        "SIGN",  # PyG's example of it
        _TRAINED | {"num_layers": 2, "hidden_channels": 1024, "weight_decay": 0.0},
        {"num_layers": (1, 2, 3, 4), "hidden_channels": (64, 256, 512), "dropout": (0.2, 0.5, 0.8)}
        | {"lr": (0.001, 0.003, 0.01), "weight_decay": (0.0, 1e-4, 5e-4, 5e-3), "epochs": (200,)},
        {},
    ),
    "appnp": Peer(
        "APPNP",
        _TRAINED | {"num_layers": 10, "alpha": 0.1, "hidden_channels": 64, "weight_decay": 5e-3},
        {"num_layers": (5, 10, 20), "alpha": (0.05, 0.1, 0.2), "hidden_channels": (16, 64, 128)}
        | {"dropout": (0.2, 0.5, 0.8), "lr": (0.005, 0.01, 0.03), "weight_decay": (5e-4, 5e-3, 1e-2), "epochs": (200,)},
        {},
    ),
    "gcn": Peer(
        "PyG GCN",
        _TRAINED | {"num_layers": 2, "hidden_channels": 16, "weight_decay": 5e-4},
        {"num_layers": (1, 2, 3), "hidden_channels": (16, 64, 128), "dropout": (0.0, 0.5, 0.8)}
        | {"lr": (0.005, 0.01, 0.03), "weight_decay": (0.0, 5e-4, 5e-3), "epochs": (200,)},
        {},
    ),
}
TITLES = {"rap": "RAP, settings known", "rap-search": "RAP, search included"}
TITLES |= {name: peer.title for name, peer in PEERS.items()}


def plan(
    graph: Graph, trials: int, seeds: int, methods: Sequence[str] = tuple(TITLES), device: str = "cpu"
) -> list[Row]:
    """The rows of one graph, which lies on the CPU: RAP's two, and every peer with published and with tuned settings.

    What a peer trains on is moved to the device before its time begins; RAP's own time includes that.
    """
    if graph.task != "node-classification":
        raise InputError(f"bench peers compares classifiers of nodes, and {graph.name} is for {graph.task}.")
    common = {
        "dataset": graph.name,
        "fingerprint": graph.fingerprint(),
        "task": graph.task,
        "nodes": graph.num_nodes,
        "edges": graph.edge_index.shape[1],
        "features": graph.num_features,
        "labelled": len(graph.train),
        "metric": "accuracy",
        "seeds": list(range(seeds)),
    } | machine(device)

    def row(name: str, kind: str, said: str) -> Row:
        settings = common | {"method": name, "title": TITLES[name], "kind": kind, "setting": said}
        if name in PEERS:
            return Row(settings | {"search_trials": trials}, partial(_peer, name, kind, graph, trials, seeds, device))
        return Row(settings, partial(_rap, graph, seeds, device, search=kind == "search"))

    own = {"rap": {"known": "chosen by the search"}, "rap-search": {"search": "nothing set"}}
    kinds = {"published": "published", "tuned": f"tuned, {trials} trials"}
    return [row(name, *kind) for name in TITLES if name in methods for kind in own.get(name, kinds).items()]


def finish(records: Sequence[Record]) -> list[Record]:
    """The records with how many times RAP's seconds each took on the same graph."""
    faster = with_ratios(records, {"times_rap": ("rap", "seconds")})
    return [r | {"times_rap": r["times_rap"] and 1 / r["times_rap"]} for r in faster]


def _warm_up(device: str) -> None:
    """Train everything for a moment on a tiny graph, so that loading libraries is charged to nobody."""
    graph = BlockModel(nodes=40, classes=2, features=8, train=5, val=10, test=10).generate()
    _fit_rap(graph, 0, {}, device, search=True)
    for name, peer in PEERS.items():
        train_peer(name, graph, peer.published | {"epochs": 2}, 0, device)


def _rap(graph: Graph, seeds: int, device: str, search: bool) -> Record:
    """RAP with nothing set; or with the settings that the search of the first seed chose, trained anew."""
    _warm_up(device)
    first, taken = _fit_rap(graph, 0, {}, device, search=True)
    chosen = first.config_.to_dict()
    fitted = [_fit_rap(graph, seed, {} if search else chosen, device, search) for seed in range(seeds)]
    values = [float(model.score(graph, split="test")) for model, _ in fitted]
    trials = [{"settings": dict(t.settings), "val": float(t.value), "seconds": t.seconds} for t in first.trials_]
    extra = {"preprocess_seconds": None, "trials": trials, "chosen_settings": chosen}
    return _figures(values, [s for _, s in fitted]) | extra | ({} if search else {"search_seconds": taken})


def _fit_rap(graph: Graph, seed: int, settings: Record, device: str, search: bool) -> tuple[RAPNodeClassifier, float]:
    model = RAPNodeClassifier(seed=seed, settings=settings or None, search=search, device=device)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputNotice)
        return model, seconds_of(lambda: model.fit(graph), device)


def _peer(name: str, kind: str, graph: Graph, trials: int, seeds: int, device: str) -> Record:
    """One peer: its settings chosen on validation where they are not published, then a training per seed."""
    _warm_up(device)
    peer = PEERS[name]
    ranges = peer.ranges if kind == "tuned" else peer.search
    points, chosen = [], peer.published
    for drawn in draw_points(ranges, trials) if ranges else []:
        settings = peer.published | drawn
        run = train_peer(name, graph, settings, 0, device)
        points.append({"settings": settings, "val": run.val, "val_loss": run.val_loss, "seconds": _whole(run)})
    if points:
        chosen = max(points, key=lambda p: (p["val"], -p["val_loss"]))["settings"]
    done = [train_peer(name, graph, chosen, seed, device) for seed in range(seeds)]
    before = statistics.median(run.build_seconds for run in done)
    search = {"search_seconds": sum(p["seconds"] for p in points) if points else None, "trials": points}
    figures = _figures([run.test for run in done], [_whole(run) for run in done])
    return figures | {"preprocess_seconds": before, "chosen_settings": chosen} | search


def _whole(run: Run) -> float:
    return run.build_seconds + run.seconds


def _figures(values: list[float], seconds: list[float]) -> Record:
    deviation = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    figures = {"mean": float(np.mean(values)), "std": deviation, "values": values}
    return figures | {"seconds": statistics.median(seconds), "all_seconds": seconds}


def train_peer(name: str, graph: Graph, settings: Settings, seed: int, device: str = "cpu") -> Run:
    """Train once, with dense features that are divided by their row sums."""
    given = settings | {"scale": "rows", "residual": False}
    graph = replace(graph, x=dense(graph.x))
    return train_rival(name, graph, "accuracy", given, seed, settings["epochs"], device=device, optimizer=_adam)


def _adam(module: nn.Module, settings: Settings) -> torch.optim.Optimizer:
    """The weights of the first of several layers decay alone."""
    if isinstance(module, Stack):
        decayed = module.layers[0] if len(module.layers) > 1 else module
    else:
        decayed = module.first if isinstance(module, Personalized) else module
    decay = list(decayed.parameters())
    rest = [p for p in module.parameters() if all(p is not q for q in decay)]
    groups = [{"params": decay, "weight_decay": settings["weight_decay"]}, *([{"params": rest}] if rest else [])]
    return torch.optim.Adam(groups, lr=settings["lr"], fused=True)
