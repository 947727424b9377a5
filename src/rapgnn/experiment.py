"""One strategy on one graph over several seeds: the record that tables, JSON files and searches are made of."""

import statistics
import time
from collections.abc import Callable, Sequence
from datetime import date
from typing import Any

import numpy as np
import torch

from rapgnn.config import Config
from rapgnn.datasets.synthetic import BlockModel
from rapgnn.graph import Graph
from rapgnn.memory import PeakMemory
from rapgnn.methods import METHODS, fit
from rapgnn.versions import hardware, versions

Record = dict[str, Any]


def run(
    method: str,
    graph: Graph,
    config: Config,
    seeds: Sequence[int],
    *,
    splits: Sequence[str] = ("val", "test"),
    on_epoch: Callable[[], None] | None = None,
) -> Record:
    """Train once per seed, score the asked splits once each, and say what it took.

    Args:
        splits: ``("val",)`` never looks at the test nodes, as a search must not.

    Returns:
        A flat record; metrics are fractions, ``mean``, ``std`` and ``values`` are those of the last split.
    """
    chosen = METHODS[method].configure(config)
    values: dict[str, list[float]] = {split: [] for split in splits}
    seconds, train_ms, eval_ms, peaks, epochs = [], [], [], [], []
    fitted = None
    for seed in seeds:
        with PeakMemory(graph.y.device) as peak:
            start = time.perf_counter()
            fitted = fit(method, graph, config, seed, on_epoch)
            seconds.append(time.perf_counter() - start)
            for split in splits:
                rows = graph.rows(split)
                values[split].append(graph.rule.score(fitted.predict(rows).scores, graph.y[rows]))
        peaks.append(peak.megabytes)
        train_ms.append(fitted.loop.train_ms_per_epoch)
        eval_ms.append(fitted.loop.eval_ms_per_epoch)
        epochs.append(fitted.loop.epochs)
    assert fitted is not None
    last = values[splits[-1]]
    record: Record = {
        "dataset": graph.name,
        "task": graph.task,
        "method": method,
        "backbone": chosen.backbone,
        "metric": graph.rule.metric,
        "mean": float(np.mean(last)),
        "std": float(np.std(last)),
        "values": last,
        "seeds": list(seeds),
        "fit_seconds": statistics.median(seconds),
        "train_ms_per_epoch": statistics.median(train_ms),
        "eval_ms_per_epoch": statistics.median(eval_ms),
        "peak_memory_mb": None if None in peaks else max(peaks),
        "engine": fitted.engine,
        "engine_reason": fitted.reason,
        "inference": fitted.inference,
        "epochs": epochs,
        "device": str(graph.y.device),
        "hardware": hardware(str(graph.y.device)),
        "threads": torch.get_num_threads(),
        "date": date.today().isoformat(),
        "config": chosen.to_dict(),
        "versions": versions(),
    }
    if "val" in values:
        record |= {"val_mean": float(np.mean(values["val"])), "val_values": values["val"]}
    return record


def warm_up(methods: Sequence[str], device: str = "cpu") -> None:
    """Run each strategy for a moment on a tiny graph, so that loading libraries is not charged to the first one."""
    tiny = BlockModel(nodes=40, classes=2, features=8, train=5, val=10, test=10).generate().to(device)
    config = Config(num_layers=2, hidden_channels=8, epochs=2, pretrain_epochs=2)
    for method in methods:
        run(method, tiny, config, [0])
