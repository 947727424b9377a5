"""What the workers of the distributed tests do, Ray's and torchrun's; the tests import it, and so do the workers."""

import contextlib
import io
import multiprocessing
import os
import signal
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
from rapgnn import Config, InputError, make_graph
from rapgnn.graph.graph import Graph
from rapgnn.scale.disk_graph import DiskGraph
from rapgnn.scale.fit import fit, labelled_graph
from rapgnn.scale.homes import hops_of_block, open_home
from rapgnn.scale.hops import Budget, DiskHops, untrained
from rapgnn.scale.store import Columns, HopsOf
from rapgnn.scale.workers import joined

PRELOADED = ["rapgnn.scale.fit", "rapgnn.training.fit", "rapgnn.estimators.estimators", "torch._dynamo"]
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


def operators(graph: str) -> list[tuple[str, bool]]:
    """The ones that a graph is propagated with; small ones have a few."""
    return OPERATORS if graph in ("directed", "signed weights") else OPERATORS[1::3]


def hop_config(backbone: str, loops: bool) -> Config:
    layers = {"num_layers": 4, "jumping": "last" if backbone == "gin" else "cat"}
    fixed = {"embedding": "identity", "activation": "identity", "normalize_features": loops}
    return Config(backbone=backbone, self_loops=loops, **layers, **fixed)


def fill_all(folder: Path, stores: Path) -> dict[tuple[str, str, bool], float]:
    """A store of every graph for every operator; the growth rates."""
    rates = {}
    with joined() as workers:
        for name in graphs():
            graph = DiskGraph.open(folder / name, verify=False)
            for backbone, loops in operators(name):
                model = untrained(graph, hop_config(backbone, loops), all_layers=False)
                hops = DiskHops(graph, model, Budget(), workers, width=4 if name == "directed" else 7)
                hops.store(stores / f"{name} {backbone} {loops}", wanted_rows(graph.num_nodes))
                rates[name, backbone, loops] = float(model.operator_scale)
    return rates


# What Ray's processes do.

RAY_CONFIG = Config(num_layers=3, backbone="sage", embedding="identity", activation="identity")


def killed_once(of: HopsOf, folder: Path, model: Any, rows: np.ndarray, columns: Columns) -> list[np.ndarray]:
    """A block whose process is killed the first time."""
    mark = folder.parent / f"tried {columns[0]}"
    tried = mark.exists()
    mark.touch()
    if columns[0] == 2 and not tried:
        os.kill(os.getpid(), signal.SIGKILL)
    return hops_of_block(of, folder, model, rows, columns)


def fault(of: HopsOf, folder: Path, model: Any, rows: np.ndarray, columns: Columns) -> None:
    raise InputError(f"column {columns[0]} is at fault.")


# What torchrun's workers do.


class StoppedError(Exception):
    """Ends a run in the middle, as a machine that goes away would."""


def deep_hops(folder: Path, out: Path, layers: int, stop_at: int | None = None) -> list[tuple[int, int]]:
    """The hops of a graph's labelled rows, a column at a time: how many of how many this worker has finished.

    Args:
        stop_at: so many hops after which all workers stop.
    """
    seen: list[tuple[int, int]] = []

    def on_hop(done: int, of: int) -> None:
        seen.append((done, of))
        if done == stop_at:
            raise StoppedError

    with joined() as workers:
        graph = DiskGraph.open(folder, verify=False)
        model = untrained(graph, Config(num_layers=layers, embedding="identity", activation="identity"))
        nodes = np.union1d(graph.train, graph.val)
        with contextlib.suppress(StoppedError):
            DiskHops(graph, model, Budget(), workers, width=1).store(out, nodes, on_hop)
    return seen


def fit_all(folder: Path, stores: Path, cases: dict[str, tuple[Config, Any]]) -> dict[str, dict[str, Tensor]]:
    """{case: state of the model, and its merit} of fits by all workers, with a class weight each."""
    found = {}
    with open_home("torchrun") as home:
        for name, (config, class_weight) in cases.items():
            home.workers.at_first(lambda name=name: DiskGraph.open(folder / name))  # one worker compares the checksums
            graph = DiskGraph.open(folder / name, verify=False)
            small, nodes = labelled_graph(graph, None, class_weight)
            fitted = fit(graph, small, nodes, config, 1, Budget(), stores / name, home=home)
            found[name] = fitted.model.state_dict() | {"merit": torch.tensor(fitted.best)}
    tasks = Path("/proc/self/task")
    names = [(task / "comm").read_text() for task in tasks.iterdir()] if tasks.is_dir() else []
    assert not [name for name in names if "gloo" in name], "threads of the group that was left"
    return found


def refuse_all(folder: Path) -> str:
    """What every worker raises where the first is refused."""
    with joined() as workers:
        (folder / "other.txt").touch()
        graph = DiskGraph.open(folder / "directed", verify=False)
        model = untrained(graph, hop_config("gcn", False))
        try:
            DiskHops(graph, model, Budget(), workers).store(folder, wanted_rows(graph.num_nodes))
        except InputError as error:
            return str(error)
    return ""


def command(words: list[str]) -> tuple[int, str, str]:
    """What a command gives in each worker: (exit code, standard output, standard error)."""
    from rapgnn.cli import main

    sys.argv, out, err = ["rapgnn", *words], io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as stop:
            return int(stop.code or 0), out.getvalue(), err.getvalue()
    return 0, out.getvalue(), err.getvalue()


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
        file.write(f"{os.environ['TORCHELASTIC_RESTART_COUNT']} {hops[-1][0]} {hops[-1][1]}\n")
