"""The hop store, filled on Ray, and a model trained on it."""

import os
import platform
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rapgnn.errors import InputError
from rapgnn.graph.backbones import BACKBONES
from rapgnn.graph.graph import Graph
from rapgnn.network.config import Config
from rapgnn.network.embedding import Embedding
from rapgnn.network.rapgnn import RAPGNN
from rapgnn.scale.blocks import Budget, FirstHop, OnHop, walk
from rapgnn.scale.disk_graph import ARRAYS, DiskGraph, is_sealed, read_manifest
from rapgnn.scale.fit import FittedOnDisk, begin, fit_on_disk
from rapgnn.scale.hops import description, exact, found_store, hop_folder
from rapgnn.scale.store import HopsOf, HopStore
from rapgnn.scale.streamed import StreamedMatrix, held_bytes
from rapgnn.training.loop import OnEpoch

BLOCK_BYTES = 256 << 20  # of one n × block buffer of a task, of which two are alive


def fill_on_ray(
    ray: Any,
    store: HopStore,
    graph: DiskGraph,
    embedding: Embedding | None = None,
    normalize: bool = False,
    *,
    width: int | None = None,
    cores: int = 1,
    shared: bool | None = None,
    on_hop: OnHop = lambda done, of: None,
) -> None:
    """Compute every block that is missing, one task each, and store it as soon as it is there.

    Args:
        ray: connected, see ``on_ray.connected``.
        embedding, normalize: of h⁰, as in ``FirstHop``.
        width: columns of a task; None: so many that every core has two tasks, and a task a bounded memory.
        cores: of one task.
        shared: whether all machines see the graph's folder; None asks them.
        on_hop: told how many of the blocks are stored.
    """
    width = width or task_width(graph, store.of.channels, int(ray.cluster_resources().get("CPU", 1)) // cores)
    blocks = [slice(*columns) for columns in store.missing(width)]
    compute = partial(hops_of_block, of=store.of, rows=store.rows, embedding=embedding, normalize=normalize)
    memory = held_bytes(graph, store.of.self_loops, width) + 8 * graph.num_nodes * width
    memory += 8 * len(store.rows) * width * len(store.of.hops)
    on_hop(0, len(blocks))
    with closing(blocks_on_ray(ray, graph, blocks, compute, cores=cores, memory=memory, shared=shared)) as found:
        for done, (block, hops) in enumerate(found, start=1):
            store.write_block(block.start, block.stop, ((torch.tensor(hop),) for hop in hops))
            on_hop(done, len(blocks))


def task_width(graph: DiskGraph, channels: int, cores: int) -> int:
    """How many columns a task has."""
    most = max(1, BLOCK_BYTES // (4 * max(1, graph.num_nodes)))
    return max(1, min(most, -(-channels // (2 * max(1, cores)))))


def hops_of_block(
    graph: DiskGraph, columns: slice, *, of: HopsOf, rows: np.ndarray, embedding: Embedding | None, normalize: bool
) -> list[np.ndarray]:
    """The hops of one block of columns, ``[rows, columns]`` each: what a task does, in one thread."""
    key = graph.fingerprint, of.backbone, of.self_loops, of.eps
    if key not in _matrices:
        _matrices.clear()
        _matrices[key] = StreamedMatrix(graph, of.backbone, self_loops=of.self_loops, eps=of.eps)
    first = FirstHop(graph, embedding, normalize)
    hops = walk(_matrices[key], first, (columns.start, columns.stop), of.hops, rows, of.operator_scale)
    empty = torch.empty(0, columns.stop - columns.start)
    return [torch.cat([empty, *parts]).numpy() for parts in hops]


_matrices: dict[tuple[str, str, bool, float], StreamedMatrix] = {}  # a process of Ray's keeps S for its next task


def hops_on_ray(
    graph: DiskGraph,
    nodes: np.ndarray,
    model: RAPGNN,
    folder: Path,
    *,
    address: str = "auto",
    workers: int | None = None,
    width: int | None = None,
    cores: int = 1,
    on_hop: OnHop = lambda done, of: None,
) -> tuple[HopStore, str]:
    """``hops.hops_of`` on Ray: a store that has the hops of these nodes, and why the shortcut is exact.

    Args:
        address, workers: as in ``on_ray.connected``; where nothing is missing Ray is not asked.
        width, cores: of a task, as in ``fill_on_ray``.
        on_hop: told how many of the blocks are stored.
    """
    config = model.config
    first = FirstHop(graph, model.embedding, config.normalize_features)
    matrix = StreamedMatrix(graph, config.backbone, self_loops=config.self_loops, eps=config.eps)
    if BACKBONES[config.backbone].includes_self and float(model.operator_scale) == 1.0:
        model.operator_scale.fill_(matrix.growth_rate())
    reason = exact(model, matrix, first)
    del matrix
    of = description(graph, model, first)
    store = found_store(folder, of, nodes) or HopStore.create(folder, of, nodes)
    if store.missing():
        with connected(address, workers) as ray:
            task = {"width": width, "cores": cores}
            fill_on_ray(ray, store, graph, first.embedding, first.normalize, **task, on_hop=on_hop)
    return store, reason


@torch.inference_mode(False)
def fit_on_ray(
    graph: DiskGraph,
    small: Graph,
    nodes: np.ndarray,
    config: Config,
    seed: int,
    budget: Budget,
    store: Path | None = None,
    on_hop: OnHop = lambda done, of: None,
    on_epoch: OnEpoch | None = None,
    *,
    address: str = "auto",
    workers: int | None = None,
) -> FittedOnDisk:
    """``fit_on_disk`` with the hops computed on Ray; the head is trained here, from the store.

    Args:
        on_hop: told how many of the blocks are stored.
        address, workers: as in ``on_ray.connected``.
    """
    import_ray()  # before any work is done
    with hop_folder(graph, store) as folder:
        model = begin(graph, small, nodes, config, seed)
        hops_on_ray(graph, nodes, model, folder, address=address, workers=workers, on_hop=on_hop)
        return fit_on_disk(graph, small, nodes, config, seed, budget, folder, on_epoch=on_epoch)


# Blocks of columns on Ray: one task each, on the machines of a cluster or on the cores of this one.


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
