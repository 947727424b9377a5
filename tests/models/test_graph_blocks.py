"""Graphs in blocks that fit into memory."""

import pytest
import torch

from rapgnn.models import graph_blocks as module
from rapgnn.models.graph_blocks import graph_blocks

PTR = torch.tensor([0, 0, 3, 3, 15, 16, 20, 20])  # 0, 3, 0, 12, 1, 4 and 0 nodes


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([0, 1, 2, 3, 4, 5, 6], [[0, 1, 2], [3], [4, 5, 6]]),
        ([3, 0, 3, 1], [[3], [0], [3], [1]]),
        ([5, 1, 1, 4], [[5], [1, 1], [4]]),
        ([0, 2], [[0, 2]]),
        ([], [[]]),
    ],
)
def test_graphs_fill_a_block_and_a_large_one_is_alone(rows, expected, monkeypatch):
    monkeypatch.setattr(module, "BLOCK_BYTES", 4 * 2 * 6)  # 6 nodes of 2 numbers
    blocks = list(graph_blocks(PTR, torch.tensor(rows, dtype=torch.int64), 2))
    assert [block.tolist() for block in blocks] == expected
