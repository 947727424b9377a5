"""The folds of a cross-validation as records: what each says of itself, and several of them trained at once."""

from collections.abc import Sequence
from itertools import islice

import numpy as np
import torch

from rapgnn.experiments.protocol import paper_folds, strict_folds
from rapgnn.experiments.reproduce.cells import Cell
from rapgnn.experiments.reproduce.item import Graphs
from rapgnn.experiments.run import OnEpoch, Record, folds_at_once
from rapgnn.graph.graph import Graph
from rapgnn.graph.splits import FOLDS
from rapgnn.memory import PeakMemory
from rapgnn.models.config import Config
from rapgnn.training.side_by_side import fit_side_by_side
from rapgnn.versions import hardware, versions

PAPER, STRICT, BOTH = "paper", "strict", "both"
COSTS = ("fit_seconds", "train_ms_per_epoch", "eval_ms_per_epoch")


def train_folds(parts: Sequence[Cell], graphs: Graphs, on_epoch: OnEpoch) -> list[Record] | None:
    """Trained layers on a GPU: the folds side by side, where one at a time would be launch-bound."""
    spec = parts[0].spec
    if "fold" not in spec:
        return None
    graph, method = graphs.get(parts[0].dataset), spec["method"]
    config = Config(**spec["config"])
    whole = config.update(patience=None)  # the paper's protocol asks for every epoch
    strict = any(part.spec["protocol"] == STRICT for part in parts)
    if not folds_at_once(method, graph, config if strict else whole):
        return None
    records: list[Record] = []
    for protocol, seed in dict.fromkeys((p.spec["protocol"], p.spec["seed"]) for p in parts):
        every = list((paper_folds if protocol == PAPER else strict_folds)(graph, seed))
        wanted = [p.spec["fold"] for p in parts if (p.spec["protocol"], p.spec["seed"]) == (protocol, seed)]
        folds = [every[number] for number in wanted]
        device = str(graph.y.device)
        with PeakMemory(device) as peak:
            found = fit_side_by_side(folds, whole, [seed] * len(folds), on_epoch)
        for fold, one in zip(folds, found, strict=True):
            count = len(found)
            costs = one.seconds / count, one.train_ms_per_epoch / count, one.eval_ms_per_epoch / count
            record = described(method, fold, whole, peak.megabytes, device)
            record |= dict(zip(COSTS, costs, strict=True)) | {"total_seconds": costs[0], "epochs": [len(one.history)]}
            record |= {"engine": "stepwise", "engine_reason": "trained weights, folds side by side"}
            record["inference"] = "expected"
            if protocol == PAPER:
                record["history"] = one.history
            else:
                assert one.test_scores is not None
                record |= figures([fold.objective.score(one.test_scores, fold.y[fold.test])])
            records.append(record)
    return records


def fold_of(graph: Graph, protocol: str, seed: int, number: int) -> Graph:
    """One fold of a cross-validation by its number."""
    folds = (paper_folds if protocol == PAPER else strict_folds)(graph, seed)
    return next(islice(folds, number, None))


def strict_words(count: int) -> str:
    """The strict protocol with so many folds held out, in words."""
    return f"{FOLDS}-fold, inner validation, held-out test{cut_words(count)}"


def cut_words(count: int) -> str:
    """What follows a protocol's words where fewer folds are held out."""
    return "" if count == FOLDS else f", the first {count} held out"


def described(method: str, fold: Graph, config: Config, megabytes: float | None, device: str) -> Record:
    """What the record of a fold says beside its figures and costs."""
    return {
        "task": fold.task,
        "method": method,
        "backbone": config.backbone,
        "metric": fold.objective.chosen_by,
        "peak_memory_mb": megabytes,
        "device": device,
        "hardware": hardware(device),
        "threads": torch.get_num_threads(),
        "config": config.to_dict(),
        "versions": versions(),
    }


def figures(values: Sequence[float | None]) -> Record:
    """Mean, standard deviation of these values, and the values themselves."""
    known = numbers(values)
    return {"mean": float(np.mean(known)), "std": float(np.std(known)), "values": known}


def numbers(values: Sequence[float | None]) -> list[float]:
    """As they were before they were stored: JSON has no NaN, which a training that diverged has."""
    return [float("nan") if value is None else value for value in values]
