"""The estimators with nothing set beside the rivals' stored searches, one record per graph of the suite.

The estimators are measured by themselves; a rival's scores come from its search, and one run of the best rival is timed
in the same process as every fit.
"""

import statistics
import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rapgnn.datasets.synthetic import BlockModel
from rapgnn.errors import InputNotice
from rapgnn.estimators.estimators import estimator_for
from rapgnn.experiments.bench.rows import Row, machine
from rapgnn.experiments.bench.suite.inputs import rival_features
from rapgnn.experiments.bench.suite.registry import SUITE, Entry
from rapgnn.experiments.bench.suite.training import EPOCHS, train_rival
from rapgnn.experiments.bench.suite.tuning import define, draw_points, read_search, rivals_of, space_of, tune
from rapgnn.experiments.run import Record, warm_up
from rapgnn.graph.graph import Graph
from rapgnn.graph.scores import metrics_for
from rapgnn.graph.validate import SPLITS
from rapgnn.sparse import SparseMatrix, dense
from rapgnn.versions import hardware, versions

LEVEL = 0.5  # points that count as level
PLAIN: Record = {"hidden_channels": 64, "num_layers": 2, "residual": False, "scale": "none"}
PLAIN |= {"dropout": 0.5, "lr": 0.01, "weight_decay": 5e-4}
"""A GCN as most tutorials have it: what a search may not take longer than one run of."""
MOST_SECONDS, LEAST_TIMED = 10.0, 10  # a timed run ends after so many seconds, but not before so many epochs


def plan(
    names: Sequence[str], trials: int, seeds: int, folder: Path | None, search: bool = True, device: str = "cpu"
) -> list[Row]:
    """A row per graph.

    Args:
        folder: where the rivals' searches are stored.
        search: False takes only searches that are there and finished.
        device: where the rivals are tuned.
    """
    rows = []
    for name in names:
        graphs = [make() for make in SUITE[name].makes]
        codes = {rival: define(SUITE[name], graphs, rival, trials, seeds) for rival in rivals_of(SUITE[name])}
        if not search:
            codes = {rival: code for rival, code in codes.items() if _finished(folder, name, rival, code)}
        settings = {"dataset": name, "search_trials": trials, "seeds": list(range(seeds)), "definitions": codes}
        rows.append(Row(settings | machine("cpu"), partial(bench, name, trials, seeds, folder, search, device)))
    return rows


def bench(
    name: str, trials: int, seeds: int, folder: Path | None = None, search: bool = True, device: str = "cpu"
) -> Record:
    """The estimator on every seed, or fold, each fit followed by one run of the best rival."""
    entry = SUITE[name]
    graphs = [make() for make in entry.makes]
    found = [_rival(name, entry, graphs, rival, trials, seeds, folder, search, device) for rival in rivals_of(entry)]
    rivals = [record for record in found if record is not None]
    best = pick_best(entry, graphs[0].task, rivals)
    _warm(entry.sets, [record["rival"] for record in rivals[:1]], graphs[0])
    runs = [(graph, seed) for graph in graphs for seed in range(1 if len(graphs) > 1 else seeds)]
    values, fits, theirs, chosen = [], [], [], []
    for place, (graph, seed) in enumerate(runs):
        value, seconds, settings = fit_ours(entry, graph, seed)
        values.append(value)
        fits.append(seconds)
        chosen.append(settings)
        if best is not None:
            split = best["splits"][place if len(graphs) > 1 else 0]
            theirs.append(time_run(best["rival"], graph, entry.metric, split["chosen"], seed))
    first = graphs[0]
    mean = statistics.fmean(values)
    unsure = [settings["calibration_error"] for settings in chosen if "calibration_error" in settings]
    return {
        "dataset": name,
        "about": entry.about,
        "nodes": first.num_nodes,
        "edges": first.edge_index.shape[1],
        "graphs": first.num_rows if entry.sets else 1,
        "features": first.num_features,
        "labelled": len(first.train),
        "task": first.task,
        "method": f"{estimator_for(first.task).__name__}()",
        "metric": entry.metric,
        "mean": mean,
        "values": values,
        "rivals": [_short(record) for record in rivals],
        "best_rival": best["title"] if best else None,
        "best_rival_mean": best["mean"] if best else None,
        "difference": points(entry.metric, first.task, mean, best["mean"]) if best else None,
        "fit_seconds": statistics.median(fits),
        "all_fit_seconds": fits,
        "rival_seconds": statistics.median(seconds for seconds, _ in theirs) if theirs else None,
        "all_rival_seconds": [seconds for seconds, _ in theirs],
        "rival_epochs": EPOCHS,
        "timed_epochs": [epochs for _, epochs in theirs],
        **({} if entry.sets else time_plain(first, entry.metric)),
        "calibration_error": statistics.fmean(unsure) if unsure else None,
        **_gcn(rivals),
        "chosen": chosen,
        "threads": torch.get_num_threads(),
        "hardware": hardware("cpu"),
        "date": date.today().isoformat(),
        "versions": versions(),
    }


