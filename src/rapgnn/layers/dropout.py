"""Dropout that takes its randomness from a generator it is given (torch's own takes the global one)."""

import torch
from torch import Tensor

from rapgnn.prng import seeded
from rapgnn.sparse import Features, SparseMatrix

MOST_ENTRIES = 1 << 22  # of a step, up to which masks for a GPU are drawn on the CPU


def dropout_generator(seed: int, stream: int, device: torch.device, entries: int) -> torch.Generator:
    """Where the dropout of a training takes its randomness.

    From the CPU, so that every device trains the same model; on a GPU from the GPU itself where a step drops out of
    more entries than the CPU can draw beside it.
    """
    return seeded(seed, stream, device if entries > MOST_ENTRIES else "cpu")


class Masks:
    """Random words for the dropouts of captured GPU work, which cannot ask the CPU: drawn before it runs.

    Args:
        generator: on the CPU; the words are those it would give to one dropout after another.
        words: the most that the work takes.
        device: where they are taken.
    """

    def __init__(self, generator: torch.Generator, words: int, device: torch.device):
        self.generator, self._taken = generator, 0
        self._words = torch.zeros(words, dtype=torch.int64, device=device)

    def refill(self, count: int) -> None:
        """Fresh words for the next run of the work."""
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
    """How many words a dropout takes."""
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
