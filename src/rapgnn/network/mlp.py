"""Multi-layer perceptrons whose start values and dropout come from a generator they are given."""

import math
from collections.abc import Callable
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rapgnn.prng import seeded
from rapgnn.sparse import Features, SparseMatrix

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "leaky_relu": F.leaky_relu,
    "tanh": torch.tanh,
    "identity": lambda z: z,
}
"""σ by name."""

# Dropout that takes its randomness from a generator it is given (torch's own takes the global one).


def dropout_generator(
    seed: int, stream: int, device: torch.device, entries: int, most: int = 1 << 22
) -> torch.Generator:
    """Where the dropout of a training takes its randomness.

    From the CPU, so that every device trains the same model; on a GPU from the GPU itself where a step drops out of
    more entries (``most``) than the CPU can draw beside it.
    """
    return seeded(seed, stream, device if entries > most else "cpu")


class Masks:
    """Random words for the dropouts of captured GPU work, which cannot ask the CPU: drawn before it runs.

    Args:
        generator: on the CPU; the words are those it would give to one dropout after another.
        words: the most that the work takes.
    """

    def __init__(self, generator: torch.Generator, words: int, device: torch.device):
        self.generator, self._taken = generator, 0
        self._words = torch.zeros(words, dtype=torch.int64, device=device)

    def refill(self, count: int) -> None:
        words = random_words(count, self.generator)
        if self._words.is_cuda:
            words = words.pin_memory()  # so that nobody waits for the copy
        self._words[:count].copy_(words, non_blocking=True)

    def restart(self) -> None:
        """Take from the first word on again."""
        self._taken = 0

    def take(self, count: int) -> Tensor:
        start, self._taken = self._taken, self._taken + count
        return self._words[start : self._taken]


Noise = torch.Generator | Masks  # where dropout takes its randomness


def random_words(count: int, generator: torch.Generator) -> Tensor:
    """int64 words of 64 random bits, where the generator lies."""
    words = torch.empty(count, dtype=torch.int64, device=generator.device)
    return words.random_(-(1 << 63), None, generator=generator)


def kept_of_256(p: float) -> int:
    """Of 256 entries, how many a dropout of p keeps: 256 where it is too rare for a byte to tell."""
    return max(1, round(256 * (1 - p)))


def words_for(entries: int, p: float) -> int:
    return 0 if p == 0 or kept_of_256(p) == 256 else (entries + 7) // 8


def dropout(x: Features, p: float, generator: Noise | None) -> Features:
    """x with each entry zeroed with probability p and the rest scaled by 1 / (1 - p); no generator: x itself."""
    if p == 0 or generator is None:
        return x
    if isinstance(x, SparseMatrix):
        return x.with_values(dropout_dense(x.values, p, generator))
    return dropout_dense(x, p, generator)


def dropout_dense(x: Tensor, p: float, generator: Noise | None) -> Tensor:
    """``dropout`` for a dense tensor.

    One random byte per entry, so the share kept is rounded to 1/256 (and the scale matches it): torch draws a full
    number per entry, which on a CPU costs more than the layer it protects.
    """
    count = words_for(x.numel(), p)
    if not count or generator is None:
        return x
    keep = kept_of_256(p)
    words = generator.take(count) if isinstance(generator, Masks) else random_words(count, generator).to(x.device)
    mask = words.view(torch.uint8)[: x.numel()].view(x.shape) < keep
    return x * (mask.to(x.dtype) * (256 / keep))


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
        last_relu: apply ReLU after the last layer too, so that the output is non-negative.
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


# Lookup tables that embed categorical features.


class Encoder(nn.Module):
    """A table with one row per category: what a row of 0/1 features looks up and adds up, OGB's encoders included.

    On real-valued features it is a linear map without bias.

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
