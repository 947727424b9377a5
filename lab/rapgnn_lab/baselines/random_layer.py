"""Random matrices with signs, full or sparse, with a size that is set, and the layers made of them."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from rapgnn.errors import check_choice
from rapgnn.network.config import ACTIVATIONS
from rapgnn.network.weights import DISTRIBUTIONS
from rapgnn.prng import random_words
from rapgnn.sparse import Features

_SLOT_BITS = 20  # layer numbers below 2^20, the matrix's place in the layer above them
_STREAMS = 2  # of a matrix: its values, and which of them count
WEIGHT, BIAS = 0, 1  # slots

BOUNDS: dict[str, Callable[[int, int], float]] = {
    "uniform": lambda inputs, units: 1.0,
    "glorot": lambda inputs, units: math.sqrt(6.0 / max(1, inputs + units)),
}
"""Entries are drawn from U[-b, b]; b by the name of the distribution."""


def spectral_radius(matrix: Tensor) -> float:
    return float(torch.linalg.eigvals(matrix).abs().max()) if matrix.numel() else 0.0


MEASURES: dict[str, Callable[[Tensor], float]] = {
    "radius": spectral_radius,
    "absolute radius": lambda matrix: spectral_radius(matrix.abs()),
    "norm": lambda matrix: float(torch.linalg.matrix_norm(matrix, 2)) if matrix.numel() else 0.0,
}
"""What ``RandomMatrix.size`` is the value of: ρ(W), ρ(|W|) or ‖W‖₂."""


@dataclass(frozen=True)
class RandomMatrix:
    """A matrix with signs that is drawn, never trained: a pure function of (seed, layer).

    Args:
        connections: how many inputs each unit (column) is joined to; None: all of them.
        size: a factor; with ``measure`` the value that this measure of the matrix has.
        measure: a name from ``MEASURES``; None: entries are as drawn, times ``size``.

    A matrix whose measure is zero is not scaled. The numbers are the same on every device.
    """

    distribution: str = "glorot"
    connections: int | None = None
    size: float = 1.0
    measure: str | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        check_choice("matrix distribution", self.distribution, BOUNDS)
        if self.measure is not None:
            check_choice("matrix measure", self.measure, MEASURES)

    def draw(self, layer: int, rows: int, columns: int, slot: int = WEIGHT) -> Tensor:
        """The matrix ``[rows, columns]`` of a layer, dense; a sparse one holds zeros."""
        inputs = min(rows, self.connections or rows)
        bound = BOUNDS[self.distribution](inputs, columns)
        values = DISTRIBUTIONS["uniform"].sample(self._words(layer, slot, 0, rows * columns), -bound, bound)
        matrix = values.view(rows, columns).double()
        if inputs < rows:
            order = self._words(layer, slot, 1, rows * columns).view(rows, columns).argsort(dim=0, stable=True)
            chosen = order[:inputs]
            matrix = torch.zeros_like(matrix).scatter_(0, chosen, matrix.gather(0, chosen))
        measured = 1.0 if self.measure is None else MEASURES[self.measure](matrix)
        return (matrix * (self.size / measured if measured > 0 else 1.0)).float()

    def _words(self, layer: int, slot: int, part: int, count: int) -> Tensor:
        stream = layer + ((slot * _STREAMS + part) << _SLOT_BITS)
        return random_words(self.seed, torch.tensor([0]), torch.tensor([stream]), count)[0, 0]


class RandomLayer(nn.Module):
    r"""A random map of rows, with a non-linearity: :math:`h = σ(x W + b)`. Nothing is trained.

    Args:
        weights: how W is drawn; its ``size`` scales the input.
        bias: b is drawn from U[-bias, bias]; 0: none.
        layer: its number, which the draw depends on.

    Shapes:
        x ``[r, in_channels]`` dense or sparse -> ``[r, out_channels]``.
    """

    weight: Tensor
    bias: Tensor

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        weights: RandomMatrix | None = None,
        *,
        activation: str = "tanh",
        bias: float = 0.0,
        layer: int = 0,
    ):
        super().__init__()
        weights = weights or RandomMatrix()
        self.activation = activation
        offsets = RandomMatrix("uniform", size=bias, seed=weights.seed)
        self.register_buffer("weight", weights.draw(layer, in_channels, out_channels))
        drawn = offsets.draw(layer, 1, out_channels, BIAS)[0]
        self.register_buffer("bias", drawn if bias else torch.zeros(out_channels))

    def forward(self, x: Features) -> Tensor:
        return self.activate(x @ self.weight)

    def activate(self, z: Tensor) -> Tensor:
        return ACTIVATIONS[self.activation](z + self.bias)
