"""The estimator with nothing set on a wide bag-of-words graph, with many labels and with few."""

import statistics
import warnings
from collections.abc import Sequence

import torch

from rapgnn.errors import InputNotice
from rapgnn.estimators.estimators import RAPNodeClassifier
from rapgnn.experiments.bench.rows import Row, machine
from rapgnn.experiments.bench.timing import seconds_of
from rapgnn.experiments.bench.words import wide_words
from rapgnn.experiments.run import Record
from rapgnn.memory import PeakMemory
from rapgnn.sparse import SparseMatrix

LABELS: dict[str, float | int] = {"60 % labelled": 0.6, "20 labels per class": 20}


def plan(nodes: int, features: int, seeds: int, labels: Sequence[str] = tuple(LABELS)) -> list[Row]:
    """A row per number of labels; nodes, words and links shrink together."""
    rows = []
    for name in labels:
        settings = {"dataset": "wide-words", "method": "RAPNodeClassifier()", "labels": name, "nodes": nodes}
        settings |= {"features": features, "seeds": list(range(seeds))} | machine("cpu")
        rows.append(Row(settings, lambda name=name: measure(nodes, features, LABELS[name], seeds)))
    return rows


def measure(nodes: int, features: int, train: float | int, seeds: int) -> Record:
    """Fits, and predictions of all nodes: medians of the seeds' seconds, the mean of their test accuracies."""
    graph = wide_words(nodes, features, edges=round(14.4 * nodes), train=train)
    fits, predictions, values, peaks = [], [], [], []
    candidates = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputNotice)
        for seed in range(seeds):
            model = RAPNodeClassifier(seed=seed)
            with PeakMemory() as peak:
                fits.append(seconds_of(lambda model=model: model.fit(graph), "cpu"))
            predictions.append(seconds_of(lambda model=model: model.predict(graph), "cpu"))
            values.append(float(model.score(graph, split="test")))
            peaks.append(peak.megabytes)
            candidates = len(model.trials_)
    known = [p for p in peaks if p is not None]
    return {
        "edges": graph.edge_index.shape[1],
        "nonzeros": graph.x.nnz if isinstance(graph.x, SparseMatrix) else int(torch.count_nonzero(graph.x)),
        "labelled": len(graph.train),
        "fit_seconds": statistics.median(fits),
        "all_seconds": fits,
        "predict_seconds": statistics.median(predictions),
        "mean": statistics.fmean(values),
        "values": values,
        "candidates": candidates,
        "peak_memory_mb": max(known) if known else None,
    }
