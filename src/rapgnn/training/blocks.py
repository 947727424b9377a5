"""Phase 2 in blocks of epochs that never wait for the processor.

A small head's step is a handful of kernels of a few microseconds each, far less than launching them takes. So the
representations of many steps are made at once, the steps of a block run as one captured graph that leaves the
validation scores and the trained state of every epoch behind, and the processor looks at these once per block. On a CPU
the same blocks run as plain calls; the plain loop is as fast there, and ``train_head`` takes that.
"""

import time
from dataclasses import dataclass

import torch
from torch import Tensor

from rapgnn.captured import Captured
from rapgnn.device import free_memory
from rapgnn.graph.tasks import Objective
from rapgnn.layers.heads import Head
from rapgnn.layers.targets import TargetScale
from rapgnn.models.config import Config
from rapgnn.training.block import Block
from rapgnn.training.draws import BatchOrder, Draws
from rapgnn.training.loop import BestEpoch, Loop, OnEpoch, summary

EPOCHS = 64  # of a block, at most
PASSES = 8  # epochs of a block, at most, where every epoch walks over the graph
STEPS = 256  # of one captured graph, at most
JUDGED = 1 << 22  # validation scores that are judged at a time
BLOCK_BYTES = 256 << 20  # of what a block keeps: representations, states, scores; on a GPU a share of what is free


@dataclass
class Phase2:
    """What a head is trained and validated on, for ``train_in_blocks``.

    Args:
        train: the representations of the training rows.
        y: their labels.
        order: of batches; None takes all rows in every step.
        validation: the validation rows: one representation for all epochs, or draws; None: there are no rows.
        y_val: their labels.
        output: turns the head's numbers into scores.
        generator: of the head's dropout.
    """

    train: Draws
    y: Tensor
    order: BatchOrder | None
    validation: Draws | Tensor | None
    y_val: Tensor
    output: TargetScale
    generator: torch.Generator

    @property
    def sizes(self) -> list[int]:
        """Rows of each step of an epoch."""
        rows, size = len(self.y), len(self.y) if self.order is None else self.order.size
        return [min(size, rows - start) for start in range(0, rows, size)]

    @property
    def cheap(self) -> bool:
        """Whether the draws of a block take no passes over the graph."""
        return self.train.cheap and (not isinstance(self.validation, Draws) or self.validation.cheap)

    @property
    def budget(self) -> int:
        """Bytes that a block may keep."""
        return max(BLOCK_BYTES, free_memory(self.y.device) // 32 if self.y.is_cuda else 0)

    def steps(self, head: Head) -> int:
        """The most steps of one captured graph: what fits, where an epoch is long."""
        words = 2 * head.mlp.mask_words(self.sizes[0])
        return max(1, min(STEPS, self.budget // (4 * (self.sizes[0] * head.input_scale.numel() + words))))

    def epochs(self, head: Head, config: Config, most: int) -> int:
        """How many epochs a block has: what fits, in blocks of one length."""
        sizes, held = self.sizes, self.validation
        channels, rows = head.input_scale.numel(), len(self.y_val)
        numbers = rows * head.out_channels + sum(t.numel() for t in head.state_dict().values())
        numbers += 0 if self.train.constant and self.order is None else len(sizes) * sizes[0] * channels
        numbers += rows * channels if isinstance(held, Draws) and not held.constant else 0
        numbers += 2 * sum(map(head.mlp.mask_words, sizes))
        # Passes over the graph are few at a time: none is made in vain when patience or time runs out.
        most = most if self.cheap else min(most, PASSES)
        fitting = min(most, config.epochs, max(1, STEPS // len(sizes)), max(1, self.budget // (4 * numbers)))
        return -(-config.epochs // -(-config.epochs // fitting))


@torch.enable_grad()  # also where a user has switched gradients off
def train_in_blocks(
    head: Head, objective: Objective, config: Config, data: Phase2, on_epoch: OnEpoch | None = None, most: int = EPOCHS
) -> Loop:
    """As ``optimise``, a block of epochs at a time; ``most`` of them. Validation counts as training time here."""
    sizes, order, held = data.sizes, data.order, data.validation
    epochs, steps = data.epochs(head, config, most), data.steps(head)
    slots = epochs * len(sizes) if len(sizes) <= STEPS and epochs > 1 else min(steps, len(sizes))
    y = data.y if order is None else data.y.new_zeros(slots, order.size, *data.y.shape[1:])

    def fill(count: int) -> Tensor:
        if order is None:
            return data.train.fill(count)
        rows = order.take(count)
        torch.index_select(data.y, 0, rows.flatten(), out=y[:count].flatten(0, 1))
        return data.train.fill(count, rows)

    def fill_validation() -> Tensor | None:
        return held.fill(epochs) if isinstance(held, Draws) else None

    start, captured = time.perf_counter(), Captured.seconds
    h, fixed = fill(slots), head.scaled(held)[None] if isinstance(held, Tensor) else None
    drawn = fill_validation()
    held_out = drawn if fixed is None else fixed
    block = Block(head, objective, config, h, y, sizes, epochs, slots, held_out, data.generator)
    start += Captured.seconds - captured  # which is no part of an epoch
    best, best_state = BestEpoch(objective, config.patience), [t.clone() for t in block.state]
    epoch_ms: list[float] = []
    filled, last = True, False
    try:
        while not (last or best.stop):
            if not filled:
                fill_validation()
            for piece in block.pieces:
                if not filled:
                    fill(piece.steps)
                block.run(piece)
                filled = False
            left = min(epochs, config.epochs - len(epoch_ms))
            last = len(epoch_ms) + left == config.epochs
            seen = None if held is None else _Arriving(objective, data.output(block.scores), data.y_val)
            if not last and (data.cheap or config.patience is None):
                # Made while the processor waits for what it has to see of this block.
                fill(block.pieces[0].steps)
                fill_validation()
                filled = True
            done, better = left, left - 1 if last else None
            if seen is not None:
                done, better = _look(best, seen.values()[:left])
            if better is not None:
                block.take(better, best_state)
            now = time.perf_counter()
            epoch_ms += [1e3 * (now - start) / epochs] * done
            start = now
            for _ in range(done if on_epoch else 0):
                on_epoch()  # type: ignore[misc]
    finally:
        block.finish(best_state)
    return summary(best, epoch_ms, 0.0, held is not None)


def _look(best: BestEpoch, values: list[list[float]]) -> tuple[int, int | None]:
    """(how many epochs count, the best of them if it is better than all before)."""
    better = None
    for epoch, (metric, loss) in enumerate(values):
        if best.see(metric, loss):
            better = epoch
        elif best.stop:
            return epoch + 1, better
    return len(values), better


class _Arriving:
    """Metric and loss of every epoch of a block, on their way from the device."""

    def __init__(self, objective: Objective, scores: Tensor, y: Tensor):
        parts = []
        for part in scores.split(max(1, JUDGED // max(1, scores[0].numel()))):
            losses = objective.loss_many(part, y).double()
            parts.append(torch.stack([objective.score_many(part, y).to(losses.device), losses], dim=1))
        seen = torch.cat(parts)
        self._event: torch.cuda.Event | None = None
        self._host = seen
        if seen.is_cuda:
            self._host = torch.empty(seen.shape, dtype=seen.dtype, device="cpu", pin_memory=True)
            self._host.copy_(seen, non_blocking=True)
            self._event = torch.cuda.Event()
            self._event.record(torch.cuda.current_stream(seen.device))

    def values(self) -> list[list[float]]:
        if self._event is not None:
            self._event.synchronize()
        return self._host.tolist()
