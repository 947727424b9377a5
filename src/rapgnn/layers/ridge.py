"""The linear head in closed form: ridge regression on the exact expectation and variance of the representation."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from rapgnn.graph.tasks import Objective
from rapgnn.layers.ridge_problem import RidgeProblem, RidgeSums, make_problem, without_itself


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
        self._parts, self._rows = [], []
        self._targets, self._weights = targets, weights
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
            self._rows.append(known)
            self._parts.append((columns, center, level, make_problem(m, covariance, t)))

    @classmethod
    def of_sums(cls, shape: tuple[int, int], sums: Sequence[RidgeSums]) -> "RidgeRegression":
        """From sums over rows that were too many to be kept; ``shape`` is (J·d, t)."""
        regression = cls.__new__(cls)
        regression.shape = shape
        regression._parts = [(s.columns, s.center, s.level, RidgeProblem.of_sums(s)) for s in sums]
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
            assert isinstance(problem, RidgeProblem)
            fitted, leverage = problem.fitted(penalty)
            place = known.nonzero()[:, 0][:, None]
            mine = torch.tensor(columns, device=scores.device)
            targets = self._targets[place, mine].double()
            scores[place, mine] = without_itself(fitted / root + level, leverage + share, targets)
        return scores


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
