"""Lookup tables that embed categorical features."""

import math

import torch
from torch import Tensor, nn

from rapgnn.layers.mlp import start_device
from rapgnn.sparse import Features


class Encoder(nn.Module):
    """A table with one row per category: what a row of 0/1 features looks up and adds up, OGB's encoders included.

    On real-valued features it is a linear map without bias.

    Args:
        width: number of categories (columns of the features).
        channels: d.
        generator: for the start values.

    Shapes:
        features ``[n, width]`` -> ``[n, d]``.
    """

    def __init__(self, width: int, channels: int, generator: torch.Generator):
        super().__init__()
        self.table = nn.Embedding(width, channels, device="meta", dtype=torch.float32).to_empty(device=start_device())
        bound = math.sqrt(6.0 / max(1, width + channels))
        with torch.no_grad():
            self.table.weight.uniform_(-bound, bound, generator=generator)

    def forward(self, x: Features) -> Tensor:
        return x @ self.table.weight
