"""What graphs with types are compared on: networks of PyG that are trained, trees, and our estimator without types.

Every rival is tuned a little on the same validation rows, by the same metric, macro-F1; the best point is trained on
each seed. One run of it is what a whole fit of ours is timed against.
"""

import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from sklearn.metrics import f1_score
from torch import Tensor, nn

from rapgnn import RAPNodeClassifier
from rapgnn.graph.typed import build_typed, flattened
from rapgnn_lab.bench.timing import Network, seconds_of, train
from rapgnn_lab.bench.typed.graphs import GRAPHS, TypedData
from rapgnn_lab.bench.typed.tables import DATABASES, TABLES, bench_database, bench_tables
from rapgnn_lab.bench.typed.tables import RIVALS as OF_TABLES
from rapgnn_lab.store import Record, Row, machine

HIDDEN, HEADS = 64, 4
EPOCHS, PATIENCE = 150, 30
SPACE = {"lr": (0.01, 0.003), "dropout": (0.5, 0.2), "weight_decay": (5e-4,)}


def score(data: TypedData, predicted: np.ndarray, split: str) -> float:
    """Macro-F1 of the rows of a split."""
    rows = getattr(data, split)
    return float(f1_score(data.y[rows], predicted[rows], average="macro"))


def both_ways(data: TypedData) -> dict[tuple[str, str, str], Tensor]:
    """The edges and their reverse."""
    found = {}
    for (source, name, end), edges in data.edges.items():
        ends = torch.from_numpy(np.ascontiguousarray(edges))
        found[source, name, end] = ends
        found[end, f"rev_{name}", source] = ends.flip(0)
    return found


class Typed(nn.Module):
    """Layers of PyG between a map or an embedding of every type and a linear one.

    Args:
        kind: ``rgcn`` or ``hgt``.
    """

    def __init__(self, kind: str, data: TypedData, edges: dict[Any, Tensor], dropout: float):
        from torch_geometric.nn import HeteroConv, HGTConv, SAGEConv

        super().__init__()
        self.target, self.dropout, self.edges = data.target, dropout, edges
        self.maps, self.x = nn.ModuleDict(), {}
        for name in data.counts:
            given = data.nodes[name]
            if isinstance(given, int):
                self.maps[name] = nn.Embedding(given, HIDDEN)
            else:
                dense = given.toarray() if sp.issparse(given) else given
                self.x[name] = torch.from_numpy(np.asarray(dense, dtype=np.float32))
                self.maps[name] = nn.Linear(dense.shape[1], HIDDEN)

        def layer() -> nn.Module:
            if kind == "rgcn":
                return HeteroConv({key: SAGEConv((HIDDEN, HIDDEN), HIDDEN) for key in edges}, aggr="sum")
            return HGTConv(HIDDEN, HIDDEN, (list(data.counts), list(edges)), heads=HEADS)

        self.layers = nn.ModuleList(layer() for _ in range(2))
        self.last = nn.Linear(HIDDEN, int(data.y.max()) + 1)

    def forward(self) -> Tensor:
        """Scores of the target's nodes."""
        drop = partial(nn.functional.dropout, p=self.dropout, training=self.training)
        h = {name: one(self.x[name]) if name in self.x else one.weight for name, one in self.maps.items()}
        for layer in self.layers:
            h = {name: drop(torch.relu(one)) for name, one in h.items()}
            after = layer(h, self.edges)
            h = {name: after[name] if after.get(name) is not None else one for name, one in h.items()}
        return self.last(torch.relu(h[self.target]))


def run_network(kind: str, data: TypedData, point: Record, seed: int, epochs: int) -> np.ndarray:
    """Predictions of all rows by the best epoch."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        module = Typed(kind, data, both_ways(data), point["dropout"])
        y, train_rows, val = torch.from_numpy(data.y), torch.from_numpy(data.train), torch.from_numpy(data.val)
        optimizer = torch.optim.Adam(module.parameters(), lr=point["lr"], weight_decay=point["weight_decay"])

        def merit(scores: Tensor) -> tuple[float, float]:
            f1 = f1_score(data.y[data.val], scores.argmax(1), average="macro")
            return float(f1), -float(nn.functional.cross_entropy(scores, y[val]))

        network = Network(module, lambda: [(module()[train_rows], y[train_rows])], lambda: module()[val], module)
        train(network, optimizer, nn.functional.cross_entropy, merit, epochs, PATIENCE)
        with torch.no_grad():
            return module().argmax(1).numpy()


def neighbours(data: TypedData) -> np.ndarray:
    """The usual engineering: how many neighbours by relation, and the means of their features."""
    columns = []
    for (source, _, end), edges in both_ways(data).items():
        if end != data.target:
            continue
        u, v = edges.numpy()
        A = sp.csr_matrix((np.ones(len(u)), (v, u)), shape=(data.counts[end], data.counts[source]))
        count = np.asarray(A.sum(axis=1)).ravel()
        columns.append(count[:, None])
        if not isinstance(data.nodes[source], int):
            means = sp.diags(1 / np.maximum(count, 1)) @ A @ components(data.nodes[source])
            columns.append(np.asarray(means))
    return np.column_stack(columns)


def components(x: Any, most: int = 64) -> np.ndarray:
    """Features, or leading components of wide ones."""
    from sklearn.decomposition import TruncatedSVD

    if x.shape[1] > most:
        return TruncatedSVD(most, random_state=0).fit_transform(x)
    return x.toarray() if sp.issparse(x) else np.asarray(x)


def run_trees(kind: str, data: TypedData, point: Record, seed: int, epochs: int) -> np.ndarray:
    """Boosted trees on the target's table, alone or beside what ``neighbours`` counts."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    own = data.nodes[data.target]
    x = np.zeros((data.counts[data.target], 1)) if isinstance(own, int) else components(own)
    x = x if kind == "trees" else np.column_stack([x, neighbours(data)])
    trees = HistGradientBoostingClassifier(**point, random_state=seed, early_stopping=False)  # type: ignore[arg-type]
    return trees.fit(x[data.train], data.y[data.train]).predict(x)


