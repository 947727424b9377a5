"""Graphs in blocks that fit into memory."""

from collections.abc import Iterator

import torch
from torch import Tensor

from rapgnn.layers.reservoir import BLOCK_BYTES


def graph_blocks(ptr: Tensor, rows: Tensor, width: int) -> Iterator[Tensor]:
    """Graphs in blocks whose nodes, so many numbers each, take at most ``BLOCK_BYTES``; a large graph is alone.

    Of no graphs there is one block, which is empty.
    """
    most = max(1, BLOCK_BYTES // (4 * max(1, width)))
    sizes = ptr.diff()[rows].cumsum(0)
    start = before = 0
    while start < len(rows) or not start:
        stop = max(start + 1, int(torch.searchsorted(sizes, before + most, right=True)))
        yield rows[start:stop]
        start, before = stop, int(sizes[stop - 1]) if len(sizes) else 0
