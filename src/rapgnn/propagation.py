"""What the random layers are, said once for both engines: the layer rule, its draws, and when the shortcut is exact."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from rapgnn.errors import InputError, check_choice
from rapgnn.operators import BACKBONES, Backbone
from rapgnn.spmm import SparseMatrix
from rapgnn.weights import RandomWeights

ACTIVATIONS = {
    "relu": torch.relu,
    "leaky_relu": F.leaky_relu,
    "tanh": torch.tanh,
    "identity": lambda z: z,
}
# These are the identity on non-negative numbers, and f(c·z) = c·f(z) for c > 0.
HOMOGENEOUS = ("relu", "leaky_relu", "identity")


@dataclass(frozen=True)
class Propagation:
    r"""L layers :math:`h ← s·h + σ(a ⊙ h + b ⊙ (S h))` with drawn a and b.

    Args:
        backbone: a name from ``BACKBONES``.
        num_layers: L.
        weights: how a and b are drawn.
        residual: s; None takes the backbone's own.
        activation: σ, a name from ``ACTIVATIONS``.
        dropout: between layers, in training.
        rescale: divide each layer by its expected growth, a constant, so that depth neither overflows nor underflows.
            The paper's raw equation is ``rescale=False``; the two differ by one constant factor on the output.
    """

    backbone: str = "gcn"
    num_layers: int = 8
    weights: RandomWeights = field(default_factory=RandomWeights)
    residual: bool | None = None
    activation: str = "relu"
    dropout: float = 0.0
    rescale: bool = True

    def __post_init__(self) -> None:
        check_choice("backbone", self.backbone, BACKBONES)
        check_choice("activation", self.activation, ACTIVATIONS)
        if self.num_layers < 1:
            raise InputError(f"the number of layers must be at least 1, got {self.num_layers}.")
        if not 0.0 <= self.dropout < 1.0:
            raise InputError(f"dropout must lie in [0, 1), got {self.dropout}.")

    @property
    def rule(self) -> Backbone:
        return BACKBONES[self.backbone]

    @property
    def skip(self) -> float:
        """s: 1 with the residual, 0 without."""
        return float(self.rule.residual if self.residual is None else self.residual)

    def draw(self, counters: int | Sequence[int] | Tensor, channels: int, **to) -> dict[str, Tensor]:
        """{term: weights}, ``[T, L, d]`` or, for full matrices, ``[T, L, d, d]``; ``to`` names device and dtype."""
        terms = enumerate(self.rule.terms)
        return {term: self.weights.draw(counters, self.num_layers, channels, slot, **to) for slot, term in terms}

    def growth(self, channels: int) -> float:
        """The constant each layer's output is divided by: s plus what the weights add up to on average."""
        if not self.rescale or self.activation not in HOMOGENEOUS:
            return 1.0
        fan_in = channels if self.weights.structure == "full" else 1
        w = self.weights
        typical = w.mean * fan_in if w.nonnegative else math.sqrt(w.second_moment * fan_in)
        growth = self.skip + len(self.rule.terms) * typical
        return growth if growth > 0 else 1.0

    def first_moments(self) -> tuple[float, float]:
        """E[a], E[b] of one channel of one layer."""
        return tuple(self.weights.mean if t in self.rule.terms else 0.0 for t in ("root", "neighbour"))  # type: ignore[return-value]

    def obstacle(self, operator: SparseMatrix, h: Tensor | SparseMatrix) -> str | None:
        """Why the polynomial shortcut would not be exact here; None where it is."""
        if self.weights.structure == "full":
            return "full weight matrices mix channels"
        if self.dropout > 0:
            return "dropout acts between the layers"
        if self.activation == "identity":
            return None  # linear: signs do not matter
        if self.activation not in HOMOGENEOUS:
            return f"the activation {self.activation} is not the identity on non-negative numbers"
        if not self.weights.nonnegative:
            return f"the {self.weights.distribution}{self.weights.params} weights can be negative"
        if not operator.nonnegative:
            return "the graph has negative edge weights"
        if not (h.nonnegative if isinstance(h, SparseMatrix) else bool((h >= 0).all())):
            return "the embedded features have negative entries"
        return None
