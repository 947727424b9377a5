"""Mean zero and variance one, by the rows a layer was fitted on, which may come block after block."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn


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
        return torch.where(found > 1e-6 * (self.mean.square() + found.square()).sqrt(), found, 0.0)


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
            deviation = moments.deviation
            varies = deviation > 0
            self.mean.copy_(moments.mean)
            self.scale.copy_(torch.where(varies, 1.0 / deviation.where(varies, torch.ones_like(deviation)), 0.0))

    def forward(self, h: Tensor) -> Tensor:
        return (h - self.mean.to(h.dtype)) * self.scale.to(h.dtype)
