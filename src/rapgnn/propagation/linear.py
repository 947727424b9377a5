r"""The exact expectation as a linear map that is never written down.

.. math:: E[h^L] W = \sum_k S^k \sum_j E[c_{jk}] (h^0 W_j)

A head that is linear commutes with the hops: they run over as many columns as W has, however wide the features are.
"""

from functools import cached_property

import torch
from torch import Tensor

from rapgnn.graph.operator import GraphOperator
from rapgnn.propagation.polynomial import OnHop
from rapgnn.propagation.spec import Propagation, coefficient_covariance, expected_coefficients, stored_hops
from rapgnn.sparse import Features


class ExpectedMap:
    """E[h^L] of all nodes ``[n, J·d]``, by its products alone.

    Args:
        spec: the layers, without edge features; the caller has checked ``spec.obstacle``.
        operator: one graph whose rows are nodes.
        h: h⁰ ``[n, d]``, dense or sparse.
        on_hop: called after every hop.
    """

    def __init__(self, spec: Propagation, operator: GraphOperator, h: Features, on_hop: OnHop = lambda: None):
        assert operator.ptr is None
        assert not spec.rule.edges
        self.spec, self.operator, self.h, self.on_hop = spec, operator, h, on_hop
        self.outputs, self.channels = len(spec.outputs), h.shape[1]
        self._mean = torch.zeros(self.outputs, spec.num_layers + 1, dtype=torch.float64)
        self._mean[:, stored_hops(spec)] = expected_coefficients(spec)

    @property
    def width(self) -> int:
        """J·d, the columns of E[h^L]."""
        return self.outputs * self.channels

    def __matmul__(self, weight: Tensor) -> Tensor:
        """E[h^L] W ``[n, t]`` for W ``[J·d, t]``; Horner's rule, L hops of t columns."""
        matrix, columns = self.operator.matrix, weight.shape[1]
        flat = weight.view(self.outputs, self.channels, columns).transpose(0, 1).reshape(self.channels, -1)
        parts = (self.h @ flat).view(-1, self.outputs, columns)
        total = parts.new_zeros(len(parts), columns)
        for k in range(self.spec.num_layers, -1, -1):
            if k < self.spec.num_layers:
                total = matrix @ total
                total = total if self.spec.operator_scale == 1.0 else total.div_(self.spec.operator_scale)
                self.on_hop()
            for j, factor in enumerate(self._mean[:, k].tolist()):
                if factor:
                    total.add_(parts[:, j], alpha=factor)
        return total

    def transposed(self, rows: Tensor, values: Tensor) -> Tensor:
        """E[h^L]ᵀ U ``[J·d, t]`` for a U ``[n, t]`` that is zero but for the values ``[rows, t]`` in some rows."""
        total: list[Tensor] = []
        for k, hop in enumerate(self._backwards(rows, values)):
            for j, factor in enumerate(self._mean[:, k].tolist()):
                if k == 0:
                    total.append(factor * hop)
                elif factor:
                    total[j].add_(hop, alpha=factor)
        found = self._turned @ torch.cat(total, dim=1)
        return found.view(self.channels, self.outputs, -1).transpose(0, 1).reshape(self.width, -1)

    def hop_sums(self, rows: Tensor, values: Tensor) -> Tensor:
        """(S^k h⁰)ᵀ U ``[d, K, t]`` of every stored hop; U as in ``transposed``."""
        stored = set(stored_hops(self.spec))
        hops = (hop for k, hop in enumerate(self._backwards(rows, values)) if k in stored)
        return torch.stack([self._turned @ hop for hop in hops], dim=1)

    def from_hop_sums(self, sums: Tensor) -> Tensor:
        """What ``transposed`` gives, from ``hop_sums``."""
        mean = self._mean[:, stored_hops(self.spec)].to(sums)
        return torch.einsum("jk,dkt->jdt", mean, sums).reshape(self.width, -1)

    def scatter(self, gram: Tensor) -> Tensor:
        """The covariance between a channel's outputs ``[d, J, J]``, given the products ``[d, K, K]`` of its hops."""
        return torch.einsum("jkml,dkl->djm", coefficient_covariance(self.spec).to(gram), gram)

    @cached_property
    def _turned(self) -> Features:
        return self.h.T

    def _backwards(self, rows: Tensor, values: Tensor):
        """(Sᵀ)^k U, one hop after another."""
        matrix = self.operator.matrix.T
        hop = values.new_zeros(self.operator.num_rows, values.shape[1])
        hop[rows] = values
        for k in range(self.spec.num_layers + 1):
            if k:
                hop = matrix @ hop
                hop = hop if self.spec.operator_scale == 1.0 else hop.div_(self.spec.operator_scale)
            yield hop
