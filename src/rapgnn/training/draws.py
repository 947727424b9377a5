"""What many training steps need, made at once: the representations of their draws, and the order of their batches."""

from collections.abc import Iterator

import torch
from torch import Tensor

from rapgnn.layers.heads import Head
from rapgnn.propagation.representation import Drawn, PolynomialRepresentation, Representation

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
        self._there = self._used = self._size = 0  # draws whose weights are there, how many are used up, made at a time
        self.constant = representation.embedded.constant
        # Whether a draw costs what the labelled rows cost, and not a pass over the graph.
        self.cheap = self.constant or isinstance(representation, PolynomialRepresentation)
        self.h: Tensor | None = None

    def fill(self, count: int, rows: Tensor | None = None) -> Tensor:
        """The next ``count`` draws, ``[count, rows, channels]`` (with no rows asked for and all draws the same: one).

        Args:
            rows: ``[count, B]``, which rows each draw is for; None: all.
        """
        if self.constant and rows is None and self.h is not None:
            return self.h
        # Layer by layer a draw may be large: only some of them are made at a time, so that memory stays small.
        most = count if self.cheap else min(count, self._ahead)
        for start in range(0, count, most):
            part = slice(start, min(start + most, count))
            steps = [next(self.steps) for _ in range(part.stop - start)]
            place = None if self.h is None else self.h[part]
            found = self.representation.combine(
                self._next(len(steps)), steps, None if rows is None else rows[part], self.scale, place
            )
            if self.shift is not None:
                found = found + self.shift if place is None else found.add_(self.shift)
            if self.h is None and most < count:
                self.h = found.new_empty(count, *found.shape[1:])
                self.h[part] = found
            self.h = found if self.h is None else self.h
        assert self.h is not None
        return self.h

    def _next(self, count: int) -> Drawn:
        if not self.constant and self._used == self._there:
            # Always as many: a captured drawing has one size.
            self._size = self._size or count * max(1, self._ahead // count)
            self._there, self._used = self._size, 0
            self._weights = self.representation.weights([next(self.counters) for _ in range(self._there)])
        mine = slice(self._used, min(self._used + count, self._there))
        found = {name: w[mine] for name, w in self._weights.items()}
        self._used = mine.stop
        if mine.stop - mine.start == count or self.constant:
            return found
        rest = self._next(count - (mine.stop - mine.start))
        return {name: torch.cat([w, rest[name]]) for name, w in found.items()}


class BatchOrder:
    """The rows of one training step after another, many steps at a time.

    Args:
        rows: how many there are.
        size: of a batch; the last one of an epoch may be smaller.
        generator: for the order, on the CPU.
    """

    def __init__(self, rows: int, size: int, generator: torch.Generator, device: torch.device):
        self.rows, self.size, self.generator, self.device = rows, size, generator, device
        self._left = torch.zeros(0, size, dtype=torch.int64, device="cpu")

    def take(self, count: int) -> Tensor:
        """The next ``count`` batches, ``[count, size]``; a smaller one is filled up with row 0."""
        padding = torch.zeros(-self.rows % self.size, dtype=torch.int64, device="cpu")
        parts = [self._left]
        while sum(map(len, parts)) < count:
            order = torch.randperm(self.rows, generator=self.generator, device="cpu")
            parts.append(torch.cat([order, padding]).view(-1, self.size))
        found = torch.cat(parts)
        self._left = found[count:]
        batches = found[:count].clone()
        return (batches.pin_memory() if self.device.type == "cuda" else batches).to(self.device, non_blocking=True)
