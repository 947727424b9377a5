r"""The hops of a few rows of wide sparse features, from the rows' side.

.. math:: (S^k X)_{rows} = (E_{rows} S^k) X

What is propagated is the choice of rows, as many columns as there are rows, however wide the features are. Rows of
which only the expectation is wanted meet the features once, after their hops are added up.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from rapgnn.graph.operator import GraphOperator
from rapgnn.propagation.coefficients import stored_hops
from rapgnn.propagation.hops import BLOCK_BYTES, WORTH_IT
from rapgnn.propagation.spec import Propagation
from rapgnn.sparse import Features, SparseMatrix

MARGIN = 1.5  # how much less it must be to count


def few_rows_pay(
    spec: Propagation, operator: GraphOperator, h: Features, rows: Tensor | None, expect: Tensor | None
) -> bool:
    """Whether going from the rows' side takes fewer multiply-adds than going by columns."""
    if rows is None or not isinstance(h, SparseMatrix) or operator.ptr is not None or spec.rule.edges:
        return False
    (n, d), few = h.shape, 0 if expect is None else len(expect)
    together, hops = len(rows) + few, spec.num_layers * operator.matrix.nnz
    if len(spec.outputs) > 1 or not together or hops * d < WORTH_IT or 4 * n * together > BLOCK_BYTES:
        return False
    return MARGIN * (hops * together + h.nnz * (len(stored_hops(spec)) * len(rows) + few)) < hops * d


class FewRows:
    """S^k X of some rows one hop after another, and in the end the expectation of others.

    Args:
        h: sparse features.
        mean: E[c_k] of the stored hops.
    """

    def __init__(
        self,
        spec: Propagation,
        operator: GraphOperator,
        h: SparseMatrix,
        rows: Tensor,
        expect: Tensor | None,
        mean: list[float],
    ):
        self.spec, self.backwards, self.features = spec, operator.matrix.T, h.T
        self.count, self.mean = len(rows), mean
        chosen = rows if expect is None else torch.cat([rows, expect])
        values = operator.matrix.values
        self._choice = values.new_zeros(h.shape[0], len(chosen))
        self._choice[chosen, torch.arange(len(chosen), device=chosen.device)] = 1.0
        self._total = torch.zeros_like(self._choice[:, self.count :])

    def walk(self) -> Iterator[tuple[int, Tensor]]:
        """(place in ``stored_hops``, ``[d, rows]``)."""
        place = {number: i for i, number in enumerate(stored_hops(self.spec))}
        choice = self._choice
        for k in range(self.spec.num_layers + 1):
            if k:
                choice = self.backwards @ choice
                if self.spec.operator_scale != 1.0:
                    choice = choice.div_(self.spec.operator_scale)
            if k in place:
                self._total.add_(choice[:, self.count :], alpha=self.mean[place[k]])
                yield place[k], self.features @ choice[:, : self.count].contiguous()

    def expected(self) -> Tensor:
        """The expectation ``[expect, d]``, after the walk."""
        return (self.features @ self._total).T
