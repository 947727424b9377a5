"""The hop store, filled on Ray, and a model trained on it."""

from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rapgnn.graph.backbones import BACKBONES
from rapgnn.graph.graph import Graph
from rapgnn.layers.embedding import Embedding
from rapgnn.models.config import Config
from rapgnn.models.rapgnn import RAPGNN
from rapgnn.scale.blocks import Budget, OnHop, walk
from rapgnn.scale.disk_graph import DiskGraph
from rapgnn.scale.fit import FittedOnDisk, begin, fit_on_disk
from rapgnn.scale.hops import description, exact, found_store, hop_folder
from rapgnn.scale.on_ray import blocks_on_ray, connected, import_ray
from rapgnn.scale.start import FirstHop
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
