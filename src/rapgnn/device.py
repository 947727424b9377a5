"""Where work runs: the device, and the threads (hops want all cores, a tiny epoch is slower with more than one)."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from rapgnn.errors import InputError, check_choice

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


def pick_device(name: str) -> str:
    """The torch device a user's word means."""
    check_choice("device", name, ("cpu", "cuda", "auto"))
    if name == "cpu" or (name == "auto" and not torch.cuda.is_available()):
        return "cpu"
    if not torch.cuda.is_available():
        raise InputError("no CUDA device is available: use cpu.")
    return "cuda"


def full_precision(device: torch.device | str) -> torch.autocast:
    """Random layers run in the precision of their input: inside autocast only the head may be rounded."""
    return torch.autocast(torch.device(device).type, enabled=False)
