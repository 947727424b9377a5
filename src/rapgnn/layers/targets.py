"""The scale of targets that are numbers."""

import torch
from torch import Tensor, nn


class TargetScale(nn.Module):
    """Targets that are numbers are learned with mean 0 and variance 1, and given back as they were."""

    shift: Tensor
    scale: Tensor
    plain: Tensor

    def __init__(self, out_channels: int):
        super().__init__()
        self.register_buffer("shift", torch.zeros(out_channels, dtype=torch.float32))
        self.register_buffer("scale", torch.ones(out_channels, dtype=torch.float32))
        self.register_buffer("plain", torch.ones((), dtype=torch.bool))

    def fit(self, y: Tensor) -> None:
        """Take mean and standard deviation of the known training targets ``[r, t]``."""
        for column, values in enumerate(y.T):
            known = values[~values.isnan()].double()
            if len(known):
                std = float(known.std(correction=0))
                self.shift[column], self.scale[column] = float(known.mean()), std if std > 0 else 1.0
        self.plain.fill_(False)

    def standardise(self, y: Tensor) -> Tensor:
        return y if self.plain else (y - self.shift) / self.scale

    def forward(self, scores: Tensor) -> Tensor:
        return scores if self.plain else torch.addcmul(self.shift, scores, self.scale)

    def scale_spread(self, spread: Tensor) -> Tensor:
        """The standard deviation ``[..., t]`` of raw scores as that of what they are given back as."""
        return spread if self.plain else spread * self.scale
