"""Philox4x32-10 (Salmon et al., 2011): random bits as a pure function of a key and a counter.

Written on integer tensors, so a draw is the same on every device, for one counter or a thousand at once,
and no generator state exists that anything could disturb.
"""

import torch
from torch import Tensor

_MASK = 0xFFFFFFFF
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)


def philox(key: int, counter: tuple[Tensor, Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Ten rounds over four broadcastable int64 tensors that hold 32-bit words; returns four such words each."""
    c0, c1, c2, c3 = counter
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
