"""The estimators with nothing set beside the rivals' stored searches, one record per graph, and their table.

The estimators are measured by themselves; a rival's scores come from its search, and one run of the best rival is timed
in the same process as every fit.
"""

import statistics
import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rapgnn.compare import Record, warm_up
from rapgnn.datasets.catalog import BlockModel
from rapgnn.errors import InputNotice
from rapgnn.estimators.estimators import estimator_for
from rapgnn.files import write_atomic
from rapgnn.graph.graph import Graph
from rapgnn.graph.scores import metrics_for
from rapgnn.graph.validate import SPLITS
from rapgnn.sparse import SparseMatrix, dense
from rapgnn_lab.bench.rows import Row, machine
from rapgnn_lab.bench.suite.graphs import GRAPHS, Entry
from rapgnn_lab.bench.suite.rivals import EPOCHS, SPACES, rival_features, train_rival
from rapgnn_lab.bench.suite.tuning import define, draw_points, read_search, tune
from rapgnn_lab.results import NONE, format_ratio, format_table

LEVEL = 0.5  # points that count as level
PLAIN: Record = {"hidden_channels": 64, "num_layers": 2, "residual": False, "scale": "none"}
PLAIN |= {"dropout": 0.5, "lr": 0.01, "weight_decay": 5e-4}
"""A GCN as most tutorials have it: what a search may not take longer than one run of."""
MOST_SECONDS, LEAST_TIMED = 10.0, 10  # a timed run ends after so many seconds, but not before so many epochs
CHOSEN = ("backbone", "num_layers", "jumping", "embedding", "head")
RIVAL = ("rival", "title", "mean", "values", "val", "settings", "search_trials", "search_seconds", "hardware", "date")


def plan(
    names: Sequence[str], trials: int, seeds: int, folder: Path | None, search: bool = True, device: str = "cpu"
) -> list[Row]:
    """A row per graph; without ``search`` beside the searches in the folder that are there and finished."""
    rows = []
    for name in names:
        entry = GRAPHS[name]
        graphs = [make() for make in entry.makes]
        codes = {rival: define(entry, graphs, rival, trials, seeds) for rival in entry.rivals}
        if not search:
            codes = {rival: code for rival, code in codes.items() if _finished(folder, name, rival, code)}
        settings = {"dataset": name, "search_trials": trials, "seeds": list(range(seeds)), "definitions": codes}
        rows.append(Row(settings | machine("cpu"), partial(bench, name, trials, seeds, folder, search, device)))
    return rows


def _finished(folder: Path | None, name: str, rival: str, definition: str) -> Record | None:
    record = read_search(folder, name, rival, definition)
    return record if record and record["done"] else None


def bench(
    name: str, trials: int, seeds: int, folder: Path | None, search: bool, device: str = "cpu", epochs: int = EPOCHS
) -> Record:
    """The estimator on every seed, or fold, each fit followed by one run of the best rival."""
    entry = GRAPHS[name]
    graphs = [make() for make in entry.makes]
    if search:
        rivals = [tune(name, rival, trials, seeds, folder, device, epochs) for rival in entry.rivals]
    else:
        codes = {rival: define(entry, graphs, rival, trials, seeds) for rival in entry.rivals}
        rivals = [r for rival, code in codes.items() if (r := _finished(folder, name, rival, code))]
    best = pick_best(entry.metric, graphs[0].task, rivals)
    _warm(entry, graphs[0])
    runs = [(graph, seed) for graph in graphs for seed in range(1 if len(graphs) > 1 else seeds)]
    values, fits, theirs, chosen = [], [], [], []
    for place, (graph, seed) in enumerate(runs):
        value, seconds, settings = fit_ours(entry, graph, seed)
        values.append(value)
        fits.append(seconds)
        chosen.append(settings)
        if best is not None:
            split = best["splits"][place if len(graphs) > 1 else 0]
            theirs.append(time_run(best["rival"], graph, entry.metric, split["chosen"], seed, epochs=epochs))
    first, mean = graphs[0], statistics.fmean(values)
    errors = [settings["calibration_error"] for settings in chosen if "calibration_error" in settings]
    rival_seconds = statistics.median(seconds for seconds, _ in theirs) if theirs else None
    return {
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
        "rivals": [{key: record.get(key) for key in RIVAL} for record in rivals],
        "best_rival": best["title"] if best else None,
        "best_rival_mean": best["mean"] if best else None,
        "difference": points(entry.metric, first.task, mean, best["mean"]) if best else None,
        "fit_seconds": statistics.median(fits),
        "all_fit_seconds": fits,
        "rival_seconds": rival_seconds,
        "all_rival_seconds": [seconds for seconds, _ in theirs],
        "rival_epochs": EPOCHS,
        "timed_epochs": [count for _, count in theirs],
        **({} if entry.sets else time_plain(first, entry.metric, epochs)),
        "calibration_error": statistics.fmean(errors) if errors else None,
        "chosen": chosen,
    }


