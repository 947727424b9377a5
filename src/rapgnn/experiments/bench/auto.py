"""The estimator with nothing set against a PyG GCN tuned on the same validation rows, on graphs new to both."""

import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from datetime import date
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rapgnn.estimators.estimators import RAPNodeClassifier
from rapgnn.experiments.bench.rows import Row, machine
from rapgnn.experiments.bench.unseen import UNSEEN
from rapgnn.experiments.run import Record
from rapgnn.graph.graph import Graph
from rapgnn.sparse import dense
from rapgnn.versions import hardware, versions

EPOCHS = 200
SHOWN = ("backbone", "num_layers", "jumping", "embedding", "head")
SPACE = {
    "hidden_channels": (16, 64, 128),
    "num_layers": (1, 2, 3),
    "dropout": (0.0, 0.5, 0.8),
    "lr": (0.005, 0.01, 0.03),
    "weight_decay": (0.0, 5e-4, 5e-3),
}


def plan(names: Sequence[str], trials: int, seeds: int) -> list[Row]:
    """A row per graph."""
    common = {"search_trials": trials, "seeds": list(range(seeds))} | machine("cpu")
    return [Row({"dataset": name} | common, lambda name=name: bench(name, trials, seeds)) for name in names]


def bench(name: str, trials: int, seeds: int, on_trial: Callable[[], None] | None = None) -> Record:
    """Tune the GCN with so many random points of ``SPACE``, then train both anew per seed and time every fit."""
    graph = UNSEEN[name].make()
    rng = np.random.default_rng(0)
    points: list[dict[str, Any]] = []
    for _ in range(trials):
        point = {key: values[rng.integers(len(values))] for key, values in SPACE.items()}
        merit, _, seconds = train_gcn(graph, point, 0)
        points.append({"settings": point, "val": merit[0], "val_loss": -merit[1], "seconds": seconds})
        if on_trial:
            on_trial()
    chosen = max(points, key=lambda p: (p["val"], -p["val_loss"]))["settings"]
    ours, theirs, fit_seconds, gcn_seconds, settings = [], [], [], [], []
    for seed in range(seeds):
        _, accuracy, seconds = train_gcn(graph, chosen, seed)
        theirs.append(accuracy)
        gcn_seconds.append(seconds)
        start = time.perf_counter()
        model = RAPNodeClassifier(seed=seed).fit(graph)
        fit_seconds.append(time.perf_counter() - start)
        ours.append(model.score(graph, split="test"))
        settings.append({name: getattr(model.config_, name) for name in SHOWN} | {"candidates": len(model.trials_)})
        if on_trial:
            on_trial()
    return {
        "dataset": name,
        "about": UNSEEN[name].about,
        "nodes": graph.num_nodes,
        "edges": graph.edge_index.shape[1],
        "features": graph.num_features,
        "labelled": len(graph.train),
        "task": graph.task,
        "method": "RAPNodeClassifier()",
        "metric": "accuracy",
        "mean": statistics.fmean(ours),
        "values": ours,
        "gcn_mean": statistics.fmean(theirs),
        "gcn_values": theirs,
        "gcn_settings": chosen,
        "gcn_trials": points,
        "fit_seconds": statistics.median(fit_seconds),
        "gcn_seconds": statistics.median(gcn_seconds),
        "chosen": settings,
        "seeds": list(range(seeds)),
        "threads": torch.get_num_threads(),
        "hardware": hardware("cpu"),
        "date": date.today().isoformat(),
        "versions": versions(),
    }


def train_gcn(graph: Graph, settings: dict[str, Any], seed: int) -> tuple[tuple[float, float], float, float]:
    """PyG's GCN for 200 epochs, the best validation epoch counts: its merit, its test accuracy, seconds.

    Building the sparse matrix is not timed.
    """
    from torch_geometric.nn import GCN

    settings = dict(settings)
    lr, decay = settings.pop("lr"), settings.pop("weight_decay")
    x, y = dense(graph.x), graph.y
    adjacency = _sparse(graph)  # the faster of the two forms PyG takes
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        start = time.perf_counter()
        model = GCN(x.shape[1], out_channels=graph.num_outputs, cached=True, **settings)
        optimizer = torch.optim.Adam(model.parameters(), lr=lr, weight_decay=decay)
        best, best_scores = (-1.0, -float("inf")), x.new_zeros(len(graph.test), graph.num_outputs)
        for _ in range(EPOCHS):
            model.train()
            optimizer.zero_grad()
            _loss(model(x, adjacency), y, graph.train).backward()
            optimizer.step()
            model.eval()
            with torch.no_grad():
                out = model(x, adjacency)
                merit = _accuracy(out[graph.val], y[graph.val]), -float(_loss(out, y, graph.val))
            if merit > best:
                best, best_scores = merit, out[graph.test]
        seconds = time.perf_counter() - start
    return best, _accuracy(best_scores, y[graph.test]), seconds


def _sparse(graph: Graph) -> Tensor:
    ends, n = graph.edge_index.flip(0), graph.num_nodes
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch calls its sparse matrices a beta
        return torch.sparse_coo_tensor(ends, torch.ones(ends.shape[1]), (n, n)).coalesce().to_sparse_csr()


def _loss(out: Tensor, y: Tensor, rows: Tensor) -> Tensor:
    return torch.nn.functional.cross_entropy(out[rows], y[rows])


def _accuracy(out: Tensor, y: Tensor) -> float:
    return float((out.argmax(1) == y).double().mean())
