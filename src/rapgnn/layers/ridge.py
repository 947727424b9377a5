"""The linear head in closed form: ridge regression on the exact expectation and variance of the representation."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from rapgnn.graph.tasks import Objective


class RidgeHead(nn.Module):
    r"""The linear head that minimises the expected squared error over all draws, in one solve.

    .. math:: E‖h^L W - Y‖² + λ‖W‖² = ‖E[h^L] W - Y‖² + \sum_i \Bigl(λ + \sum_v \mathrm{Var}[h^L_{vi}]\Bigr) ‖W_i‖²

    Channels are independent, so the variance enters as a diagonal penalty: training on infinitely many draws. Where a
    channel has several outputs (jumping knowledge) these depend on one another, and the penalty is one block each.
    λ is relative to the mean squared size of the representation.
    """

    weight: Tensor
    bias: Tensor
    sharpness: Tensor

    def __init__(self, in_channels: int, out_channels: int):
        super().__init__()
        self.penalty: float | None = None  # the λ that was solved for
        self.register_buffer("sharpness", torch.ones(()))  # 1 / temperature: turns squared-error scores into logits
        self.register_buffer("weight", torch.zeros(in_channels, out_channels))
        self.register_buffer("bias", torch.zeros(out_channels))

    @torch.no_grad()
    def fit(
        self,
        mean: Tensor,
        scatter: Callable[[Tensor], Tensor],
        targets: Tensor,
        ridge: float | Sequence[float],
        merit: Callable[[], tuple[float, float]] | None = None,
    ) -> "RidgeHead":
        """Solve for the expectation ``[r, J·d]`` and targets ``[r, t]`` (NaN: unknown, left out label by label).

        Args:
            scatter: rows -> the covariance of each channel's J outputs, summed over these rows, ``[d, J, J]``.
            ridge: λ, or several in rising order to choose from.
            merit: how good the head as it stands is on validation; decides among several λ.
        """
        problems = _problems(mean, scatter, targets)
        if isinstance(ridge, float | int):
            self._take(_solve(problems, float(ridge)))
            return self
        assert merit is not None
        middle = len(ridge) // 2
        best = self._take(_solve(problems, ridge[middle]), merit)
        for way in (reversed(ridge[:middle]), ridge[middle + 1 :]):
            for penalty in way:  # merit rises and falls once along λ: uphill one way, or else the other
                candidate = self._take(_solve(problems, penalty), merit)
                if not candidate.merit >= best.merit:
                    break
                best = candidate
            if best.penalty != ridge[middle]:
                break
        self._take(best)
        return self

    def _take(self, solution: "_Solution", merit: Callable[[], tuple[float, float]] | None = None) -> "_Solution":
        """Make the solution this head's, and note its merit."""
        for columns, weight, bias in solution.parts:
            self.weight[:, columns] = weight.to(self.weight)
            self.bias[columns] = bias.to(self.bias)
        self.penalty = solution.penalty
        return replace(solution, merit=merit()) if merit else solution

    def forward(self, h: Tensor, generator: torch.Generator | None = None) -> Tensor:
        return (h @ self.weight + self.bias) * self.sharpness

    @torch.no_grad()
    def fit_temperature(self, objective: Objective, h: Tensor, y: Tensor) -> None:
        """Choose the one number (1 / temperature) to multiply scores with that makes held-out labels likeliest."""
        tried = torch.logspace(-0.5, 2, 26, device=h.device).to(h.dtype)
        scores = self(h) / self.sharpness
        losses = torch.stack([objective.loss(scores * sharpness, y) for sharpness in tried])
        self.sharpness.copy_(tried[losses.argmin()])


@dataclass(frozen=True)
class _Solution:
    """(label columns, their weights, their biases) for one penalty, and their merit on validation."""

    penalty: float
    parts: list[tuple[list[int], Tensor, Tensor]]
    merit: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True)
class _Columns:
    """Label columns that are known for the same rows: one problem for all of them."""

    columns: list[int]
    center: Tensor
    level: Tensor
    problem: "_RidgeProblem"


def _problems(mean: Tensor, scatter: Callable[[Tensor], Tensor], targets: Tensor) -> list[_Columns]:
    problems = []
    for columns, known in _same_gaps(targets):
        m, t = mean[known].double(), targets[known][:, columns].double()
        center, level = m.mean(0), t.mean(0)
        problem = _RidgeProblem(m - center, scatter(known.nonzero()[:, 0]).double(), t - level)
        problems.append(_Columns(columns, center, level, problem))
    return problems


def _solve(problems: list[_Columns], penalty: float) -> _Solution:
    parts = []
    for p in problems:
        weight = p.problem.solve(penalty)
        parts.append((p.columns, weight, p.level - p.center @ weight))
    return _Solution(float(penalty), parts)


class _RidgeProblem:
    """The solve for one penalty after another: what does not depend on the penalty is computed once.

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

    def solve(self, ridge: float) -> Tensor:
        floor = ridge * self.size if self.size > 0 else 1.0
        least = 1e-12 * max(1e-30, float(self.variance.max()) + floor if self.channels else 1.0)
        floor = max(floor, least)
        if self.normal is not None:
            normal = self.normal.clone()
            normal.diagonal().add_(floor)
            return _solve_positive(normal, self.m.T @ self.t)
        scaled = self._inverse_penalty(floor)
        gram = self.m @ scaled
        gram.diagonal().add_(1.0)
        return scaled @ _solve_positive(gram, self.t)

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


def _same_gaps(targets: Tensor) -> Iterator[tuple[list[int], Tensor]]:
    """Groups of label columns that are known for the same rows: (columns, rows)."""
    known = ~targets.isnan()
    groups: dict[bytes, list[int]] = {}
    for column in range(targets.shape[1]):
        groups.setdefault(known[:, column].cpu().numpy().tobytes(), []).append(column)
    for columns in groups.values():
        rows = known[:, columns[0]]
        if bool(rows.any()):
            yield columns, rows
