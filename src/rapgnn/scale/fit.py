"""Training on a graph on disk: the labelled rows' hops go to a store, and the head sees nothing else."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rapgnn.errors import InputError
from rapgnn.graph.goals import with_goal
from rapgnn.graph.graph import Graph
from rapgnn.graph.operator import GraphOperator
from rapgnn.layers.ridge import RidgeHead, same_gaps
from rapgnn.models.config import Config
from rapgnn.models.rapgnn import RAPGNN
from rapgnn.propagation.coefficients import stored_hops
from rapgnn.scale.blocks import Budget, OnHop
from rapgnn.scale.disk_graph import DiskGraph
from rapgnn.scale.hops import check_config, hop_folder, hops_of, one_by_one
from rapgnn.scale.ridge_sums import StreamedRidge, gram_bytes
from rapgnn.scale.start import FirstHop
from rapgnn.scale.store import HopStore
from rapgnn.scale.stored import PART_BYTES, StoredGraph
from rapgnn.training.head import train_head
from rapgnn.training.loop import Loop, OnEpoch
from rapgnn.training.pretrain import pretrain
from rapgnn.training.solve import ridge_targets, row_weights, solve_head

SUMMED = 12  # times the hops of the rows that are added up together, in double precision


@dataclass(frozen=True)
class FittedOnDisk:
    """The trained model, what its training did, why the shortcut is exact, and in how many blocks the hops came."""

    model: RAPGNN
    loop: Loop
    reason: str
    blocks: int


def labelled_graph(graph: DiskGraph, scoring: str | None = None, class_weight: Any = None) -> tuple[Graph, np.ndarray]:
    """The training and validation rows alone, as a graph without edges, and which node each row is, ascending.

    Its features are one number with their sign, as wide as they are; an edge weight has the sign of the edges' weights.

    Args:
        scoring, class_weight: the user's goal.
    """
    train, val = np.asarray(graph.train), np.asarray(graph.val)
    if not len(train):
        raise InputError("there are no training rows: the graph on disk needs labels and a split.")
    nodes = np.union1d(train, val)
    sign = torch.tensor(0.0 if FirstHop(graph).nonnegative else -1.0)
    weights = graph.weights
    negative = weights is not None and len(weights) > 0 and float(weights.min()) < 0
    small = Graph(
        graph.name,
        sign.expand(len(nodes), graph.num_features),
        torch.zeros(2, 0, dtype=torch.int64),
        torch.from_numpy(np.array(graph.y[nodes])),
        torch.from_numpy(np.searchsorted(nodes, train)),
        torch.from_numpy(np.searchsorted(nodes, val)),
        torch.zeros(0, dtype=torch.int64),
        num_outputs=graph.num_outputs,
        edge_weight=torch.full((1,), -1.0) if negative else None,
        task=graph.task,
        classes=graph.classes,
    )
    return with_goal(small, scoring, class_weight), nodes


def begin(
    graph: DiskGraph,
    small: Graph,
    nodes: np.ndarray,
    config: Config,
    seed: int,
    *,
    budget: Budget | None = None,
    phase1: bool = True,
) -> RAPGNN:
    """The network as it is before the hops: with its embedding trained, where the settings want that.

    Args:
        small, nodes: what ``labelled_graph`` gives.
        budget: whose device it is on and whose room is checked; None: on the CPU, unchecked.
        phase1: False leaves the embedding as it starts, for a worker that gets it from another one.
    """
    check_config(config)
    device = torch.device("cpu" if budget is None else budget.device)
    model = RAPGNN(graph.num_features, out_channels=graph.num_outputs, seed=seed, config=config).to(device)
    if small.objective.metric == "rmse":
        model.output.fit(small.y[small.train].to(device))
    if budget is not None:
        check_room(small, model, budget)
    if phase1 and model.embedding.kind.trained == "before":
        raw = FirstHop(graph, None, config.normalize_features).pick(nodes)
        pretrain(model, replace(small, x=raw).to(device), GraphOperator(one_by_one(1.0, device)))
    return model


@torch.inference_mode(False)
def fit_on_disk(
    graph: DiskGraph,
    small: Graph,
    nodes: np.ndarray,
    config: Config,
    seed: int,
    budget: Budget,
    store: Path | None = None,
    on_hop: OnHop = lambda done, of: None,
    on_epoch: OnEpoch | None = None,
) -> FittedOnDisk:
    """Phase 1 where the embedding is pretrained, the hops of the labelled rows, then the head.

    Args:
        small, nodes: what ``labelled_graph`` gives.
        store: a folder to keep the hops in, or one that has them; None: a temporary one beside the graph.
    """
    model = begin(graph, small, nodes, config, seed, budget=budget)
    with hop_folder(graph, store) as folder:
        filled, reason = hops_of(graph, nodes, model, budget, folder, on_hop)
        loop = _train(model, replace(small, x=torch.zeros(len(nodes), 1)), nodes, filled, budget, on_epoch)
        blocks = len(filled.blocks)
    return FittedOnDisk(model.cpu().eval(), loop, reason, blocks)


def _train(
    model: RAPGNN, small: Graph, nodes: np.ndarray, store: HopStore, budget: Budget, on_epoch: OnEpoch | None
) -> Loop:
    head, solved = model.head, isinstance(model.head, RidgeHead)
    device = torch.device("cpu" if solved else budget.device)  # sums over rows are added up where the store is read
    model, small = model.to(device), small.to(device)
    few = 2 * len(small.train) <= model.embedding.out_channels * len(model.spec.outputs)
    load = few if solved else _fits(small, model, budget)
    there: dict[str, Any] = {"store": store, "numbers": nodes, "device": device, "load": load}
    nothing = GraphOperator(one_by_one(1.0, device))
    embedded = StoredGraph(
        model.spec, nothing, small.x, model.embedding, "polynomial", "hops are stored", small.x, None, **there
    )
    if not isinstance(head, RidgeHead):
        return train_head(model, head, small, embedded, on_epoch)
    problem = None  # where rows are fewer than unknowns, the equations of the rows are the smaller ones
    if not few:
        train, val = embedded.nodes(small.train), embedded.nodes(small.val)
        problem = StreamedRidge(train, val, ridge_targets(model, small, torch.float32), row_weights(small))
    return solve_head(model, head, small, embedded, on_epoch, problem)


def check_room(small: Graph, model: RAPGNN, budget: Budget) -> None:
    """Refuse a limit that the training before or after the hops would break, before any work is done."""
    width = model.embedding.out_channels * len(model.spec.outputs)
    train, val = len(small.train), len(small.val)
    if isinstance(model.head, RidgeHead):
        y = small.y[small.train]
        groups = 1 if y.dim() == 1 else len(list(same_gaps(y)))
        equations = min(gram_bytes(width, groups), 40 * train * width)
        labels = 32 * train * small.num_outputs + 24 * val * small.num_outputs
        budget.room(equations + labels + SUMMED * PART_BYTES, f"for a ridge head on {width:,} columns", 1)
    else:
        budget.room(_training_bytes(small, model), f"to train on {train:,} rows at once (or set batch_size)", 1)
    if model.embedding.kind.trained == "before":
        need = 4 * (train + val) * (2 * small.num_features + 8 * model.config.hidden_channels)
        budget.room(need, "to pretrain the embedding", 1)


def _training_bytes(small: Graph, model: RAPGNN) -> int:
    """What a head that is trained holds besides the hops: draws of a batch, their gradients, the validation rows."""
    d, config = model.embedding.out_channels, model.config
    width, hops = d * len(model.spec.outputs), d * len(stored_hops(model.spec))
    batch = min(config.batch_size or len(small.train), len(small.train))
    return 4 * (batch * (2 * hops + 6 * (width + config.hidden_channels)) + 2 * len(small.val) * width) + PART_BYTES


def _fits(small: Graph, model: RAPGNN, budget: Budget) -> bool:
    """Whether the hops of the training rows can be in memory while a head is trained."""
    hops = 4 * len(small.train) * model.embedding.out_channels * len(stored_hops(model.spec))
    if torch.device(budget.device).type == "cuda":
        return hops + _training_bytes(small, model) <= budget.device_room()
    return budget.left(hops + _training_bytes(small, model)) > 0
