"""What answers are worth: how often sets and intervals of 90 % hold the truth on the suite's graphs, of all test rows
and class by class; and how long a served graph takes for new nodes, by its size.

Every graph has a process of its own (``python -m`` of this module).
"""

import statistics
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from rapgnn.compare import Record
from rapgnn.estimators.conformal import coverage_table, half_widths, least_probabilities
from rapgnn.estimators.estimators import RAPGraphClassifier, RAPGraphRegressor, RAPNodeClassifier
from rapgnn.graph.graph import make_graph
from rapgnn_lab.bench.generated import PowerLaw
from rapgnn_lab.bench.suite.graphs import GRAPHS
from rapgnn_lab.store import Row, answer, in_child, machine

COVERAGE = 0.9
CLASS_ROWS = 200  # test rows from which a class is told apart
NEW, TIMES = 10, 20  # nodes of an update, and how often one is timed
COLUMNS, CLASSES, DEGREE = 16, 5, 10


def plan(names: Sequence[str], sizes: Sequence[int], seeds: int) -> list[Row]:
    requests = [{"dataset": name, "method": "coverage", "seeds": list(range(seeds))} for name in names]
    requests += [{"dataset": "generated", "method": "new nodes", "nodes": size} for size in sizes]
    return [Row(one | machine("cpu"), partial(in_child, "rapgnn_lab.bench.answers", one)) for one in requests]


def measure(request: Record) -> Record:
    return _coverage(request) if request["method"] == "coverage" else _new_nodes(request["nodes"])


def _coverage(request: Record) -> Record:
    """Means over splits and seeds; ``classes`` are those with enough test rows, in the order of their numbers."""
    tables: list[pd.DataFrame] = []
    numbers = GRAPHS[request["dataset"]].metric == "rmse"
    for make in GRAPHS[request["dataset"]].makes:
        graph = make()
        kind: Any = RAPNodeClassifier if graph.ptr is None else RAPGraphRegressor if numbers else RAPGraphClassifier
        test = graph.test.numpy()
        for seed in request["seeds"]:
            model = kind(seed=seed).fit(graph)
            rows, y = model.model_.fit_rows, graph.y.numpy()[test]
            if numbers:
                p = model.predict(graph)[test].reshape(len(test), -1)
                y = y.reshape(p.shape)
                inside = np.abs(y - p) <= half_widths(rows, COVERAGE)
            else:
                inside = model.predict_proba(graph)[test] >= least_probabilities(rows, COVERAGE)
            tables.append(coverage_table(inside, y, [str(c) for c in range(inside.shape[1])]))
    covered = np.array([table.covered for table in tables])
    large = np.flatnonzero((np.array([table["rows"] for table in tables]) >= CLASS_ROWS).all(0))
    classes = [float(covered[:, c].mean()) for c in large if c]
    return {
        "coverage": COVERAGE,
        "mean": float(covered[:, 0].mean()),
        "values": covered[:, 0].tolist(),
        "set_size": None if numbers else float(np.mean([table["size"].to_numpy()[0] for table in tables])),
        "test_rows": int(tables[0]["rows"].to_numpy()[0]),
        "classes": classes,
        "farthest_class": max((abs(one - COVERAGE) for one in classes), default=None),
    }


def _new_nodes(nodes: int) -> Record:
    """Seconds, of the processor too, until a served graph has taken new nodes with their edges and answered them."""
    graph = PowerLaw(nodes, DEGREE * nodes, COLUMNS, CLASSES, train=1000, val=500, test=500).generate()
    start = time.perf_counter()
    model = RAPNodeClassifier().fit(graph)
    fitted = time.perf_counter()
    served = model.serve(graph)
    walked = time.perf_counter()
    rng, wall, own = np.random.default_rng(0), list[float](), list[float]()
    new, answers = np.arange(0), np.zeros((0, CLASSES))
    for _ in range(TIMES + 1):
        first = len(served)
        new = np.arange(first, first + NEW)
        ends = rng.integers(0, nodes, (3, NEW))
        edges = np.concatenate([np.stack([new, one]) for one in ends], axis=1)
        x = rng.normal(size=(NEW, COLUMNS)).astype(np.float32)
        before = time.perf_counter(), time.process_time()
        served.update(x, edges, directed=False)
        answers = served.predict_proba(new)
        wall.append(time.perf_counter() - before[0])
        own.append(time.process_time() - before[1])
    whole = served.graph()
    again = make_graph(whole.x, whole.edge_index, whole.y, graph.train, graph.val, graph.test, sparse=False)
    difference = np.abs(model.predict_proba(again)[new] - answers).max()
    return {
        "edges": graph.edge_index.shape[1],
        "fit_seconds": fitted - start,
        "walk_seconds": walked - fitted,
        "update_seconds": statistics.median(wall[1:]),
        "update_processor_seconds": statistics.median(own[1:]),
        "longest_update_seconds": max(wall[1:]),
        "difference": float(difference),
    }


def finish(records: Sequence[Record]) -> list[Record]:
    """The records, and the mean over graphs."""
    rows = [r for r in records if r["dataset"] != "mean"]
    graphs = [r for r in rows if r.get("mean") is not None]
    if not graphs:
        return rows
    far = [r["farthest_class"] for r in graphs if r["farthest_class"] is not None]
    mean = {"mean": statistics.fmean(r["mean"] for r in graphs), "farthest_class": max(far, default=None)}
    common = {name: graphs[0][name] for name in ("hardware", "device", "threads", "versions", "coverage")}
    return [*rows, common | {"dataset": "mean", "method": "coverage", "graphs": len(graphs)} | mean]


if __name__ == "__main__":
    answer(measure)
