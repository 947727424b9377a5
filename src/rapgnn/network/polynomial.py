r"""The exact shortcut: a network of drawn diagonal layers is a random polynomial of S, channel by channel.

.. math:: h^L_{:,i} = \sum_k c_{k,i} S^k h^0_{:,i}

The hops S^k h⁰ are computed once and stored for the rows that are asked for; every later forward pass is a weighted sum
of them, with the coefficients of ``coefficients``. Sum and mean pooling commute with all of it, so for graph tasks a
stored row is a pooled graph. ``Propagation.obstacle`` says when this is not exact.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from rapgnn.fused import mix, mixes
from rapgnn.graph.operator import GraphOperator
from rapgnn.network.hops import Hops, bytes_of_block, hops, horner
from rapgnn.network.propagation import (
    Propagation,
    coefficient_covariance,
    coefficient_root,
    coefficients,
    expected_coefficients,
    stored_hops,
)
from rapgnn.sparse import Features

OnHop = Callable[[], None]


class PolynomialFilter:
    """The hops of the rows asked for, and every draw, the mean and the variance of the representation there.

    Args:
        e: the embedded edge types, where messages have edge features.
        rows: which nodes (or graphs) to store; None stores all.
        expect: rows of which only the expectation is wanted: computed on the same walk, it is ``self.expected``.
        cache: where the hops are, if another network has computed them; the caller has checked ``cache.suits``.
        on_hop: called after every hop of a block of columns.
    """

    def __init__(
        self,
        spec: Propagation,
        operator: GraphOperator,
        h: Features,
        rows: Tensor | None = None,
        expect: Tensor | None = None,
        e: Tensor | None = None,
        cache: Hops | None = None,
        on_hop: OnHop = lambda: None,
    ):
        self.spec = spec
        S, d = operator.matrix, h.shape[1]
        count = operator.num_rows if rows is None else len(rows)
        self.dtype, self.device = S.dtype, S.device
        # Channels outermost: a batch of draws is then one batched matrix product, and the hops are read once for it.
        # A GPU has a kernel of its own for that, which reads them row by row.
        shape, to = (d, len(stored_hops(spec)), count), {"dtype": S.dtype, "device": S.device}
        self._fused = mixes(S.values)
        self.hops = torch.empty(shape[::-1], **to).permute(2, 1, 0) if self._fused else torch.empty(shape, **to)
        mean = expected_coefficients(spec).tolist()
        outputs = len(spec.outputs)
        expected = S.values.new_zeros(0 if expect is None else len(expect), outputs, d)
        wanted = [rows] if expect is None else [rows, expect]
        walk = hops(spec, operator, h, wanted, e) if cache is None else cache.walk(spec, wanted)
        for columns, k, hop in walk:
            on_hop()
            self.hops[columns, k] = hop[0].T
            for j in range(outputs if expect is not None else 0):
                expected[:, j, columns] += hop[1] * mean[j][k]
        self.expected = expected.flatten(1)

    @property
    def channels(self) -> int:
        return self.hops.shape[0]

    def coefficients(self, counters: Sequence[int] | Tensor) -> Tensor:
        return coefficients(self.spec, counters, self.channels, device=self.device, dtype=self.dtype)

    def draw(self, counters: Sequence[int] | Tensor) -> Tensor:
        """The representation for T draws: ``[T, rows, J·d]`` (for J = 1 a view with the channels outermost)."""
        return self.combine(self.coefficients(counters))

    def combine(self, c: Tensor, rows: Tensor | None = None, out: Tensor | None = None) -> Tensor:
        """The representations ``[T, rows, J·d]`` for the coefficients ``[T, J, K, d]`` of T draws.

        Args:
            rows: ``[T, B]``, which of the stored rows each draw is for; None: all, in every draw.
            out: what an earlier call of the same shape has returned, to be written again.
        """
        T, J = c.shape[:2]
        if self._fused:
            return mix(c, self._by_row, rows, out)
        if rows is not None:
            return torch.stack([self.draw_batch(batch, one) for batch, one in zip(rows, c, strict=True)], out=out)
        mixing = c.flatten(0, 1).permute(2, 0, 1)  # [d, T·J, K]
        if J > 1:
            drawn = torch.bmm(mixing, self.hops).unflatten(1, (T, J)).permute(1, 3, 2, 0).flatten(2)
            return drawn if out is None else out.copy_(drawn)
        place: Any = None if out is None else out.permute(2, 0, 1)
        return torch.bmm(mixing, self.hops, out=place).permute(1, 2, 0)

    @cached_property
    def _by_row(self) -> Tensor:
        """The hops ``[rows, K, d]``; no copy where they lie so."""
        return self.hops.permute(2, 1, 0).contiguous()

    def draw_batch(self, rows: Tensor, c: Tensor) -> Tensor:
        """The representation ``[rows, J·d]`` of some of the stored rows, given a draw's coefficients ``[J, K, d]``."""
        stored = self._by_row.index_select(0, rows)
        if self.spec.one_hop and self.spec.jumping == "cat":
            return (stored * c.diagonal(dim1=0, dim2=1).T).flatten(1)
        if c.shape[:2] == (1, 1):
            return stored[:, 0] * c[0, 0]
        parts = []
        for weights, spans in zip(c, self._spans, strict=True):
            first, *edges = ((stored[:, span] * weights[span]).sum(1) for span in spans)
            parts.append(first + edges[0] if edges else first)
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)

    @cached_property
    def _spans(self) -> list[list[slice]]:
        """For every output which stored hops it has: of h⁰'s family, and of the edges'."""
        place = {number: i for i, number in enumerate(stored_hops(self.spec))}
        first = sum(number <= self.spec.num_layers for number in place)  # of the edges' family
        own = [slice(place[layer] if self.spec.bare else 0, place[layer] + 1) for layer in self.spec.outputs]
        edges = [[slice(first, first + n)] if self.spec.rule.edges and n else [] for n in self.spec.outputs]
        return [[one, *more] for one, more in zip(own, edges, strict=True)]

    def expectation(self, rows: slice = slice(None)) -> Tensor:
        mean = expected_coefficients(self.spec).to(self.device, self.dtype)
        return torch.einsum("jk,dkr->rjd", mean, self.hops[:, :, rows]).flatten(1)

    def variance(self, rows: slice = slice(None)) -> Tensor:
        covariance = coefficient_covariance(self.spec)
        own = torch.stack([covariance[j, :, j] for j in range(len(covariance))]).to(self.device, self.dtype)
        hops = self.hops[:, :, rows]
        weighted = torch.einsum("jkl,dlr->djkr", own, hops)
        return (weighted * hops[:, None]).sum(2).clamp_(min=0).permute(2, 1, 0).flatten(1)

    def scatter(self, rows: Tensor, weights: Tensor | None = None) -> Tensor:
        """The exact covariance between a channel's outputs, summed over some of the stored rows: ``[d, J, J]``.

        Args:
            weights: how often each of them counts.
        """
        covariance = coefficient_covariance(self.spec)
        hops = self.hops if len(rows) == self.hops.shape[2] else self.hops[:, :, rows]
        weighted = hops if weights is None else hops * weights.to(self.device, self.dtype)
        gram = (weighted @ hops.mT).double()
        return torch.einsum("jkml,dkl->djm", covariance.to(gram), gram)