def fit_ours(entry: Entry, graph: Graph, seed: int) -> tuple[float, float, Record]:
    """The estimator with nothing but a seed: the metric on the test rows, seconds of the fit, what it chose."""
    model: Any = estimator_for(graph.task)(seed=seed)
    data, given, more = as_given(entry, graph)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputNotice)
        start = time.perf_counter()
        model.fit(data, **given, **more)
        seconds = time.perf_counter() - start
        out = model.predict(data) if graph.objective.metric == "rmse" else model.predict_proba(data, **given)
    scores = torch.from_numpy(np.asarray(out)).float().reshape(graph.num_rows, -1)[graph.test]
    truth, metrics = graph.y[graph.test], metrics_for(graph.task)
    config = getattr(model, "config_", None)
    settings: Record = {"candidates": len(model.trials_)}
    settings |= {name: getattr(config, name) for name in CHOSEN if hasattr(config, name)}
    if "calibration_error" in metrics:
        settings["calibration_error"] = metrics["calibration_error"].measure(scores, truth)
    return metrics[entry.metric].measure(scores, truth), seconds, settings


def as_given(entry: Entry, graph: Graph) -> tuple[Any, Record, Record]:
    """What a user hands over: the graph, or where nodes have no features None and the edges; for a fit labels too."""
    if entry.features or entry.sets:
        return graph, {}, {}
    labels = {"y": graph.y.numpy(), **{split: graph.rows(split).numpy() for split in SPLITS}}
    return None, {"edge_index": graph.edge_index.numpy()}, labels


def time_run(
    rival: str, graph: Graph, metric: str, settings: Record, seed: int, epochs: int = EPOCHS, most: float = MOST_SECONDS
) -> tuple[float, int]:
    """Seconds of one run, and how many epochs of it were timed: a long one is told by its first ``most`` seconds."""
    start = time.perf_counter()

    def long_enough(curve: Sequence[float]) -> bool:
        return len(curve) >= LEAST_TIMED and time.perf_counter() - start > most

    run = train_rival(rival, graph, metric, settings, seed, epochs, stop=long_enough)
    return run.seconds * epochs / run.epochs, run.epochs


def time_plain(graph: Graph, metric: str, epochs: int) -> Record:
    """Seconds of a plain GCN's run, with features as PyG's examples have them, and sparse where the graph's are."""
    sparse = isinstance(rival_features(graph, PLAIN["scale"]), SparseMatrix)
    given = {"plain": replace(graph, x=dense(graph.x))} | ({"sparse": graph} if sparse else {})
    seconds = {name: time_run("gcn", one, metric, PLAIN, 0, epochs)[0] for name, one in given.items()}
    return {f"{name}_gcn_seconds": seconds.get(name) for name in ("plain", "sparse")}


def pick_best(metric: str, task: str, rivals: Sequence[Record]) -> Record | None:
    """The rival with the best test score: the hardest one to beat."""
    sign = 1.0 if metrics_for(task)[metric].higher else -1.0
    return max(rivals, key=lambda record: sign * record["mean"], default=None)


