"""The kind "accuracy": a method's metric on a dataset, over seeds or over the folds of a cross-validation.

A cell is measured one training at a time, the kind "training", and each is stored by itself: what another cell asks
for too, such as the first seeds of a longer list, is not trained again.

Spec of a cell: ``method``, ``config`` (a full ``Config.to_dict()``), ``seeds``; for datasets with folds also
``protocol`` (``"paper"``, ``"strict"`` or ``"both"``) and ``folds``, how many of the ten are held out; for others also
``every``, where of the training and validation graphs only every so many are used.
"""

import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from rapgnn.experiments.protocol import at_best_mean_epoch
from rapgnn.experiments.reproduce.cells import Cell
from rapgnn.experiments.reproduce.folds import (
    BOTH,
    COSTS,
    PAPER,
    STRICT,
    cut_words,
    described,
    figures,
    fold_of,
    numbers,
    strict_words,
    train_folds,
)
from rapgnn.experiments.reproduce.item import Graphs
from rapgnn.experiments.reproduce.kinds import KINDS, PARTS, Parts
from rapgnn.experiments.reproduce.thin import thinned
from rapgnn.experiments.run import OnEpoch, Record, run, warm_up
from rapgnn.graph.graph import Graph
from rapgnn.graph.splits import FOLDS
from rapgnn.graph.tasks import TASKS
from rapgnn.memory import PeakMemory
from rapgnn.models.config import Config
from rapgnn.training.methods import METHODS, fit


def accuracy_cell(
    dataset: str,
    method: str,
    config: Config,
    seeds: Sequence[int],
    labels: Record,
    protocol: str = "",
    folds: int = 0,
    every: int = 1,
) -> Cell:
    """A cell of this kind.

    Args:
        protocol, folds: of a dataset that is cross-validated.
        every: of a set of graphs with a fixed split.
    """
    spec: Record = {"method": method, "config": METHODS[method].configure(config).to_dict(), "seeds": list(seeds)}
    if folds:
        spec |= {"protocol": protocol, "folds": folds}
    if every > 1:
        spec["every"] = every
    return Cell("accuracy", dataset, spec, labels)


def split(cell: Cell, graphs: Graphs) -> list[Cell]:
    """The trainings of a cell: one per seed, or one per protocol, seed and fold."""
    spec = {key: cell.spec[key] for key in ("method", "config", "every") if key in cell.spec}
    if "folds" not in cell.spec:
        return [Cell("training", cell.dataset, spec | {"seed": seed}) for seed in cell.spec["seeds"]]
    protocols = (PAPER, STRICT) if cell.spec["protocol"] == BOTH else (cell.spec["protocol"],)
    return [
        Cell("training", cell.dataset, spec | {"seed": seed, "protocol": protocol, "fold": fold})
        for protocol in protocols
        for seed in cell.spec["seeds"]
        for fold in range(cell.spec["folds"])
    ]


def train(cell: Cell, graphs: Graphs, on_epoch: OnEpoch) -> Record:
    """One training, scored on validation and test; of a fold, with the validation metric after every epoch."""
    graph, spec = graphs.get(cell.dataset), cell.spec
    method, config, seed = spec["method"], Config(**spec["config"]), spec["seed"]
    _warm_up(method, str(graph.y.device), graph.ptr is not None)
    if "every" in spec:
        graph = thinned(graph, spec["every"])
    if "fold" not in spec:
        return run(method, graph, config, [seed], on_epoch=on_epoch)
    fold = fold_of(graph, spec["protocol"], seed, spec["fold"])
    return _train_fold(method, fold, config, seed, spec["protocol"], on_epoch)


def _train_fold(method: str, fold: Graph, config: Config, seed: int, protocol: str, on_epoch: OnEpoch) -> Record:
    if protocol == STRICT:  # a split like any other
        return run(method, replace(fold, folds=False), config, [seed], splits=("test",), on_epoch=on_epoch)
    whole = config.update(patience=None)  # the best mean epoch is only known when every fold ran to the end
    device = str(fold.y.device)
    with PeakMemory(device) as peak:
        start = time.perf_counter()
        fitted = fit(method, fold, whole, seed, on_epoch)
        seconds = time.perf_counter() - start
    loop = fitted.loop
    return described(method, fold, whole, peak.megabytes, device) | {
        "history": loop.history,
        "fit_seconds": seconds,
        "total_seconds": seconds,
        "train_ms_per_epoch": loop.train_ms_per_epoch,
        "eval_ms_per_epoch": loop.eval_ms_per_epoch,
        "engine": fitted.engine,
        "engine_reason": fitted.reason,
        "inference": fitted.inference,
        "epochs": [loop.epochs],
    }


def join(cell: Cell, trainings: Sequence[Record]) -> Record:
    """The record that ``rapgnn.experiments.run`` gives of the same method, seeds and protocol."""
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
    found = {"protocol": trainings[0]["protocol"], **figures([v for r in trainings for v in r["values"]])}
    found["val_values"] = numbers([v for r in trainings for v in r["val_values"]])
    found["val_mean"] = float(np.mean(found["val_values"]))
    if "average_precision" in trainings[0]:
        found["average_precision"] = figures([r["average_precision"] for r in trainings])["mean"]
        found["positive_share"] = trainings[0]["positive_share"]
    return found


def _of_folds(cell: Cell, trainings: Sequence[Record]) -> Record:
    count = cell.spec["folds"]
    values, best_epochs = [], []
    histories = [numbers(r["history"]) for r in trainings if "history" in r]
    for first in range(0, len(histories), count):  # the folds of one seed after those of another
        epoch, at_epoch = at_best_mean_epoch(histories[first : first + count], TASKS[trainings[0]["task"]].higher)
        best_epochs.append(epoch)
        values += at_epoch
    strict = [v for r in trainings if "history" not in r for v in r["values"]]
    if not values:
        return {"protocol": strict_words(count), **figures(strict)}
    found = {"protocol": f"{FOLDS}-fold, epoch of the best mean validation{cut_words(count)}", **figures(values)}
    found |= {"val_mean": found["mean"], "val_values": values, "best_epochs": best_epochs}
    return found | ({f"strict_{key}": value for key, value in figures(strict).items()} if strict else {})


def measure(cell: Cell, graphs: Graphs, on_epoch: OnEpoch) -> Record:
    """A cell as a whole."""
    return join(cell, [train(part, graphs, on_epoch) for part in split(cell, graphs)])


@cache
def _warm_up(method: str, device: str, graphs: bool) -> None:
    """Once in a process: loading libraries is not charged to the first training."""
    warm_up([method], device, graphs)


KINDS |= {"accuracy": measure, "training": train}
PARTS["accuracy"] = Parts(split, join, train_folds)
