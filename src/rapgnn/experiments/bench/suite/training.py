"""A rival trained once: so many epochs, the state of the best validation epoch counts."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from rapgnn.experiments.bench.suite.node_rivals import NODE_SPACES, NodeTrainer
from rapgnn.experiments.bench.suite.set_rivals import SET_SPACES, SetTrainer
from rapgnn.graph.graph import Graph
from rapgnn.graph.scores import metrics_for

Settings = dict[str, Any]
SPACES = NODE_SPACES | SET_SPACES
TITLES = {"gcn": "GCN", "sage": "GraphSAGE", "appnp": "APPNP", "gin": "GIN"}
EPOCHS = 200


@dataclass(frozen=True)
class Run:
    """What one training found.

    Args:
        val, test: the graph's metric at the best validation epoch.
        val_loss: at the same epoch.
        seconds: of the training, validation included; matrices and features are made before.
        epochs: trained.
        curve: the best validation merit after each epoch.
    """

    val: float
    test: float
    val_loss: float
    seconds: float
    epochs: int
    curve: tuple[float, ...]


def merit(metric: str, task: str, value: float) -> float:
    """The metric turned so that more is better; of no number the least."""
    if value != value:
        return -float("inf")
    return value if metrics_for(task)[metric].higher else -value


def train_rival(
    rival: str,
    graph: Graph,
    metric: str,
    settings: Settings,
    seed: int,
    epochs: int = EPOCHS,
    patience: int | None = None,
    stop: Callable[[Sequence[float]], bool] = lambda curve: False,
    own: bool = False,
    device: str = "cpu",
) -> Run:
    """Train.

    Args:
        patience: epochs without a better validation score after which it ends; None: all epochs are trained.
        stop: asked after every epoch with the curve so far.
        own: let this library's sparse product do the layers' sums, see ``Adjacency``.
        device: where it runs.
    """
    measure, read, y = metrics_for(graph.task)[metric].measure, graph.objective.read, graph.y.cpu()
    val_y, test_y = y[graph.val], y[graph.test]
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        trainer = (NodeTrainer if graph.ptr is None else SetTrainer)(rival, graph, settings, own, device)
        module = trainer.module
        start = time.perf_counter()
        optimizer = torch.optim.Adam(module.parameters(), lr=settings["lr"], weight_decay=settings["weight_decay"])
        best, kept, since, curve = (-float("inf"), -float("inf")), None, 0, []
        for _ in range(epochs):
            module.train()
            trainer.train_epoch(optimizer)
            module.eval()
            with torch.no_grad():
                out = {split: scores.cpu() for split, scores in trainer.scores().items()}
            loss = float(graph.objective.loss(out["val"], val_y))
            reached = (
                merit(metric, graph.task, measure(read(out["val"]), val_y)),
                -loss if loss == loss else -float("inf"),
            )
            since += 1
            if kept is None or reached > best:
                best, kept, since = reached, out["test"], 0
            curve.append(best[0])
            if stop(curve) or (patience is not None and since >= patience):
                break
        seconds = time.perf_counter() - start
    assert kept is not None
    val = abs(best[0]) if best[0] > -float("inf") else float("nan")
    return Run(val, measure(read(kept), test_y), -best[1], seconds, len(curve), tuple(curve))
