"""Where the hops of a graph on disk are computed: in this process, by several that torchrun started, or on Ray.

A home is a row of ``HOMES``. All of them fill the same hop store with the same numbers. On Ray there is one task per
block of columns, on the machines of a cluster or the cores of this one.
"""

import os
import platform
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rapgnn.errors import InputError, shown
from rapgnn.network.rapgnn import RAPGNN
from rapgnn.scale.disk_graph import DiskGraph, is_sealed, read_manifest
from rapgnn.scale.hops import Budget, DiskHops, Hop, OnHop, silent
from rapgnn.scale.matrix import held_bytes
from rapgnn.scale.store import Columns, HopsOf, HopStore
from rapgnn.scale.workers import ALONE, Workers, joined

AHEAD = 2  # tasks per core that are handed to Ray at a time
RETRIES = 3  # of a task whose process or machine is gone
BLOCK_BYTES = 256 << 20
MISSING = 'Ray is not installed: run pip install "rapgnn[ray]".'


class RayHops(DiskHops):
    """``DiskHops`` whose blocks are computed on Ray, and stored here as soon as each is there.

    Args:
        address: of a cluster, as in ``connected``; where nothing is missing Ray is not asked.
        width: columns of a task; None: so many that every core has two tasks, and a block has ``BLOCK_BYTES`` at most.
    """

    def __init__(
        self,
        graph: DiskGraph,
        model: RAPGNN,
        budget: Budget,
        *,
        address: str = "auto",
        width: int | None = None,
    ):
        if find_spec("ray") is None:  # before any work is done
            raise InputError(MISSING)
        super().__init__(graph, model, Budget(), width=1)
        self.address, self.task_width, self.nodes = address, width, max(1, graph.num_nodes)

    def fill(self, store: HopStore, on_hop: OnHop = silent) -> None:
        if store.missing():
            with connected(self.address) as self.ray:
                most = min(-(-self.first.channels // (2 * cores_of(self.ray))), BLOCK_BYTES // (4 * self.nodes))
                self.width = self.task_width or max(1, most)
                super().fill(store, on_hop)

    def blocks(
        self, store: HopStore, missing: list[Columns], on_hop: Callable[[int], None]
    ) -> Iterator[tuple[Columns, Iterator[Hop]]]:
        ray, memory = self.ray, held_bytes(self.graph, store.of.self_loops, self.width) + 8 * self.nodes * self.width
        memory += 8 * len(store.rows) * self.width * len(store.of.hops)
        task = ray.remote(max_retries=RETRIES, num_cpus=1, memory=memory)(hops_of_block)
        same = self.of, self.graph.folder.absolute(), ray.put(self.model), ray.put(store.rows)
        waiting, running = missing[::-1], {}
        try:
            on_hop(-1)
            while waiting or running:
                while waiting and len(running) < AHEAD * cores_of(ray):
                    block = waiting.pop()
                    running[task.remote(*same, block)] = block
                (first, *_), _ = ray.wait(list(running), num_returns=1)
                block, hops = running.pop(first), _result(ray, first)
                yield block, ((k, iter([torch.tensor(hop)])) for k, hop in zip(self.of.hops, hops, strict=True))
                on_hop(-1)
        finally:
            for one in running if ray.is_initialized() else ():  # any call would start another Ray
                ray.cancel(one)


def hops_of_block(of: HopsOf, folder: Path, model: RAPGNN, rows: np.ndarray, columns: Columns) -> list[np.ndarray]:
    """The hops of one block of columns, ``[rows, columns]`` each: a task, which has one thread.

    A process of Ray's keeps its rows of S for its next task. The driver has checked the graph.
    """
    torch.set_num_threads(1)
    if of not in _last:
        if not is_sealed(folder) or read_manifest(folder).get("fingerprint") != of.graph:
            raise InputError(f"the graph {folder} is missing or another one on {platform.node()}: copy it there.")
        _last.clear()
        _last[of] = DiskHops(DiskGraph.open(folder, verify=False), model, Budget(), width=1)
    empty = torch.empty(0, columns[1] - columns[0])
    return [torch.cat([empty, *parts]).numpy() for _, parts in _last[of].walk(columns, rows)]


_last: dict[HopsOf, DiskHops] = {}


def cores_of(ray: Any) -> int:
    """All cores of the cluster; a task has one."""
    return max(1, int(ray.cluster_resources().get("CPU", 1)))


@contextmanager
def connected(address: str = "auto", workers: int | None = None) -> Iterator[Any]:
    """Ray, connected; what was started or connected here is shut down at the end, and what was there before stays.

    Args:
        address: of a cluster; ``"auto"``: the one that RAY_ADDRESS names or this machine belongs to, else a Ray of its
            own is started; ``"local"``: always one of its own.
        workers: cores of a Ray that is started here; None: all.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray

    if ray.is_initialized():
        yield ray
        return
    quiet = {"log_to_driver": False, "logging_level": "error"}
    own = {
        "num_cpus": workers,
        "include_dashboard": False,
        "object_store_memory": 200 << 20,
    }  # only wanted rows pass through it
    try:
        try:
            ray.init(address=address, **(own if address == "local" else {}), **quiet)
        except ConnectionError:
            if address != "auto":
                raise
            ray.init(address="local", **own, **quiet)
    except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
        raise InputError(f"cannot connect to Ray at {address}: {error}; give its address, or auto.") from error
    try:
        yield ray
    finally:
        ray.shutdown()


def _result(ray: Any, task: Any) -> list[np.ndarray]:
    try:
        return ray.get(task)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, InputError):
            raise error.cause from None
        raise


@dataclass(frozen=True)
class Home:
    """What computes hops.

    Args:
        hops: the hops of a network on a graph, within a budget.
        workers: the processes that share the work, this one among them; all of them do the same calls.
    """

    hops: Callable[[DiskGraph, RAPGNN, Budget], DiskHops] = DiskHops
    workers: Workers = ALONE


HERE = Home()


@contextmanager
def _of_torchrun(address: str, device: str) -> Iterator[Home]:
    with joined(device) as workers:
        yield Home(lambda graph, model, budget: DiskHops(graph, model, budget, workers), workers)


@contextmanager
def _on_ray(address: str, device: str) -> Iterator[Home]:
    yield Home(lambda graph, model, budget: RayHops(graph, model, budget, address=address or "auto"))


HOMES: dict[str, Callable[[str, str], AbstractContextManager[Home]]] = {
    "memory": lambda address, device: nullcontext(HERE),
    "ray": _on_ray,
    "torchrun": _of_torchrun,
}
"""{a user's word: (address, device) -> a context that gives the home}; the address is what follows in ray://address."""


def home_of(hops: str | Path) -> tuple[str, str, Path | None]:
    """What a user's word means: the home, its address, and the folder for the hops, where one is named."""
    word, _, address = str(hops).partition("://")
    if isinstance(hops, str) and word in HOMES:
        return word, address, None
    if not isinstance(hops, str | Path) or not str(hops) or "://" in str(hops):
        raise InputError(f"hops must be {', '.join(map(repr, HOMES))} or a folder, got {shown(hops)}.")
    if isinstance(hops, str) and os.sep not in hops and not Path(hops).exists():
        near = "".join(f'did you mean "{one}"? ' for one in get_close_matches(word, HOMES, n=1))
        raise InputError(f'hops {shown(hops)} is no folder: {near}A new folder is "./{hops}".')
    return "memory", "", Path(hops)


def open_home(hops: str | Path, device: str = "cpu") -> AbstractContextManager[Home]:
    """The home that a user's word means, for as long as the context lasts."""
    word, address, _ = home_of(hops)
    return HOMES[word](address, device)
