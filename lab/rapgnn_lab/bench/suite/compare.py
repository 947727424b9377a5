"""The estimators with nothing set beside rivals that were tuned on the same validation rows.

A rival's search is Optuna's; every trial is stored, and the best one is trained on new seeds. There is one file per
graph and rival, and beside them the database of all trials: a run that was stopped goes on where it ended, and a search
whose graph or space has changed since begins anew. The estimators are measured by themselves; one run of the best rival
is timed in the same process as every fit. There is one record per graph, and a table of all.
"""

import hashlib
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from optuna import Study, Trial
from optuna.pruners import MedianPruner

from rapgnn.compare import Record, warm_up
from rapgnn.datasets.catalog import BlockModel
from rapgnn.device import hardware
from rapgnn.estimators.estimators import estimator_for
from rapgnn.files import is_regular
from rapgnn.graph.graph import Graph
from rapgnn.graph.scores import metrics_for
from rapgnn.graph.validate import SPLITS
from rapgnn.sparse import SparseMatrix, dense
from rapgnn_lab.bench.rivals import EPOCHS, SPACES, TITLES, WIDE, Ranges, Run, Settings, Stop, merit, train_rival
from rapgnn_lab.bench.suite.graphs import GRAPHS, Entry
from rapgnn_lab.bench.timing import seconds_of
from rapgnn_lab.results import COLUMNS, NONE, make_table
from rapgnn_lab.store import Row, machine, plain, write_json
from rapgnn_lab.tune.search import count_ended, open_study, run_trials
from rapgnn_lab.tune.search import finished as finished_trials

PATIENCE = 40  # epochs without a better validation score after which a trial ends
TRIALS = "trials.db"  # in the folder of the searches
MARK, LEAST = 50, 5  # a trial that is below the median of at least so many others after so many epochs ends


def space_of(entry: Entry, rival: str) -> Ranges:
    """The ranges of a search.

    Where nodes have no features, a column per node may stand in; directed edges may count both ways.
    """
    ids = {} if entry.features or entry.sets else {"ids": (False, True)}
    both = {"both_ways": (False, True)} if entry.directed else {}
    return SPACES[rival] | ids | both


def define(entry: Entry, graphs: Sequence[Graph], rival: str, trials: int, seeds: int) -> str:
    """Eight hexadecimal digits of all that decides a search: the graphs, their splits, the metric, the space."""
    rules = [entry.metric, space_of(entry, rival), trials, seeds, EPOCHS, PATIENCE, MARK, LEAST]
    digest = hashlib.sha256(json.dumps(rules).encode())
    for graph in graphs:
        digest.update(graph.fingerprint().encode() + graph.test.numpy().tobytes())
    return digest.hexdigest()[:8]


def read_search(folder: Path | None, name: str, rival: str, definition: str) -> Record | None:
    """A finished search; None where there is none of this definition."""
    path = None if folder is None else folder / f"{name}-{rival}.json"
    if path is None or not is_regular(path):
        return None
    record = json.loads(path.read_text(encoding="utf-8"))
    return record if record.get("definition") == definition and record["done"] else None


def tune(
    name: str, rival: str, trials: int, seeds: int, folder: Path | None, device: str = "cpu", epochs: int = EPOCHS
) -> Record:
    """Search, then train the best point: with so many seeds, or once per fold. Gives the record, and stores it in the
    folder; every training is in the folder's database as soon as it ends."""
    entry = GRAPHS[name]
    graphs = [make() for make in entry.makes]
    definition, metric = define(entry, graphs, rival, trials, seeds), entry.metric
    finished = read_search(folder, name, rival, definition)
    if finished is not None:
        return finished
    splits = []
    for number, graph in enumerate(graphs):
        study = open_study(folder and folder / TRIALS, f"{name}/{rival}/{definition}/{number}", higher=True)

        def fit(point: Settings, stop: Stop, graph: Graph = graph) -> Run:
            return train_rival(rival, graph, metric, point, 0, epochs, PATIENCE, stop, device)

        tried = search(study, fit, space_of(entry, rival), trials, device)
        chosen = best_trial(tried, metric, graph.task)["settings"]
        final = []
        for seed in range(1 if len(graphs) > 1 else seeds):
            if f"final {seed}" not in study.user_attrs:
                run = train_rival(rival, graph, metric, chosen, seed, epochs, device=device)
                study.set_user_attr(f"final {seed}", {"seed": seed} | _figures(run, "val", "test", "seconds"))
            final.append(study.user_attrs[f"final {seed}"])
        splits.append({"trials": tried, "chosen": chosen, "final": final})
    runs = [run for split in splits for run in split["final"]]
    record = {"command": " ".join(["rapgnn", *sys.argv[1:]]), "dataset": name, "rival": rival, "title": TITLES[rival]}
    record |= {"definition": definition, "metric": metric, "search_trials": trials, "epochs": EPOCHS}
    record |= {"patience": PATIENCE, "splits": splits, "settings": splits[0]["chosen"], "done": True}
    record |= {"val": statistics.fmean(run["val"] for run in runs), "values": [run["test"] for run in runs]}
    record["mean"] = statistics.fmean(run["test"] for run in runs)
    record["search_seconds"] = sum(trial["seconds"] for split in splits for trial in split["trials"])
    record |= {"date": date.today().isoformat()} | machine(device)
    if folder is not None:
        write_json(folder / f"{name}-{rival}.json", record)
    return plain(record)


