"""One method on one dataset: the points of its space, and what a training with one of them gives on validation."""

import math
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch

from rapgnn.datasets import load_dataset
from rapgnn.errors import InputError
from rapgnn.estimators.start import start_config
from rapgnn.experiments.run import Record, run
from rapgnn.experiments.tune.choose import TRIALS, read_trials
from rapgnn.experiments.tune.drawn import RandomTrial
from rapgnn.experiments.tune.faithful import REDRAWN, VARIANTS
from rapgnn.experiments.tune.space import FAITHFUL, suggest
from rapgnn.graph.graph import Graph
from rapgnn.training.methods import METHODS

KEPT = ("engine", "fit_seconds", "train_ms_per_epoch", "epochs")
EARLIER = 8  # points of an earlier search that compete as well


@dataclass(frozen=True)
class Search:
    """One method on one dataset."""

    dataset: str
    method: str
    embedding: str | None = None
    space: str = FAITHFUL
    device: str = "cpu"
    data_dir: Path | None = None

    @property
    def name(self) -> str:
        """Of its files."""
        return "-".join(filter(None, (self.dataset, self.method, self.embedding)))

    def settings(self, trial: int, parent: dict[str, Any] | None = None) -> dict[str, Any]:
        """The point that trial number ``trial`` is, near ``parent`` where there is one."""
        words = filter(None, (self.space, self.dataset, self.method, self.embedding, str(trial)))
        graph, fixed = graph_of(self.dataset, self.data_dir, "cpu"), VARIANTS.get(self.embedding or "", {})
        embedding = fixed.get("embedding", self.embedding)
        return suggest(RandomTrial("/".join(words), parent), self.method, embedding, self.space, graph) | fixed

    def measure(self, trial: int, seed: int, settings: dict[str, Any]) -> Record:
        """One line of the file: the validation metric of a trial with a seed."""
        start, graph = time.perf_counter(), graph_of(self.dataset, self.data_dir, self.device)
        config = start_config(graph, METHODS[self.method].trained).update(**settings)
        line: Record = {"trial": trial, "seed": seed, "settings": settings}
        try:
            found = run(self.method, graph, config, [seed], splits=("val",), protocol="paper")
        except (InputError, torch.OutOfMemoryError) as error:  # type: ignore[reportPrivateImportUsage]
            return line | {"value": None, "refused": str(error)}
        value = found["val_mean"] if math.isfinite(found["val_mean"]) else None
        line |= {"value": value, "metric": found["metric"], **{key: found[key] for key in KEPT}}
        return line | {"seconds": time.perf_counter() - start, "hardware": found["hardware"]}


@cache
def graph_of(dataset: str, data_dir: Path | None, device: str) -> Graph:
    return load_dataset(dataset, data_dir).to(device)


def earlier_points(search: Search) -> list[dict[str, Any]]:
    """The best points of an earlier search of the paper's ranges, whose trials had the exact expectation at inference.

    They get the settings that this space fixes, and compete with its own trials.
    """
    found = sorted(earlier_trials(search), key=lambda t: -t["value"])[:EARLIER]
    fixed: dict[str, Any] = {"inference": "sample", "jumping": "last", "pooling": "sum", "patience": None}
    if search.method in REDRAWN:
        fixed["keep_draw"] = True
    return [{"embedding_output": "relu"} | t["settings"] | fixed for t in found]


def earlier_trials(search: Search) -> list[Record]:
    """The trials of that search; it had Cora, CiteSeer and PubMed and no full random matrices with signs."""
    if search.space != FAITHFUL or search.embedding or search.method in ("fixed-full", "random-full"):
        return []
    trials = read_trials([TRIALS], search.dataset, search.method, "paper") if TRIALS.is_file() else []
    return [t for t in trials if t["settings"]["embedding"] == "pretrained"]
