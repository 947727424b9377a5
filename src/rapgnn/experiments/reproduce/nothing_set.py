"""The kind "estimator": the library's estimators with nothing set, on the splits that the tables use.

A cell is measured one fit at a time, the kind "estimator fit". The search of an estimator sees the training and the
validation rows of a split; of a fold, its inner validation fold. The test rows are scored once.

Spec of a cell: ``seeds``, ``search`` (the version of the code that searches); ``folds`` where the dataset has them,
and ``every`` as in ``accuracy``.
"""

import statistics
import time
import warnings
from collections.abc import Sequence
from dataclasses import replace

import torch

from rapgnn.errors import InputNotice
from rapgnn.estimators import estimator_for
from rapgnn.estimators.words import chosen_words
from rapgnn.experiments.reproduce.cells import Cell
from rapgnn.experiments.reproduce.folds import STRICT, figures, fold_of, strict_words
from rapgnn.experiments.reproduce.item import Graphs
from rapgnn.experiments.reproduce.kinds import KINDS, PARTS, Parts
from rapgnn.experiments.reproduce.source import search_version
from rapgnn.experiments.reproduce.thin import thinned
from rapgnn.experiments.run import OnEpoch, Record
from rapgnn.graph.graph import Graph
from rapgnn.training.averaged import model_on

ESTIMATOR = "estimator"  # in the place of a method's name


def estimator_cell(dataset: str, seeds: Sequence[int], labels: Record, folds: int = 0, every: int = 1) -> Cell:
    """A cell of this kind.

    Args:
        folds: how many of the ten are held out, where the dataset is cross-validated.
        every: of a set of graphs with a fixed split.
    """
    spec: Record = {"seeds": list(seeds), "search": search_version()}
    spec |= {"folds": folds} if folds else {}
    spec |= {"every": every} if every > 1 else {}
    return Cell(ESTIMATOR, dataset, spec, labels)


def split(cell: Cell, graphs: Graphs) -> list[Cell]:
    """The fits of a cell: one per seed, or one per seed and fold."""
    shared = {key: value for key, value in cell.spec.items() if key not in ("seeds", "folds")}
    each: list[Record] = [{"seed": seed} for seed in cell.spec["seeds"]]
    if "folds" in cell.spec:
        each = [one | {"fold": fold} for one in each for fold in range(cell.spec["folds"])]
    return [Cell("estimator fit", cell.dataset, shared | one) for one in each]


def fit(cell: Cell, graphs: Graphs, on_epoch: OnEpoch) -> Record:
    """One fit, scored on the test rows."""
    graph, spec = _split_of(cell, graphs), cell.spec
    estimator = estimator_for(graph.task)(seed=spec["seed"], device=graphs.device)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputNotice)
        estimator.fit_graph(graph, on_trial=None if on_epoch is None else lambda settings, value: on_epoch())
    seconds = time.perf_counter() - start
    here = graph.to("cpu")
    scores = model_on(estimator.model_, here)(here.test).scores
    return {
        "task": graph.task,
        "method": ESTIMATOR,
        "metric": graph.objective.metric,
        "values": [graph.objective.score(scores, here.y[here.test])],
        "validation_score": estimator.validation_score_,
        "candidates": len(estimator.trials_),
        "chosen": chosen_words(estimator.model_),
        "fit_seconds": seconds,
        "total_seconds": seconds,
        "threads": torch.get_num_threads(),
    }


def _split_of(cell: Cell, graphs: Graphs) -> Graph:
    graph = graphs.get(cell.dataset)
    if "every" in cell.spec:
        return thinned(graph, cell.spec["every"])
    if "fold" not in cell.spec:
        return graph
    return replace(fold_of(graph, STRICT, cell.spec["seed"], cell.spec["fold"]), folds=False)


def join(cell: Cell, fits: Sequence[Record]) -> Record:
    """One record of all fits."""
    count, last = cell.spec.get("folds"), fits[-1]
    return {
        **{name: last[name] for name in ("task", "method", "metric", "threads")},
        "protocol": strict_words(count) if count else "fixed split",
        **figures([value for r in fits for value in r["values"]]),
        "val_mean": statistics.fmean(r["validation_score"] for r in fits),
        "seeds": cell.spec["seeds"],
        "candidates": [r["candidates"] for r in fits],
        "chosen": [r["chosen"] for r in fits],
        "fit_seconds": statistics.median(r["fit_seconds"] for r in fits),
        "total_seconds": sum(r["total_seconds"] for r in fits),
    }


def measure(cell: Cell, graphs: Graphs, on_epoch: OnEpoch) -> Record:
    """A cell as a whole."""
    return join(cell, [fit(part, graphs, on_epoch) for part in split(cell, graphs)])


KINDS |= {ESTIMATOR: measure, "estimator fit": fit}
PARTS[ESTIMATOR] = Parts(split, join)
