"""What the workers of the distributed tests do; the tests import it, and so do the workers."""

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from rapgnn import Config, make_graph
from rapgnn.graph.graph import Graph
from rapgnn.scale.begin import labelled_rows
from rapgnn.scale.blocks import Budget
from rapgnn.scale.disk_graph import DiskGraph
from rapgnn.scale.distributed.fill import create_together, fill_together
from rapgnn.scale.distributed.fit import fit_together
from rapgnn.scale.distributed.group import joined
from rapgnn.scale.distributed.head import LabelledShare, share, train_together
from rapgnn.scale.distributed.hops import distributed_hops, open_together
from rapgnn.scale.distributed.part import GraphPart
from rapgnn.scale.distributed.walk import growth_rate
from rapgnn.scale.hops import untrained
from rapgnn.scale.start import FirstHop
from rapgnn.scale.store import HopsOf
from rapgnn.training.fit import build_rapgnn
from rapgnn.training.head import lower_unseen

OPERATORS = [("gcn", False), ("gcn", True), ("sage", False), ("sage", True), ("gin", False)]
HOPS = {"gcn": (0, 1, 2, 3, 4), "sage": (0, 1, 2, 3, 4), "gin": (4,)}


def graphs() -> dict[str, Graph]:
    """Directed, with loops, edges listed twice and isolated nodes; with weights; and hardly any nodes or edges."""
    rng = np.random.default_rng(0)
    n = 60
    edges = rng.integers(0, 50, (2, 300))
    x, y = rng.random((n, 7)).astype(np.float32), np.arange(n) % 3
    splits = np.split(np.arange(n), [20, 40])
    few: Any = {"unseen_classes": True}
    return {
        "directed": make_graph(x, edges, y, *splits),
        "weighted": make_graph(x, edges, y, *splits, edge_weight=rng.standard_normal(300)),
        "hub": make_graph(x[:30], [[0] * 29, range(1, 30)], y[:30], range(3), range(3, 6), range(6, 30)),
        "star": make_graph(x[:5], [[1, 2, 3, 4], [0, 0, 0, 0]], y[:5], [0], [1], [2], **few),
        "no edges": make_graph(x[:5], np.zeros((2, 0), int), y[:5], [0], [1], [2], **few),
        "one node": make_graph(x[:1], [[0], [0]], y[:1], [0], [], [], **few),
    }


def wanted_rows(nodes: int) -> np.ndarray:
    return np.arange(0, nodes, 2)


def fill_all(folder: Path, stores: Path) -> dict[tuple[str, str, bool], float]:
    """A store of every graph for every operator; the growth rates."""
    found = {}
    with joined() as workers:
        for name in graphs():
            graph = DiskGraph.open(folder / name, verify=False)
            for backbone, loops in OPERATORS:
                part = GraphPart.read(graph, workers, backbone, self_loops=loops)
                rate = found[name, backbone, loops] = growth_rate(part) if backbone == "gin" else 1.0
                first = FirstHop(graph, normalize=loops)
                of = HopsOf(graph.fingerprint, backbone, loops, 0.0, HOPS[backbone], rate, first.fingerprint(), 7)
                store = create_together(part, stores / f"{name} {backbone} {loops}", of, wanted_rows(graph.num_nodes))
                save = name == "directed"  # blocks of columns and saved hops once, they take time
                fill_together(store, part, first, width=4 if save else 7, save=save)
    return found


def train_all(settings: dict[str, Config], graphs: dict[str, Graph]) -> dict[str, tuple[Any, dict[str, Tensor]]]:
    """{case: (history, state of the head)} of heads trained together, each worker with its share of the rows."""
    found = {}
    with joined() as workers:
        for name, config in settings.items():
            graph = graphs[name]
            operator = graph.operator(config.backbone, config.self_loops)
            model = build_rapgnn(graph, operator, config, seed=3)
            embedded = model.embed(graph.x, operator)
            train, val = (rows[share(len(rows), workers)] for rows in (graph.train, graph.val))
            expected = embedded.expectation(val)
            held = (lambda epoch, h=expected: h) if len(graph.val) else None
            data = LabelledShare(embedded.rows(train), graph.y[graph.train], held, graph.y[val])
            lower_unseen(model.head, graph)  # type: ignore[arg-type]
            loop = train_together(workers, model, model.head, graph.objective, data)  # type: ignore[arg-type]
            found[name] = loop.history, {key: t.clone() for key, t in model.head.state_dict().items()}
    tasks = Path("/proc/self/task")
    names = [(task / "comm").read_text() for task in tasks.iterdir()] if tasks.is_dir() else []
    assert not [name for name in names if "gloo" in name], "threads of the group that was left"
    return found


class StoppedError(Exception):
    """Ends a run in the middle, as a machine that goes away would."""


def deep_hops(folder: Path, out: Path, layers: int, stop_at: int | None = None) -> list[int]:
    """The hops of a graph's labelled rows through many layers; the hops that this run has finished.

    Args:
        stop_at: a hop after which all workers stop.
    """
    seen: list[int] = []

    def on_hop(done: int, of: int) -> None:
        assert of == layers + 1
        seen.append(done - 1)
        if done - 1 == stop_at:
            raise StoppedError

    with joined() as workers:
        graph = DiskGraph.open(folder, verify=False)
        model = untrained(graph, Config(num_layers=layers, embedding="identity", activation="identity"))
        nodes = np.union1d(graph.train, graph.val)
        with contextlib.suppress(StoppedError):
            distributed_hops(workers, graph, nodes, model, Budget(), out, on_hop)
    return seen


def fit_all(folder: Path, stores: Path, cases: dict[str, tuple[Config, Any]]) -> dict[str, dict[str, Tensor]]:
    """{case: state of the model} of models trained together on the graphs in ``folder``, with a class weight each."""
    found = {}
    with joined() as workers:
        for name, (config, class_weight) in cases.items():
            graph = open_together(workers, folder / name)
            small, nodes = labelled_rows(graph, class_weight=class_weight)
            fitted = fit_together(graph, small, nodes, config, 1, Budget(), stores / name, workers=workers)
            found[name] = fitted.model.state_dict()
    return found
