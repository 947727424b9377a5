"""A whole random layer in one GPU kernel: the sparse product, the weights, the activation and the residual.

Written in Triton, which CUDA builds of torch bring along; where it is missing, ``available`` says no and the product is
cuSPARSE's. A program adds up one piece of a row for a block of channels, in the order of its entries; long rows are cut
into pieces, so that none keeps the others waiting, and their sums are added in order too: the result is the same every
time.
"""

from functools import cache
from typing import Any

import torch
from torch import Tensor

from rapgnn.errors import notice

ACTIVATIONS = {"identity": 0, "relu": 1, "leaky_relu": 2}
ENTRIES = 64  # of a row that one program adds up


@cache
def _kernels() -> Any:
    """The module with the kernels; None where there is no Triton, or where it cannot compile for this GPU."""
    try:
        from rapgnn import fused_kernel

        one = torch.ones(1, 1, 1, 1, dtype=torch.float32, device="cuda")
        fused_kernel.launch_mix(one, one[0], None, torch.empty_like(one[0]))
    except ImportError:
        return None
    except Exception as error:  # a missing compiler, an old GPU: Triton says it in many ways
        reason = (str(error) or type(error).__name__).splitlines()[0]
        notice(f"GPU kernels cannot be compiled here, so slower ones serve: {reason}")
        return None
    return fused_kernel


def available(x: Tensor) -> bool:
    """Whether the kernels can multiply x; below 8 channels most of a program's threads would idle."""
    return x.shape[1] >= 8 and mixes(x)


def mixes(values: Tensor) -> bool:
    """Whether ``mix`` works where these numbers lie, in their precision."""
    return values.is_cuda and values.dtype == torch.float32 and _kernels() is not None


def mix(coefficients: Tensor, hops: Tensor, rows: Tensor | None = None, out: Tensor | None = None) -> Tensor:
    """Weighted sums of hops for many draws at once.

    Shapes:
        coefficients ``[T, J, K, d]``, hops ``[n, K, d]``, rows ``[T, B]`` -> ``[T, B, J·d]``.
    """
    draws, outputs, _, d = coefficients.shape
    if out is None:
        out = coefficients.new_empty(draws, len(hops) if rows is None else rows.shape[1], outputs * d)
    with torch.cuda.device(hops.device):
        _kernels().launch_mix(coefficients.contiguous(), hops, None if rows is None else rows.contiguous(), out)
    return out


class FusedProduct:
    """A sparse matrix S, its rows cut into pieces, that multiplies on a GPU.

    Args:
        crow, col, values: the three arrays of S as CSR, on the GPU.
    """

    def __init__(self, crow: Tensor, col: Tensor, values: Tensor, entries: int | None = None):
        self.col, self.values, self.num_rows = col, values, crow.numel() - 1
        # Longer pieces where rows are long: their sums take less room than the result.
        entries = entries or max(ENTRIES, 4 * len(col) // max(1, self.num_rows))
        counts = (crow.diff() + (entries - 1)).div(entries, rounding_mode="floor").clamp(min=1)  # pieces of every row
        first = torch.zeros(self.num_rows + 1, dtype=torch.int64, device=crow.device)
        first[1:] = counts.cumsum(0)
        row = torch.repeat_interleave(torch.arange(self.num_rows, device=crow.device), counts)
        start = crow[row] + entries * (torch.arange(len(row), device=crow.device) - first[row])
        long = (counts > 1).nonzero()[:, 0]
        bounds = torch.zeros(len(long) + 1, dtype=torch.int64, device=crow.device)
        bounds[1:] = counts[long].cumsum(0)
        slot = torch.full((len(row),), -1, dtype=torch.int32, device=crow.device)
        self.sums = int(bounds[-1])
        slot[counts[row] > 1] = torch.arange(self.sums, dtype=torch.int32, device=crow.device)
        self.pieces = row.to(torch.int32), torch.cat([start, crow[-1:]]).to(crow.dtype), slot
        self.long = long.to(torch.int32), bounds.to(torch.int32)

    def layer(
        self,
        h: Tensor,
        neighbour: Tensor | None = None,
        root: Tensor | None = None,
        residual: float = 0.0,
        activation: str = "identity",
    ) -> Tensor:
        """residual · h + σ(root ⊙ h + neighbour ⊙ (S h)); weights that are None are zero and one.

        Shapes:
            h ``[columns of S, d]``; weights ``[d]`` -> ``[rows of S, d]``.
        """
        h = h.contiguous()
        out = h.new_empty(self.num_rows, h.shape[1])
        weights = [None if w is None else w.contiguous() for w in (neighbour, root)]
        arrays = (self.pieces, self.long, self.sums, self.col, self.values)
        with torch.cuda.device(h.device):
            _kernels().launch(*arrays, h, out, *weights, residual, ACTIVATIONS[activation])
        return out
