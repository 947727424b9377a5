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
            channel's J outputs summed over these rows, ``[d, J, J]``; with weights the weighted sum. None: nothing
            about the representation is random.
        weights: how much each row's squared error counts, ``[r]``; None: all the same.
    """

    def __init__(
        self,
        mean: Tensor,
        targets: Tensor,
        scatter: Sequence[Tensor] | None = None,
        weights: Tensor | None = None,
    ):
        self.shape = mean.shape[1], targets.shape[1]
        self._parts = []
        groups = list(same_gaps(targets))
        for (columns, known), covariance in zip(groups, scatter or [None] * len(groups), strict=True):
            m, t = mean[known].double(), targets[known][:, columns].double()
            if weights is None:
                center, level = m.mean(0), t.mean(0)
                m, t = m - center, t - level
            else:  # weighted least squares: centred at the weighted means, rows times the root of their weight
                w = weights[known].double()
                center, level = (w @ m) / w.sum(), (w @ t) / w.sum()
                root = w.sqrt()[:, None]
                m, t = root * (m - center), root * (t - level)
            self._parts.append((columns, center, level, _problem(m, covariance, t)))

    def solve(self, penalty: float) -> RidgeSolution:
        """The solution for λ; labels without a known row keep weight and bias 0."""
        device = self._parts[0][1].device if self._parts else None
        weight = torch.zeros(self.shape, dtype=torch.float64, device=device)
        bias = torch.zeros(self.shape[1], dtype=torch.float64, device=device)
        for columns, center, level, problem in self._parts:
            found = problem.solve(penalty)
            weight[:, columns], bias[columns] = found, level - center @ found
        return RidgeSolution(float(penalty), weight, bias)


def _problem(m: Tensor, scatter: Tensor | None, t: Tensor) -> "_RidgeProblem | _CertainRidge":
    return _CertainRidge(m, t) if scatter is None else _RidgeProblem(m, scatter.double(), t)


class _CertainRidge:
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
