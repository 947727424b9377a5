"""Multi-layer perceptrons whose start values and dropout come from a generator they are given."""

import math

import torch
from torch import Tensor, nn

from rapgnn.dropout import dropout
from rapgnn.spmm import Features, SparseMatrix


def seeded_linear(in_channels: int, out_channels: int, generator: torch.Generator, bias: bool = True) -> nn.Linear:
    """``nn.Linear`` with its usual start values, drawn from ``generator`` instead of the global one."""
    layer = nn.utils.skip_init(nn.Linear, in_channels, out_channels, bias=bias)
    bound = 1.0 / math.sqrt(max(1, in_channels))
    with torch.no_grad():
        layer.weight.uniform_(-bound, bound, generator=generator)
        if bias:
            layer.bias.uniform_(-bound, bound, generator=generator)
    return layer


class MLP(nn.Module):
    """Linear layers with ReLU between them; the first one also takes sparse features.

    Args:
        channels: widths, input first.
        generator: for the start values.
        dropout: before every layer, in training.
        last_relu: apply ReLU after the last layer too, so that the output is non-negative.
        bias: whether the layers have one.
    """

    def __init__(
        self,
        channels: list[int],
        generator: torch.Generator,
        dropout: float = 0.0,
        last_relu: bool = False,
        bias: bool = True,
    ):
        super().__init__()
        pairs = zip(channels[:-1], channels[1:], strict=True)
        self.layers = nn.ModuleList(seeded_linear(a, b, generator, bias) for a, b in pairs)
        self.dropout, self.last_relu = dropout, last_relu

    def forward(self, x: Features, generator: torch.Generator | None = None) -> Tensor:
        """``generator`` switches dropout on; without one this is inference."""
        for i, layer in enumerate(self.layers):
            x = dropout(x, self.dropout, generator)
            x = _sparse_linear(x, layer) if isinstance(x, SparseMatrix) else layer(x)
            if i + 1 < len(self.layers) or self.last_relu:
                x = torch.relu(x)
        assert isinstance(x, Tensor)
        return x


def _sparse_linear(x: SparseMatrix, layer: nn.Module) -> Tensor:
    assert isinstance(layer, nn.Linear)
    product = x @ layer.weight.T
    return product if layer.bias is None else product + layer.bias
