r"""The exact shortcut: a network of drawn diagonal layers is a random polynomial of S, channel by channel.

.. math:: h^L_{:,i} = \sum_k c_{k,i} S^k h^0_{:,i}, \quad \sum_k c_{k,i} t^k = \prod_l ((s + a_i^{(l)}) + b_i^{(l)} t)

The hops S^k h⁰ are computed once and kept for the rows that are asked for; every later forward pass is a weighted sum
of them. Sum and mean pooling commute with all of it, so for graph tasks a kept row is a pooled graph. Messages with
non-negative edge embeddings make a layer affine, :math:`h ← b ⊙ (S h + E)`, and add a second family of hops, S^k E.
``Propagation.obstacle`` says when this is not exact.

Hops are divided by ``spec.operator_scale`` per step, which the coefficients take back, so that an operator that is not
normalised overflows neither.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property

import torch
from torch import Tensor

from rapgnn.graph.operator import Structure
from rapgnn.propagation.spec import Propagation
from rapgnn.sparse import Features, column_block

BLOCK_BYTES = 64 << 20  # of one n × block buffer while hopping


def bare(spec: Propagation) -> bool:
    """Whether layer l's output holds, of h⁰'s family, S^l h⁰ alone."""
    return not spec.skip and "root" not in spec.rule.terms


def kept_hops(spec: Propagation) -> list[int]:
    """Which entries of the coefficient vector can be other than zero: S^k h⁰ is number k, S^k E number L + 1 + k."""
    L = spec.num_layers
    first = list(spec.outputs) if bare(spec) else list(range(L + 1))
    return first + (list(range(L + 1, 2 * L + 1)) if spec.rule.edges else [])


def hops(
    spec: Propagation, structure: Structure, h: Features, e: Tensor | None = None
) -> Iterator[tuple[slice, int, Tensor]]:
    """The kept hops by blocks of columns: (columns, place in ``kept_hops``, ``[n, block]``). Two blocks are alive."""
    n, d = h.shape
    operator, L = structure.operator, spec.num_layers
    place = {number: i for i, number in enumerate(kept_hops(spec))}
    width = max(1, min(d, BLOCK_BYTES // max(1, 4 * n)))
    for start in range(0, d, width):
        columns = slice(start, min(d, start + width))
        families = [(0, L, column_block(h, columns.start, columns.stop).to(operator.dtype))]
        if spec.rule.edges:
            assert e is not None
            assert structure.edges is not None
            received = structure.edges.counts @ e[:, columns].to(operator.dtype).contiguous()
            families.append((L + 1, L - 1, received))
        for offset, last, hop in families:
            for k in range(last + 1):
                if k:
                    hop = operator @ hop
                    if spec.operator_scale != 1.0:
                        hop = hop.div_(spec.operator_scale)
                if offset + k in place:
                    yield columns, place[offset + k], hop


def coefficients(spec: Propagation, counters: Sequence[int] | Tensor, channels: int, **to) -> Tensor:
    """c for T draws at once, ``[T, J, K, d]``: J outputs, K kept hops; ``to`` names device and dtype."""
    drawn = spec.draw(counters, channels, **to)
    for weights in spec.further_factors(counters, channels, **to):
        drawn = {term: first * weights for term, first in drawn.items()}
    growth = spec.growth(channels)
    shrink, L = 1.0 / growth, spec.num_layers
    any_term = next(iter(drawn.values()))
    if spec.one_hop:  # a product of weights: no recurrence over hops
        raised = torch.cumprod(drawn["neighbour"] * (shrink * spec.operator_scale), dim=1)
        if spec.jumping == "last":
            return raised[:, -1, None, None]
        return torch.diag_embed(torch.cat([torch.ones_like(raised[:, :1]), raised], 1).mT).permute(0, 2, 3, 1)
    size = L + 1 + (L if spec.rule.edges else 0)
    c = any_term.new_zeros(len(any_term), size, channels)
    c[:, 0] = 1.0
    every = [c.clone()] if spec.jumping == "cat" else []
    for layer in range(L):
        keep: Tensor | float = spec.skip * shrink
        if "root" in drawn:
            keep = drawn["root"][:, layer, None] * shrink + keep
        weight = drawn["neighbour"][:, layer, None] * shrink
        raised = c[:, : layer + 1] * (weight * spec.operator_scale)
        raised_edges = c[:, L + 1 : L + 1 + layer] * (weight * spec.operator_scale)
        c *= keep
        c[:, 1 : layer + 2] += raised
        if spec.rule.edges:
            c[:, L + 2 : L + 2 + layer] += raised_edges
            c[:, L + 1] += weight[:, 0] * shrink**layer
        if spec.jumping == "cat":
            every.append(c.clone())
    outputs = torch.stack(every, dim=1) if spec.jumping == "cat" else c[:, None]
    kept = kept_hops(spec)
    return outputs if len(kept) == size else outputs[:, :, kept]


def coefficient_means(spec: Propagation) -> Tensor:
    """E[c] ``[J, K]``, float64: one draw with every weight at its mean."""
    mean = spec.weights.mean
    average = replace(spec.weights, structure="diagonal", distribution="uniform", params=(mean, mean))
    return coefficients(replace(spec, weights=average), [0], 1, dtype=torch.float64)[0, :, :, 0]


def coefficient_covariance(spec: Propagation) -> Tensor:
    """Cov[c] ``[J, K, J, K]``, float64, the same for every channel.

    One layer maps c to c' = u·c + b·(ω N c + γ δ) with u = s + a and b independent of c; N raises each family by one
    hop and γ δ brings E in. So first and second moments follow linear recurrences in E[u], E[b], E[u²], E[ub], E[b²].
    """
    shrink, L = 1.0 / spec.growth(1), spec.num_layers
    mean_a, mean_b = (m * shrink for m in spec.first_moments())
    variance = spec.weight_variance() * shrink * shrink
    u, b = spec.skip * shrink + mean_a, mean_b
    uu, ub, bb = u * u + (variance if "root" in spec.rule.terms else 0.0), u * b, b * b + variance
    size = 2 * L + 1
    raises = torch.zeros(size, size, dtype=torch.float64)
    for k in [*range(L), *range(L + 1, 2 * L)]:
        raises[k + 1, k] = spec.operator_scale
    enters = torch.zeros(size, dtype=torch.float64)
    mean, second = torch.zeros(size, dtype=torch.float64), torch.zeros(size, size, dtype=torch.float64)
    mean[0] = second[0, 0] = 1.0
    means, seconds = [mean], {(0, 0): second}
    for layer in range(L):
        if spec.rule.edges:
            enters[L + 1] = shrink**layer
        step = u * torch.eye(size, dtype=torch.float64) + b * raises
        new_mean = step @ mean + b * enters
        raised_mean = raises @ mean
        entering = torch.outer(raised_mean, enters)
        cross = second @ raises.T + torch.outer(mean, enters)  # E[c y'], y what the weight b multiplies
        square = raises @ second @ raises.T + entering + entering.T + torch.outer(enters, enters)
        for j in range(layer + 1) if spec.jumping == "cat" else ():
            seconds[layer + 1, j] = step @ seconds[layer, j] + b * torch.outer(enters, means[j])
        second = uu * second + ub * (cross + cross.T) + bb * square
        mean = new_mean
        means.append(mean)
        seconds[layer + 1, layer + 1] = second
    kept, outputs = kept_hops(spec), list(spec.outputs)
    covariance = torch.empty(len(outputs), len(kept), len(outputs), len(kept), dtype=torch.float64)
    for p, i in enumerate(outputs):
        for q, j in enumerate(outputs):
            both = seconds[i, j] if i >= j else seconds[j, i].T
            covariance[p, :, q] = (both - torch.outer(means[i], means[j]))[kept][:, kept]
    return covariance


class PolynomialFilter:
    """The hops of the rows asked for, and every draw, the mean and the variance of the representation there.

    Args:
        spec: the layers; the caller has checked ``spec.obstacle``.
        structure: the graph.
        h: h⁰ ``[n, d]``, dense or sparse.
        e: the embedded edge types, where messages have edge features.
        rows: which nodes (or graphs) to keep; None keeps all.
        average: rows of which only the mean is wanted: computed on the same walk, kept as ``self.averaged``.
    """

    def __init__(
        self,
        spec: Propagation,
        structure: Structure,
        h: Features,
        rows: Tensor | None = None,
        average: Tensor | None = None,
        e: Tensor | None = None,
    ):
        self.spec = spec
        operator, d = structure.operator, h.shape[1]
        count = structure.num_rows if rows is None else len(rows)
        # Channels outermost: a batch of draws is then one batched matrix product, and the hops are read once for it.
        self.hops = torch.empty(d, len(kept_hops(spec)), count, dtype=operator.dtype, device=operator.device)
        self._by_row: Tensor | None = None
        mean = coefficient_means(spec).tolist()
        outputs = len(spec.outputs)
        averaged = self.hops.new_zeros(0 if average is None else len(average), outputs, d)
        for columns, k, hop in hops(spec, structure, h, e):
            pooled = structure.pool(hop, spec.pooling)
            self.hops[columns, k] = (pooled if rows is None else pooled[rows]).T
            if average is not None:
                for j in range(outputs):
                    averaged[:, j, columns] += pooled[average] * mean[j][k]
        self.averaged = averaged.flatten(1)

    @property
    def channels(self) -> int:
        return self.hops.shape[0]

    def coefficients(self, counters: Sequence[int] | Tensor) -> Tensor:
        """``[T, J, K, d]`` beside the hops."""
        return coefficients(self.spec, counters, self.channels, device=self.hops.device, dtype=self.hops.dtype)

    def draw(self, counters: Sequence[int] | Tensor) -> Tensor:
        """The representation for T draws: ``[T, rows, J·d]`` (for J = 1 a view with the channels outermost)."""
        c = self.coefficients(counters)
        drawn = torch.bmm(c.flatten(0, 1).permute(2, 0, 1), self.hops).unflatten(1, c.shape[:2])  # [d, T, J, rows]
        if c.shape[1] == 1:
            return drawn[:, :, 0].permute(1, 2, 0)
        return drawn.permute(1, 3, 2, 0).flatten(2)

    def draw_batch(self, rows: Tensor, c: Tensor) -> Tensor:
        """The representation ``[rows, J·d]`` of some of the kept rows, given a draw's coefficients ``[J, K, d]``."""
        if self._by_row is None:
            self._by_row = self.hops.permute(2, 1, 0).contiguous()
        kept = self._by_row.index_select(0, rows)
        if self.spec.one_hop and self.spec.jumping == "cat":
            return (kept * c.diagonal(dim1=0, dim2=1).T).flatten(1)
        if c.shape[:2] == (1, 1):
            return kept[:, 0] * c[0, 0]
        parts = []
        for weights, (first, stop, edges) in zip(c, self._spans, strict=True):
            part = (kept[:, first:stop] * weights[first:stop]).sum(1)
            if edges:
                span = slice(self._edge_hops, self._edge_hops + edges)
                part = part + (kept[:, span] * weights[span]).sum(1)
            parts.append(part)
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)

    @cached_property
    def _edge_hops(self) -> int:
        """Where the hops of the edges' family begin among the kept ones."""
        return sum(number <= self.spec.num_layers for number in kept_hops(self.spec))

    @cached_property
    def _spans(self) -> list[tuple[int, int, int]]:
        """For every output which kept hops it has: the first and last of h⁰'s family, and how many of the edges'."""
        place = {number: i for i, number in enumerate(kept_hops(self.spec))}
        spans = []
        for layer in self.spec.outputs:
            first = place[layer] if bare(self.spec) else 0
            spans.append((first, place[layer] + 1, layer if self.spec.rule.edges else 0))
        return spans

    def mean(self) -> Tensor:
        """The exact expectation: ``[rows, J·d]``."""
        mean = coefficient_means(self.spec)
        return torch.einsum("jk,dkr->rjd", mean.to(self.hops), self.hops).flatten(1)

    def variance(self) -> Tensor:
        """The exact variance, entry by entry: ``[rows, J·d]``."""
        covariance = coefficient_covariance(self.spec)
        own = torch.stack([covariance[j, :, j] for j in range(len(covariance))]).to(self.hops)
        spread = torch.einsum("jkl,dlr->djkr", own, self.hops)
        return (spread * self.hops[:, None]).sum(2).clamp_(min=0).permute(2, 1, 0).flatten(1)

    def scatter(self, rows: Tensor) -> Tensor:
        """The exact covariance between a channel's outputs, summed over some of the kept rows: ``[d, J, J]``."""
        covariance = coefficient_covariance(self.spec)
        hops = self.hops[:, :, rows].double()
        gram = hops @ hops.mT
        return torch.einsum("jkml,dkl->djm", covariance.to(gram), gram)


def expected(spec: Propagation, structure: Structure, h: Features, rows: Tensor, e: Tensor | None = None) -> Tensor:
    """The exact expectation of the given rows without keeping the hops: ``[rows, J·d]``."""
    return PolynomialFilter(spec, structure, h, rows[:0], average=rows, e=e).averaged
