"""What many training steps need, made at once: the representations of their draws, and the order of their batches."""

from collections.abc import Iterator

import torch
from torch import Tensor

from rapgnn.layers.heads import Head
from rapgnn.propagation.representation import Drawn, Representation

DRAWN = 1 << 19  # random numbers that are drawn at a time


class Draws:
    """The representations of the training steps (or of the validation rows, epoch by epoch), many at a time.

    They lie in one buffer, which is written again for the next ones; the head's shift and scale are done already.

    Args:
        representation: where they come from.
        head: whose shift and scale it is.
        counters: of the weights, one per draw; taken as they are needed.
        steps: which forward passes these are, likewise.
    """

    def __init__(self, representation: Representation, head: Head, counters: Iterator[int], steps: Iterator[int]):
        self.representation, self.counters, self.steps = representation, counters, steps
        self.scale = None if bool((head.input_scale == 1).all()) else head.input_scale
        self.shift = head.input_offset if bool(head.input_offset.any()) else None
        spec = representation.embedded.spec
        per_draw = representation.channels ** (2 if spec.weights.structure == "full" else 1) * spec.num_layers
        self._ahead = max(1, DRAWN // max(1, per_draw * spec.factors))
        self._weights: Drawn = {}
        self._kept = 0  # draws whose weights are there
        self.constant = representation.embedded.constant
        self.h: Tensor | None = None

    def fill(self, count: int, rows: Tensor | None = None) -> Tensor:
        """The next ``count`` draws, ``[count, rows, channels]`` (with no rows asked for and all draws the same: one).

        Args:
            rows: ``[count, B]``, which rows each draw is for; None: all.
        """
        if self.constant and rows is None and self.h is not None:
            return self.h
        steps = [next(self.steps) for _ in range(count)]
        kept = None if self.h is None else self.h[:count]
        found = self.representation.combine(self._next(count), steps, rows, self.scale, kept)
        if self.shift is not None:
            found += self.shift
        self.h = found if self.h is None else self.h
        return self.h

    def _next(self, count: int) -> Drawn:
        if not self.constant and self._kept < count:
            fresh = self.representation.weights([next(self.counters) for _ in range(max(count, self._ahead))])
            drawn = len(next(iter(fresh.values())))
            rest = {name: torch.cat([w[len(w) - self._kept :], fresh[name]]) for name, w in self._weights.items()}
            self._weights, self._kept = rest or fresh, self._kept + drawn
        found = {name: w[len(w) - self._kept :][:count] for name, w in self._weights.items()}
        self._kept -= count
        return found


class BatchOrder:
    """The rows of one training step after another, many steps at a time, and their labels.

    Args:
        rows: how many there are.
        size: of a batch; the last one of an epoch may be smaller.
        generator: for the order, on the CPU.
    """

    def __init__(self, rows: int, size: int, generator: torch.Generator, device: torch.device):
        self.rows, self.size, self.generator, self.device = rows, size, generator, device
        self._left = torch.zeros(0, size, dtype=torch.int64)

    def take(self, count: int) -> Tensor:
        """The next ``count`` batches, ``[count, size]``; a smaller one is filled up with row 0."""
        padding = torch.zeros(-self.rows % self.size, dtype=torch.int64)
        parts = [self._left]
        while sum(map(len, parts)) < count:
            order = torch.randperm(self.rows, generator=self.generator)
            parts.append(torch.cat([order, padding]).view(-1, self.size))
        found = torch.cat(parts)
        self._left = found[count:]
        return found[:count].to(self.device, non_blocking=True)
