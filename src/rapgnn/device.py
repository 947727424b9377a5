"""Where work runs: the device, and the threads (hops want all cores, a tiny epoch is slower with more than one)."""

import os
import platform
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from rapgnn.errors import InputError, check_choice

SMALL_WORK = 1 << 22  # multiply-adds below which handing work to a second thread costs more than it saves
LOOKS, BETWEEN = 3, 1e-3  # how often a machine that seems busy is looked at, and after how many seconds again


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


def others_running(proc: Path = Path("/proc")) -> int:
    """Threads of other processes that run, or wait for a core, now; 0 where the system does not tell."""
    least = 0
    for look in range(LOOKS):
        try:
            running = int((proc / "loadavg").read_text().split()[3].partition("/")[0])
            states = [task.read_text().rpartition(")")[2].split()[0] for task in (proc / "self/task").glob("*/stat")]
        except (OSError, ValueError, IndexError):
            return 0
        seen = max(0, running - states.count("R"))
        least = min(least, seen) if look else seen
        if not least:  # work that comes and goes is no reason to wait
            return 0
        time.sleep(BETWEEN)
    return least


def free_threads() -> int:
    """The usual number of threads, or fewer where other work has the cores: a thread that waits for a core of its own
    makes all others wait at the end of every operation."""
    usual = torch.get_num_threads()
    others = others_running() if usual > 1 else 0
    return max(1, min(usual, (os.cpu_count() or usual) - others)) if others else usual


@contextmanager
def own_settings() -> Iterator[None]:
    """Results are the same whatever the caller has set: default precision and device, autocast, inference mode.

    On a busy machine there are fewer threads, which decides no result either.
    """
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        with ExitStack() as inside:
            inside.enter_context(threads(free_threads()))
            inside.enter_context(torch.inference_mode(False))
            for kind in filter(torch.is_autocast_enabled, ("cpu", "cuda")):
                inside.enter_context(torch.autocast(kind, enabled=False))
            if torch.get_default_device().type != "cpu":
                inside.enter_context(torch.device("cpu"))
            yield
    finally:
        torch.set_default_dtype(before)


def pick_device(name: str) -> str:
    """The torch device a user's word means."""
    check_choice("device", name, ("cpu", "cuda", "auto"))
    if name == "cpu" or (name == "auto" and not torch.cuda.is_available()):
        return "cpu"
    if not torch.cuda.is_available():
        raise InputError("no CUDA device is available: use cpu.")
    return "cuda"


def free_memory(device: torch.device | str = "cuda") -> int:
    """Bytes of a GPU that this process may still take: what is free, and what torch allows the process."""
    index = _index(device)
    free, total = torch.cuda.mem_get_info(index)
    share = torch.cuda.get_per_process_memory_fraction(index)
    return free if share >= 1 else max(0, min(free, int(share * total) - torch.cuda.memory_reserved(index)))


def _index(device: torch.device | str) -> int:
    """The number of a GPU; the present one's, where only the kind is named."""
    index = torch.device(device).index
    return torch.cuda.current_device() if index is None else index


def full_precision(device: torch.device | str) -> torch.autocast:
    """Random layers run in the precision of their input: inside autocast only the head may be rounded."""
    return torch.autocast(torch.device(device).type, enabled=False)


def versions() -> dict[str, str]:
    """Package versions and the Python they ran on."""
    named = {"python": platform.python_version()}
    for name in ("rapgnn", "torch", "torch_geometric", "numpy", "scipy"):
        try:
            named[name] = version(name)
        except PackageNotFoundError:
            named[name] = "source tree" if name == "rapgnn" else "absent"
    return named


def hardware(device: str) -> str:
    """The processor a run used, in words."""
    if device.startswith("cuda"):
        return torch.cuda.get_device_name(device)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()  # those it may use
    return f"{platform.machine()} CPU, {cores} cores"
