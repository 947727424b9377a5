"""Blocks of columns on Ray: one task each, on the machines of a cluster or on the cores of this one.

A machine that sees the graph's folder maps its files, so that all tasks there share one copy in the page cache. Where
some machine does not, the graph goes into Ray's object store, which keeps one copy per machine. Results come back to
the driver, which is the only writer of the hop store. A task whose process dies is run again by Ray.
"""

import os
import platform
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from rapgnn.errors import InputError
from rapgnn.scale.disk_graph import DiskGraph
from rapgnn.scale.manifest import ARRAYS, is_sealed, read_manifest

Compute = Callable[[DiskGraph, slice], Any]

RETRIES = 3  # of a task whose process or machine is gone
OBJECT_STORE_BYTES = 200 << 20  # of a Ray that is started here: only the wanted rows of hops pass through it
AHEAD = 2  # tasks per core that are handed to Ray at a time
MISSING = 'Ray is not installed: run pip install "rapgnn[ray]".'


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


def blocks_on_ray(
    ray: Any,
    graph: DiskGraph,
    blocks: Sequence[slice],
    compute: Compute,
    *,
    cores: int = 1,
    memory: int | None = None,
    shared: bool | None = None,
) -> Generator[tuple[slice, Any], None, None]:
    """(block, what ``compute`` gives for it) in the order in which the tasks finish.

    Args:
        ray: connected, see ``connected``.
        graph: opened by the driver.
        compute: (graph, columns) -> result; a function of a module, or a ``functools.partial`` of one.
        cores: of one task, which computes in so many threads.
        memory: bytes of one task, which Ray keeps free for it; None: it does not count them.
        shared: whether all machines see the graph's folder; None asks every one of them.
    """
    shared = sees_everywhere(ray, graph) if shared is None else shared
    held = ray.put(Held(graph.folder.absolute(), graph.fingerprint) if shared else _in_memory(graph))
    function = ray.put(compute)
    task = ray.remote(max_retries=RETRIES, num_cpus=cores, **({} if memory is None else {"memory": memory}))(_block)
    at_once = AHEAD * max(1, int(ray.cluster_resources().get("CPU", 1)) // cores)
    running: dict[Any, slice] = {}
    waiting = list(reversed(blocks))
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                block = waiting.pop()
                running[task.remote(function, held, block.start, block.stop, cores)] = block
            (first, *_), _ = ray.wait(list(running), num_returns=1)
            yield running.pop(first), _result(ray, first)
    finally:
        for one in running if ray.is_initialized() else ():  # any call would start another Ray
            ray.cancel(one)


class Held:
    """A graph's folder, named for a task that opens it where it runs."""

    def __init__(self, folder: Path, fingerprint: str):
        self.folder, self.fingerprint = folder, fingerprint

    def there(self) -> bool:
        """Whether the same graph is in this folder of this machine."""
        return is_sealed(self.folder) and read_manifest(self.folder).get("fingerprint") == self.fingerprint

    def open(self) -> DiskGraph:
        """The graph; a process of Ray's keeps it open for its next task. The driver has compared the checksums."""
        key = str(self.folder), self.fingerprint
        if key not in _opened:
            if not self.there():
                raise InputError(
                    f"the graph {self.folder} is missing or another one on {platform.node()}: copy it there."
                )
            _opened.clear()
            _opened[key] = DiskGraph.open(self.folder, verify=False)
        return _opened[key]


_opened: dict[tuple[str, str], DiskGraph] = {}


def sees_everywhere(ray: Any, graph: DiskGraph) -> bool:
    """Whether every machine of the cluster sees the graph's folder."""
    held = Held(graph.folder.absolute(), graph.fingerprint)
    machines = [node["NodeID"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
    if len(machines) <= 1 and ray.get_runtime_context().get_node_id() in machines:
        return held.there()
    at = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
    task = ray.remote(num_cpus=0)(Held.there)
    return all(ray.get([task.options(scheduling_strategy=at(node, soft=False)).remote(held) for node in machines]))


def _in_memory(graph: DiskGraph) -> DiskGraph:
    """The graph with plain arrays, which Ray hands to the tasks of a machine without copying them."""
    arrays = {name: getattr(graph, name) for name in ARRAYS}
    return replace(graph, **{name: None if a is None else np.asarray(a) for name, a in arrays.items()})


def _block(compute: Compute, held: Held | DiskGraph, start: int, stop: int, cores: int) -> Any:
    """One block, in a process of Ray's."""
    import torch

    torch.set_num_threads(cores)
    return compute(held.open() if isinstance(held, Held) else held, slice(start, stop))


def _result(ray: Any, task: Any) -> Any:
    try:
        return ray.get(task)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, InputError):
            raise error.cause from None
        raise
