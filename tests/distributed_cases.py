"""What the workers of the distributed tests do; the tests import it, and so do the workers."""

import contextlib
import multiprocessing
import os
import socket
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from disk_cases import hostile
from rapgnn import Config, make_graph
from rapgnn.graph.graph import Graph
from rapgnn.scale.blocks import Budget, FirstHop
from rapgnn.scale.disk_graph import DiskGraph
from rapgnn.scale.distributed.fit import LabelledShare, fit_together, share, train_together
from rapgnn.scale.distributed.group import joined
from rapgnn.scale.distributed.hops import (
    create_together,
    distributed_hops,
    fill_together,
    growth_rate,
    labelled_rows,
)
from rapgnn.scale.distributed.part import GraphPart
from rapgnn.scale.hops import untrained
from rapgnn.scale.store import HopsOf
from rapgnn.training.fit import build_rapgnn
from rapgnn.training.head import lower_unseen

# torch imports its compiler when gradients are averaged for the first time.
PRELOADED = ["rapgnn.scale.distributed.fit", "rapgnn.training.fit", "torch._dynamo"]
OPERATORS = [("gcn", False), ("gcn", True), ("sage", False), ("sage", True), ("gin", False)]
HOPS = {"gcn": (0, 1, 2, 3, 4), "sage": (0, 1, 2, 3, 4), "gin": (4,)}


def graphs() -> dict[str, Graph]:
    """Directed, with loops, edges listed twice and isolated nodes; with weights; and hardly any nodes or edges."""
    found = hostile()
    x, y = found["directed"].x[:30], found["directed"].y[:30]
    hub = make_graph(x, [[0] * 29, range(1, 30)], y, range(3), range(3, 6), range(6, 30))
    return {name: found[name] for name in ("directed", "signed weights", "star", "no edges", "one node")} | {"hub": hub}


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
            workers.at_first(lambda name=name: DiskGraph.open(folder / name))  # one worker compares the checksums
            graph = DiskGraph.open(folder / name, verify=False)
            small, nodes = labelled_rows(graph, class_weight=class_weight)
            fitted = fit_together(graph, small, nodes, config, 1, Budget(), stores / name, workers=workers)
            found[name] = fitted.model.state_dict()
    return found


def run_together(size: int, folder: Path, function: Callable[..., Any], *given: Any) -> list[Any]:
    """What ``function(*given)`` returns in each of ``size`` workers, which have torchrun's variables.

    Args:
        folder: for their results.
        function: of a module that can be imported, as all of ``given``.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    port = free_port()
    folder.mkdir(parents=True, exist_ok=True)
    processes = [
        context.Process(target=_worker, args=(rank, size, port, folder, function, given)) for rank in range(size)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    stuck = [process for process in processes if process.is_alive()]
    for process in stuck:
        process.kill()
        process.join()
    faults = [text.read_text() for text in sorted(folder.glob("*.error"))]
    assert not faults, "\n".join(faults)
    assert not stuck, f"{len(stuck)} of {size} workers did not end"
    return [torch.load(folder / f"{rank}.pt", weights_only=False) for rank in range(size)]


def free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


def _worker(rank: int, size: int, port: int, folder: Path, function: Callable[..., Any], given: tuple) -> None:
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(size)}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    torch.set_num_threads(1)
    try:
        torch.save(function(*given), folder / f"{rank}.pt")
    except BaseException:
        (folder / f"{rank}.error").write_text(traceback.format_exc())
        raise


if __name__ == "__main__":  # what torchrun starts: GRAPH STORE LAYERS LOG
    torch.set_num_threads(1)
    hops = deep_hops(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
    with Path(sys.argv[4]).open("a") as file:
        file.write(f"{os.environ['TORCHELASTIC_RESTART_COUNT']} {hops[0]} {hops[-1]}\n")
