"""What is done to features before they are propagated: scaling, components, degree columns; columns of one size."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from rapgnn.errors import check_choice
from rapgnn.prng import Stream, seeded
from rapgnn.sparse import Features, SparseMatrix, dense, row_sums

SMALLEST = 1e-6  # share of what a deviation is compared with up to which it is rounding


def inverse(deviation: Tensor, least: Tensor | float) -> Tensor:
    """1 / deviation; 0 for a channel that is constant: its deviation is not above ``least``."""
    return torch.where(deviation > least, 1.0 / deviation, 0.0)


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


DEGREES = 6  # 0, 1, 2, 3, 4 and more neighbours
DEGREE_COLUMNS = DEGREES + 2  # these, and the logarithms of both degrees


@dataclass(frozen=True)
class Scaling:
    """How features are scaled.

    Args:
        weights: features -> what each column is multiplied with ``[c]``, learned on the training graph.
        standard: give each column mean 0 and variance 1.
        by_length: divide each row by its Euclidean length, at last.
    """

    weights: Callable[[Features], Tensor] | None = None
    standard: bool = False
    by_length: bool = False


def _rarity(x: Features) -> Tensor:
    """The smoothed inverse document frequency of each column."""
    n = max(1, x.shape[0])
    return torch.log((1 + n) / (1 + _filled(x))) + 1


SCALINGS = {
    "none": Scaling(),
    "length": Scaling(by_length=True),
    "tfidf": Scaling(weights=_rarity, by_length=True),
    "standard": Scaling(standard=True),
}
"""The scalings by name; a new one is a row here."""


class FeatureScaling(nn.Module):
    """Features ``[n, c]`` -> ``[n, width]``; what it learns of the features serves other graphs.

    Args:
        kind: a name from ``SCALINGS``.
        in_channels: c.
        components: keep only so many, those in which the features vary most; 0: all columns.
    """

    weight: Tensor
    basis: Tensor

    def __init__(self, kind: str, in_channels: int, components: int = 0, seed: int = 0):
        super().__init__()
        check_choice("scaling of the features", kind, SCALINGS)
        self.kind, self.components, self.seed = SCALINGS[kind], components, seed
        self.width = components or in_channels
        if self.kind.weights is not None:
            self.register_buffer("weight", torch.ones(in_channels, dtype=torch.float32))
        self.standard = Standard(in_channels) if self.kind.standard else None
        if components:
            self.register_buffer("basis", torch.zeros(in_channels, components, dtype=torch.float32))

    @torch.no_grad()
    def fit(self, x: Features) -> None:
        """Learn from features, never from labels."""
        if self.kind.weights is not None:
            self.weight.copy_(self.kind.weights(x))
        if self.standard is not None:
            self.standard.fit(dense(x))
        if self.components:
            self.basis.copy_(principal_components(self._scaled(x), self.components, self.seed))

    @torch.no_grad()
    def forward(self, x: Features) -> Features:
        scaled = self._scaled(x)
        return scaled @ self.basis.to(scaled.dtype) if self.components else scaled

    def _scaled(self, x: Features) -> Features:
        if self.kind.weights is not None:
            weight = self.weight.to(x.dtype)
            x = x.with_values(x.values * weight[x.col.long()]) if isinstance(x, SparseMatrix) else x * weight
        if self.standard is not None:
            x = self.standard(dense(x))
        return _by_length(x) if self.kind.by_length else x


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


def principal_components(x: Features, count: int, seed: int) -> Tensor:
    """An orthonormal basis of XᵀX R, R random: a step of the randomised range finder (Halko, Martinsson, Tropp, 2011).

    Turned at random, so that every column has about the same share of the features: weights are drawn per column.
    """
    generator = seeded(seed, Stream.SKETCH)
    start, turn = (torch.randn(rows, count, generator=generator, dtype=torch.float32) for rows in (x.shape[1], count))
    start, turn = (part.to(device=x.device, dtype=x.dtype) for part in (start, torch.linalg.qr(turn)[0]))
    turned = x.T if isinstance(x, SparseMatrix) else x.T.contiguous()
    towards = torch.cat([turned @ (x @ part.contiguous()) for part in start.split(64, dim=1)], dim=1)
    return torch.linalg.qr(towards)[0] @ turn


def degree_columns(edge_index: Tensor, num_nodes: int, like: Tensor) -> Tensor:
    """Of every node: the logarithms of how many edges it receives and sends, and small numbers of them one by one."""
    edges = edge_index.to(like.device)
    sent, received = (torch.bincount(side, minlength=num_nodes) for side in edges)
    one_hot = nn.functional.one_hot(received.clamp(max=DEGREES - 1), DEGREES)
    return torch.cat([torch.stack([received, sent], 1).to(like.dtype).log1p(), one_hot.to(like.dtype)], dim=1)
