"""A metric on a dataset over seeds or folds: the kind "accuracy" of a method, the kind "estimator" of the library's
estimators with nothing set.

A cell is measured one training, or one fit, at a time, the kinds "training" and "estimator fit", each stored by itself:
what another cell asks for too, such as the first seeds of a longer list, is not trained again.

Spec of a cell: ``seeds``; ``folds``, how many of the ten are held out, for datasets that have them; ``every``, where of
the training and validation graphs only every so many are used. Of a method also ``method``, ``config`` (a full
``Config.to_dict()``) and, with folds, ``protocol``: ``"paper"``, ``"strict"`` or ``"both"``. An estimator's folds are
strict: its search sees the training rows and the inner validation fold, and the test rows are scored once.
"""

import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import islice

import numpy as np
import torch

from rapgnn import Config, Graph
from rapgnn.compare import OnEpoch, Record, at_best_mean_epoch, fit, paper_folds, run, strict_folds, warm_up
from rapgnn.graph.rows import FOLDS
from rapgnn.graph.tasks import TASKS
from rapgnn.memory import PeakMemory
from rapgnn_lab.baselines.systems import METHODS
from rapgnn_lab.paper.cells import KINDS, PARTS, Cell, Graphs, Parts

ESTIMATOR = "estimator"  # in the place of a method's name
PAPER, STRICT, BOTH = "paper", "strict", "both"
COSTS = ("fit_seconds", "train_ms_per_epoch", "eval_ms_per_epoch")
WARM_UP = cache(warm_up)  # once in a process: loading libraries is not charged to the first training
_PART = {"accuracy": "training", ESTIMATOR: "estimator fit"}


def accuracy_cell(
    dataset: str,
    method: str,
    config: Config,
    seeds: Sequence[int],
    labels: Record,
    protocol: str = PAPER,
    folds: int = 0,
    every: int = 1,
) -> Cell:
    """A cell of the kind "accuracy", or "estimator", which has no settings; ``protocol`` and ``folds``, how many of the
    ten are held out, where the dataset is cross-validated."""
    spec: Record = (
        {"seeds": list(seeds)} | ({"folds": folds} if folds else {}) | ({"every": every} if every > 1 else {})
    )
    if method == ESTIMATOR:
        return Cell(ESTIMATOR, dataset, spec, labels)
    spec |= {"method": method, "config": METHODS[method].configure(config).to_dict()}
    return Cell("accuracy", dataset, spec | ({"protocol": protocol} if folds else {}), labels)


def split(cell: Cell, graphs: Graphs) -> list[Cell]:
    """The trainings or fits of a cell: one per seed, or one per protocol, seed and fold."""
    shared = {key: value for key, value in cell.spec.items() if key not in ("seeds", "folds", "protocol")}
    each: list[Record] = [{"seed": seed} for seed in cell.spec["seeds"]]
    if "folds" in cell.spec:
        each = [one | {"fold": fold} for one in each for fold in range(cell.spec["folds"])]
    if "protocol" in cell.spec:
        protocols = (PAPER, STRICT) if cell.spec["protocol"] == BOTH else (cell.spec["protocol"],)
        each = [one | {"protocol": protocol} for protocol in protocols for one in each]
    return [Cell(_PART[cell.kind], cell.dataset, shared | one) for one in each]


def _graph_of(part: Cell, graphs: Graphs) -> Graph:
    graph, spec = graphs.get(part.dataset), part.spec
    if "every" in spec:
        return replace(graph, train=graph.train[:: spec["every"]], val=graph.val[:: spec["every"]])
    if "fold" not in spec:
        return graph
    if spec.get("protocol") == PAPER:
        return next(islice(paper_folds(graph, spec["seed"]), spec["fold"], None))
    return replace(next(islice(strict_folds(graph, spec["seed"]), spec["fold"], None)), folds=False)


def train(cell: Cell, graphs: Graphs, on_epoch: OnEpoch) -> Record:
    """One training, scored on validation and test; by the paper's protocol, the validation metric of every epoch."""
    graph, spec = _graph_of(cell, graphs), cell.spec
    method, config, seed, device = spec["method"], Config(**spec["config"]), spec["seed"], str(graph.y.device)
    WARM_UP((method,), device, graph.ptr is not None)
    if "fold" not in spec:
        return run(method, graph, config, [seed], on_epoch=on_epoch)
    if spec["protocol"] == STRICT:  # a split like any other
        return run(method, graph, config, [seed], splits=("test",), on_epoch=on_epoch)
    config = config.update(patience=None)  # the best mean epoch is only known when every fold ran to the end
    with PeakMemory(device) as peak:
        start = time.perf_counter()
        fitted = fit(method, graph, config, seed, on_epoch)
        seconds = time.perf_counter() - start
    loop = fitted.loop
    return {
        "task": graph.task,
        "method": method,
        "backbone": config.backbone,
        "metric": graph.objective.chosen_by,
        "history": loop.history,
        "fit_seconds": seconds,
        "total_seconds": seconds,
        "train_ms_per_epoch": loop.train_ms_per_epoch,
        "eval_ms_per_epoch": loop.eval_ms_per_epoch,
        "peak_memory_mb": peak.megabytes,
        "engine": fitted.engine,
        "engine_reason": fitted.reason,
        "inference": fitted.inference,
        "epochs": [loop.epochs],
        "device": device,
        "threads": torch.get_num_threads(),
        "config": config.to_dict(),
    }


