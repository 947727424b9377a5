"""The one training loop, for phase 1, phase 2 and end-to-end training alike."""

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from rapgnn.graph.graph import Graph
from rapgnn.graph.tasks import Objective
from rapgnn.network.config import Config

OnEpoch = Callable[[], None]
Passes = Callable[[int], Iterable[tuple[Tensor, Tensor]]]


@dataclass
class Loop:
    """What a run of the loop did and cost; evaluation is not part of the training time.

    ``history`` is the validation metric after every epoch, ``epoch_ms`` the training time of each; ``best`` is the
    merit of the best state on validation: (metric, loss), both turned so that more is better.
    """

    best_epoch: int
    epochs: int
    train_ms_per_epoch: float
    eval_ms_per_epoch: float
    history: list[float] = field(default_factory=list)
    epoch_ms: list[float] = field(default_factory=list)
    best: tuple[float, float] | None = None


class BestEpoch:
    """Which epoch is the best on validation so far, and whether it is time to stop.

    Args:
        patience: stop after so many epochs without a better one; None never stops early.
    """

    def __init__(self, objective: Objective, patience: int | None = None):
        self.objective, self.patience = objective, patience
        self.merit, self.epoch, self.stop = (-float("inf"), -float("inf")), 0, False
        self.history: list[float] = []

    def see(self, metric: float, loss: float) -> bool:
        """Take the next epoch's validation; whether it is better than all before, ties going to the lower loss."""
        epoch = len(self.history)
        self.history.append(metric)
        merit = self.objective.merit(metric)
        # A diverged run (NaN) is the worst there can be, not an incomparable one.
        now = (merit if merit == merit else -float("inf"), -loss if loss == loss else -float("inf"))
        if now > self.merit:
            self.merit, self.epoch = now, epoch
            return True
        self.stop = self.patience is not None and epoch - self.epoch >= self.patience
        return False


@torch.enable_grad()  # also where a user has switched gradients off
def optimise(
    modules: list[nn.Module],
    passes: Passes,
    graph: Graph,
    held_out: Callable[[int], Tensor],
    *,
    lr: float,
    weight_decay: float,
    epochs: int,
    patience: int | None = None,
    lr_decay: bool = False,
    keep_best: bool = True,
    on_epoch: OnEpoch | None = None,
) -> Loop:
    """Adam on the task's loss, keeping the state of the best validation epoch.

    Args:
        passes: epoch -> (scores, labels) of one batch after another; each is a step.
        graph: whose loss and labels these are; without validation rows the last epoch's state is kept.
        held_out: epoch -> the scores of its validation rows; ties in the metric go to the lower loss.
        lr_decay: let the learning rate fall to 0 by half a cosine, epoch by epoch.
        keep_best: False keeps the last epoch's state, and validation is only recorded.
    """
    parameters = [p for module in modules for p in module.parameters() if p.requires_grad]
    state = [*parameters, *(b for module in modules for b in module.buffers())]
    # Fused: one kernel for all parameters. The tensors are small, so launching kernels is what an update costs.
    optimizer = torch.optim.Adam(parameters, lr=lr, weight_decay=weight_decay, fused=True)
    best_state = [t.detach().clone() for t in state]
    objective, y_val = graph.objective, graph.y[graph.val]
    best, eval_seconds = BestEpoch(objective, patience), 0.0
    epoch_ms: list[float] = []
    for epoch in range(epochs):
        start = time.perf_counter()
        if lr_decay:
            optimizer.param_groups[0]["lr"] = lr * (1 + math.cos(math.pi * epoch / epochs)) / 2
        for scores, y in passes(epoch):
            optimizer.zero_grad()
            objective.loss(scores, y).backward()
            optimizer.step()
        if parameters[0].is_cuda:
            torch.cuda.synchronize(parameters[0].device)
        middle = time.perf_counter()
        epoch_ms.append(1e3 * (middle - start))
        if on_epoch:
            on_epoch()
            middle = time.perf_counter()  # a progress bar is not part of the cost
        if not len(y_val):
            continue
        with torch.no_grad():
            out = held_out(epoch)
            metric, loss = objective.score(out, y_val), float(objective.loss(out, y_val))
        eval_seconds += time.perf_counter() - middle
        if best.see(metric, loss):
            for old, new in zip(best_state, state, strict=True):
                old.copy_(new.detach())
        elif best.stop:
            break
    if len(y_val) and keep_best:
        with torch.no_grad():
            for tensor, value in zip(state, best_state, strict=True):
                tensor.copy_(value)
    return summary(best, epoch_ms, 1e3 * eval_seconds, len(y_val) > 0)


def summary(best: BestEpoch, epoch_ms: list[float], eval_ms: float, validated: bool) -> Loop:
    done = len(epoch_ms)
    means = sum(epoch_ms) / max(1, done), eval_ms / max(1, done)
    best_epoch = best.epoch if validated else max(0, done - 1)
    return Loop(best_epoch, done, *means, best.history, epoch_ms, best.merit if validated else None)


def schedule(config: Config) -> dict[str, Any]:
    return {name: getattr(config, name) for name in ("lr", "lr_decay", "weight_decay", "epochs", "patience")}


def shuffled(rows: int, batch_size: int | None, generator: torch.Generator, device: torch.device) -> list[Tensor]:
    """The rows of one epoch in random batches; all of them at once, in order, without a batch size."""
    if batch_size is None or batch_size >= rows:
        return [torch.arange(rows, device=device)]
    order = torch.randperm(rows, generator=generator, device="cpu").to(device)
    return list(order.split(batch_size))
