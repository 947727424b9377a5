"""c_θ: representation -> prediction. Trained by gradient descent (linear, MLP) or solved in closed form (ridge)."""

import torch
from torch import Tensor, nn

from rapgnn.errors import InputError
from rapgnn.metrics import loss
from rapgnn.mlp import MLP

HEADS = ("linear", "mlp", "ridge")


class Head(nn.Module):
    """A linear layer or an MLP on the representation, divided first by one constant that the training rows fix.

    Args:
        in_channels, hidden_channels, out_channels: widths.
        num_layers: 1 (linear) to 4.
        dropout: on the input of every layer, in training.
        generator: for the start values.
    """

    input_scale: Tensor

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        num_layers: int = 1,
        *,
        dropout: float = 0.0,
        generator: torch.Generator,
    ):
        super().__init__()
        if not 1 <= num_layers <= 4:
            raise InputError(f"a head has 1 to 4 layers, got {num_layers}.")
        self.mlp = MLP([in_channels] + [hidden_channels] * (num_layers - 1) + [out_channels], generator, dropout)
        self.register_buffer("input_scale", torch.ones(()))

    def calibrate(self, h: Tensor) -> None:
        """Make the inputs' root mean square one, so that one learning rate fits every depth and feature scale."""
        size = h.double().square().mean().sqrt()
        self.input_scale.fill_(1.0 / float(size) if float(size) > 0 else 1.0)

    def forward(self, h: Tensor, generator: torch.Generator | None = None) -> Tensor:
        return self.mlp(h * self.input_scale, generator)


class RidgeHead(nn.Module):
    r"""The linear head that minimises the expected squared error over all draws, in one solve.

    .. math:: E‖h^L W - Y‖² + λ‖W‖² = ‖E[h^L] W - Y‖² + \sum_i \Bigl(λ + \sum_v \mathrm{Var}[h^L_{vi}]\Bigr) ‖W_i‖²

    Channels are independent, so the variance enters as a diagonal penalty: training on infinitely many draws.
    λ is relative to the mean squared size of the representation.
    """

    weight: Tensor
    bias: Tensor
    sharpness: Tensor

    def __init__(self, in_channels: int, out_channels: int):
        super().__init__()
        self.register_buffer("sharpness", torch.ones(()))  # turns squared-error scores into logits
        self.register_buffer("weight", torch.zeros(in_channels, out_channels))
        self.register_buffer("bias", torch.zeros(out_channels))

    @torch.no_grad()
    def fit(self, mean: Tensor, variance: Tensor, targets: Tensor, ridge: float) -> "RidgeHead":
        """Solve for mean, variance ``[r, d]`` and targets ``[r, t]`` (NaN: unknown, left out label by label)."""
        for columns, known in _same_gaps(targets):
            m, v, t = mean[known].double(), variance[known].double(), targets[known][:, columns].double()
            center, level = m.mean(0), t.mean(0)
            weight = _solve(m - center, v.sum(0), t - level, ridge)
            self.weight[:, columns] = weight.to(self.weight)
            self.bias[columns] = (level - center @ weight).to(self.bias)
        return self

    def forward(self, h: Tensor, generator: torch.Generator | None = None) -> Tensor:
        return (h @ self.weight + self.bias) * self.sharpness

    @torch.no_grad()
    def sharpen(self, h: Tensor, y: Tensor) -> None:
        """Choose the one factor under which the scores, read as logits, give held-out rows the likeliest labels."""
        factors = torch.logspace(-0.5, 2, 26, device=h.device).to(h.dtype)
        scores = self(h) / self.sharpness
        losses = torch.stack([loss(scores * factor, y) for factor in factors])
        self.sharpness.copy_(factors[losses.argmin()])


def _solve(m: Tensor, spread: Tensor, t: Tensor, ridge: float) -> Tensor:
    rows, channels = m.shape
    size = float((m.square().sum() + spread.sum()) / max(1, channels))
    penalty = spread + (ridge * size if size > 0 else 1.0)
    penalty = penalty.clamp(min=1e-12 * max(1e-30, float(penalty.max())))
    if rows <= channels:  # the dual problem has one unknown per row
        scaled = m / penalty
        gram = m @ scaled.T
        gram.diagonal().add_(1.0)
        return scaled.T @ torch.linalg.solve(gram, t)
    normal = m.T @ m
    normal.diagonal().add_(penalty)
    return torch.linalg.solve(normal, m.T @ t)


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
