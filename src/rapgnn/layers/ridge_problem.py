"""The equations of ridge regression, solved for one penalty after another."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class RidgeSums:
    """What the equations of some labels need of all rows, in double precision.

    Args:
        columns: the labels, known for the same rows.
        center, level: the (weighted) means of the representation ``[J·d]`` and of the targets ``[t]``.
        gram: MᵀM ``[J·d, J·d]`` and right: MᵀT ``[J·d, t]``, both centred and weighted.
        scatter: ``[d, J, J]``, the covariance of each channel's outputs, summed over the rows.
    """

    columns: list[int]
    center: Tensor
    level: Tensor
    gram: Tensor
    right: Tensor
    scatter: Tensor


def without_itself(scores: Tensor, leverage: Tensor, targets: Tensor) -> Tensor:
    """The scores ``[r, t]`` of training rows by solutions without them, given those with, and how much each counts."""
    leverage = leverage.clamp(max=1 - 1e-6)[:, None]
    return (scores - leverage * targets) / (1 - leverage)


def make_problem(m: Tensor, scatter: Tensor | None, t: Tensor) -> "RidgeProblem | CertainRidge":
    """The equations; without a scatter nothing is random."""
    return CertainRidge(m, t) if scatter is None else RidgeProblem(m, scatter.double(), t)


class CertainRidge:
    """The equations where nothing is random: what does not depend on the penalty is multiplied once.

    Args:
        m: centred representation ``[r, d]``, t: centred targets ``[r, t]``.
    """

    def __init__(self, m: Tensor, t: Tensor):
        self.m, self.t = m, t
        self.dual = m.shape[0] < m.shape[1]
        self.gram = m @ m.T if self.dual else m.T @ m
        self.size = float(self.gram.diagonal().sum()) / max(1, m.shape[1])

    def solve(self, ridge: float) -> Tensor:
        floor = max(ridge * self.size, 1e-12 * self.size) if self.size > 0 else 1.0
        gram = self.gram.clone()
        gram.diagonal().add_(floor)
        if self.dual:
            return self.m.T @ _solve_positive(gram, self.t)
        return _solve_positive(gram, self.m.T @ self.t)


class RidgeProblem:
    """One system of equations, solved for one penalty after another.

    Args:
        m: centred mean ``[r, J·d]``, t: centred targets ``[r, t]``.
        scatter: ``[d, J, J]``, summed over the rows.
    """

    def __init__(self, m: Tensor, scatter: Tensor, t: Tensor):
        self.m, self.scatter, self.t = m, scatter, t
        self.rows, self.channels = m.shape
        self.variance = scatter.diagonal(dim1=1, dim2=2).T.flatten()  # outputs outermost, as in the representation
        self.size = float((m.square().sum() + self.variance.sum()) / max(1, self.channels))
        # The dual has one unknown per row instead of one per channel, but is built anew for every penalty.
        self.dual = 2 * self.rows <= self.channels
        self.normal = None if self.dual else self._blocks(m.T @ m)
        self.right = None if self.dual else m.T @ t

    @classmethod
    def of_sums(cls, sums: RidgeSums) -> "RidgeProblem":
        """The same equations, from sums over the rows."""
        problem = cls.__new__(cls)
        problem.scatter, problem.right, problem.channels = sums.scatter, sums.right, len(sums.gram)
        problem.variance = sums.scatter.diagonal(dim1=1, dim2=2).T.flatten()
        problem.size = float((sums.gram.diagonal().sum() + problem.variance.sum()) / max(1, problem.channels))
        problem.dual, problem.normal = False, problem._blocks(sums.gram)
        return problem

    def solve(self, ridge: float) -> Tensor:
        floor = self._floor(ridge)
        if self.normal is not None:
            normal = self.normal.clone()
            normal.diagonal().add_(floor)
            assert self.right is not None
            return _solve_positive(normal, self.right)
        scaled = self._inverse_penalty(floor)
        gram = self.m @ scaled
        gram.diagonal().add_(1.0)
        return scaled @ _solve_positive(gram, self.t)

    def fitted(self, ridge: float) -> tuple[Tensor, Tensor]:
        """What the solution gives for its own rows ``[r, t]``, and how much each of them counts in its own."""
        floor = self._floor(ridge)
        if self.normal is None:
            gram = self.m @ self._inverse_penalty(floor)
            gram.diagonal().add_(1.0)
            inverse = torch.linalg.inv(gram)
            return self.t - inverse @ self.t, 1 - inverse.diagonal()
        normal = self.normal.clone()
        normal.diagonal().add_(floor)
        solved = _solve_positive(normal, self.m.T)
        return self.m @ (solved @ self.t), (self.m.T * solved).sum(0)

    def _floor(self, ridge: float) -> float:
        floor = ridge * self.size if self.size > 0 else 1.0
        least = 1e-12 * max(1e-30, float(self.variance.max()) + floor if self.channels else 1.0)
        return max(floor, least)

    def _inverse_penalty(self, floor: float) -> Tensor:
        """P⁻¹ mᵀ ``[J·d, r]``, P the penalty: one J × J block per channel."""
        d, outputs = self.scatter.shape[:2]
        if outputs == 1:
            return (self.m / (self.variance + floor)).T
        blocks = self.scatter + floor * torch.eye(outputs, dtype=self.m.dtype, device=self.m.device)
        by_channel = self.m.T.reshape(outputs, d, self.rows).transpose(0, 1)
        return torch.linalg.solve(blocks, by_channel).transpose(0, 1).reshape(self.channels, self.rows)

    def _blocks(self, normal: Tensor) -> Tensor:
        d, outputs = self.scatter.shape[:2]
        by_output = normal.view(outputs, d, outputs, d)
        by_output.diagonal(dim1=1, dim2=3).add_(self.scatter.permute(1, 2, 0))
        return by_output.reshape(self.channels, self.channels)


def _solve_positive(matrix: Tensor, target: Tensor) -> Tensor:
    """The solution for a symmetric positive matrix; by pivoting where rounding makes it look otherwise."""
    factor, failed = torch.linalg.cholesky_ex(matrix)
    return torch.linalg.solve(matrix, target) if bool(failed) else torch.cholesky_solve(target, factor)
