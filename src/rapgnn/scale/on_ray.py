"""Hops on Ray: one task per block of columns, on the machines of a cluster or the cores of this one."""

import os
import platform
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rapgnn.errors import InputError
from rapgnn.network.rapgnn import RAPGNN
from rapgnn.scale.disk_graph import DiskGraph, is_sealed, read_manifest
from rapgnn.scale.hops import Budget, Hops, OnHop, silent
from rapgnn.scale.matrix import StreamedMatrix, held_bytes
from rapgnn.scale.store import HopsOf, HopStore

BLOCK_BYTES = 256 << 20  # of one n × block buffer of a task, of which two are alive
OBJECT_STORE_BYTES = 200 << 20  # of a Ray that is started here: only the wanted rows of hops pass through it
RETRIES = 3  # of a task whose process or machine is gone
AHEAD = 2  # tasks per core that are handed to Ray at a time
MISSING = 'Ray is not installed: run pip install "rapgnn[ray]".'

Compute = Callable[[DiskGraph, slice], Any]


class RayHops(Hops):
    """``Hops`` whose blocks are computed on Ray, and stored here as soon as each is there.

    Args:
        address: of a cluster, as in ``connected``; where nothing is missing Ray is not asked.
        width: columns of a task; None: so many that every core has two tasks, and a task a bounded memory.
    """

    def __init__(
        self, graph: DiskGraph, model: RAPGNN, budget: Budget, *, address: str = "auto", width: int | None = None
    ):
        import_ray()  # before any work is done
        super().__init__(graph, model, Budget(), width=1)
        self.address, self.task_width = address, width

    def fill(self, store: HopStore, on_hop: OnHop = silent) -> None:
        if not store.missing():
            return
        with connected(self.address) as ray:
            nodes, depth = max(1, self.graph.num_nodes), self.depth
            columns = -(-self.first.channels // (2 * cores_of(ray)))
            width = self.task_width or max(1, min(columns, BLOCK_BYTES // (4 * nodes)))
            blocks = [slice(*columns) for columns in store.missing(width)]
            memory = held_bytes(self.graph, store.of.self_loops, width) + 8 * nodes * width
            memory += 8 * len(store.rows) * width * len(store.of.hops)
            compute = partial(hops_of_block, model=self.model, rows=store.rows)
            on_hop(0, len(blocks) * depth)
            with closing(blocks_on_ray(ray, self.graph, blocks, compute, memory)) as results:
                for done, (block, hops) in enumerate(results, start=1):
                    columns = block.start, block.stop
                    for hop, rows in zip(store.of.hops, hops, strict=True):
                        store.write(columns, hop, [torch.tensor(rows)])
                    store.finish(columns)
                    on_hop(done * depth, len(blocks) * depth)


def hops_of_block(graph: DiskGraph, columns: slice, *, model: RAPGNN, rows: np.ndarray) -> list[np.ndarray]:
    """The hops of one block of columns, ``[rows, columns]`` each: what a task does, in one thread."""
    block = columns.start, columns.stop
    hops = Hops(graph, model, Budget(), width=block[1] - block[0])
    if hops.of not in _matrices:  # of the task before, in this process
        _matrices.clear()
        _matrices[hops.of] = hops.matrix
    hops.matrix = _matrices[hops.of]
    empty = torch.empty(0, hops.width)
    return [torch.cat([empty, *parts]).numpy() for _, parts in hops.walk(block, rows)]


_matrices: dict[HopsOf, StreamedMatrix] = {}
_graphs: dict[str, DiskGraph] = {}


def import_ray() -> Any:
    """Ray, or one sentence that says how to get it."""
    try:
        import ray
    except ImportError:
        raise InputError(MISSING) from None
    return ray


@contextmanager
def connected(address: str = "auto", workers: int | None = None) -> Iterator[Any]:
    """Ray, connected; what was started or connected here is shut down at the end, and what was there before stays.

    Args:
        address: of a cluster; ``"auto"``: the one that RAY_ADDRESS names or this machine belongs to, else a Ray of its
            own is started; ``"local"``: always one of its own.
        workers: cores of a Ray that is started here; None: all.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray = import_ray()
    if ray.is_initialized():
        yield ray
        return
    quiet = {"log_to_driver": False, "logging_level": "error"}
    own = {"num_cpus": workers, "include_dashboard": False, "object_store_memory": OBJECT_STORE_BYTES}
    try:
        if address == "auto":
            try:
                ray.init(address="auto", **quiet)
            except ConnectionError:
                ray.init(address="local", **own, **quiet)
        else:
            ray.init(address=address, **(own if address == "local" else {}), **quiet)
    except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
        raise InputError(f"cannot connect to Ray at {address}: {error}; give its address, or auto.") from error
    try:
        yield ray
    finally:
        ray.shutdown()


def cores_of(ray: Any) -> int:
    """All cores of the cluster; a task has one."""
    return max(1, int(ray.cluster_resources().get("CPU", 1)))


def blocks_on_ray(
    ray: Any, graph: DiskGraph, blocks: Sequence[slice], compute: Compute, memory: int | None = None
) -> Generator[tuple[slice, Any], None, None]:
    """(block, what ``compute`` gives for it) in the order in which the tasks finish.

    Args:
        ray: connected, see ``connected``.
        graph: opened by the driver, in a folder that all machines see.
        compute: (graph, columns) -> result; a function of a module, or a ``functools.partial`` of one.
        memory: bytes of one task, which Ray keeps free for it; None: it does not count them.
    """
    function, named = ray.put(compute), (graph.folder.absolute(), graph.fingerprint)
    task = ray.remote(max_retries=RETRIES, num_cpus=1, **({} if memory is None else {"memory": memory}))(_block)
    running: dict[Any, slice] = {}
    waiting = list(reversed(blocks))
    try:
        while waiting or running:
            while waiting and len(running) < AHEAD * cores_of(ray):
                block = waiting.pop()
                running[task.remote(function, *named, block)] = block
            (first, *_), _ = ray.wait(list(running), num_returns=1)
            yield running.pop(first), _result(ray, first)
    finally:
        for one in running if ray.is_initialized() else ():  # any call would start another Ray
            ray.cancel(one)


def _block(compute: Compute, folder: Path, fingerprint: str, block: slice) -> Any:
    """One block, in a process of Ray's, which keeps the graph open for its next task; the driver has checked it."""
    torch.set_num_threads(1)
    if fingerprint not in _graphs:
        if not is_sealed(folder) or read_manifest(folder).get("fingerprint") != fingerprint:
            raise InputError(f"the graph {folder} is missing or another one on {platform.node()}: copy it there.")
        _graphs.clear()
        _graphs[fingerprint] = DiskGraph.open(folder, verify=False)
    return compute(_graphs[fingerprint], block)


def _result(ray: Any, task: Any) -> Any:
    try:
        return ray.get(task)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, InputError):
            raise error.cause from None
        raise