def fit_estimator(cell: Cell, graphs: Graphs, on_epoch: OnEpoch) -> Record:
    graph = _graph_of(cell, graphs)
    start = time.perf_counter()
    fitted = fit("fit", graph, Config(), cell.spec["seed"], on_epoch)
    seconds, chosen = time.perf_counter() - start, fitted.chosen or {}
    return {
        "task": graph.task,
        "method": ESTIMATOR,
        "metric": graph.objective.metric,
        "values": [graph.objective.score(fitted.predict(graph.test).scores, graph.y[graph.test])],
        "validation_score": fitted.loop.history[0],
        "candidates": chosen["candidates"],
        "chosen": chosen["model"],
        "fit_seconds": seconds,
        "total_seconds": seconds,
        "threads": torch.get_num_threads(),
    }


def join(cell: Cell, trainings: Sequence[Record]) -> Record:
    """The record that ``rapgnn.compare`` gives of the same method, seeds and protocol."""
    last = trainings[-1]
    peaks = [r["peak_memory_mb"] for r in trainings]
    same = ("task", "method", "backbone", "metric", "engine", "engine_reason", "inference", "device", "threads")
    return {
        **{name: last[name] for name in same},
        **(_of_folds(cell, trainings) if "folds" in cell.spec else _of_seeds(trainings)),
        "seeds": cell.spec["seeds"],
        **{name: statistics.median(r[name] for r in trainings) for name in COSTS},
        "total_seconds": sum(r["total_seconds"] for r in trainings),
        "peak_memory_mb": None if None in peaks else max(peaks),
        "epochs": [epochs for r in trainings for epochs in r["epochs"]],
        "config": cell.spec["config"],
    }


def _of_seeds(trainings: Sequence[Record]) -> Record:
    first = trainings[0]
    record = {"protocol": first["protocol"], **_figures([v for r in trainings for v in r["values"]])}
    record["val_values"] = _numbers([v for r in trainings for v in r["val_values"]])
    record["val_mean"] = float(np.mean(record["val_values"]))
    if "average_precision" in first:
        record["average_precision"] = _figures([r["average_precision"] for r in trainings])["mean"]
        record["positive_share"] = first["positive_share"]
    return record


def _of_folds(cell: Cell, trainings: Sequence[Record]) -> Record:
    count = cell.spec["folds"]
    values, best_epochs = [], []
    histories = [_numbers(r["history"]) for r in trainings if "history" in r]
    for first in range(0, len(histories), count):  # the folds of one seed after those of another
        epoch, at_epoch = at_best_mean_epoch(histories[first : first + count], TASKS[trainings[0]["task"]].higher)
        best_epochs.append(epoch)
        values += at_epoch
    strict = [v for r in trainings if "history" not in r for v in r["values"]]
    if not values:
        return {"protocol": _protocol("inner validation, held-out test", count), **_figures(strict)}
    record = {"protocol": _protocol("epoch of the best mean validation", count), **_figures(values)}
    record |= {"val_mean": record["mean"], "val_values": values, "best_epochs": best_epochs}
    return record | ({f"strict_{key}": value for key, value in _figures(strict).items()} if strict else {})


def join_fits(cell: Cell, fits: Sequence[Record]) -> Record:
    strict = _of_folds(cell, fits) if "folds" in cell.spec else {"protocol": "fixed split"}
    return {
        **{name: fits[-1][name] for name in ("task", "method", "metric", "threads")},
        **strict,
        **_figures([value for r in fits for value in r["values"]]),
        "val_mean": statistics.fmean(r["validation_score"] for r in fits),
        "seeds": cell.spec["seeds"],
        "candidates": [r["candidates"] for r in fits],
        "chosen": [r["chosen"] for r in fits],
        "fit_seconds": statistics.median(r["fit_seconds"] for r in fits),
        "total_seconds": sum(r["total_seconds"] for r in fits),
    }


def _protocol(words: str, count: int) -> str:
    """A cross-validation in words, with how many folds are held out where it is not all of them."""
    return f"{FOLDS}-fold, {words}" + ("" if count == FOLDS else f", the first {count} held out")


def _figures(values: Sequence[float | None]) -> Record:
    known = _numbers(values)
    return {"mean": float(np.mean(known)), "std": float(np.std(known)), "values": known}


def _numbers(values: Sequence[float | None]) -> list[float]:
    """As they were before they were stored: JSON has no NaN, which a training that diverged has."""
    return [float("nan") if value is None else value for value in values]


KINDS |= {"training": train, "estimator fit": fit_estimator}
PARTS |= {"accuracy": Parts(split, join), ESTIMATOR: Parts(split, join_fits)}
