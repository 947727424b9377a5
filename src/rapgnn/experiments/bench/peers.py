"""From arrays in memory to a trained model: seconds and test accuracy of RAP and of what a user would train instead."""

import statistics
import time
import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from rapgnn.datasets.synthetic import BlockModel
from rapgnn.errors import InputError, InputNotice
from rapgnn.estimators.estimators import RAPNodeClassifier
from rapgnn.experiments.bench.rivals import RIVALS, draw_settings, train_rival
from rapgnn.experiments.bench.rows import Row, machine
from rapgnn.experiments.bench.timing import wait
from rapgnn.experiments.run import Record
from rapgnn.graph.graph import Graph
from rapgnn.sparse import dense

TITLES = {"rap": "RAP, settings known", "rap-search": "RAP, search included"} | {
    name: rival.title for name, rival in RIVALS.items()
}


def plan(
    graph: Graph, trials: int, seeds: int, methods: Sequence[str] = tuple(TITLES), device: str = "cpu"
) -> list[Row]:
    """The rows of one graph, which lies on the CPU: RAP's two, and every peer with published and with tuned settings.

    What a peer trains on is moved to the device before its time begins; RAP's own time includes that.
    """
    if graph.task != "node-classification":
        raise InputError(f"bench peers compares classifiers of nodes, and {graph.name} is for {graph.task}.")
    moved = graph.to(device)
    x = dense(moved.x)
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
    rows = []
    for name in (n for n in TITLES if n in methods):
        kinds = {"published": "published", "tuned": f"tuned, {trials} trials"}
        if name not in RIVALS:
            kind, said = ("search", "nothing set") if name == "rap-search" else ("known", "chosen by the search")
            kinds = {kind: said}
        for kind, said in kinds.items():
            settings = common | {"method": name, "title": TITLES[name], "kind": kind, "setting": said}
            if name in RIVALS:
                settings |= {"search_trials": trials}
                measure = partial(_rival, name, kind, moved, x, trials, seeds)
            else:
                measure = partial(_rap, graph, seeds, device, search=name == "rap-search")
            rows.append(Row(settings, measure))
    return rows


def finish(records: Sequence[Record]) -> list[Record]:
    """The records with how many times RAP's seconds each took on the same graph."""
    known = {r["dataset"]: r.get("seconds") for r in records if r["method"] == "rap"}
    done = []
    for r in records:
        ours = known.get(r["dataset"])
        done.append(r | {"times_rap": r["seconds"] / ours if ours and r.get("seconds") else None})
    return done


def warm_up_peers(device: str) -> None:
    """Train everything for a moment on a tiny graph, so that loading libraries is charged to nobody."""
    graph = BlockModel(nodes=40, classes=2, features=8, train=5, val=10, test=10).generate()
    _fit_rap(graph, 0, {}, device, search=True)
    graph = graph.to(device)
    for name, rival in RIVALS.items():
        train_rival(name, graph, dense(graph.x), rival.published | {"epochs": 2}, 0)


def _rap(graph: Graph, seeds: int, device: str, search: bool) -> Record:
    """RAP with nothing set; or with the settings that the search of the first seed chose, trained anew."""
    warm_up_peers(device)
    extra: Record = {}
    settings: dict[str, Any] = {}
    if not search:
        first, taken = _fit_rap(graph, 0, {}, device, search=True)
        settings = first.config_.to_dict()
        extra = {"search_seconds": taken, "trials": _trials(first), "chosen_settings": settings}
    fitted = [_fit_rap(graph, seed, settings, device, search=search) for seed in range(seeds)]
    if search:
        extra = {"chosen_settings": fitted[0][0].config_.to_dict(), "trials": _trials(fitted[0][0])}
    values = [model.score(graph, split="test") for model, _ in fitted]
    return _figures(values, [taken for _, taken in fitted]) | {"preprocess_seconds": None} | extra


def _fit_rap(
    graph: Graph, seed: int, settings: dict[str, Any], device: str, search: bool
) -> tuple[RAPNodeClassifier, float]:
    model = RAPNodeClassifier(seed=seed, settings=settings or None, search=search, device=device)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputNotice)
        wait(device)
        start = time.perf_counter()
        model.fit(graph)
        wait(device)
        return model, time.perf_counter() - start


def _trials(model: RAPNodeClassifier) -> list[Record]:
    return [{"settings": dict(t.settings), "val": float(t.value), "seconds": t.seconds} for t in model.trials_]


def _rival(name: str, kind: str, graph: Graph, x: Any, trials: int, seeds: int) -> Record:
    """One peer: its settings chosen on validation where they are not published, then a training per seed."""
    warm_up_peers(str(graph.y.device))
    rival, rng = RIVALS[name], np.random.default_rng(0)
    ranges = rival.ranges if kind == "tuned" else rival.search
    points, chosen, spent = [], rival.published, 0.0
    for _ in range(trials if ranges else 0):
        settings = draw_settings(ranges, rival.published, rng)
        found = train_rival(name, graph, x, settings, 0)
        spent += found.seconds
        point = {"settings": settings, "val": found.merit[0], "val_loss": -found.merit[1], "seconds": found.seconds}
        points.append(point)
    if points:
        chosen = max(points, key=lambda p: (p["val"], -p["val_loss"]))["settings"]
    done = [train_rival(name, graph, x, chosen, seed) for seed in range(seeds)]
    figures = _figures([d.test for d in done], [d.seconds for d in done])
    before = statistics.median(d.preprocess_seconds for d in done)
    search = {"search_seconds": spent, "trials": points} if points else {"search_seconds": None, "trials": []}
    return figures | {"preprocess_seconds": before, "chosen_settings": chosen} | search


def _figures(values: list[float], seconds: list[float]) -> Record:
    deviation = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    figures = {"mean": float(np.mean(values)), "std": deviation, "values": values}
    return figures | {"seconds": statistics.median(seconds), "all_seconds": seconds}
