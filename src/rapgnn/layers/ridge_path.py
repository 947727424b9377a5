"""Ridge regression for many penalties at the price of one, with every training row left out once.

One eigendecomposition, of the smaller of the two products, gives the solutions for all penalties, and the score that
each training row would get from a solution without it (leave-one-out), exactly.
"""

import torch
from torch import Tensor

from rapgnn.layers.ridge import same_gaps
from rapgnn.layers.ridge_problem import without_itself

DECOMPOSED = 1200  # unknowns up to which the eigendecomposition is cheaper than a factorisation per penalty
NARROW = 256  # the same where no rows are left out
PENALTIES = tuple(10.0**k for k in range(-5, 4))


class RidgePath:
    """The solutions by penalty, for one representation.

    Args:
        h: the training rows' representation ``[r, p]``, columns of about the same size.
        targets: ``[r, t]``; NaN is unknown and left out label by label.
        weights: how much each row's squared error counts; None: all the same.
        left_out: whether rows will be left out in turn; without that a factorisation per penalty is the cheaper.
    """

    def __init__(self, h: Tensor, targets: Tensor, weights: Tensor | None = None, left_out: bool = True):
        self.shape = h.shape[1], targets.shape[1]
        self.rows = len(h)
        self._groups = [
            (
                columns,
                known,
                _Problem(
                    h[known],
                    targets[known][:, columns],
                    None if weights is None else weights[known],
                    DECOMPOSED if left_out else NARROW,
                ),
            )
            for columns, known in same_gaps(targets)
        ]
        self._device = h.device

    def solve(self, penalty: float) -> tuple[Tensor, Tensor]:
        """Weight ``[p, t]`` and bias ``[t]``; labels without a known row keep 0."""
        weight = torch.zeros(self.shape, dtype=torch.float64, device=self._device)
        bias = torch.zeros(self.shape[1], dtype=torch.float64, device=self._device)
        for columns, _, problem in self._groups:
            weight[:, columns], bias[columns] = problem.solve(penalty)
        return weight, bias

    def left_out(self, penalty: float) -> Tensor:
        """The scores ``[r, t]`` of the training rows, each by the solution without it; NaN where the label is."""
        scores = torch.full((self.rows, self.shape[1]), float("nan"), dtype=torch.float64, device=self._device)
        for columns, known, problem in self._groups:
            place = known.nonzero()[:, 0]
            scores[place[:, None], torch.tensor(columns, device=self._device)] = problem.left_out(penalty)
        return scores


class _Problem:
    def __init__(self, h: Tensor, t: Tensor, weights: Tensor | None, decomposed: int):
        t = t.double()
        r, p = h.shape
        w = torch.ones(r, dtype=torch.float64, device=h.device) if weights is None else weights.double()
        share = w / w.sum()
        self.center, self.level = (share.to(h.dtype) @ h).double(), share @ t
        self.root = w.sqrt()[:, None]
        self.m = (h - self.center.to(h.dtype)) * self.root.to(h.dtype)
        self.t, self.targets = (t - self.level) * self.root, t
        self.share = share
        self.dual = r <= p
        gram = self.m @ self.m.T if self.dual else self.m.T @ self.m
        self.gram = gram.double()
        self.small = min(r, p) <= decomposed
        if self.small:
            values, self.vectors = torch.linalg.eigh(self.gram)
            self.values = values.clamp(min=0)
            if self.dual:
                self.seen = self.vectors.T @ self.t
            else:
                self.turned = self.m.double() @ self.vectors
                self.seen = self.turned.T @ self.t
        elif not self.dual:
            self.seen = (self.m.T @ self.t.to(self.m.dtype)).double()
        self._kept: tuple[float, Tensor] | None = None

    def _floor(self, penalty: float) -> float:
        return max(penalty * len(self.m), 1e-9 * max(1e-30, float(self.gram.diagonal().max()) if len(self.gram) else 1))

    def _factor(self, floor: float) -> Tensor:
        if self._kept is None or self._kept[0] != floor:
            self._kept = floor, factored(self.gram, floor)
        return self._kept[1]

    def solve(self, penalty: float) -> tuple[Tensor, Tensor]:
        floor = self._floor(penalty)
        if self.small and self.dual:
            weight = self.m.T.double() @ (self.vectors @ (self.seen / (self.values + floor)[:, None]))
        elif self.small:
            weight = self.vectors @ (self.seen / (self.values + floor)[:, None])
        elif self.dual:
            weight = self.m.T.double() @ torch.cholesky_solve(self.t, self._factor(floor))
        else:
            weight = torch.cholesky_solve(self.seen, self._factor(floor))
        return weight, self.level - self.center @ weight

    def left_out(self, penalty: float) -> Tensor:
        floor = self._floor(penalty)
        if self.small and self.dual:
            kept = self.values / (self.values + floor)
            fitted, leverage = self.vectors @ (kept[:, None] * self.seen), self.vectors.square() @ kept
        elif self.small:
            kept = 1 / (self.values + floor)
            fitted, leverage = self.turned @ (kept[:, None] * self.seen), self.turned.square() @ kept
        else:
            factor = self._factor(floor)
            if self.dual:
                inverse = torch.cholesky_inverse(factor)
                leverage = 1 - floor * inverse.diagonal()
                fitted = self.t - floor * (inverse @ self.t)
            else:
                half = torch.linalg.solve_triangular(factor, self.m.T.double(), upper=False)
                leverage = half.square().sum(0)
                fitted = self.m.double() @ torch.cholesky_solve(self.seen, factor)
        # The level is a mean over the rows as well, so every row has its share in it.
        return without_itself(fitted / self.root + self.level, leverage + self.share, self.targets)


# Factorisations of products that rounding may have left indefinite.


def factored(product: Tensor, added: float, most: float = float("inf")) -> Tensor:
    """C of C Cᵀ = product + a · identity, with the first a of ``added``, ten times that and so on that gives one.

    Args:
        most: an a from which no larger one is tried.
    """
    while True:
        matrix = product.clone()
        matrix.diagonal().add_(added)
        factor, info = torch.linalg.cholesky_ex(matrix)
        if not bool(info) or added >= most:
            return factor
        added *= 10