def run_flat(kind: str, data: TypedData, point: Record, seed: int, epochs: int) -> np.ndarray:
    """Our estimator on the graph without its types."""
    graph = flattened(build_typed(data.data, data.y, {"target": data.target, **data.splits}))
    return RAPNodeClassifier(seed=seed).fit_graph(graph).predict(graph)[: len(data.y)].astype(np.int64)


Run = Callable[[str, TypedData, Record, int, int], np.ndarray]
TREES = [{"max_iter": 60, "learning_rate": rate, "min_samples_leaf": leaf} for rate in (0.05, 0.15) for leaf in (3, 10)]
POINTS = [dict(zip(SPACE, values, strict=True)) for values in product(*SPACE.values())]
RIVALS: dict[str, tuple[str, Run, list[Record]]] = {
    "rgcn": ("R-GCN", run_network, POINTS),
    "hgt": ("HGT", run_network, POINTS),
    "trees": ("trees, own table", run_trees, TREES),
    "trees-neighbours": ("trees, counts and means of neighbours", run_trees, TREES),
    "flat": ("rapgnn fit, without types", run_flat, [{}]),
}
"""Title, how it is trained, and the points that are tried."""


def plan(names: Sequence[str], rivals: Sequence[str], each: Sequence[int], seeds: int, trials: int) -> list[Row]:
    """A row per graph and number of labels; the seed is that of the splits too."""
    rows = []
    for name in [name for name in names if name in TABLES]:
        settings = {"dataset": name, "seeds": list(range(seeds)), "rivals": list(OF_TABLES)} | machine("cpu")
        rows.append(Row(settings, partial(bench_tables, name, seeds)))
    for name in [name for name in names if name in DATABASES]:
        rows.append(Row({"dataset": name} | machine("cpu"), partial(bench_database, *DATABASES[name])))
    for name, count in product([name for name in names if name in GRAPHS], each):
        settings = {"dataset": name, "labels": count, "seeds": list(range(seeds)), "trials": trials}
        settings |= {"rivals": list(rivals)} | machine("cpu")
        rows.append(Row(settings, partial(bench, name, count, seeds, trials, rivals)))
    return rows


def bench(name: str, count: int, seeds: int, trials: int, rivals: Sequence[str], epochs: int = EPOCHS) -> Record:
    """The estimator with nothing set, and every rival at its best point, on each seed's splits."""
    graphs = [GRAPHS[name](each=count, seed=seed) for seed in range(seeds)]
    ours, seconds = zip(*(fit_ours(data, seed) for seed, data in enumerate(graphs)), strict=True)
    found = [tune(one, graphs, trials, epochs) for one in rivals]
    best = max(found, key=lambda one: one["mean"], default=None)
    trained = [one for one in found if RIVALS[one["rival"]][1] is run_network]
    first = graphs[0]
    return {
        "task": "node-classification",
        "method": "RAPNodeClassifier()",
        "metric": "macro_f1",
        "nodes": sum(first.counts.values()),
        "edges": sum(ends.shape[1] for ends in first.edges.values()),
        "mean": statistics.fmean(ours),
        "values": list(ours),
        "fit_seconds": statistics.median(seconds),
        "rival_records": found,
        "best_rival": best and best["title"],
        "best_rival_mean": best and best["mean"],
        "difference": best and 100 * (statistics.fmean(ours) - best["mean"]),
        "rival_seconds": max(trained, key=lambda one: one["mean"])["run_seconds"] if trained else None,
    }


def fit_ours(data: TypedData, seed: int) -> tuple[float, float]:
    """The metric on the test rows, and seconds of the fit."""
    model = RAPNodeClassifier(seed=seed)
    seconds = seconds_of(lambda: model.fit(data.data, data.y, target=data.target, **data.splits), "cpu")
    return score(data, model.predict(data.data), "test"), seconds


def tune(rival: str, graphs: Sequence[TypedData], trials: int, epochs: int) -> Record:
    """The point that is best on validation rows of the first graph, trained on all of them."""
    title, run, points = RIVALS[rival]
    chosen, values, seconds = points[0], [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if len(points) > 1:
            chosen = max(points[:trials], key=lambda p: score(graphs[0], run(rival, graphs[0], p, 0, epochs), "val"))
        for seed, data in enumerate(graphs):
            start = time.perf_counter()
            values.append(score(data, run(rival, data, chosen, seed, epochs), "test"))
            seconds.append(time.perf_counter() - start)
    record = {"rival": rival, "title": title, "settings": chosen, "mean": statistics.fmean(values)}
    return record | {"values": values, "run_seconds": statistics.median(seconds)}
