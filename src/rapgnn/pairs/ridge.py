"""A bilinear form of the nodes' features, solved in closed form over all pairs."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from rapgnn.prng import Stream, seeded

PENALTIES = (0.01, 0.1, 1.0, 10.0)  # relative to the mean variance of the features
RANK = 96  # of the form
AXES = 512  # directions in which the features vary most, that the form may use
GRAM_ROWS = 1 << 14  # nodes that the second moments are taken over
BLOCK = 1 << 14  # pairs whose products live at once

Factors = tuple[Tensor, Tensor, Tensor]
"""Left and right maps ``[penalties, c, rank]`` and the singular values between them ``[penalties, rank]``."""


class PairRidge(nn.Module):
    r"""Scores h_uᵀ M h_v of pairs, by ridge regression on all pairs at once, links counting 1 / √(degrees).

    .. math:: M = (HᵀH + λI)^{-1} (Hᵀ A H) (HᵀH + λI)^{-1}, \quad A = \sum_{links} (d_u d_v)^{-½} e_u e_vᵀ

    One score per penalty. The links' part is a sum over folds, so a fold is left out by a subtraction.

    Args:
        channels: c, the width of h: all hops of the features side by side.
    """

    mean: Tensor
    left: Tensor
    right: Tensor
    values: Tensor

    def __init__(self, channels: int):
        super().__init__()
        rank = min(RANK, channels)
        self.register_buffer("mean", torch.zeros(channels))
        self.register_buffer("left", torch.zeros(len(PENALTIES), channels, rank))
        self.register_buffer("right", torch.zeros(len(PENALTIES), channels, rank))
        self.register_buffer("values", torch.zeros(len(PENALTIES), rank))

    def fit(
        self, hops: Sequence[Tensor], links: Sequence[Tensor], weights: Sequence[Tensor], both: bool
    ) -> list[Factors]:
        """Fit to all folds; what comes back are the factors for each fold, of the other folds' links.

        Args:
            hops: of each fold, without its links ``[n, c]``.
            links: of each fold ``[m, 2]``.
            weights: how much each of them counts ``[m]``, or several targets side by side.
        """
        n = len(hops[0])
        rows = torch.randperm(n, generator=seeded(0, Stream.PROBES))[:GRAM_ROWS]
        sample = torch.cat([h[rows] for h in hops])
        self.mean.copy_(sample.mean(0))
        sample = sample - self.mean
        variances, axes = torch.linalg.eigh((sample.T @ sample).double())
        parts = []
        for h, pairs, weight in zip(hops, links, weights, strict=True):
            part = torch.zeros(len(self.mean), len(self.mean))
            for block in torch.arange(len(pairs)).split(BLOCK):
                u, v = pairs[block].T
                part += ((h[u] - self.mean) * weight[block, None]).T @ (h[v] - self.mean)
            parts.append(part + part.T if both else part)
        total = torch.stack(parts).sum(0)
        self.left, self.right, self.values = _factors(variances, axes, total, both)
        return [_factors(variances, axes, total - part, both) for part in parts]

    def scores(self, h: Tensor, pairs: Tensor, factors: Factors | None = None) -> Tensor:
        """One score per penalty ``[m, penalties]``."""
        left, right, values = factors or (self.left, self.right, self.values)
        parts = [torch.zeros(0, len(PENALTIES))]
        for block in pairs.split(BLOCK):
            sides = []
            for ends, maps in zip(block.T, (left, right), strict=True):
                nodes, place = torch.unique(ends, return_inverse=True)
                sides.append(torch.einsum("nc,pcr->npr", h[nodes] - self.mean, maps)[place])
            parts.append((sides[0] * values * sides[1]).sum(2))
        return torch.cat(parts)

    def maps(self, h: Tensor, penalty: int = 2) -> tuple[Tensor, Tensor]:
        """Two matrices ``[n, rank]`` whose rows' products are the scores of all pairs, for one of the penalties."""
        h = h - self.mean
        return h @ self.left[penalty] * self.values[penalty], h @ self.right[penalty]


def _factors(variances: Tensor, axes: Tensor, links: Tensor, both: bool) -> Factors:
    variances, axes = variances[-AXES:], axes[:, -AXES:]
    turned, parts = (axes.T @ links.double() @ axes).float(), []
    for penalty in PENALTIES:
        root = (variances.clamp(min=0) + penalty * variances.mean().clamp(min=1e-12)).rsqrt().float()
        form = root[:, None] * turned * root
        if both:  # as many operations as a quarter of the other
            values, left = torch.linalg.eigh(form)
            order = values.abs().argsort(descending=True)[:RANK]
            left, values = left[:, order], values[order]
            right = left
        else:
            left, values, right = torch.linalg.svd(form)
            left, values, right = left[:, :RANK], values[:RANK], right[:RANK].T
        parts.append((axes.float() @ (root[:, None] * left), axes.float() @ (root[:, None] * right), values))
    return tuple(torch.stack(part) for part in zip(*parts, strict=True))  # type: ignore[return-value]
