"""The one training loop, for phase 1, phase 2 and end-to-end training alike."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from rapgnn.metrics import loss, score

OnEpoch = Callable[[], None]
Validate = Callable[[int], tuple[float, float]]


@dataclass
class Loop:
    """What a run of the loop did and cost; evaluation is not part of the training time."""

    best_epoch: int
    epochs: int
    train_ms_per_epoch: float
    eval_ms_per_epoch: float


def optimise(
    parameters: list[nn.Parameter],
    scores: Iterator[Tensor],
    y: Tensor,
    *,
    lr: float,
    weight_decay: float,
    epochs: int,
    patience: int | None = None,
    validate: Validate | None = None,
    on_epoch: OnEpoch | None = None,
) -> Loop:
    """Adam on the task's loss, keeping the parameters of the best validation epoch.

    Args:
        scores: gives the training rows' scores of one forward pass after another.
        validate: epoch -> (metric, loss); ties in the metric go to the lower loss. None keeps the last epoch.
        patience: stop after so many epochs without a better one; None never stops early.
    """
    # Fused: one kernel for all parameters. The tensors are small, so launching kernels is what an update costs.
    optimizer = torch.optim.Adam(parameters, lr=lr, weight_decay=weight_decay, fused=True)
    best, best_epoch, kept = (-1.0, -float("inf")), 0, [p.detach().clone() for p in parameters]
    train_seconds = eval_seconds = 0.0
    epoch = -1
    for epoch in range(epochs):
        start = time.perf_counter()
        optimizer.zero_grad()
        loss(next(scores), y).backward()
        optimizer.step()
        if y.is_cuda:
            torch.cuda.synchronize(y.device)
        middle = time.perf_counter()
        train_seconds += middle - start
        if on_epoch:
            on_epoch()
            middle = time.perf_counter()  # drawing a progress bar is nobody's cost
        if validate is None:
            best_epoch = epoch
            continue
        metric, value = validate(epoch)
        eval_seconds += time.perf_counter() - middle
        if (metric, -value) > best:
            best, best_epoch = (metric, -value), epoch
            kept = [p.detach().clone() for p in parameters]
        elif patience is not None and epoch - best_epoch >= patience:
            break
    if validate is not None:
        with torch.no_grad():
            for parameter, value in zip(parameters, kept, strict=True):
                parameter.copy_(value)
    done = epoch + 1
    return Loop(best_epoch, done, 1e3 * train_seconds / max(1, done), 1e3 * eval_seconds / max(1, done))


def validator(task: str, y: Tensor, scores: Callable[[int], Tensor]) -> Validate | None:
    """epoch -> (metric, loss) on the validation rows, or None where there are none."""
    if not len(y):
        return None

    @torch.no_grad()
    def validate(epoch: int) -> tuple[float, float]:
        out = scores(epoch)
        metric, value = score(task, out, y), float(loss(out, y))
        # A diverged run (NaN) is the worst there can be, not an incomparable one.
        return metric if metric == metric else -1.0, value if value == value else float("inf")

    return validate