def points(metric: str, task: str, ours: float, theirs: float) -> float:
    """By how many points ours is better: percentage points, or percent less error where less is better."""
    if metrics_for(task)[metric].higher:
        return 100 * (ours - theirs)
    return 100 * (theirs - ours) / max(abs(theirs), 1e-12)


def _warm(entry: Entry, graph: Graph) -> None:
    """Train everything for a moment, so that loading libraries is charged to nobody."""
    warm_up(["rap"], "cpu", graphs=entry.sets)
    if not entry.sets:
        graph = BlockModel(nodes=40, classes=2, features=8, train=5, val=10, test=10).generate()
        estimator_for(graph.task)().fit_graph(graph)
    rival = entry.rivals[0]
    train_rival(rival, graph, graph.objective.metric, draw_points(SPACES[rival], 1)[0], 0, epochs=1)


HEADER = [
    *("graph", "kind", "metric", "ours", "best rival", "its score", "difference"),
    *("fit, s", "one rival run, s", "ratio", "plain GCN, s", "sparse, s", "calibration error"),
]


def suite_cells(r: Record) -> list[str]:
    """A graph's row of the table."""

    def write(value: float | None, form: str = "{:.2f}") -> str:
        return NONE if value is None else form.format(value)

    def score(value: float | None) -> str:
        percent = metrics_for(r["task"])[r["metric"]].percent
        return write(value if value is None or not percent else 100 * value, "{:.2f}" if percent else "{:.3f}")

    error, slow = r.get("calibration_error"), r["rival_seconds"]
    rival = [r["best_rival"] or NONE, score(r["best_rival_mean"]), write(r["difference"], "{:+.2f}")]
    seconds = [write(r["fit_seconds"]), write(slow), NONE if slow is None else format_ratio(slow / r["fit_seconds"])]
    plain = [write(r.get(name)) for name in ("plain_gcn_seconds", "sparse_gcn_seconds")]
    kind = [r["dataset"], r["about"], metric_title(r), score(r["mean"])]
    return [*kind, *rival, *seconds, *plain, write(None if error is None else 100 * error, "{:.1f}")]


def suite_table(records: Sequence[Record]) -> str:
    """One row per graph, and below it how many are level, ahead and faster."""
    return f"{format_table(HEADER, map(suite_cells, records), left=3)}\n\n{goals(records)}\n"


def write_table(records: Sequence[Record], path: Path | None) -> list[Record]:
    """The records, after their table was written as Markdown."""
    if path is not None:
        write_atomic(path, lambda temporary: temporary.write_text(suite_table(records), encoding="utf-8"))
    return list(records)


def goals(records: Sequence[Record]) -> str:
    """How many graphs of those with a rival meet each goal."""
    judged = [r for r in records if r["difference"] is not None]
    level = sum(r["difference"] >= -LEVEL for r in judged)
    ahead = sum(r["difference"] > 0 for r in judged)
    said = (
        f"Of {len(judged)} graphs with a tuned rival: at least level (no more than {LEVEL:g} points below) on {level}, "
        f"ahead on {ahead}, whole fit faster than one run of the best rival on {_faster(judged, 'rival_seconds')[0]}."
    )
    sooner, timed = _faster(records, "plain_gcn_seconds")
    if timed:
        said += f" Faster than 200 epochs of a plain GCN (two layers, 64 channels) on {sooner} of {timed} single graphs"
        fewer, sparse = _faster(records, "sparse_gcn_seconds")
        said += f", and of one with sparse features on {fewer} of {sparse}." if sparse else "."
    return said


def _faster(records: Sequence[Record], key: str) -> tuple[int, int]:
    """On how many graphs the fit is faster, and of how many."""
    timed = [r for r in records if r.get(key) is not None]
    return sum(r["fit_seconds"] < r[key] for r in timed), len(timed)


def metric_title(record: Record) -> str:
    """The name of the metric for people."""
    return metrics_for(record["task"])[record["metric"]].title
