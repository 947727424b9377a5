"""A reservoir system as a whole: the untrained encoder of some depth, and the readout."""

from typing import Any

import torch
from torch import Tensor, nn

from rapgnn.layers.reservoir import RandomLayer
from rapgnn.layers.standardize import Standardize
from rapgnn.layers.targets import TargetScale
from rapgnn.models.reservoirs.encoder import ReservoirEncoder
from rapgnn.sparse import Features


class ReservoirNetwork(nn.Module):
    """Encoder, a random projection where the system has one, standardised columns where it wants them, readout.

    Args:
        depth: of the encoder, one of its ``depths``.
        head: maps columns to raw scores: the readout.
        output: gives targets that are numbers back in their own scale.
    """

    def __init__(
        self,
        encoder: ReservoirEncoder,
        depth: int,
        head: nn.Module,
        output: TargetScale,
        projection: RandomLayer | None = None,
        standardize: Standardize | None = None,
    ):
        super().__init__()
        self.encoder, self.depth, self.head, self.output = encoder, depth, head, output
        self.projection, self.standardize = projection, standardize

    def columns(self, parts: list[Tensor]) -> Tensor:
        """What the readout sees of encoded rows."""
        h = self.encoder.columns(parts, self.depth)
        h = h if self.projection is None else self.projection(h)
        return h if self.standardize is None else self.standardize(h)

    @torch.no_grad()
    def forward(self, x: Features, context: Any, rows: Tensor) -> Tensor:
        """Raw scores of some rows of a graph, or of many; ``context`` is ``encoder.context(graph)``."""
        return self.head(self.columns(self.encoder.encode(x, context, rows, self.depth)))
