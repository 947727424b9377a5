"""c_θ: representation -> scores, trained by gradient descent. (``ridge`` holds the head that is solved instead.)"""

import torch
from torch import Tensor, nn

from rapgnn.errors import InputError
from rapgnn.network.mlp import MLP, Noise
from rapgnn.network.scaling import SMALLEST, inverse


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
        self.out_channels = out_channels
        self.inverse_temperature = 1.0  # what the trained scores were multiplied with
        widths = [in_channels] + [hidden_channels] * (num_layers - 1) + [out_channels]
        self.mlp = MLP(widths, generator, dropout, batch_norm=batch_norm)
        self.register_buffer("input_scale", torch.ones(in_channels, dtype=torch.float32))
        self.register_buffer("input_offset", torch.zeros(in_channels, dtype=torch.float32))

    @property
    def linear(self) -> bool:
        return len(self.mlp.linears()) == 1

    def fit_input_scale(self, mean: Tensor, square: Tensor, channelwise: bool = False) -> None:
        """Make the inputs' root mean square one, so that one learning rate fits every depth and feature scale.

        Args:
            mean, square: of every channel ``[in_channels]``.
            channelwise: give every channel mean zero and variance one instead; a channel that is constant stays out.
        """
        if not channelwise:
            size = float(square.double().mean().sqrt())
            self.input_scale.fill_(1.0 / size if size > torch.finfo(torch.float32).tiny else 1.0)
            return
        mean, square = mean.double(), square.double()
        std = (square - mean.square()).clamp(min=0).sqrt()
        scale = inverse(std, SMALLEST * square.sqrt())
        self.input_scale.copy_(scale)
        self.input_offset.copy_(-mean * scale)

    @torch.no_grad()
    def multiply(self, factor: float) -> None:
        """Make all scores so many times larger."""
        last = self.mlp.linears()[-1]
        last.weight.mul_(factor)
        last.bias.mul_(factor)
        self.inverse_temperature *= factor

    def scaled(self, h: Tensor) -> Tensor:
        """The representation as the first layer sees it."""
        return torch.addcmul(self.input_offset, h, self.input_scale)

    def forward(self, h: Tensor, generator: Noise | None = None) -> Tensor:
        return self.mlp(self.scaled(h), generator)


# The scale of targets that are numbers.


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
