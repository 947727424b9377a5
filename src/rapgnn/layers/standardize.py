"""Columns with mean zero and variance one, by the rows a layer was fitted on.

``Standardize`` takes rows block after block, and a channel is constant by its own size. ``Standard`` takes all rows at
once, and a column is constant beside the others: hops of one feature have sizes that say something.
"""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

SMALLEST = 1e-6  # share of what a deviation is compared with up to which it is rounding


def inverse(deviation: Tensor, least: Tensor | float) -> Tensor:
    """1 / deviation; 0 for a channel that is constant: its deviation is not above ``least``."""
    return torch.where(deviation > least, 1.0 / deviation, 0.0)


class Moments:
    """Mean and variance of channels over rows that come block after block, in double precision."""

    def __init__(self, channels: int):
        self.count = 0
        self.mean = torch.zeros(channels, dtype=torch.float64)
        self.squares = torch.zeros(channels, dtype=torch.float64)  # summed squared distances from the mean

    def add(self, block: Tensor) -> None:
        """Take the rows ``[r, channels]`` of one more block."""
        if not len(block):
            return
        rows = block.double()
        here, before = rows.mean(0), self.count
        self.count += len(rows)
        self.mean, self.squares = self.mean.to(here.device), self.squares.to(here.device)
        shift = here - self.mean
        self.squares = self.squares + (rows - here).square().sum(0) + shift.square() * before * len(rows) / self.count
        self.mean = self.mean + shift * len(rows) / self.count

    @property
    def deviation(self) -> Tensor:
        """The standard deviation of each channel; zero where rounding is all there is."""
        found = (self.squares / max(1, self.count)).sqrt()
        return torch.where(found > SMALLEST * (self.mean.square() + found.square()).sqrt(), found, 0.0)


class Standardize(nn.Module):
    """(h - mean) / standard deviation of each channel; a channel that is constant becomes zero.

    Mean and scale are buffers, so rows of other graphs are shifted and scaled as the fitted ones were. Before ``fit``
    it changes nothing.
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, channels: int):
        super().__init__()
        self.register_buffer("mean", torch.zeros(channels, dtype=torch.float32))
        self.register_buffer("scale", torch.ones(channels, dtype=torch.float32))

    @torch.no_grad()
    def fit(self, blocks: Iterable[Tensor]) -> "Standardize":
        """Take mean and variance of the rows of all blocks, one block at a time."""
        moments = Moments(len(self.mean))
        for block in blocks:
            moments.add(block)
        self.take(moments)
        return self

    @torch.no_grad()
    def take(self, moments: Moments) -> None:
        """Make these the mean and variance; without a row nothing changes."""
        if moments.count:
            self.mean.copy_(moments.mean)
            self.scale.copy_(inverse(moments.deviation, 0.0))

    def forward(self, h: Tensor) -> Tensor:
        return (h - self.mean.to(h.dtype)) * self.scale.to(h.dtype)


class Standard(nn.Module):
    """Columns with mean 0 and variance 1 on the rows it was fitted on; constant columns become 0.

    Args:
        together: one variance for all columns, so that their sizes relative to each other stay.
    """

    shift: Tensor
    scale: Tensor

    def __init__(self, channels: int, together: bool = False):
        super().__init__()
        self.together = together
        self.register_buffer("shift", torch.zeros(channels, dtype=torch.float32))
        self.register_buffer("scale", torch.ones(channels, dtype=torch.float32))

    @torch.no_grad()
    def fit(self, z: Tensor) -> None:
        if not len(z) or not z.shape[1]:
            return
        mean = z.mean(0, dtype=torch.float64)
        square = (z - mean.to(z.dtype)).square().mean(0, dtype=torch.float64)
        if self.together:
            square = square.mean().expand_as(square)
        std = square.sqrt()
        self.shift.copy_(mean)
        self.scale.copy_(inverse(std, SMALLEST * std.amax()))

    def forward(self, z: Tensor) -> Tensor:
        return (z - self.shift.to(z.dtype)) * self.scale.to(z.dtype)