def search(
    study: Study, fit: Callable[[Settings, Stop], Run], space: Ranges, trials: int, device: str = "cpu"
) -> list[Record]:
    """So many points of the space, each trained with the first seed, as records.

    A training ends after ``MARK`` epochs where it is below the median of the others; its score counts all the same.
    """
    study.pruner = MedianPruner(LEAST)

    def value(trial: Trial) -> float:
        def behind(curve: Sequence[float]) -> bool:
            if len(curve) == MARK:
                trial.report(curve[-1], MARK)
            return len(curve) == MARK and trial.should_prune()

        run = fit({name: trial.suggest_categorical(name, values) for name, values in space.items()}, behind)
        if run.epochs < MARK:
            trial.report(run.curve[-1], MARK)
        record = {"settings": trial.params} | _figures(run, "val", "val_loss", "test", "seconds", "epochs")
        trial.set_user_attr("record", record | {"hardware": hardware(device)})
        return run.curve[-1]

    run_trials(study, value, lambda: count_ended(study) < trials)
    return [trial.user_attrs["record"] for trial in finished_trials(study)][:trials]


def _figures(run: Run, *names: str) -> Record:
    return plain({name: getattr(run, name) for name in names})


def best_trial(trials: Sequence[Record], metric: str, task: str) -> Record:
    """The best by validation, equal ones by their loss."""

    def order(trial: Record) -> tuple[float, float]:
        value, loss = (float("nan") if trial[key] is None else trial[key] for key in ("val", "val_loss"))
        return merit(metric, task, value), -loss if loss == loss else -float("inf")

    return max(trials, key=order)


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
    rows = []
    for name in names:
        entry = GRAPHS[name]
        graphs = [make() for make in entry.makes]
        codes = {rival: define(entry, graphs, rival, trials, seeds) for rival in entry.rivals}
        if not search:
            codes = {rival: code for rival, code in codes.items() if read_search(folder, name, rival, code)}
        settings = {"dataset": name, "search_trials": trials, "seeds": list(range(seeds)), "definitions": codes}
        rows.append(Row(settings | machine("cpu"), partial(bench, name, codes, trials, seeds, folder, device)))
    return rows


def bench(
    name: str,
    against: Iterable[str],
    trials: int,
    seeds: int,
    folder: Path | None,
    device: str = "cpu",
    epochs: int = EPOCHS,
) -> Record:
    """The estimator on every seed, or fold, each fit followed by one run of the best of the rivals ``against``."""
    entry = GRAPHS[name]
    graphs = [make() for make in entry.makes]
    rivals = [tune(name, rival, trials, seeds, folder, device, epochs) for rival in against]
    best = max(rivals, key=lambda r: merit(entry.metric, graphs[0].task, r["mean"]), default=None)
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
    data, given, more = as_given(graph, entry.features or entry.sets)  # nodes without features are their edges
    seconds = seconds_of(lambda: model.fit(data, **given, **more), "cpu")
    out = model.predict(data) if graph.objective.metric == "rmse" else model.predict_proba(data, **given)
    scores = torch.from_numpy(np.asarray(out)).float().reshape(graph.num_rows, -1)[graph.test]
    truth, metrics = graph.y[graph.test], metrics_for(graph.task)
    config = getattr(model, "config_", None)
    settings: Record = {"candidates": len(model.trials_)}
    settings |= {name: getattr(config, name) for name in CHOSEN if hasattr(config, name)}
    if "calibration_error" in metrics:
        settings["calibration_error"] = metrics["calibration_error"].measure(scores, truth)
    return metrics[entry.metric].measure(scores, truth), seconds, settings


def as_given(graph: Graph, whole: bool, x: Any = None) -> tuple[Any, Record, Record]:
    """What a user hands over: the whole graph, or features and edges; for a fit labels too."""
    if whole:
        return graph, {}, {}
    labels = {"y": graph.y.numpy(), **{split: graph.rows(split).numpy() for split in SPLITS}}
    return x, {"edge_index": graph.edge_index.numpy()}, labels


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
    sparse = isinstance(graph.x, SparseMatrix) and graph.num_features >= WIDE
    given = {"plain": replace(graph, x=dense(graph.x))} | ({"sparse": graph} if sparse else {})
    seconds = {name: time_run("gcn", one, metric, PLAIN, 0, epochs)[0] for name, one in given.items()}
    return {f"{name}_gcn_seconds": seconds.get(name) for name in ("plain", "sparse")}


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
    point = {name: values[0] for name, values in SPACES[rival].items()}
    train_rival(rival, graph, graph.objective.metric, point, 0, epochs=1)


def suite_table(records: Sequence[Record]) -> str:
    """One row per graph, and below it how many are level, ahead and faster."""
    rows = []
    for r in records:
        factor, digits = (100, 2) if metrics_for(r["task"])[r["metric"]].percent else (1, 3)
        means = {"ours": r["mean"], "theirs": r["best_rival_mean"]}
        scores = {name: NONE if v is None else f"{factor * v:.{digits}f}" for name, v in means.items()}
        ratio = None if r["rival_seconds"] is None else r["rival_seconds"] / r["fit_seconds"]
        rows.append(r | scores | {"name": metric_title(r), "ratio": ratio, "error": r.get("calibration_error")})
    return f"{make_table(rows, COLUMNS['suite'])}\n\n{goals(records)}\n"


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
    return metrics_for(record["task"])[record["metric"]].title
