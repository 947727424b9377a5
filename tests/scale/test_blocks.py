"""The memory limit: how wide a block it allows, the least that works, and the peak that is measured."""

import re

import numpy as np
import pytest

from disk_cases import in_process
from rapgnn import InputError, make_graph
from rapgnn.scale import blocks
from rapgnn.scale.blocks import Budget, block_width
from rapgnn.scale.disk_graph import DiskGraph
from rapgnn.scale.sizes import read_size, show_size

NODES, WIDTH = 200_000, 24


@pytest.fixture(scope="module")
def large(tmp_path_factory) -> DiskGraph:
    rng = np.random.default_rng(0)
    x = rng.random((NODES, WIDTH), dtype=np.float32)
    rows = np.split(rng.permutation(NODES)[:600], [400, 500])
    edges = rng.integers(0, NODES, (2, 800_000))
    graph = make_graph(x, edges, np.arange(NODES) % 3, *rows, sparse=False)
    return DiskGraph.write(tmp_path_factory.mktemp("large") / "g", graph)


@pytest.mark.parametrize(
    ("given", "size"),
    [("8GiB", 8 << 30), ("500MB", 500_000_000), (" 1.5 gib ", 3 << 29), ("64k", None), (12345, 12345), ("7", 7)],
)
def test_sizes_are_read(given, size):
    if size is None:
        with pytest.raises(InputError, match=r"must be a size such as .8GiB."):
            read_size(given)
    else:
        assert read_size(given) == size


@pytest.mark.parametrize("given", ["", "much", "-1GiB", "0", 0, -5, True, None, 1.5, "8 GiBs", "1e9"])
def test_what_is_no_size_is_refused(given):
    with pytest.raises(InputError, match="must be a size"):
        read_size(given)


@pytest.mark.parametrize("size", [1, 1023, 1 << 20, (1 << 20) + 1, 123 << 20, (9 << 30) + 5, 77 << 30])
def test_a_size_that_is_shown_is_enough(size):
    assert size <= read_size(show_size(size)) <= 1.11 * size + 1024


def least(graph: DiskGraph) -> int:
    """What the refusal of a limit of 10 MiB names."""
    with pytest.raises(InputError) as refused:
        block_width(graph, WIDTH, Budget(10 << 20))
    sentence = re.fullmatch(
        r"the memory limit of 10MiB is too small for one column of 200,000 nodes: (\w+) is the least that works\.",
        str(refused.value),
    )
    assert sentence
    return read_size(sentence[1])


@pytest.fixture
def steady(monkeypatch):
    """What the process holds, the same at every look: other tests' memory comes and goes."""
    monkeypatch.setattr(blocks, "anonymous_bytes", lambda: 300 << 20)


def test_blocks_grow_with_the_limit(large, steady):
    limits = [least(large) + (size << 20) for size in (-14, 0, 100)]
    widths = [block_width(large, WIDTH, Budget(limit)) for limit in limits]
    assert widths[0] < widths[1] < widths[2] == WIDTH
    assert block_width(large, WIDTH, Budget()) == WIDTH


def test_blocks_have_about_the_same_width(large, monkeypatch):
    monkeypatch.setattr(Budget, "room", lambda *_: 17 * 8 * NODES)
    assert block_width(large, WIDTH, Budget(1)) == 12  # two of twelve, not one of seventeen and one of seven


def test_too_small_a_limit_names_the_least_that_works(large, steady):
    enough = least(large)
    assert block_width(large, WIDTH, Budget(enough)) >= 1
    with pytest.raises(InputError, match="too small"):
        block_width(large, WIDTH, Budget(enough - (32 << 20)))


def test_the_limit_is_kept(large):
    """Fit and prediction with error bars in a process of its own, by narrow blocks: its peak stays below the limit."""
    done = in_process("fit_under_limit", folder=str(large.folder), columns=5)
    assert done.returncode == 0, done.stderr
    limit, peak, blocks = map(int, done.stdout.split())
    assert peak <= limit
    assert blocks >= 2
