"""Random layers with a non-linearity: a map of each row that is drawn, never trained."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from rapgnn.errors import InputError, check_choice
from rapgnn.layers.matrices import RandomMatrix
from rapgnn.layers.standardize import Standardize
from rapgnn.sparse import Features, row_block

NONLINEARITIES = {"tanh": torch.tanh, "relu": torch.relu, "identity": lambda z: z}
"""What follows the matrix of a random layer, by name."""

BLOCK_BYTES = 1 << 26  # of a block's rows, so that all rows at full width never live at once
WEIGHT, BIAS = 0, 1  # slots


class RandomLayer(nn.Module):
    r"""A random map of rows, with a non-linearity.

    .. math:: h = σ(x W + b)

    Args:
        in_channels, out_channels: widths.
        weights: how W is drawn; its ``size`` scales the input.
        activation: a name from ``NONLINEARITIES``.
        bias: b is drawn from U[-bias, bias]; 0: none.
        standardize: give each unit mean 0 and variance 1 over the rows that ``fit_standardization`` sees.
        layer: its number, which the draw depends on.

    Fixed weights are buffers; weights that are drawn anew depend on ``step``. No parameter is trained.

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
        standardize: bool = False,
        layer: int = 0,
    ):
        super().__init__()
        check_choice("activation", activation, NONLINEARITIES)
        if out_channels < 1:
            raise InputError(f"a random layer needs at least 1 unit, got {out_channels}.")
        if not 0 <= bias < float("inf"):
            raise InputError(f"the bias of a random layer must be a finite number from 0 on, got {bias}.")
        self.in_channels, self.out_channels, self.layer = in_channels, out_channels, layer
        self.weights = weights or RandomMatrix()
        self.activation, self.bias_size = activation, bias
        self.standardize = Standardize(out_channels) if standardize else None
        weight, offset = self._drawn(0)
        fixed = self.weights.schedule == "fixed"
        self.register_buffer("weight", weight if fixed else weight[:0], persistent=fixed)
        self.register_buffer("bias", offset if fixed else offset[:0], persistent=fixed)

    @property
    def redrawn(self) -> bool:
        """Whether every forward pass has weights of its own."""
        return self.weights.schedule == "forward"

    def drawn(self, step: int = 0) -> tuple[Tensor, Tensor]:
        """W and b of forward pass number ``step``."""
        if not self.redrawn:
            return self.weight, self.bias
        weight, bias = self._drawn(self.weights.counter(step))
        return weight.to(self.weight), bias.to(self.bias)

    def _drawn(self, counter: int) -> tuple[Tensor, Tensor]:
        weight = self.weights.draw(counter, self.layer, self.in_channels, self.out_channels, WEIGHT)
        if not self.bias_size:
            return weight, torch.zeros(self.out_channels)
        uniform = RandomMatrix("uniform", size=self.bias_size, schedule=self.weights.schedule, seed=self.weights.seed)
        return weight, uniform.draw(counter, self.layer, 1, self.out_channels, BIAS)[0]

    def forward(self, x: Features, step: int = 0) -> Tensor:
        """h of the rows given; ``step`` says which forward pass."""
        weight, bias = self.drawn(step)
        return self.activate(x @ weight, bias)

    def raw(self, x: Features, step: int = 0) -> Tensor:
        """The same before it is standardised."""
        weight, bias = self.drawn(step)
        return NONLINEARITIES[self.activation](x @ weight + bias)

    def activate(self, z: Tensor, bias: Tensor) -> Tensor:
        """What follows the product with W."""
        h = NONLINEARITIES[self.activation](z + bias)
        return h if self.standardize is None else self.standardize(h)

    def in_blocks(self, x: Features, rows: Tensor, step: int = 0, block: int | None = None) -> Iterator[Tensor]:
        """h of some rows, a block of them at a time.

        Args:
            block: rows at a time; None: as many as ``BLOCK_BYTES`` hold.
        """
        for part in row_blocks(rows, self.out_channels, block):
            yield self(row_block(x, part), step)

    def fit_standardization(self, x: Features, rows: Tensor, block: int | None = None) -> None:
        """Take mean and variance of each unit over these rows, block by block."""
        if self.standardize is None:
            raise InputError("this layer does not standardise: make it with standardize=True.")
        self.standardize.fit(self.raw(row_block(x, part)) for part in row_blocks(rows, self.out_channels, block))


def row_blocks(rows: Tensor, width: int, block: int | None = None) -> Iterator[Tensor]:
    """Rows in blocks of so many; None: as many as ``BLOCK_BYTES`` hold, so many numbers each."""
    yield from rows.split(block or max(1, BLOCK_BYTES // (4 * max(1, width))))
