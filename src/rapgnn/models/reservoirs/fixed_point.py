"""A reservoir on a graph: a non-linear map of all nodes' states, iterated to its fixed point."""

import torch
from torch import Tensor

from rapgnn.sparse import SparseMatrix


def fixed_point(
    drive: Tensor,
    matrix: SparseMatrix,
    weight: Tensor,
    tolerance: float,
    max_iterations: int,
    start: Tensor | None = None,
) -> Tensor:
    r"""The states h with h = tanh(drive + S h W).

    The map is a contraction, and the fixed point the same from every start, where ρ(|S|) ρ(|W|) < 1: differences of two
    states shrink entry by entry at least as fast as by the matrix \|S\| ⊗ \|W\|.

    Args:
        drive: what the input adds at every step ``[n, d]``.
        matrix: S ``[n, n]``; weight: W ``[d, d]``.
        tolerance: stop when no entry changes by more.
        max_iterations: stop after so many steps in any case.
        start: the first state; None: zero.
    """
    h = torch.tanh(drive) if start is None else torch.tanh(drive + (matrix @ start) @ weight)
    for _ in range(max_iterations - 1):
        following = torch.tanh(drive + (matrix @ h) @ weight)
        moved = float((following - h).abs().max()) if h.numel() else 0.0
        h = following
        if moved <= tolerance:
            break
    return h
