"""Columns with mean zero and variance one, by the rows a layer was fitted on.

``Standardize`` takes rows block after block, and a channel is constant by its own size. ``Standard`` takes all rows at
once, and a column is constant beside the others: hops of one feature have sizes that say something.
"""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from rapgnn.errors import check_choice
from rapgnn.prng import Stream, seeded
from rapgnn.sparse import Features, SparseMatrix, dense, row_sums

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


# What is done to node features before they are propagated, and what is added to them of the node's place.


TREATMENTS = ("none", "length", "tfidf", "standard")
"""As they are; rows by their length; rare words count more, then length; columns with mean 0 and variance 1."""

DEGREES = 6  # 0, 1, 2, 3, 4 and more neighbours
PLACES = DEGREES + 2  # columns that tell a node's place: these, and the logarithms of both degrees


class Treatment(nn.Module):
    """Features ``[n, c]`` -> ``[n, width]``; what it learns of the features is kept for other graphs.

    Args:
        kind: a name from ``TREATMENTS``.
        in_channels: c.
        sketch: keep only so many directions, those in which the features vary most; 0: all columns.
    """

    weight: Tensor
    shift: Tensor
    basis: Tensor

    def __init__(self, kind: str, in_channels: int, sketch: int = 0, seed: int = 0):
        super().__init__()
        check_choice("treatment of the features", kind, TREATMENTS)
        self.kind, self.sketch, self.seed = kind, sketch, seed
        self.width = sketch or in_channels
        if kind in ("tfidf", "standard"):
            self.register_buffer("weight", torch.ones(in_channels, dtype=torch.float32))
        if kind == "standard":
            self.register_buffer("shift", torch.zeros(in_channels, dtype=torch.float32))
        if sketch:
            self.register_buffer("basis", torch.zeros(in_channels, sketch, dtype=torch.float32))

    @torch.no_grad()
    def fit(self, x: Features) -> None:
        """Learn from features, never from labels."""
        n = max(1, x.shape[0])
        if self.kind == "tfidf":
            self.weight.copy_(torch.log((1 + n) / (1 + _filled(x))) + 1)
        elif self.kind == "standard":
            table = dense(x).double()
            std = table.std(0, correction=0) if len(table) else torch.ones(x.shape[1], dtype=torch.float64)
            self.weight.copy_(inverse(std, 1e-7 * std.amax()) if len(std) else std)
            self.shift.copy_(table.mean(0) if len(table) else torch.zeros_like(std))
        if self.sketch:
            self.basis.copy_(_directions(self._treated(x), self.sketch, self.seed))

    @torch.no_grad()
    def forward(self, x: Features) -> Features:
        treated = self._treated(x)
        return treated @ self.basis.to(treated.dtype) if self.sketch else treated

    def _treated(self, x: Features) -> Features:
        if self.kind == "standard":
            return (dense(x) - self.shift.to(x.dtype)) * self.weight.to(x.dtype)
        if self.kind == "tfidf":
            weight = self.weight.to(x.dtype)
            x = x.with_values(x.values * weight[x.col.long()]) if isinstance(x, SparseMatrix) else x * weight
        return x if self.kind == "none" else _by_length(x)


def _filled(x: Features) -> Tensor:
    """How many rows have an entry in each column."""
    if isinstance(x, SparseMatrix):
        return torch.bincount(x.col[x.values != 0].long(), minlength=x.shape[1]).double()
    return (x != 0).sum(0).double()


def _by_length(x: Features) -> Features:
    """Each row divided by its Euclidean length; rows of zeros stay."""
    if not isinstance(x, SparseMatrix):
        return x / x.norm(dim=1, keepdim=True).clamp(min=torch.finfo(x.dtype).tiny)
    length = row_sums(x.crow, x.values.square()).sqrt()
    share = 1 / torch.where(length > 0, length, torch.ones_like(length))
    return x.with_values(x.values * torch.repeat_interleave(share, x.crow.diff(), output_size=x.nnz))


def _directions(x: Features, count: int, seed: int) -> Tensor:
    """An orthonormal basis of XᵀX R, R random: a step of the randomised range finder (Halko, Martinsson, Tropp, 2011).

    Turned at random, so that every column has about the same share of the features: weights are drawn per column.
    """
    generator = seeded(seed, Stream.SKETCH)
    start, turn = (torch.randn(rows, count, generator=generator, dtype=torch.float32) for rows in (x.shape[1], count))
    start, turn = (part.to(device=x.device, dtype=x.dtype) for part in (start, torch.linalg.qr(turn)[0]))
    turned = x.T if isinstance(x, SparseMatrix) else x.T.contiguous()
    towards = torch.cat([turned @ (x @ part.contiguous()) for part in start.split(64, dim=1)], dim=1)
    return torch.linalg.qr(towards)[0] @ turn


def place_columns(edge_index: Tensor, num_nodes: int, like: Tensor) -> Tensor:
    """Of every node: the logarithms of how many edges it receives and sends, and small numbers of them one by one."""
    edges = edge_index.to(like.device)
    sent, received = (torch.bincount(side, minlength=num_nodes) for side in edges)
    one_hot = nn.functional.one_hot(received.clamp(max=DEGREES - 1), DEGREES)
    return torch.cat([torch.stack([received, sent], 1).to(like.dtype).log1p(), one_hot.to(like.dtype)], dim=1)
