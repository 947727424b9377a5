"""All randomness: numbers that are a pure function of a seed and a counter, and generators with a name each.

Philox4x32-10 (Salmon et al., 2011) is written on integer tensors, so a draw is the same on every device, for one
counter or a thousand at once, and no generator state exists that anything could disturb.
"""

from enum import IntEnum

import numpy as np
import torch
from torch import Tensor


class Stream(IntEnum):
    """What a generator is for; no two streams of one seed share numbers."""

    START_VALUES = 0  # of every trained parameter
    PHASE1_START_VALUES = 1  # of the classifier that phase 1 throws away
    DROPOUT = 2
    PHASE1_DROPOUT = 3
    BATCHES = 4  # the order of rows
    PHASE1_BATCHES = 5
    PROBES = 6  # random sums of rows that stand for all
    SKETCH = 7  # of wide features, that a search looks at
    RANDOM_NET = 8  # weights that are drawn once and kept
    NODE_MARKS = 9  # columns that tell nodes apart
    LANDMARKS = 10  # rows that others are compared with
    POSTERIOR = 11  # what stands for the uncertainty of a solved head
    FORWARD = 100  # plus the number of a module's forward pass: its dropout


# Philox streams inside one draw. Layers take the numbers from 0 on; these lie where no layer's weight does.
RANDOM_NODE_FEATURES = (1 << 32) - 2
DRAWN_EMBEDDING = (1 << 32) - 1  # and every second number below it, one per linear map


def seeded(seed: int, stream: int, device: torch.device | str = "cpu") -> torch.Generator:
    """A generator of its own for each ``Stream`` of each seed."""
    mixed = np.random.SeedSequence([seed & 0xFFFFFFFFFFFFFFFF, int(stream)]).generate_state(1, np.uint64)
    return torch.Generator(device=device).manual_seed(int(mixed[0]))


_MASK = 0xFFFFFFFF
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)


def philox(key: int, block: tuple[Tensor, Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Ten rounds over four broadcastable int64 tensors that hold 32-bit words; returns four such words each."""
    c0, c1, c2, c3 = block
    k0, k1 = key & _MASK, (key >> 32) & _MASK
    for _ in range(10):
        # The 64-bit product wraps into int64 with the right bits; the shift is arithmetic, hence the mask.
        p0, p1 = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c1, c2, c3 = ((p1 >> 32) & _MASK) ^ c1 ^ k0, p1 & _MASK, ((p0 >> 32) & _MASK) ^ c3 ^ k1, p0 & _MASK
        k0, k1 = (k0 + _KEY_STEPS[0]) & _MASK, (k1 + _KEY_STEPS[1]) & _MASK
    return c0, c1, c2, c3


def random_words(seed: int, counters: Tensor, stream: Tensor, count: int) -> Tensor:
    """``count`` random 32-bit words for every (counter, stream) pair.

    Args:
        seed: the key, any integer up to 64 bits.
        counters: which draws, int64.
        stream: which sequence inside a draw (layer, weight), int64 below 2^32.
        count: how many words.

    Shapes:
        counters ``[T]``, stream ``[K]`` -> int64 ``[T, K, count]``. Word j does not depend on ``count``.
    """
    device = counters.device
    block = torch.arange((count + 3) // 4, device=device)
    draws = counters[:, None, None]
    words = philox(
        seed & 0xFFFFFFFFFFFFFFFF,
        (block[None, None, :], stream[None, :, None], draws & _MASK, (draws >> 32) & _MASK),
    )
    return torch.stack(torch.broadcast_tensors(*words), dim=-1).flatten(-2)[..., :count]
