"""The hops that a network needs of a graph that its workers share: ``rapgnn.scale.hops``, by all workers together."""

from pathlib import Path

import numpy as np
import torch
from torch import nn

from rapgnn.graph.backbones import BACKBONES
from rapgnn.models.rapgnn import RAPGNN
from rapgnn.scale.begin import exact_with
from rapgnn.scale.blocks import Budget, OnHop
from rapgnn.scale.disk_graph import DiskGraph
from rapgnn.scale.distributed.fill import OwnRows, block_width, create_together, fill_together
from rapgnn.scale.distributed.group import Workers
from rapgnn.scale.distributed.part import GraphPart
from rapgnn.scale.distributed.walk import growth_rate
from rapgnn.scale.hops import description
from rapgnn.scale.start import FirstHop
from rapgnn.scale.store import HopStore


def open_together(workers: Workers, folder: Path | str) -> DiskGraph:
    """The graph on every worker; worker 0 compares the checksums."""
    workers.at_first(lambda: DiskGraph.open(folder))
    return DiskGraph.open(folder, verify=False)


@torch.no_grad()
def distributed_hops(
    workers: Workers,
    graph: DiskGraph,
    nodes: np.ndarray,
    model: RAPGNN,
    budget: Budget,
    folder: Path,
    on_hop: OnHop = lambda done, of: None,
    *,
    save: bool = True,
) -> tuple[HopStore, str]:
    """A store that has the hops of these nodes, and why the shortcut is exact; called by every worker.

    Args:
        nodes: ascending.
        model: the same on every worker; the operator's scale is taken from the graph where it has none.
        budget: its limit is each worker's, and decides how many columns travel together.
        folder: of the store, which all workers see.
        on_hop: told how many hops of how many are done, over all blocks of columns.
        save: keep every finished hop until its block is done, so that a run that was killed goes on from it.
    """
    config = model.config
    part = GraphPart.read(graph, workers, config.backbone, self_loops=config.self_loops, eps=config.eps)
    first = FirstHop(graph, model.embedding, config.normalize_features)
    if BACKBONES[config.backbone].includes_self and float(model.operator_scale) == 1.0:
        model.operator_scale.fill_(growth_rate(part))
    linear = model.spec.activation == "identity"
    h = linear or bool(workers.smallest(OwnRows(first, part.rows).nonnegative))
    reason = exact_with(model, bool(workers.smallest(part.matrix.nonnegative)), h)
    store = create_together(part, folder, description(graph, model, first), nodes)
    if store.missing():
        fill_together(store, part, first, block_width(part, first.channels, budget), save=save, on_hop=on_hop)
    return HopStore.open(folder, verify=False), reason


@torch.no_grad()
def share_state(workers: Workers, module: nn.Module) -> None:
    """Give every worker the parameters and buffers of worker 0."""
    for value in module.state_dict().values():
        found = workers.total((value if workers.rank == 0 else torch.zeros_like(value)).to(workers.device))
        value.copy_(found)
