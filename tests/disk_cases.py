"""Graphs that the tests of graphs on disk use, and a store that is filled in a process of its own."""

import contextlib
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rapgnn import Config, InputError, make_graph
from rapgnn.datasets.catalog import BlockModel
from rapgnn.graph.graph import Graph
from rapgnn.memory import read_size
from rapgnn.scale.disk_graph import DiskGraph
from rapgnn.scale.fit import FittedOnDisk, fit, labelled_graph
from rapgnn.scale.hops import Budget, DiskHops, block_width, untrained

BACKBONES = [("gcn", False), ("gcn", True), ("sage", False), ("sage", True), ("gin", False)]
ROOM = Budget(8 << 30)


def hostile(positive: bool = False) -> dict[str, Graph]:
    """Directed graphs with loops, edges listed twice and isolated nodes; weights of both signs; few nodes or edges."""
    rng = np.random.default_rng(0)
    n = 60
    edges = rng.integers(0, 50, (2, 300))
    edges[:, 200:240] = edges[:, :40]
    edges[1, 250:260] = edges[0, 250:260]
    x = (rng.random((n, 7)) - (0.0 if positive else 0.5)).astype(np.float32)
    y, splits = np.arange(n) % 3, np.split(rng.permutation(n), [24, 40])
    both = np.concatenate([edges, edges[::-1]], axis=1)
    few = {"unseen_classes": True}
    cases = {
        "directed": make_graph(x, edges, y, *splits),
        "undirected": make_graph(x, both, y, *splits),
        "weighted": make_graph(x, edges, y, *splits, edge_weight=rng.random(300)),
        "no edges": make_graph(x, np.zeros((2, 0), int), y, *splits),
        "star": make_graph(x[:9], [[1, 2, 3, 4, 5, 6, 7, 8], [0] * 8], y[:9], [0, 1, 2, 3], [4, 5], [6], **few),
        "one node": make_graph(x[:1], [[0], [0]], y[:1], [0], [], [], **few),
    }
    if not positive:
        cases["signed weights"] = make_graph(x, edges, y, *splits, edge_weight=rng.standard_normal(300))
    return cases


def blocks(nodes: int = 400, **changes) -> Graph:
    model = BlockModel(nodes=nodes, classes=3, features=12, signal=3.0, train=40, val=60, test=100, seed=1)
    graph = model.generate()
    return Graph(**{**vars(graph), **changes})


def fit_both(graph: Graph, folder: Path, config: Config, **how) -> tuple[DiskGraph, FittedOnDisk]:
    """The graph written to disk, and a model trained on it there."""
    disk = DiskGraph.write(folder, graph)
    return disk, fit(disk, *labelled_graph(disk), config, 0, **({"budget": ROOM} | how))


def largest_difference(found: torch.nn.Module, wanted: torch.nn.Module) -> float:
    """‖a − b‖ / ‖b‖, of the tensor of two models where it is largest."""
    a, b = found.state_dict(), wanted.state_dict()
    assert a.keys() == b.keys()
    return max(float((a[k].double() - b[k].double()).norm() / b[k].double().norm().clamp(min=1e-6)) for k in a)


def in_process(function: str, **values: Any) -> subprocess.CompletedProcess:
    """Call one of these functions in a process of its own."""
    code = f"import disk_cases; disk_cases.{function}(**{values!r})"
    given = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=given)


def fill(folder: Path | str, out: Path | str, width: int, dies_at: int = -1) -> None:
    """Fill a store by blocks of so many columns; at one hop the process kills itself, as nothing can catch it."""
    graph = DiskGraph.open(folder)
    model = untrained(graph, Config(num_layers=3, embedding="identity", activation="identity"))

    def on_hop(done: int, of: int) -> None:
        if done == dies_at:
            os.kill(os.getpid(), signal.SIGKILL)

    DiskHops(graph, model, Budget(), width=width).store(out, np.arange(0, graph.num_nodes, 2), on_hop)


@contextlib.contextmanager
def full_disk(size: int) -> Iterator[None]:
    """No file may become larger: writing fails as on a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def fit_under_limit(folder: str, columns: int) -> None:
    """Print a limit into which about so many columns fit, the peak of work under it, and the number of blocks."""
    import scipy.stats  # noqa: F401 - error bars load it: memory of a library that comes later counts too

    from rapgnn import RAPNodeClassifier
    from rapgnn.memory import PeakAnonymous

    graph = DiskGraph.open(folder, verify=False)
    settings = {"num_layers": 2, "head": "ridge", "embedding": "identity", "backbone": "gcn"}
    try:
        block_width(graph, 1, Budget(1 << 20))
    except InputError as error:
        least = read_size(str(error).split()[-6])
    limit = least + 8 * graph.num_nodes * (columns - 1)
    estimator = RAPNodeClassifier(memory_limit=limit, settings=settings)
    with PeakAnonymous(0.002) as peak:
        estimator.fit(graph)
        for _ in estimator.predict_parts(graph, np.arange(0, graph.num_nodes, 99), error_bars=True):
            pass
        for _ in estimator.predict_parts(graph):
            pass
    print(limit, peak.bytes, estimator.blocks_)