def expectation_and_covariance(
    spec: Propagation,
    operator: GraphOperator,
    h: Features,
    rows: Tensor,
    e: Tensor | None = None,
    on_hop: OnHop = lambda: None,
) -> tuple[Tensor, Tensor]:
    """The exact expectation of the given rows, and the covariance of each channel's outputs, from one walk of hops.

    Shapes:
        expectation ``[rows, J·d]``; covariance ``[rows, P, d]``, the P = J(J + 1) / 2 pairs of outputs (j ≤ m) in the
        order of ``torch.triu_indices``.
    """
    S, d, K, J = operator.matrix, h.shape[1], len(stored_hops(spec)), len(spec.outputs)
    moments = HopMoments(spec, S.values)
    mean = S.values.new_empty(len(rows), J, d)
    covariance = S.values.new_empty(len(rows), J * (J + 1) // 2, d)
    stored: Tensor | None = None
    # Several hops of a block live at once here, so blocks are narrower: the whole is as large as elsewhere.
    for columns, k, (hop,) in hops(spec, operator, h, [rows], e, bytes_of_block(S.device) // max(1, K // 2)):
        on_hop()
        width = columns.stop - columns.start
        if stored is None or stored.shape[2] != width:
            stored = S.values.new_empty(K, len(rows), width)
        stored[k] = hop
        if k + 1 < K:
            continue
        step = max(1, (1 << 15) // width)  # rows whose hops stay near the processor
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            mean[part, :, columns], covariance[part, :, columns] = moments(stored[:, part])
    return mean.flatten(1), covariance


def expected_product(
    spec: Propagation, operator: GraphOperator, h: Features, weight: Tensor, on_hop: OnHop = lambda: None
) -> Tensor:
    r"""E[h^L] W ``[n, t]`` of all nodes for W ``[J·d, t]``: a linear head goes before the hops, however wide h⁰ is.

    .. math:: E[h^L] W = \sum_k S^k \sum_j E[c_{jk}] (h^0 W_j)

    By Horner's rule, L hops of t columns. The rows are nodes, and messages have no edge features.
    """
    outputs, channels, columns = len(spec.outputs), h.shape[1], weight.shape[1]
    mean = torch.zeros(outputs, spec.num_layers + 1, dtype=torch.float64)
    mean[:, stored_hops(spec)] = expected_coefficients(spec)
    flat = weight.view(outputs, channels, columns).transpose(0, 1).reshape(channels, -1)
    parts = (h @ flat).view(-1, outputs, columns)

    def part(k: int) -> Tensor | None:
        factors = mean[:, k].to(parts)
        return torch.einsum("njt,j->nt", parts, factors) if bool(factors.any()) or k == spec.num_layers else None

    def after(hop: Tensor) -> Tensor:
        on_hop()
        return hop if spec.operator_scale == 1.0 else hop.div_(spec.operator_scale)

    return horner(operator.matrix, spec.num_layers, part, after)


class HopMoments:
    """Hops ``[K, rows, w]`` -> their expectation ``[rows, J, w]``, and the covariance ``[rows, P, w]`` of outputs.

    Args:
        most: products of two factors that are held at once.
    """

    def __init__(self, spec: Propagation, like: Tensor, most: int = 1 << 27):
        self.outputs, self.most = len(spec.outputs), most
        root = coefficient_root(spec).permute(0, 2, 1)  # [J, f, K]
        self.factors = root.shape[1]
        self.mixing = torch.cat([expected_coefficients(spec), root.flatten(0, 1)]).to(like)
        self.first, self.second = torch.triu_indices(self.outputs, self.outputs)

    def __call__(self, stored: Tensor) -> tuple[Tensor, Tensor]:
        width, J = stored.shape[2], self.outputs
        mixed = self.mixing @ stored.reshape(len(stored), -1)
        deviations = mixed[J:].view(J, self.factors, -1, width)
        if len(self.first) * deviations[0].numel() <= self.most:
            covariance = (deviations[self.first] * deviations[self.second]).sum(1)
        else:  # of many outputs: a product of matrices for every entry holds no pair's factors
            by_entry = deviations.permute(2, 3, 0, 1)  # [rows, w, J, f]
            covariance = (by_entry @ by_entry.mT)[:, :, self.first, self.second].permute(2, 0, 1)
        return mixed[:J].view(J, -1, width).transpose(0, 1), covariance.transpose(0, 1)
