"""Multi-layer perceptrons whose start values and dropout come from a generator they are given."""

import math
from itertools import pairwise

import torch
from torch import Tensor, nn

from rapgnn.layers.dropout import Noise, dropout, words_for
from rapgnn.sparse import Features


def start_device() -> str:
    """Where start values are drawn: on the CPU whatever the default is, and nowhere if only shapes are asked for."""
    return "meta" if torch.get_default_device().type == "meta" else "cpu"


def seeded_linear(in_channels: int, out_channels: int, generator: torch.Generator, bias: bool = True) -> nn.Linear:
    """``nn.Linear`` with its usual start values, drawn from ``generator`` instead of the global one."""
    layer = nn.Linear(in_channels, out_channels, bias=bias, device="meta", dtype=torch.float32)
    layer = layer.to_empty(device=start_device())
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
        batch_norm: normalise before every ReLU, by the batch in training and by running averages at inference.
    """

    def __init__(
        self,
        channels: list[int],
        generator: torch.Generator,
        dropout: float = 0.0,
        last_relu: bool = False,
        bias: bool = True,
        batch_norm: bool = False,
    ):
        super().__init__()
        self.layers = nn.ModuleList(seeded_linear(a, b, generator, bias) for a, b in pairwise(channels))
        self.dropout, self.last_relu = dropout, last_relu
        normed = channels[1:] if last_relu else channels[1:-1]
        self.norms = (
            nn.ModuleList(nn.BatchNorm1d(width, dtype=torch.float32) for width in normed) if batch_norm else None
        )

    def forward(self, x: Features, generator: Noise | None = None) -> Tensor:
        """``generator`` switches dropout on; without one this is inference."""
        h = x
        for i, layer in enumerate(self.linears()):
            h = _linear(dropout(h, self.dropout, generator), layer)
            if i + 1 < len(self.layers) or self.last_relu:
                h = torch.relu(self.normed(i, h, training=generator is not None))
        assert isinstance(h, Tensor)
        return h

    def mask_words(self, rows: int) -> int:
        """How many random words the dropouts of a forward pass over dense rows take."""
        return sum(words_for(rows * layer.in_features, self.dropout) for layer in self.linears())

    def normed(self, index: int, h: Tensor, training: bool = False) -> Tensor:
        """What follows linear layer number ``index``, before its ReLU: normalised, where the MLP does that."""
        if self.norms is None:
            return h
        norm = self.norms[index]
        return norm.train(training and len(h) > 1)(h)  # one row has no variance

    def linears(self) -> list[nn.Linear]:
        return [layer for layer in self.layers if isinstance(layer, nn.Linear)]


def _linear(x: Features, layer: nn.Linear) -> Tensor:
    if isinstance(x, Tensor):
        return layer(x)
    product = x @ layer.weight.T
    return product if layer.bias is None else product + layer.bias
