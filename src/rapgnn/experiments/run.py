"""One method on one graph over several seeds: the record that tables, JSON files and searches are made of."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rapgnn.datasets.synthetic import BlockModel
from rapgnn.errors import InputError
from rapgnn.experiments.protocol import at_best_mean_epoch, paper_folds, strict_folds
from rapgnn.graph.batch import make_graphs
from rapgnn.graph.graph import Graph
from rapgnn.graph.scores import metrics_for
from rapgnn.graph.splits import FOLDS
from rapgnn.graph.tasks import average_precision
from rapgnn.memory import PeakMemory
from rapgnn.models.config import Config
from rapgnn.training.fit import Fitted
from rapgnn.training.methods import METHODS, fit
from rapgnn.training.predict import Prediction
from rapgnn.training.side_by_side import fit_side_by_side, fits_side_by_side
from rapgnn.versions import hardware, versions

Record = dict[str, Any]
OnEpoch = Callable[[], None] | None
PROTOCOLS = ("both", "paper", "strict")


@dataclass
class _Costs:
    """What the fits of one record took."""

    seconds: list[float] = field(default_factory=list)
    train_ms: list[float] = field(default_factory=list)
    eval_ms: list[float] = field(default_factory=list)
    peaks: list[float | None] = field(default_factory=list)
    epochs: list[int] = field(default_factory=list)
    chosen: list[Record] = field(default_factory=list)
    last: Fitted | None = None

    def fit(self, method: str, graph: Graph, config: Config, seed: int, on_epoch: OnEpoch) -> Fitted:
        with PeakMemory(graph.y.device) as peak:
            start = time.perf_counter()
            fitted = self.last = fit(method, graph, config, seed, on_epoch)
            self.seconds.append(time.perf_counter() - start)
        self.peaks.append(peak.megabytes)
        self.train_ms.append(fitted.loop.train_ms_per_epoch)
        self.eval_ms.append(fitted.loop.eval_ms_per_epoch)
        self.epochs.append(fitted.loop.epochs)
        self.chosen += [fitted.chosen] if fitted.chosen else []
        return fitted

    def fit_folds(
        self, method: str, folds: list[Graph], config: Config, seed: int, on_epoch: OnEpoch
    ) -> list[tuple[list[float], float | None]]:
        """Of every fold: validation after every epoch, and the metric of its test rows, where it has some."""
        if not folds_at_once(method, folds[0], config):
            found = []
            for fold in folds:
                fitted = self.fit(method, fold, config, seed, on_epoch)
                score = _score(fold, fitted.predict(fold.test), fold.y[fold.test]) if len(fold.test) else None
                found.append((fitted.loop.history, score))
            return found
        with PeakMemory(folds[0].y.device) as peak:
            each = fit_side_by_side(folds, METHODS[method].configure(config), [seed] * len(folds), on_epoch)
        count = len(folds)  # what all took, shared among them
        self.seconds += [one.seconds / count for one in each]
        self.train_ms += [one.train_ms_per_epoch / count for one in each]
        self.eval_ms += [one.eval_ms_per_epoch / count for one in each]
        self.peaks.append(peak.megabytes)
        self.epochs += [len(one.history) for one in each]
        scored = [
            None if one.test_scores is None else fold.objective.score(one.test_scores, fold.y[fold.test])
            for one, fold in zip(each, folds, strict=True)
        ]
        return [(one.history, score) for one, score in zip(each, scored, strict=True)]


def folds_at_once(method: str, graph: Graph, config: Config) -> bool:
    """Whether trained layers go through the folds side by side: on a GPU, where one at a time is launch-bound."""
    chosen = METHODS[method]
    return chosen.trained and graph.y.is_cuda and fits_side_by_side(graph, chosen.configure(config))


def run(
    method: str,
    graph: Graph,
    config: Config,
    seeds: Sequence[int],
    *,
    splits: Sequence[str] = ("val", "test"),
    protocol: str = "both",
    on_epoch: OnEpoch = None,
) -> Record:
    """Train once per seed (and fold), score the asked splits once each, and say what it took.

    Args:
        splits: ``("val",)`` never looks at the test rows, as a search must not.
        protocol: for graphs evaluated by cross-validation, which of the two; ``"both"``: the paper's is the record's
            figure, the strict one stands beside it.

    Returns:
        A flat record; metrics are fractions or errors, ``mean``, ``std`` and ``values`` are those of the last split.
    """
    costs = _Costs()
    if graph.folds and protocol == "strict" and "test" not in splits:
        raise InputError("the strict protocol scores test folds, so it cannot leave them out.")
    if graph.folds:
        figures = _cross_validate(costs, method, graph, config, seeds, "test" in splits, protocol, on_epoch)
    else:
        figures = _on_splits(costs, method, graph, config, seeds, splits, on_epoch)
    fitted, chosen = costs.last, METHODS[method].configure(config)
    engine, reason, inference = "stepwise", "trained weights, ten folds at once", "expected"
    if fitted is not None:
        engine, reason, inference = fitted.engine, fitted.reason, fitted.inference
    device = str(graph.y.device)
    return {
        "dataset": graph.name,
        "task": graph.task,
        "method": method,
        "backbone": chosen.backbone,
        "metric": graph.objective.chosen_by,
        **figures,
        "seeds": list(seeds),
        "fit_seconds": statistics.median(costs.seconds),
        "total_seconds": sum(costs.seconds),
        "train_ms_per_epoch": statistics.median(costs.train_ms),
        "eval_ms_per_epoch": statistics.median(costs.eval_ms),
        "peak_memory_mb": None if None in costs.peaks else max(p for p in costs.peaks if p is not None),
        "engine": engine,
        "engine_reason": reason,
        "inference": inference,
        "epochs": costs.epochs,
        "device": device,
        "hardware": hardware(device),
        "threads": torch.get_num_threads(),
        "date": date.today().isoformat(),
        "config": chosen.to_dict(),
        **({"chosen": costs.chosen} if costs.chosen else {}),  # of each fit, where a method has settings of its own
        "versions": versions(),
    }


def _on_splits(
    costs: _Costs,
    method: str,
    graph: Graph,
    config: Config,
    seeds: Sequence[int],
    splits: Sequence[str],
    on_epoch: OnEpoch,
) -> Record:
    values: dict[str, list[float]] = {split: [] for split in splits}
    precision = []
    for seed in seeds:
        fitted = costs.fit(method, graph, config, seed, on_epoch)
        for split in splits:
            rows = graph.rows(split)
            found = fitted.predict(rows)
            values[split].append(_score(graph, found, graph.y[rows]))
            if graph.objective.metric == "rocauc" and split == splits[-1]:
                precision.append(average_precision(found.scores, graph.y[rows]))
    figures = {"protocol": "fixed split", **_figures(values[splits[-1]])}
    if "val" in values:
        figures |= {"val_mean": float(np.mean(values["val"])), "val_values": values["val"]}
    if precision:  # where positives are rare the ROC curve flatters; chance level is their share
        known = graph.y[graph.rows(splits[-1])]
        share = float(known.nanmean()) if len(known) else float("nan")
        figures |= {"average_precision": float(np.mean(precision)), "positive_share": share}
    return figures


def _cross_validate(
    costs: _Costs,
    method: str,
    graph: Graph,
    config: Config,
    seeds: Sequence[int],
    test: bool,
    protocol: str,
    on_epoch: OnEpoch,
) -> Record:
    rule = graph.objective
    values: list[float] = []
    best_epochs = []
    whole = config.update(patience=None)  # the best mean epoch is only known when every fold ran to the end
    for seed in seeds if protocol != "strict" else ():
        found = costs.fit_folds(method, list(paper_folds(graph, seed)), whole, seed, on_epoch)
        epoch, at_epoch = at_best_mean_epoch([history for history, _ in found], rule.higher)
        best_epochs.append(epoch)
        values += at_epoch
    strict: list[float] = []
    for seed in seeds if test and protocol != "paper" else ():
        found = costs.fit_folds(method, list(strict_folds(graph, seed)), config, seed, on_epoch)
        strict += [score for _, score in found if score is not None]
    figures: Record = {"protocol": f"{FOLDS}-fold, epoch of the best mean validation", **_figures(values or strict)}
    if values:
        figures |= {"val_mean": figures["mean"], "val_values": values, "best_epochs": best_epochs}
    else:
        figures["protocol"] = f"{FOLDS}-fold, inner validation, held-out test"
    if values and strict:
        figures |= {f"strict_{key}": value for key, value in _figures(strict).items()}
    return figures


def _score(graph: Graph, found: Prediction, y: Tensor) -> float:
    """The task's metric, or that of the graph's goal."""
    rule = graph.objective
    if rule.scoring is None:
        return rule.score(found.scores, y)
    return metrics_for(graph.task)[rule.scoring].measure(found.probabilities, y)


def _figures(values: list[float]) -> Record:
    """``std`` is that of these values; tables show that of what they are a sample of."""
    return {"mean": float(np.mean(values)), "std": float(np.std(values)), "values": values}


def warm_up(methods: Sequence[str], device: str = "cpu", graphs: bool = False) -> None:
    """Run each method for a moment on a tiny graph, so that loading libraries is not charged to the first one."""
    config = Config(num_layers=2, hidden_channels=8, epochs=2, pretrain_epochs=2)
    if graphs:
        rng = np.random.default_rng(0)
        edges = np.concatenate([rng.integers(4 * i, 4 * i + 4, (2, 6)) for i in range(30)], axis=1)
        kinds = np.eye(2)[rng.integers(0, 2, edges.shape[1])]
        sizes, classes = np.full(30, 4), np.arange(30) % 2
        tiny = make_graphs(rng.random((120, 3)), edges, sizes, classes, edge_attr=kinds).to(device)
        config = config.update(backbone="gine", batch_size=16)
    else:
        tiny = BlockModel(nodes=40, classes=2, features=8, train=5, val=10, test=10).generate().to(device)
    for method in methods:
        run(method, tiny, config, [0])
