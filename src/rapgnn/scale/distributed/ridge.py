r"""The ridge head's equations from sums over the rows of all workers.

.. math:: \sum_w \Bigl( G_w + n_w (c_w - c)(c_w - c)^T \Bigr), \qquad c = \sum_w n_w c_w / \sum_w n_w

is the Gram matrix around the common mean c, given every worker's own around its mean c_w, for n_w rows.
"""

import torch
from torch import Tensor

from rapgnn.layers.ridge import RidgeHead, same_gaps
from rapgnn.layers.ridge_problem import RidgeSums
from rapgnn.scale.distributed.group import Workers
from rapgnn.scale.ridge_sums import StreamedRidge, ridge_sums
from rapgnn.scale.stored import StoredRows


class SharedRidge(StreamedRidge):
    """A ``training.solve.Problem`` whose rows lie on several workers; all of them solve it.

    Args:
        train, val: this worker's shares of the rows.
        targets: of all training rows ``[rows, t]``, on every worker; NaN where unknown.
        weights: of all training rows; None: all the same.
        own: this worker's share of the training rows.
    """

    def __init__(
        self,
        workers: Workers,
        train: StoredRows,
        val: StoredRows,
        targets: Tensor,
        weights: Tensor | None,
        own: slice,
    ):
        super().__init__(train, val, targets, weights)
        self.workers, self.own = workers, own

    def sums(self) -> list[RidgeSums]:
        return [self._sums(columns) for columns, _ in same_gaps(self.targets)]

    def held_out(self, head: RidgeHead) -> Tensor:
        return self.workers.gather_all(super().held_out(head))

    def _sums(self, columns: list[int]) -> RidgeSums:
        """Of labels that are known for the same rows."""
        mine = self.targets[self.own][:, columns]
        weights = None if self.weights is None else self.weights[self.own]
        known = (~mine[:, 0].isnan()).double()
        mass = (known if weights is None else known * weights.double()).sum()
        found = ridge_sums(self.train, mine, weights) if bool(known.any()) and float(mass) > 0 else []
        own = found[0] if found else self._nothing(len(columns))
        total = self._total(mass)
        center, level = self._total(mass * own.center) / total, self._total(mass * own.level) / total
        apart = own.center - center
        gram = self._total(own.gram + mass * torch.outer(apart, apart))
        right = self._total(own.right + mass * torch.outer(apart, own.level - level))
        return RidgeSums(columns, center, level, gram, right, self._total(own.scatter))

    def _nothing(self, labels: int) -> RidgeSums:
        """The sums over no rows."""
        d, outputs = self.train.channels, self.train.outputs
        width = d * outputs
        shapes = (width,), (labels,), (width, width), (width, labels), (d, outputs, outputs)
        return RidgeSums(list(range(labels)), *(torch.zeros(shape, dtype=torch.float64) for shape in shapes))

    def _total(self, values: Tensor) -> Tensor:
        return self.workers.total(values.to(self.workers.device)).cpu()
