"""Some epochs of a head's training as pieces of work, each captured once and launched as a whole."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from rapgnn.captured import Captured, wake_backward
from rapgnn.graph.tasks import Objective
from rapgnn.layers.dropout import Masks, Noise
from rapgnn.layers.heads import Head
from rapgnn.models.config import Config


def copy_all(into: list[Tensor], tensors: list[Tensor]) -> None:
    """Tensors into others of their shapes, in one launch."""
    torch._foreach_copy_(into, tensors)  # type: ignore[reportPrivateImportUsage]


@dataclass(frozen=True)
class Piece:
    """Some steps of training: how many, how many random words they take, and the work."""

    steps: int
    words: int
    work: Captured


class Block:
    """The head's training as pieces of work, each some steps long and captured once.

    Args:
        head: what is trained.
        h: ``[steps, B, channels]``, or one for all steps: the buffer that the steps read.
        y: labels ``[rows]``, or, where steps take batches, a buffer ``[steps, B]``.
        sizes: rows of each step of an epoch.
        epochs: of the block.
        steps: of one captured graph, at most.
        validation: ``[epochs, rows, channels]``, or one for all epochs; None where there are no rows to validate on.
        generator: of the head's dropout.
    """

    def __init__(
        self,
        head: Head,
        objective: Objective,
        config: Config,
        h: Tensor,
        y: Tensor,
        sizes: Sequence[int],
        epochs: int,
        steps: int,
        validation: Tensor | None,
        generator: torch.Generator,
    ):
        self.head, self.objective = head, objective
        self.h, self.y, self.sizes, self.validation = h, y, sizes, validation
        wake_backward(h.device)
        self.parameters = [p for p in head.parameters() if p.requires_grad]
        self.state = [t.detach() for t in (*self.parameters, *head.buffers())]
        self.optimizer = torch.optim.Adam(
            self.parameters, lr=config.lr, weight_decay=config.weight_decay, fused=True, capturable=h.is_cuda
        )
        self.states = [t.new_empty(epochs, *t.shape) for t in self.state]
        rows = 0 if validation is None else validation.shape[1]
        self.scores = h.new_empty(epochs, rows, head.out_channels)
        parts = pieces(sizes, epochs, steps)
        words = {piece: sum(map(head.mlp.mask_words, piece)) for piece in parts}
        on_cpu = h.is_cuda and generator.device.type == "cpu"
        self.noise: Noise = Masks(generator, max(words.values()), h.device) if on_cpu else generator
        used = [] if on_cpu else [generator]
        works = {p: Captured(partial(self._steps, p), h.device, self._leave_no_trace, used) for p in words}
        self.pieces = [Piece(sum(size > 0 for size in piece), words[piece], works[piece]) for piece in parts]

    def run(self, piece: "Piece") -> None:
        """Some steps of training, which is all there is to launch."""
        if isinstance(self.noise, Masks):
            self.noise.refill(piece.words)
        piece.work()

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
        for kept in self.optimizer.state.values():
            for value in kept.values():
                value.zero_()
        if random is not None:
            noise.set_state(random)  # type: ignore[union-attr]

    def take(self, epoch: int, into: list[Tensor]) -> None:
        """The state after one of the block's epochs, into other tensors."""
        copy_all(into, [states[epoch] for states in self.states])

    def finish(self, state: list[Tensor]) -> None:
        """Give the head its final state."""
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
