r"""The exact shortcut: a network of drawn diagonal layers is a random polynomial of S, channel by channel.

.. math:: h^L_{:,i} = \sum_k c_{k,i} S^k h^0_{:,i}, \quad \sum_k c_{k,i} t^k = \prod_l ((s + a_i^{(l)}) + b_i^{(l)} t)

The hops S^k h⁰ are computed once and kept for the rows that are asked for; every later forward pass is a weighted sum
of them. ``Propagation.obstacle`` says when this is not exact.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from rapgnn.propagation import Propagation
from rapgnn.spmm import Features, SparseMatrix, column_block

BLOCK_BYTES = 64 << 20  # of one n × block buffer while hopping


def hops(spec: Propagation, operator: SparseMatrix, h: Features) -> Iterator[tuple[slice, int, Tensor]]:
    """S^k h⁰ for k = 0 … L in blocks of columns: (columns, k, ``[n, block]``). Two blocks are alive at a time."""
    n, d = h.shape
    width = max(1, min(d, BLOCK_BYTES // max(1, 4 * n)))
    for start in range(0, d, width):
        columns = slice(start, min(d, start + width))
        hop = column_block(h, columns.start, columns.stop).to(operator.dtype)
        yield columns, 0, hop
        for k in range(1, spec.num_layers + 1):
            hop = operator @ hop
            yield columns, k, hop


def coefficients(spec: Propagation, counters: Sequence[int] | Tensor, channels: int, **to) -> Tensor:
    """c for T draws at once, ``[T, L + 1, d]``; ``to`` names device and dtype."""
    drawn = spec.draw(counters, channels, **to)
    shrink = 1.0 / spec.growth(channels)
    any_term = next(iter(drawn.values()))
    c = any_term.new_zeros(len(any_term), spec.num_layers + 1, channels)
    c[:, 0] = 1.0
    for layer in range(spec.num_layers):
        keep: Tensor | float = spec.skip * shrink
        if "root" in drawn:
            keep = drawn["root"][:, layer, None] * shrink + keep
        raised = c[:, : layer + 1] * (drawn["neighbour"][:, layer, None] * shrink)
        c[:, : layer + 1] *= keep
        c[:, 1 : layer + 2] += raised
    return c


def coefficient_moments(spec: Propagation) -> tuple[Tensor, Tensor]:
    """E[c] ``[L + 1]`` and Cov[c] ``[L + 1, L + 1]``, float64, the same for every channel.

    One layer maps c to c' = u·c + b·shift(c) with u = s + a, b independent of c, so first and second moments follow
    linear recurrences in E[u], E[b], E[u²], E[ub], E[b²].
    """
    shrink = 1.0 / spec.growth(1)
    mean_a, mean_b = (m * shrink for m in spec.first_moments())
    variance = (spec.weights.second_moment - spec.weights.mean**2) * shrink * shrink
    u, b = spec.skip * shrink + mean_a, mean_b
    uu, ub, bb = u * u + (variance if "root" in spec.rule.terms else 0.0), u * b, b * b + variance
    size = spec.num_layers + 1
    mean = torch.zeros(size, dtype=torch.float64)
    second = torch.zeros(size, size, dtype=torch.float64)
    mean[0] = second[0, 0] = 1.0
    for _ in range(spec.num_layers):
        raised = torch.roll(mean, 1)
        down, across = torch.roll(second, 1, 0), torch.roll(second, 1, 1)
        # The last entry is still zero before the last layer, so rolling it around to the front adds nothing.
        mean = u * mean + b * raised
        second = uu * second + ub * (down + across) + bb * torch.roll(second, (1, 1), (0, 1))
    return mean, second - torch.outer(mean, mean)


class PolynomialFilter:
    """The hops of the rows asked for, and every draw, the mean and the variance of h^L there.

    Args:
        spec: the layers; the caller has checked ``spec.obstacle``.
        operator: S.
        h: h⁰ ``[n, d]``, dense or sparse.
        rows: which nodes to keep; None keeps all.
        average: nodes of which only E[h^L] is wanted: computed on the same walk, kept as ``self.averaged``.
    """

    def __init__(
        self,
        spec: Propagation,
        operator: SparseMatrix,
        h: Features,
        rows: Tensor | None = None,
        average: Tensor | None = None,
    ):
        self.spec = spec
        count = h.shape[0] if rows is None else len(rows)
        # Channels outermost: a batch of draws is then one batched matrix product, and the hops are read once for it.
        self.hops = torch.empty(h.shape[1], spec.num_layers + 1, count, dtype=operator.dtype, device=operator.device)
        mean = coefficient_moments(spec)[0].tolist()
        self.averaged = self.hops.new_zeros(0 if average is None else len(average), h.shape[1])
        for columns, k, hop in hops(spec, operator, h):
            self.hops[columns, k] = (hop if rows is None else hop[rows]).T
            if average is not None:
                self.averaged[:, columns] += hop[average] * mean[k]

    @property
    def channels(self) -> int:
        return self.hops.shape[0]

    def draw(self, counters: Sequence[int] | Tensor) -> Tensor:
        """h^L for T draws: ``[T, rows, d]`` (a view with the channels outermost in memory)."""
        c = coefficients(self.spec, counters, self.channels, device=self.hops.device, dtype=self.hops.dtype)
        return torch.bmm(c.permute(2, 0, 1), self.hops).permute(1, 2, 0)

    def mean(self) -> Tensor:
        """E[h^L], exact: ``[rows, d]``."""
        mean, _ = coefficient_moments(self.spec)
        return torch.einsum("k,dkr->rd", mean.to(self.hops), self.hops)

    def variance(self) -> Tensor:
        """Var[h^L], exact, entry by entry: ``[rows, d]``."""
        _, covariance = coefficient_moments(self.spec)
        spread = torch.einsum("kl,dlr->dkr", covariance.to(self.hops), self.hops)
        return (spread * self.hops).sum(1).clamp_(min=0).T


def expected(spec: Propagation, operator: SparseMatrix, h: Features, rows: Tensor) -> Tensor:
    """E[h^L] of the given rows without keeping the hops: ``[rows, d]``."""
    return PolynomialFilter(spec, operator, h, rows[:0], average=rows).averaged
