"""c_θ: representation -> prediction. Trained by gradient descent (linear, MLP) or solved in closed form (ridge)."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from rapgnn.errors import InputError
from rapgnn.graph.tasks import Task
from rapgnn.layers.mlp import MLP

HEADS = ("linear", "mlp", "ridge")


class Head(nn.Module):
    """A linear layer or an MLP on the representation, shifted and scaled first by constants that training rows fix.

    Args:
        in_channels, hidden_channels, out_channels: widths.
        num_layers: 1 (linear) to 4.
        dropout: on the input of every layer, in training.
        batch_norm: after every layer but the last.
        generator: for the start values.
    """

    input_scale: Tensor
    input_offset: Tensor

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        num_layers: int = 1,
        *,
        dropout: float = 0.0,
        batch_norm: bool = False,
        generator: torch.Generator,
    ):
        super().__init__()
        if not 1 <= num_layers <= 4:
            raise InputError(f"a head has 1 to 4 layers, got {num_layers}.")
        widths = [in_channels] + [hidden_channels] * (num_layers - 1) + [out_channels]
        self.mlp = MLP(widths, generator, dropout, batch_norm=batch_norm)
        self.register_buffer("input_scale", torch.ones(in_channels))
        self.register_buffer("input_offset", torch.zeros(in_channels))

    @property
    def linear(self) -> bool:
        return len(self.mlp.linears()) == 1

    def calibrate(self, mean: Tensor, square: Tensor, channelwise: bool = False) -> None:
        """Make the inputs' root mean square one, so that one learning rate fits every depth and feature scale.

        Args:
            mean, square: of every channel ``[in_channels]``.
            channelwise: give every channel mean zero and variance one instead; a channel that is constant stays out.
        """
        if not channelwise:
            size = float(square.double().mean().sqrt())
            self.input_scale.fill_(1.0 / size if size > 0 else 1.0)
            return
        mean, square = mean.double(), square.double()
        spread = (square - mean.square()).clamp(min=0).sqrt()
        alive = spread > 1e-6 * square.sqrt()
        scale = torch.where(alive, 1.0 / spread.where(alive, torch.ones_like(spread)), torch.zeros_like(spread))
        self.input_scale.copy_(scale)
        self.input_offset.copy_(-mean * scale)

    def forward(self, h: Tensor, generator: torch.Generator | None = None) -> Tensor:
        return self.mlp(torch.addcmul(self.input_offset, h, self.input_scale), generator)


class Output(nn.Module):
    """Targets that are numbers are learned with mean 0 and variance 1, and given back as they were."""

    shift: Tensor
    scale: Tensor
    plain: Tensor

    def __init__(self, out_channels: int):
        super().__init__()
        self.register_buffer("shift", torch.zeros(out_channels))
        self.register_buffer("scale", torch.ones(out_channels))
        self.register_buffer("plain", torch.ones((), dtype=torch.bool))

    def adapt(self, y: Tensor) -> None:
        """Take mean and spread of the known training targets ``[r, t]``."""
        for column, values in enumerate(y.T):
            known = values[~values.isnan()].double()
            if len(known):
                spread = float(known.std(correction=0))
                self.shift[column], self.scale[column] = float(known.mean()), spread if spread > 0 else 1.0
        self.plain.fill_(False)

    def standardise(self, y: Tensor) -> Tensor:
        return y if self.plain else (y - self.shift) / self.scale

    def forward(self, scores: Tensor) -> Tensor:
        return scores if self.plain else torch.addcmul(self.shift, scores, self.scale)

    def scale_covariance(self, covariance: Tensor) -> Tensor:
        """The covariance ``[..., t, t]`` of raw scores as that of what they are given back as."""
        return covariance if self.plain else covariance * torch.outer(self.scale, self.scale)


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
        self.register_buffer("sharpness", torch.ones(()))  # turns squared-error scores into logits
        self.register_buffer("weight", torch.zeros(in_channels, out_channels))
        self.register_buffer("bias", torch.zeros(out_channels))

    @torch.no_grad()
    def fit(
        self,
        mean: Tensor,
        scatter: Callable[[Tensor], Tensor],
        targets: Tensor,
        ridge: float | Sequence[float],
        judge: Callable[[], tuple[float, float]] | None = None,
    ) -> "RidgeHead":
        """Solve for the mean ``[r, J·d]`` and targets ``[r, t]`` (NaN: unknown, left out label by label).

        Args:
            scatter: rows -> the covariance of each channel's J outputs, summed over these rows, ``[d, J, J]``.
            ridge: λ, or several in rising order to choose from.
            judge: what the head as it stands is worth; decides among several λ.
        """
        problems = []
        for columns, known in _same_gaps(targets):
            m, t = mean[known].double(), targets[known][:, columns].double()
            center, level = m.mean(0), t.mean(0)
            problem = _RidgeProblem(m - center, scatter(known.nonzero()[:, 0]).double(), t - level)
            problems.append((columns, center, level, problem))

        def solve(penalty: float) -> tuple[float, float]:
            for columns, center, level, problem in problems:
                weight = problem.solve(penalty)
                self.weight[:, columns] = weight.to(self.weight)
                self.bias[columns] = (level - center @ weight).to(self.bias)
            return judge() if judge else (0.0, 0.0)

        if isinstance(ridge, float | int):
            self.penalty = float(ridge)
            solve(ridge)
            return self
        middle = at = len(ridge) // 2
        best, kept = solve(ridge[middle]), (self.weight.clone(), self.bias.clone())
        for step in (-1, 1):  # the metric rises and falls once along λ: walk uphill, one way or else the other
            place = middle + step
            if at != middle:
                break
            while 0 <= place < len(ridge) and (worth := solve(ridge[place])) >= best:
                best, at, kept = worth, place, (self.weight.clone(), self.bias.clone())
                place += step
        self.weight.copy_(kept[0])
        self.bias.copy_(kept[1])
        self.penalty = float(ridge[at])
        return self

    def forward(self, h: Tensor, generator: torch.Generator | None = None) -> Tensor:
        return (h @ self.weight + self.bias) * self.sharpness

    @torch.no_grad()
    def sharpen(self, task: Task, h: Tensor, y: Tensor) -> None:
        """Choose the one factor under which the scores, read as logits, give held-out rows the likeliest labels."""
        factors = torch.logspace(-0.5, 2, 26, device=h.device).to(h.dtype)
        scores = self(h) / self.sharpness
        losses = torch.stack([task.loss(scores * factor, y) for factor in factors])
        self.sharpness.copy_(factors[losses.argmin()])


class _RidgeProblem:
    """The solve for one penalty after another: what does not depend on the penalty is computed once.

    Args:
        m: centred mean ``[r, J·d]``, t: centred targets ``[r, t]``.
        scatter: ``[d, J, J]``, summed over the rows.
    """

    def __init__(self, m: Tensor, scatter: Tensor, t: Tensor):
        self.m, self.scatter, self.t = m, scatter, t
        self.rows, self.channels = m.shape
        self.spread = scatter.diagonal(dim1=1, dim2=2).T.flatten()  # outputs outermost, as in the representation
        self.size = float((m.square().sum() + self.spread.sum()) / max(1, self.channels))
        # The dual has one unknown per row instead of one per channel, but is built anew for every penalty.
        self.dual = 2 * self.rows <= self.channels
        self.normal = None if self.dual else self._blocks(m.T @ m)

    def solve(self, ridge: float) -> Tensor:
        floor = ridge * self.size if self.size > 0 else 1.0
        least = 1e-12 * max(1e-30, float(self.spread.max()) + floor if self.channels else 1.0)
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
            return (self.m / (self.spread + floor)).T
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


def _same_gaps(targets: Tensor):
    """Groups of label columns that are known for the same rows: (columns, rows)."""
    known = ~targets.isnan()
    groups: dict[bytes, list[int]] = {}
    for column in range(targets.shape[1]):
        groups.setdefault(known[:, column].cpu().numpy().tobytes(), []).append(column)
    for columns in groups.values():
        rows = known[:, columns[0]]
        if bool(rows.any()):
            yield columns, rows
