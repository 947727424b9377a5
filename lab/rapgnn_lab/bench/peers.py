"""From arrays in memory to a trained model: seconds and test accuracy of RAP and of what a user would train instead
from PyTorch Geometric, with the settings that its authors publish and tuned on the same validation rows."""

import statistics
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from torch import nn
from torch.optim import Adam

from rapgnn import Config, Graph, InputError, RAPNodeClassifier
from rapgnn.datasets.catalog import BlockModel
from rapgnn.search.portfolio import constrained
from rapgnn.sparse import dense
from rapgnn_lab.bench.rivals import Personalized, Run, Settings, Stack, train_rival
from rapgnn_lab.bench.suite.compare import best_trial, search
from rapgnn_lab.bench.timing import seconds_of
from rapgnn_lab.store import Record, Row, machine, packaged, with_ratios
from rapgnn_lab.tune.search import open_study

PEERS: Record = packaged("bench/spaces.toml")["peers"]
"""Title, the authors' settings, what a search draws from, and what the authors chose on validation themselves."""
TITLES = {"rap": "RAP, settings known", "rap-search": "RAP, search included"}
TITLES |= {name: peer["title"] for name, peer in PEERS.items()}


def plan(
    graph: Graph, trials: int, seeds: int, methods: Sequence[str] = tuple(TITLES), device: str = "cpu"
) -> list[Row]:
    """The rows of one graph, which lies on the CPU: RAP's two, and every peer with published and with tuned settings.

    What a peer trains on is moved to the device before its time begins; RAP's own time includes that.
    """
    if graph.task != "node-classification":
        raise InputError(f"bench peers compares classifiers of nodes, and {graph.name} is for {graph.task}.")
    common = {"dataset": graph.name, "fingerprint": graph.fingerprint(), "task": graph.task, "nodes": graph.num_nodes}
    common |= {"edges": graph.edge_index.shape[1], "features": graph.num_features, "labelled": len(graph.train)}
    common |= {"metric": "accuracy", "seeds": list(range(seeds))} | machine(device)

    def row(name: str, kind: str, said: str) -> Row:
        settings = common | {"method": name, "title": TITLES[name], "kind": kind, "setting": said}
        if name in PEERS:
            return Row(settings | {"search_trials": trials}, partial(_peer, name, kind, graph, trials, seeds, device))
        return Row(settings, partial(_rap, graph, seeds, device, kind == "search"))

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
    _fit_rap(graph, 0, device)
    for name, peer in PEERS.items():
        train_peer(name, graph, peer["published"] | {"epochs": 2}, 0, device)


def _rap(graph: Graph, seeds: int, device: str, whole: bool) -> Record:
    """RAP with nothing set; or not ``whole``, with the settings that the search of the first seed chose."""
    _warm_up(device)
    first, taken = _fit_rap(graph, 0, device)
    config, usual = first.config_, Config().to_dict()
    changed = {name: value for name, value in config.to_dict().items() if value != usual[name]}
    chosen = {name: value for name, value in changed.items() if constrained(config, {name: value})}
    known = {} if whole else {"settings": chosen, "search": False}
    fitted = [_fit_rap(graph, seed, device, **known) for seed in range(seeds)]
    values = [float(model.score(graph, split="test")) for model, _ in fitted]
    record = _figures(values, [seconds for _, seconds in fitted]) | {"chosen_settings": chosen}
    return record | ({} if whole else {"search_seconds": taken})


def _fit_rap(graph: Graph, seed: int, device: str, **known: Any) -> tuple[RAPNodeClassifier, float]:
    model = RAPNodeClassifier(seed=seed, device=device, **known)
    return model, seconds_of(lambda: model.fit(graph), device)


def _peer(name: str, kind: str, graph: Graph, trials: int, seeds: int, device: str) -> Record:
    """One peer: its settings chosen on validation where they are not published, then a training per seed."""
    _warm_up(device)
    published, space, points = PEERS[name]["published"], PEERS[name]["ranges" if kind == "tuned" else "own"], []
    if space:
        fit = lambda point, stop: train_peer(name, graph, published | point, 0, device)  # noqa: E731
        points = search(open_study(None, name, higher=True), fit, space, trials, device)
    chosen = published | (best_trial(points, "accuracy", graph.task)["settings"] if points else {})
    done = [train_peer(name, graph, chosen, seed, device) for seed in range(seeds)]
    beside = {"search_seconds": sum(point["seconds"] for point in points) if points else None, "trials": points}
    whole = [run.seconds + run.build_seconds for run in done]
    return _figures([run.test for run in done], whole) | {"chosen_settings": chosen} | beside


def _figures(values: list[float], seconds: list[float]) -> Record:
    deviation = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    figures = {"mean": float(np.mean(values)), "std": deviation, "values": values}
    return figures | {"seconds": statistics.median(seconds), "all_seconds": seconds}


def train_peer(name: str, graph: Graph, settings: Settings, seed: int, device: str = "cpu") -> Run:
    """Train once, with dense features that are divided by their row sums."""
    given, graph = settings | {"scale": "rows", "residual": False}, replace(graph, x=dense(graph.x))
    return train_rival(name, graph, "accuracy", given, seed, settings["epochs"], device=device, optimizer=_adam)


def _adam(module: nn.Module, settings: Settings) -> Adam:
    decayed = module.first if isinstance(module, Personalized) else module
    if isinstance(module, Stack) and len(module.layers) > 1:
        decayed = module.layers[0]
    decay = {id(p) for p in decayed.parameters()}
    rest = [p for p in module.parameters() if id(p) not in decay]
    groups = [{"params": list(decayed.parameters()), "weight_decay": settings["weight_decay"]}]
    return Adam([*groups, *([{"params": rest}] if rest else [])], lr=settings["lr"], fused=True)
