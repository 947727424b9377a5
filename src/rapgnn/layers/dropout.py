"""Dropout that takes its randomness from a generator it is given (torch's own takes the global one)."""

import torch
from torch import Tensor

from rapgnn.sparse import Features, SparseMatrix


def dropout(x: Features, p: float, generator: torch.Generator | None) -> Features:
    """x with each entry zeroed with probability p and the rest scaled by 1 / (1 - p); no generator: x itself."""
    if p == 0 or generator is None:
        return x
    if isinstance(x, SparseMatrix):
        return x.with_values(dropout_dense(x.values, p, generator))
    return dropout_dense(x, p, generator)


def dropout_dense(x: Tensor, p: float, generator: torch.Generator | None) -> Tensor:
    """``dropout`` for a dense tensor.

    One random byte per entry, so the share kept is rounded to 1/256 (and the scale matches it): torch draws a full
    number per entry, which on a CPU costs more than the layer it protects.
    """
    if p == 0 or generator is None:
        return x
    keep = max(1, round(256 * (1 - p)))
    if keep == 256:  # too rare for a byte to tell
        return x
    words = torch.empty((x.numel() + 7) // 8, dtype=torch.int64, device=x.device)
    words.random_(-(1 << 63), None, generator=generator)
    mask = words.view(torch.uint8)[: x.numel()].view(x.shape) < keep
    return x * (mask.to(x.dtype) * (256 / keep))
