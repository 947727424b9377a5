"""Random weights: structure × schedule × distribution, each draw a pure function of (seed, counter, layer)."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from rapgnn.errors import InputError, check_choice
from rapgnn.prng import random_words

_SLOT_BITS = 20  # layer numbers below 2^20, the weight's place in the layer above them
EVALUATION = 1 << 40  # draws at inference count up from here, so they never repeat a training draw
PROBE = EVALUATION - 1  # draws that stand for all others count down from here, so training never reaches them


@dataclass(frozen=True)
class Distribution:
    """How 32 random bits become one weight, and the moments that the exact expectation needs."""

    sample: Callable[[Tensor, float, float], Tensor]
    mean: Callable[[float, float], float]
    second_moment: Callable[[float, float], float]
    lowest: Callable[[float, float], float]


def _uniform(words: Tensor, low: float, high: float) -> Tensor:
    # 24 bits are exact in float32, so every device gives the same number.
    return (words >> 8).to(torch.float32).mul_(2.0**-24).mul_(high - low).add_(low)


def _normal(words: Tensor, mean: float, std: float) -> Tensor:
    # The inverse error function differs between devices in the last bits: always computed on the CPU, in float64.
    unit = ((words.cpu() >> 8).to(torch.float64) + 0.5) * 2.0**-24
    values = torch.erfinv(2 * unit - 1) * (math.sqrt(2) * std) + mean
    return values.to(torch.float32).to(words.device)


DISTRIBUTIONS = {
    "uniform": Distribution(
        _uniform,
        mean=lambda low, high: (low + high) / 2,
        second_moment=lambda low, high: (low * low + low * high + high * high) / 3,
        lowest=lambda low, high: min(low, high),
    ),
    "normal": Distribution(
        _normal,
        mean=lambda mean, std: mean,
        second_moment=lambda mean, std: mean * mean + std * std,
        lowest=lambda mean, std: -math.inf if std else mean,
    ),
}
"""The distributions that weights are drawn from, by name."""

BY_WIDTH = {"glorot": 3.0, "linear": 1.0}
"""Signed distributions of a full matrix by its width d: U[-b, b], b² = value / d. Glorot's, and ``nn.Linear``'s."""


@dataclass(frozen=True)
class RandomWeights:
    r"""Weights of message-passing layers that are drawn, never trained.

    .. math:: \mathbf{w}^{(l)} = \mathrm{diag}(\boldsymbol{\alpha}^{(l)}), \quad \alpha_i^{(l)} \sim U[0, 1]

    Args:
        structure: ``"diagonal"`` (the paper's), ``"full"`` (a dense matrix) or ``"identity"``.
        schedule: draw anew every ``"forward"``, every ``"epoch"``, or once: ``"fixed"``.
        distribution: ``"uniform"`` or ``"normal"``; for full matrices also ``"glorot"`` or ``"linear"``, which take
            their bounds from the width.
        params: (low, high) of the uniform, (mean, standard deviation) of the normal distribution.
        seed: any integer.

    The object holds no state: ``draw(counter, ...)`` gives the same numbers on every device, in any order, alone or
    in a batch of counters, and never touches torch's global generator.
    """

    structure: str = "diagonal"
    schedule: str = "forward"
    distribution: str = "uniform"
    params: tuple[float, float] = (0.0, 1.0)
    seed: int = 0

    def __post_init__(self) -> None:
        check_choice("weight structure", self.structure, ("diagonal", "full", "identity"))
        check_choice("weight schedule", self.schedule, ("forward", "epoch", "fixed"))
        check_choice("weight distribution", self.distribution, (*DISTRIBUTIONS, *BY_WIDTH))
        if self.distribution in BY_WIDTH and self.structure == "diagonal":
            raise InputError(f"the {self.distribution} distribution is for full matrices, not for a diagonal.")
        if not all(math.isfinite(p) for p in self.params):
            raise InputError(f"weight distribution parameters must be finite numbers, got {self.params}.")
        if self.distribution == "normal" and self.params[1] < 0:
            raise InputError(
                f"the normal distribution's standard deviation must not be negative, got {self.params[1]}."
            )

    def counter(self, step: int, epoch: int) -> int:
        """Which draw a forward pass uses: ``step`` counts forward passes, ``epoch`` the passes over the data."""
        return {"forward": step, "epoch": epoch, "fixed": 0}[self.schedule]

    def evaluation_counter(self, draw: int) -> int:
        """Which draw inference uses: a fresh one, or the one there is where the weights are fixed."""
        return 0 if self.schedule == "fixed" else EVALUATION + draw

    def draw(
        self,
        counters: int | Sequence[int] | Tensor,
        layers: int | Sequence[int],
        channels: int,
        slot: int = 0,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> Tensor:
        """The weights of the given layers for each of T draws.

        Args:
            counters: one draw or T of them.
            layers: the first so many layers, or their numbers (from 0).
            channels: d, the width of a layer.
            slot: which of a layer's weights (root, neighbour, ...).

        Shapes:
            ``[T, L, d]`` for diagonal and identity, ``[T, L, d, d]`` (in, out) for full.
        """
        at = torch.as_tensor([counters] if isinstance(counters, int) else counters, dtype=torch.int64, device=device)
        numbers = (
            torch.arange(layers, device=device)  # made there: a captured graph cannot wait for a copy
            if isinstance(layers, int)
            else torch.as_tensor(layers, dtype=torch.int64, device=device)
        )
        stream = numbers + (slot << _SLOT_BITS)
        if self.structure == "identity":
            return torch.ones(len(at), len(stream), channels, device=device, dtype=dtype)
        if self.distribution in BY_WIDTH:
            layers = numbers.tolist() if not isinstance(layers, int) else layers
            return self.at(channels).draw(counters, layers, channels, slot, device=device, dtype=dtype)
        count = channels * channels if self.structure == "full" else channels
        words = random_words(self.seed, at, stream, count)
        values = DISTRIBUTIONS[self.distribution].sample(words, *self.params).to(dtype)
        return values.unflatten(-1, (channels, channels)) if self.structure == "full" else values

    def at(self, width: int) -> "RandomWeights":
        """With the bounds that the width decides put in."""
        if self.distribution not in BY_WIDTH:
            return self
        bound = math.sqrt(BY_WIDTH[self.distribution] / max(1, width))
        return replace(self, distribution="uniform", params=(-bound, bound))

    @property
    def mean(self) -> float:
        """E[α]."""
        if self.distribution in BY_WIDTH and self.structure != "identity":
            return 0.0
        return 1.0 if self.structure == "identity" else DISTRIBUTIONS[self.distribution].mean(*self.params)

    @property
    def second_moment(self) -> float:
        """E[α²]."""
        if self.structure == "identity":
            return 1.0
        if self.distribution in BY_WIDTH:
            raise InputError(
                f"the second moment of the {self.distribution} distribution depends on the width: at(width)."
            )
        return DISTRIBUTIONS[self.distribution].second_moment(*self.params)

    @property
    def on_device(self) -> bool:
        """Whether a draw is made where it is used, from beginning to end."""
        return self.structure == "identity" or self.distribution != "normal"

    @property
    def nonnegative(self) -> bool:
        """Whether no draw can be below zero."""
        if self.structure == "identity":
            return True
        return self.distribution in DISTRIBUTIONS and DISTRIBUTIONS[self.distribution].lowest(*self.params) >= 0
