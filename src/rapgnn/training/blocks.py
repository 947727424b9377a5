"""Phase 2 in blocks of epochs that never wait for the processor.

A small head's step is a handful of kernels of a few microseconds each, far less than launching them takes. So the
representations of many steps are made at once, the steps of a block run as one captured graph that leaves the
validation scores and the trained state of every epoch behind, and the processor looks at these once per block. On a CPU
the same blocks run as plain calls; the plain loop is as fast there, and ``train_head`` takes that.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count
from typing import Any

import torch
from torch import Tensor

from rapgnn.captured import Captured, wake_backward
from rapgnn.device import free_memory
from rapgnn.graph.graph import Graph
from rapgnn.graph.tasks import Objective
from rapgnn.network.heads import Head
from rapgnn.network.mlp import Masks, Noise, dropout_generator
from rapgnn.network.rapgnn import RAPGNN
from rapgnn.network.representation import Drawn, PolynomialRepresentation, Representation
from rapgnn.network.weights import EVALUATION
from rapgnn.prng import Stream, seeded
from rapgnn.training.loop import BestEpoch, Loop, OnEpoch, summary

# What many training steps need, made at once: the representations of their draws, and the order of their batches.


DRAWN = 1 << 19  # random numbers that are drawn at a time


class Draws:
    """The representations of the training steps (or of the validation rows, epoch by epoch), many at a time.

    They lie in one buffer, which is written again for the next ones; the head's shift and scale are done already.

    Args:
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
        self._weights: Drawn = {}  # drawn and not used
        self._left = self._size = 0  # of how many draws; how many are made at a time
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
            drawn = self.representation.combine(
                self._next(len(steps)), steps, None if rows is None else rows[part], self.scale, place
            )
            if self.shift is not None:
                drawn = drawn + self.shift if place is None else drawn.add_(self.shift)
            if self.h is None and most < count:
                self.h = drawn.new_empty(count, *drawn.shape[1:])
                self.h[part] = drawn
            self.h = drawn if self.h is None else self.h
        assert self.h is not None
        return self.h

    def _next(self, count: int) -> Drawn:
        if self.constant:
            return {}
        # Always as many: a captured drawing has one size.
        self._size = self._size or count * max(1, self._ahead // count)
        while self._left < count:
            more = self.representation.weights([next(self.counters) for _ in range(self._size)])
            kept = self._weights if self._left else {}
            self._weights = {name: torch.cat([kept[name], w]) if kept else w for name, w in more.items()}
            self._left += self._size
        taken = {name: w[:count] for name, w in self._weights.items()}
        self._weights = {name: w[count:] for name, w in self._weights.items()}
        self._left -= count
        return taken


class BatchOrder:
    """The rows of one training step after another, many steps at a time."""

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
        order = torch.cat(parts)
        self._left = order[count:]
        batches = order[:count].clone()
        return (batches.pin_memory() if self.device.type == "cuda" else batches).to(self.device, non_blocking=True)


STEPS = 256  # of one captured graph, at most
BLOCK_BYTES = 256 << 20  # of what a block keeps: representations, states, scores; on a GPU a share of what is free


def head_dropout(model: RAPGNN, head: Head, rows: int, device: torch.device) -> torch.Generator:
    """Where the head's dropout in steps of so many rows takes its randomness."""
    return dropout_generator(model.seed, Stream.DROPOUT, device, 8 * head.mlp.mask_words(rows))


class Phase2:
    """What a block of epochs needs: the draws of ``TrainingBatches`` and ``ValidationRows``, many at a time.

    Args:
        expected: the validation rows' expectation, where it is what is judged; else draws of ``held_out`` are.
    """

    def __init__(
        self,
        model: RAPGNN,
        head: Head,
        graph: Graph,
        representation: Representation,
        expected: Tensor | None,
        held_out: Representation | None,
    ):
        config, weights, device, rows = model.config, model.spec.weights, graph.y.device, len(graph.train)
        size = min(config.batch_size or rows, rows)
        per_epoch = -(-rows // size)
        self.head, self.objective, self.config, self.output = head, graph.objective, config, model.output
        self.train = Draws(
            representation, head, (weights.counter(step, step // per_epoch) for step in count()), count()
        )
        self.y, self.y_val = model.output.standardise(graph.y[graph.train]), graph.y[graph.val]
        order = seeded(model.seed, Stream.BATCHES)
        self.order = None if per_epoch == 1 else BatchOrder(rows, size, order, device)
        self.validation: Draws | Tensor | None = expected if len(graph.val) else None
        if len(graph.val) and held_out is not None:
            counters = (weights.evaluation_counter(epoch) for epoch in count())
            self.validation = Draws(held_out, head, counters, count(EVALUATION))
        self.generator = head_dropout(model, head, size, device)

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
        return max(BLOCK_BYTES, free_memory(self.y.device) // 32 if self.y.is_cuda else 0)

    @property
    def steps(self) -> int:
        """The most steps of one captured graph: what fits, where an epoch is long."""
        words = 2 * self.head.mlp.mask_words(self.sizes[0])
        return max(1, min(STEPS, self.budget // (4 * (self.sizes[0] * self.head.input_scale.numel() + words))))

    def epochs(self, most: int) -> int:
        """How many epochs a block has: what fits, in blocks of one length."""
        sizes, held, head, wanted = self.sizes, self.validation, self.head, self.config.epochs
        channels, rows = head.input_scale.numel(), len(self.y_val)
        numbers = rows * head.out_channels + sum(t.numel() for t in head.state_dict().values())
        numbers += 0 if self.train.constant and self.order is None else len(sizes) * sizes[0] * channels
        numbers += rows * channels if isinstance(held, Draws) and not held.constant else 0
        numbers += 2 * sum(map(head.mlp.mask_words, sizes))
        # Passes over the graph are few at a time: none is made in vain when patience or time runs out.
        most = most if self.cheap else min(most, 8)
        fitting = min(most, wanted, max(1, STEPS // len(sizes)), max(1, self.budget // (4 * numbers)))
        return -(-wanted // -(-wanted // fitting))


@torch.enable_grad()  # also where a user has switched gradients off
def train_in_blocks(data: Phase2, on_epoch: OnEpoch | None = None, most: int = 64) -> Loop:
    """As ``optimise``, a block of epochs at a time; ``most`` of them. Validation counts as training time here."""
    sizes, order, held, config, objective = data.sizes, data.order, data.validation, data.config, data.objective
    epochs, steps = data.epochs(most), data.steps
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
    h, fixed = fill(slots), data.head.scaled(held)[None] if isinstance(held, Tensor) else None
    drawn = fill_validation()
    held_out = drawn if fixed is None else fixed
    block = Block(data, h, y, epochs, slots, held_out)
    start += Captured.seconds - captured  # which is no part of an epoch
    best, best_state = BestEpoch(objective, config.patience), [t.clone() for t in block.state]
    epoch_ms: list[float] = []
    filled, last = True, False
    try:
        while not (last or best.stop):
            if not filled:
                fill_validation()
            for number, words, work in block.pieces:
                if not filled:
                    fill(number)
                block.run(words, work)
                filled = False
            left = min(epochs, config.epochs - len(epoch_ms))
            last = len(epoch_ms) + left == config.epochs
            seen = None if held is None else _arriving(objective, data.output(block.scores), data.y_val)
            if not last and (data.cheap or config.patience is None):
                # Made while the processor waits for what it has to see of this block.
                fill(block.pieces[0][0])
                fill_validation()
                filled = True
            done, better = left, left - 1 if last else None
            if seen is not None:
                done, better = _look(best, seen()[:left])
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


def _arriving(objective: Objective, scores: Tensor, y: Tensor, most: int = 1 << 22) -> Callable[[], list[list[float]]]:
    """Metric and loss of every epoch of a block, on their way from the device; ``most`` scores are judged at a time."""
    parts = []
    for part in scores.split(max(1, most // max(1, scores[0].numel()))):
        losses = objective.loss_many(part, y).double()
        parts.append(torch.stack([objective.score_many(part, y).to(losses.device), losses], dim=1))
    seen = torch.cat(parts)
    if not seen.is_cuda:
        return seen.tolist
    host = torch.empty(seen.shape, dtype=seen.dtype, device="cpu", pin_memory=True).copy_(seen, non_blocking=True)
    event = torch.cuda.Event()
    event.record(torch.cuda.current_stream(seen.device))

    def values() -> list[list[float]]:
        event.synchronize()
        return host.tolist()

    return values


# Some epochs of a head's training as pieces of work, each captured once and launched as a whole.


copy_all: Any = torch._foreach_copy_  # type: ignore[reportPrivateImportUsage]


class Block:
    """The head's training as pieces of work, each some steps long and captured once.

    Args:
        h: ``[steps, B, channels]``, or one for all steps: the buffer that the steps read.
        steps: of one captured graph, at most.
        validation: ``[epochs, rows, channels]``, or one for all epochs; None where there are no rows to validate on.
    """

    def __init__(self, data: Phase2, h: Tensor, y: Tensor, epochs: int, steps: int, validation: Tensor | None):
        self.head, self.objective, self.sizes = data.head, data.objective, data.sizes
        self.h, self.y, self.validation = h, y, validation
        wake_backward(h.device)
        self.parameters = [p for p in self.head.parameters() if p.requires_grad]
        self.state = [t.detach() for t in (*self.parameters, *self.head.buffers())]
        how = {"lr": data.config.lr, "weight_decay": data.config.weight_decay}
        self.optimizer = torch.optim.Adam(self.parameters, **how, fused=True, capturable=h.is_cuda)
        self.states = [t.new_empty(epochs, *t.shape) for t in self.state]
        rows = 0 if validation is None else validation.shape[1]
        self.scores = h.new_empty(epochs, rows, self.head.out_channels)
        parts = pieces(self.sizes, epochs, steps)
        words = {piece: sum(map(self.head.mlp.mask_words, piece)) for piece in parts}
        generator = data.generator
        on_cpu = h.is_cuda and generator.device.type == "cpu"
        self.noise: Noise = Masks(generator, max(words.values()), h.device) if on_cpu else generator
        used = [] if on_cpu else [generator]
        works = {p: Captured(partial(self._steps, p), h.device, self._leave_no_trace, used) for p in words}
        self.pieces = [(sum(size > 0 for size in piece), words[piece], works[piece]) for piece in parts]
        """How many steps each has, how many random words they take, and the work."""

    def run(self, words: int, work: Captured) -> None:
        if isinstance(self.noise, Masks):
            self.noise.refill(words)
        work()

    def _steps(self, sizes: Sequence[int]) -> None:
        step = epoch = 0
        if isinstance(self.noise, Masks):
            self.noise.restart()
        for size in sizes:
            if size:
                self._step(step, size)
                step += 1
            else:
                self._keep(epoch)
                epoch += 1

    def _step(self, step: int, size: int) -> None:
        h = self.h[step if len(self.h) > 1 else 0]
        y = self.y[step] if len(self.sizes) > 1 else self.y
        scores, slope = self.head.mlp(h[:size], self.noise), self.objective.slope
        if slope is None:
            gradients = torch.autograd.grad(self.objective.loss(scores, y[:size]), self.parameters)
        else:  # a third of the kernels that the loss and its gradient by torch take
            gradients = torch.autograd.grad(scores, self.parameters, slope(scores.detach(), y[:size]))
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            parameter.grad = gradient
        self.optimizer.step()

    @torch.no_grad()
    def _keep(self, epoch: int) -> None:
        """What is left of an epoch: the state, and the validation rows' scores."""
        copy_all([states[epoch] for states in self.states], self.state)
        if self.validation is not None:
            h = self.validation[epoch if len(self.validation) > 1 else 0]
            self.scores[epoch] = self.head.mlp(h)

    def _leave_no_trace(self) -> None:
        before, noise = [t.clone() for t in self.state], self.noise
        random = None if isinstance(noise, Masks) else noise.get_state()
        for size in sorted(set(self.sizes)):  # every kernel that will be captured must have been loaded
            if isinstance(noise, Masks):
                noise.restart()
            self._step(0, size)
        self._keep(0)
        copy_all(self.state, before)
        for moments in self.optimizer.state.values():
            for value in moments.values():
                value.zero_()
        if random is not None:
            noise.set_state(random)  # type: ignore[union-attr]

    def take(self, epoch: int, into: list[Tensor]) -> None:
        copy_all(into, [states[epoch] for states in self.states])

    def finish(self, state: list[Tensor]) -> None:
        copy_all(self.state, state)
        for parameter in self.parameters:
            parameter.grad = None
        self.pieces.clear()  # they hold on to this block, and to memory of the GPU


def pieces(sizes: Sequence[int], epochs: int, most: int) -> list[tuple[int, ...]]:
    """The steps of a block by their sizes, a 0 after every epoch, in pieces of at most so many steps."""
    if epochs * len(sizes) <= most:
        return [(*sizes, 0) * epochs]
    assert epochs == 1
    parts = [tuple(sizes[start : start + most]) for start in range(0, len(sizes), most)]
    return [*parts[:-1], (*parts[-1], 0)]