def fit_ours(entry: Entry, graph: Graph, seed: int) -> tuple[float, float, Record]:
    """The estimator with nothing but a seed: the metric on the test rows, seconds of the fit, what it chose."""
    model: Any = estimator_for(graph.task)(seed=seed)
    data, given = as_given(entry, graph)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputNotice)
        start = time.perf_counter()
        if entry.features or entry.sets:
            model.fit(data)
        else:
            splits = {split: graph.rows(split).numpy() for split in SPLITS}
            model.fit(data, graph.y.numpy(), **given, **splits)
        seconds = time.perf_counter() - start
        found = model.predict(data) if graph.objective.metric == "rmse" else model.predict_proba(data, **given)
    scores = torch.from_numpy(np.asarray(found)).float()
    truth = graph.y[graph.test]
    scores = scores.reshape(graph.num_rows, -1)[graph.test]
    settings, metrics = {"candidates": len(model.trials_)} | _chosen(model), metrics_for(graph.task)
    if "calibration_error" in metrics:
        settings["calibration_error"] = metrics["calibration_error"].measure(scores, truth)
    return metrics[entry.metric].measure(scores, truth), seconds, settings


def time_run(rival: str, graph: Graph, metric: str, settings: Record, seed: int) -> tuple[float, int]:
    """Seconds of one run of 200 epochs, and how many epochs of it were timed: a long one is told by its first part."""
    start = time.perf_counter()

    def long_enough(curve: Sequence[float]) -> bool:
        return len(curve) >= LEAST_TIMED and time.perf_counter() - start > MOST_SECONDS

    run = train_rival(rival, graph, metric, settings, seed, stop=long_enough)
    return run.seconds * EPOCHS / run.epochs, run.epochs


def time_plain(graph: Graph, metric: str) -> Record:
    """Seconds of a plain GCN's run, with features as PyG's examples have them, and sparse where the graph's are."""
    as_examples = time_run("gcn", replace(graph, x=dense(graph.x)), metric, PLAIN, 0)[0]
    sparse = isinstance(rival_features(graph, PLAIN["scale"]), SparseMatrix)
    return {
        "plain_gcn_seconds": as_examples,
        "sparse_gcn_seconds": time_run("gcn", graph, metric, PLAIN, 0)[0] if sparse else None,
    }


def as_given(entry: Entry, graph: Graph) -> tuple[Any, dict[str, Any]]:
    """What a user hands over: the graph, or where nodes have no features None and the edges."""
    if entry.features or entry.sets:
        return graph, {}
    return None, {"edge_index": graph.edge_index.numpy()}


def pick_best(entry: Entry, task: str, rivals: Sequence[Record]) -> Record | None:
    """The rival with the best test score: the hardest one to beat."""
    sign = 1.0 if metrics_for(task)[entry.metric].higher else -1.0
    return max(rivals, key=lambda record: sign * record["mean"], default=None)


def points(metric: str, task: str, ours: float, theirs: float) -> float:
    """By how many points ours is better: percentage points, or percent less error where less is better."""
    if metrics_for(task)[metric].higher:
        return 100 * (ours - theirs)
    return 100 * (theirs - ours) / max(abs(theirs), 1e-12)


def _rival(name, entry, graphs, rival, trials, seeds, folder, search, device) -> Record | None:
    if search:
        return tune(name, entry, rival, trials, seeds, folder, device=device)
    return _finished(folder, name, rival, define(entry, graphs, rival, trials, seeds))


def _finished(folder: Path | None, name: str, rival: str, definition: str) -> Record | None:
    found = read_search(folder, name, rival, definition)
    return found if found and found["done"] else None


def _short(record: Record) -> Record:
    kept = (
        "rival",
        "title",
        "mean",
        "values",
        "val",
        "settings",
        "search_trials",
        "search_seconds",
        "hardware",
        "date",
    )
    return {key: record.get(key) for key in kept}


def _gcn(rivals: Sequence[Record]) -> Record:
    """The keys that records of the GCN alone have."""
    found = next((record for record in rivals if record["rival"] == "gcn"), None)
    return {f"gcn_{key}": found[key] for key in ("mean", "values", "settings")} if found else {}


def _chosen(model: Any) -> Record:
    config = getattr(model, "config_", None)
    names = ("backbone", "num_layers", "jumping", "embedding", "head")
    return {name: getattr(config, name) for name in names if hasattr(config, name)}


def _warm(sets: bool, rivals: Sequence[str], graph: Graph) -> None:
    """Train everything for a moment, so that loading libraries is charged to nobody."""
    warm_up(["rap"], "cpu", graphs=sets)
    small = BlockModel(nodes=40, classes=2, features=8, train=5, val=10, test=10).generate()
    if not sets:
        estimator_for(small.task)().fit_graph(small)
    for rival in rivals:
        point = draw_points(space_of(Entry("", "accuracy", (), sets), rival), 1)[0]
        target = graph if sets else small
        metric = target.objective.metric
        train_rival(rival, target, metric, point, 0, epochs=1)
