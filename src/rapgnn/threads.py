"""Intra-op threads, scoped: hops want all cores, a tiny epoch is many times slower with more than one."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

SMALL_WORK = 1 << 22  # multiply-adds below which handing work to a second thread costs more than it saves


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Run with ``count`` intra-op threads and restore what was set before."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def threads_for(work: int) -> Iterator[None]:
    """One thread for an epoch of few multiply-adds, the usual number otherwise."""
    with threads(1 if work < SMALL_WORK else torch.get_num_threads()):
        yield
