"""The batches of all epochs of several networks, drawn beforehand, and bounds on their sizes."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from rapgnn.models.config import Config
from rapgnn.prng import Stream, seeded
from rapgnn.training.joined import Shape
from rapgnn.training.loop import shuffled

SHARES = (0.5, 0.85, 0.98, 1.0)  # of the steps, that have no more nodes than the first bound, the second ...
LARGE = 1 << 23  # numbers of a layer's output above which there is one bound for all: each takes memory of its own


class Orders:
    """Which graphs each network trains on in each step; drawn as ``fit_end_to_end`` draws them.

    Steps with about as many nodes share their bounds: with few bounds much of the work is padding, with many there is
    much to capture.

    Args:
        train: the training graphs of every network.
        config: batch size and epochs.
        seeds: of the order, one per network.
        nodes, entries: how many each graph has; the last one is padding and has none.

    Shapes:
        ids ``[epochs, steps, M, B]``, filled up with the number of the padding.
    """

    def __init__(self, train: Sequence[Tensor], config: Config, seeds: Sequence[int], nodes: Tensor, entries: Tensor):
        rows = max(map(len, train))
        size = min(rows, config.batch_size or rows)
        self.steps, self.padding = -(-rows // size), len(nodes) - 1
        shape = len(train), config.epochs, self.steps * size
        flat = torch.full(shape, self.padding, dtype=torch.int32, device="cpu")
        for mine, graphs, seed in zip(flat, train, seeds, strict=True):
            generator, graphs = seeded(seed, Stream.BATCHES), graphs.cpu().int()
            for epoch in mine:
                order = shuffled(len(graphs), config.batch_size, generator, graphs.device)
                epoch[: len(graphs)] = graphs[torch.cat(order)]
        self.ids = flat.view(*shape[:2], self.steps, size).permute(1, 2, 0, 3).contiguous()
        self.shapes = self._bounds(nodes, entries, len(train) * config.hidden_channels)

    def _bounds(self, nodes: Tensor, entries: Tensor, width: int) -> list[list[Shape]]:
        """The bounds of every step of every epoch."""
        counts = nodes[self.ids].sum(-1).amax(-1).clamp(min=1)  # [epochs, steps]
        sums = entries[self.ids].sum((-1, -2)).clamp(min=1)
        graphs = (self.ids[0] != self.padding).sum(-1).amax(-1)  # [steps], the same in every epoch
        found = [[Shape(0, 0, 0)] * self.steps for _ in counts]
        for many in graphs.unique().tolist():
            these = (graphs == many).nonzero()[:, 0]
            ordered = counts[:, these].flatten().sort().values
            shares = SHARES if int(ordered[-1]) * width <= LARGE else SHARES[-1:]
            bounds = ordered[[math.ceil(share * len(ordered)) - 1 for share in shares]].unique()
            level = torch.searchsorted(bounds, counts[:, these])
            most = [int(sums[:, these][level == number].max()) for number in range(len(bounds))]
            shapes = [Shape(many, bound, entry) for bound, entry in zip(bounds.tolist(), most, strict=True)]
            for row, levels in zip(found, level.tolist(), strict=True):
                for step, number in zip(these.tolist(), levels, strict=True):
                    row[step] = shapes[number]
        return found

    def examples(self) -> dict[Shape, tuple[int, int]]:
        """A step (its epoch and its number there) for each of the bounds."""
        return {shape: (epoch, step) for epoch, row in enumerate(self.shapes) for step, shape in enumerate(row)}


def padded(rows: Sequence[Tensor], padding: int) -> Tensor:
    """Numbers of graphs ``[M, B]``, filled up with ``padding``."""
    return torch.nn.utils.rnn.pad_sequence([part.cpu().long() for part in rows], True, padding)


def exact_shape(ids: Tensor, nodes: Tensor, entries: Tensor) -> Shape:
    """The bounds of one batch ``[M, B]``."""
    return Shape(ids.shape[1], max(1, int(nodes[ids].sum(1).max())), max(1, int(entries[ids].sum())))
