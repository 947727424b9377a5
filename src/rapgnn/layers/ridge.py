"""The linear head in closed form: ridge regression on the exact expectation and variance of the representation."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

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
        # 1 / temperature: turns squared-error scores into logits
        self.register_buffer("sharpness", torch.ones((), dtype=torch.float32))
        self.register_buffer("weight", torch.zeros(in_channels, out_channels, dtype=torch.float32))
        self.register_buffer("bias", torch.zeros(out_channels, dtype=torch.float32))

    def fit(self, mean: Tensor, scatter: Callable[[Tensor], Tensor], targets: Tensor, ridge: float) -> "RidgeHead":
        """Solve for one λ.

        Args:
            mean, targets: as in ``RidgeRegression``.
            scatter: rows -> the covariance of each channel's J outputs, summed over these rows, ``[d, J, J]``.
        """
        summed = [scatter(known.nonzero()[:, 0]) for _, known in same_gaps(targets)]
        self.take(RidgeRegression(mean, targets, summed).solve(ridge))
        return self

    @torch.no_grad()
    def take(self, solution: "RidgeSolution") -> None:
        """Make a solution this head's."""
        self.weight.copy_(solution.weight)
        self.bias.copy_(solution.bias)
        self.penalty = solution.penalty

    def forward(self, h: Tensor, generator: torch.Generator | None = None) -> Tensor:
        return self.on_products(h @ self.weight)

    def on_products(self, products: Tensor) -> Tensor:
        """The scores, given the representation times ``weight``."""
        return (products + self.bias) * self.sharpness

    @torch.no_grad()
    def fit_temperature(self, objective: Objective, h: Tensor, y: Tensor) -> None:
        """Choose the one number (1 / temperature) to multiply scores with that makes held-out labels likeliest."""
        self.fit_sharpness(objective, self(h), y)

    @torch.no_grad()
    def fit_sharpness(self, objective: Objective, scores: Tensor, y: Tensor) -> None:
        """The same, given this head's scores of the held-out rows."""
        tried = torch.logspace(-0.5, 2, 26, dtype=torch.float32, device=scores.device).to(scores.dtype)
        scores = scores / self.sharpness
        losses = torch.stack([objective.loss(scores * sharpness, y) for sharpness in tried])
        self.sharpness.copy_(tried[losses.argmin()])


@dataclass(frozen=True)
class RidgeSolution:
    """The linear map for one penalty: weight ``[J·d, t]``, bias ``[t]``."""

    penalty: float
    weight: Tensor
    bias: Tensor


class RidgeRegression:
    """The solutions for one penalty after another; what does not depend on the penalty is computed once.

    Args:
        mean: the expectation of the representation ``[r, J·d]``.
        targets: ``[r, t]``; NaN is unknown and left out label by label.
        scatter: for each group of labels known for the same rows, as ``same_gaps`` lists them, the covariance of each
            channel's J outputs summed over these rows, ``[d, J, J]``; with weights the weighted sum.
        weights: how much each row's squared error counts, ``[r]``; None: all the same.
    """

    def __init__(self, mean: Tensor, targets: Tensor, scatter: Sequence[Tensor], weights: Tensor | None = None):
        self.shape = mean.shape[1], targets.shape[1]
        self._parts, self._rows = [], []
        self._targets, self._weights = targets, weights
        for (columns, known), covariance in zip(same_gaps(targets), scatter, strict=True):
            m, t = mean[known].double(), targets[known][:, columns].double()
            if weights is None:
                center, level = m.mean(0), t.mean(0)
                m, t = m - center, t - level
            else:  # weighted least squares: centred at the weighted means, rows times the root of their weight
                w = weights[known].double()
                center, level = (w @ m) / w.sum(), (w @ t) / w.sum()
                root = w.sqrt()[:, None]
                m, t = root * (m - center), root * (t - level)
            self._rows.append(known)
            self._parts.append((columns, center, level, _RidgeProblem(m, covariance.double(), t)))

    @classmethod
    def of_sums(cls, shape: tuple[int, int], sums: "Sequence[RidgeSums]") -> "RidgeRegression":
        """From sums over rows that were too many to be kept; ``shape`` is (J·d, t)."""
        regression = cls.__new__(cls)
        regression.shape = shape
        regression._parts = [(s.columns, s.center, s.level, _RidgeProblem.of_sums(s)) for s in sums]
        return regression

    def solve(self, penalty: float) -> RidgeSolution:
        """The solution for λ; labels without a known row keep weight and bias 0."""
        device = self._parts[0][1].device if self._parts else None
        weight = torch.zeros(self.shape, dtype=torch.float64, device=device)
        bias = torch.zeros(self.shape[1], dtype=torch.float64, device=device)
        for columns, center, level, problem in self._parts:
            found = problem.solve(penalty)
            weight[:, columns], bias[columns] = found, level - center @ found
        return RidgeSolution(float(penalty), weight, bias)

    def left_out(self, penalty: float) -> Tensor:
        """The scores ``[r, t]`` of the training rows, each by the solution without it; NaN where the label is unknown.

        Exact but for the row's own variance, which stays part of the penalty.
        """
        scores = torch.full_like(self._targets, float("nan"), dtype=torch.float64)
        for known, (columns, _, level, problem) in zip(self._rows, self._parts, strict=True):
            w = None if self._weights is None else self._weights[known].double()
            share = 1 / len(problem.m) if w is None else w / w.sum()
            root = 1.0 if w is None else w.sqrt()[:, None]
            fitted, leverage = problem.fitted(penalty)
            leverage = (leverage + share).clamp(max=1 - 1e-6)[:, None]
            place = known.nonzero()[:, 0][:, None]
            mine = torch.tensor(columns, device=scores.device)
            found = fitted / root + level
            scores[place, mine] = (found - leverage * self._targets[place, mine].double()) / (1 - leverage)
        return scores


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


class _RidgeProblem:
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
    def of_sums(cls, sums: RidgeSums) -> "_RidgeProblem":
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


def same_gaps(targets: Tensor) -> Iterator[tuple[list[int], Tensor]]:
    """Groups of label columns that are known for the same rows: (columns, rows)."""
    known = ~targets.isnan()
    groups: dict[bytes, list[int]] = {}
    for column in range(targets.shape[1]):
        groups.setdefault(known[:, column].cpu().numpy().tobytes(), []).append(column)
    for columns in groups.values():
        rows = known[:, columns[0]]
        if bool(rows.any()):
            yield columns, rows
