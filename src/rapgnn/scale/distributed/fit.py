"""Training on a graph that several workers share: hops and head, by all of them together."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rapgnn.errors import InputError
from rapgnn.graph.graph import Graph
from rapgnn.graph.operator import GraphOperator
from rapgnn.layers.ridge import RidgeHead
from rapgnn.models.config import Config
from rapgnn.models.rapgnn import RAPGNN
from rapgnn.scale.blocks import Budget, OnHop
from rapgnn.scale.disk_graph import DiskGraph
from rapgnn.scale.distributed.group import Workers
from rapgnn.scale.distributed.head import LabelledShare, share, train_together
from rapgnn.scale.distributed.hops import distributed_hops, share_state
from rapgnn.scale.distributed.ridge import SharedRidge
from rapgnn.scale.fit import FittedOnDisk, begin
from rapgnn.scale.hops import one_by_one
from rapgnn.scale.store import HopStore
from rapgnn.scale.stored import StoredGraph
from rapgnn.training.head import lower_unseen
from rapgnn.training.loop import Loop, OnEpoch
from rapgnn.training.solve import ridge_targets, row_weights, solve_head


@torch.inference_mode(False)
def fit_together(
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
    workers: Workers,
) -> FittedOnDisk:
    """``fit_on_disk`` by all workers, who end with the same model: phase 1 at worker 0, then the hops, then the head.

    Args:
        small, nodes: what ``labelled_rows`` gives.
        budget: of each worker.
        store: a folder for the hops that all workers see, or one that has them.
        workers: from ``group.joined``; every one of them calls this.
    """
    if store is None:
        raise InputError("several workers need a folder for the hops that all of them see: name a store.")
    model = begin(graph, small, nodes, config, seed, phase1=workers.rank == 0)
    share_state(workers, model)
    filled, reason = distributed_hops(workers, graph, nodes, model, budget, store, on_hop)
    loop = _train(workers, model, replace(small, x=torch.zeros(len(nodes), 1)), nodes, filled, on_epoch)
    return FittedOnDisk(model.cpu().eval(), loop, reason, len(filled.blocks))


def _train(
    workers: Workers, model: RAPGNN, small: Graph, nodes: np.ndarray, store: HopStore, on_epoch: OnEpoch | None
) -> Loop:
    head = model.head
    device = torch.device("cpu") if isinstance(head, RidgeHead) else workers.device
    model, small = model.to(device), small.to(device)
    nothing = GraphOperator(one_by_one(1.0, device))
    there: dict[str, Any] = {"store": store, "numbers": nodes, "device": device, "load": True}
    embedded = StoredGraph(
        model.spec, nothing, small.x, model.embedding, "polynomial", "hops are stored", small.x, None, **there
    )
    own = share(len(small.train), workers)
    val = small.val[share(len(small.val), workers)]
    if not isinstance(head, RidgeHead):
        lower_unseen(head, small)
        expected = embedded.expectation(val)
        held = (lambda epoch: expected) if len(small.val) else None
        data = LabelledShare(embedded.rows(small.train[own]), small.y[small.train], held, small.y[val])
        return train_together(workers, model, head, small.objective, data, on_epoch)
    problem = None  # where rows are fewer than unknowns, every worker solves the equations of all rows
    if 2 * len(small.train) > model.embedding.out_channels * len(model.spec.outputs):
        rows, held_rows = embedded.nodes(small.train[own]), embedded.nodes(val)
        assert rows is not None
        assert held_rows is not None
        targets, weights = ridge_targets(model, small, torch.float32), row_weights(small)
        problem = SharedRidge(workers, rows, held_rows, targets, weights, own)
    return solve_head(model, head, small, embedded, on_epoch, problem)
