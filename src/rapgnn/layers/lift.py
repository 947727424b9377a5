r"""Random non-linear features: :math:`σ(z W + b)` with drawn W and b, never trained.

A linear head on many of them can be any smooth function of z (Rahimi and Recht, 2008). ``RandomLayer`` standardises
after σ and draws by counters; here z or z W is standardised before σ, and one generator draws for a whole network.
"""

import math

import torch
from torch import Tensor, nn

from rapgnn.layers.reservoir import NONLINEARITIES
from rapgnn.layers.standardize import Standard


class Lift(nn.Module):
    """Standardised inputs ``[rows, c]`` -> ``[rows, width]`` random non-linear features.

    Args:
        in_channels: c.
        inputs: how many inputs each feature looks at; 0: all.
        groups: parts of equal width that the inputs come in; a feature that looks at few looks at one part.
        activation: a name from ``NONLINEARITIES``.
        after: standardise the products instead of the inputs, as a layer of a deep random network does.
    """

    weight: Tensor
    bias: Tensor

    def __init__(
        self,
        in_channels: int,
        width: int,
        generator: torch.Generator,
        inputs: int = 0,
        activation: str = "relu",
        after: bool = False,
        groups: int = 1,
    ):
        super().__init__()
        self.activation, self.after = activation, after
        self.standard = Standard(width if after else in_channels)
        drawn = torch.randn(in_channels, width, generator=generator, dtype=torch.float32, device="cpu")
        if 0 < inputs < in_channels:
            part = in_channels // max(1, groups)
            place = torch.rand(in_channels, width, generator=generator, device="cpu")
            mine = torch.arange(width, device="cpu") % max(1, groups)
            group = torch.arange(in_channels, device="cpu") // max(1, part)
            place += (group[:, None] != mine[None]).float()  # those of other parts come last
            drawn = drawn * (place.argsort(0).argsort(0) < inputs)
        drawn /= math.sqrt(max(1, min(inputs or in_channels, in_channels)))
        bias = 2 * torch.rand(width, generator=generator, dtype=torch.float32, device="cpu") - 1
        self.register_buffer("weight", drawn.to(self.standard.shift.device))
        self.register_buffer("bias", bias.to(self.standard.shift.device))

    @torch.no_grad()
    def fit(self, z: Tensor) -> None:
        """Learn the inputs' (or products') means and variances."""
        self.standard.fit(z @ self.weight.to(z.dtype) if self.after else z)

    def forward(self, z: Tensor) -> Tensor:
        if self.after:
            z = self.standard(z @ self.weight.to(z.dtype)) + self.bias.to(z.dtype)
            return NONLINEARITIES[self.activation](z)
        return self.units(self.standard(z), slice(None))

    def units(self, z: Tensor, which: slice) -> Tensor:
        """Some of the features, of inputs that are standardised already."""
        weight, bias = (part.to(z.dtype) for part in (self.weight[:, which], self.bias[which]))
        return NONLINEARITIES[self.activation](torch.addmm(bias, z, weight))
