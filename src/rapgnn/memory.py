"""How much memory there is: work in blocks, the peak of a piece of work, sizes as people write them."""

import contextlib
import ctypes
import gc
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from rapgnn.errors import InputError, shown


def blocks(count: int, most: int) -> Iterator[slice]:
    """So many rows or columns, a block of at most ``most`` of them after another."""
    for start in range(0, count, max(1, most)):
        yield slice(start, min(count, start + max(1, most)))


def even_width(count: int, most: int) -> int:
    """How wide blocks are that are all alike, at most so wide, at least one."""
    most = max(1, min(count, most))
    return -(-count // -(-count // most))


_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class PeakMemory:
    """``with PeakMemory(device) as peak: ...`` then ``peak.megabytes`` (None where the system does not tell).

    On a GPU torch's allocator is asked; on Linux the kernel's high-water mark of this process, reset at the start.
    """

    def __init__(self, device: torch.device | str = "cpu"):
        self.device = torch.device(device)
        self.megabytes: float | None = None
        self._before: int | None = None

    def __enter__(self) -> "PeakMemory":
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)
            self._before = torch.cuda.memory_allocated(self.device)
        else:
            self._before = _resident_after_reset()
        return self

    def __exit__(self, *exc: object) -> None:
        cuda = self.device.type == "cuda"
        peak = torch.cuda.max_memory_allocated(self.device) if cuda else _status("VmHWM")
        if peak is not None and self._before is not None:
            self.megabytes = max(0, peak - self._before) / 2**20


def give_back() -> None:
    """Return freed memory to the system; glibc keeps it otherwise."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def _resident_after_reset() -> int | None:
    gc.collect()
    give_back()  # kept memory would hide what is allocated next
    try:
        _RESET.write_text("5")
    except OSError:
        return None
    return _status("VmRSS")


def _status(field: str) -> int | None:
    for line in _STATUS.read_text().splitlines() if _STATUS.exists() else []:
        if line.startswith(field + ":"):
            return 1024 * int(line.split()[1])
    return None


def anonymous_bytes() -> int | None:
    """What this process holds in memory that no file backs; None where the system does not tell.

    Pages of a memory-mapped file that were not changed do not count: the system takes them back whenever it wants.
    """
    return _status("RssAnon")


class PeakAnonymous:
    """``with PeakAnonymous() as peak: ...`` then ``peak.bytes``: the most that ``anonymous_bytes`` was.

    The kernel keeps no such mark, so a thread looks again and again.

    Args:
        seconds: between two looks.
    """

    def __init__(self, seconds: float = 0.01):
        self.seconds, self.bytes = seconds, 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "PeakAnonymous":
        self._look()
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        self._thread.join()
        self._look()

    def _look(self) -> None:
        self.bytes = max(self.bytes, anonymous_bytes() or 0)

    def _watch(self) -> None:
        while not self._stop.wait(self.seconds):
            self._look()


UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
UNITS |= {"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", re.IGNORECASE)


def read_size(given: Any, what: str = "memory_limit") -> int:
    """The bytes that a size names.

    Args:
        given: bytes, or a number with a unit: kB, MB, GB, TB, KiB, MiB, GiB, TiB.
        what: is said to be wrong, where it is.
    """
    if isinstance(given, int) and not isinstance(given, bool) and given > 0:
        return given
    match = _SIZE.fullmatch(given) if isinstance(given, str) else None
    if match is None or match[2].lower() not in UNITS or float(match[1]) <= 0:
        raise InputError(f'{what} must be a size such as "8GiB" or "500MB", got {shown(given)}.')
    return max(1, int(float(match[1]) * UNITS[match[2].lower()]))


def show_size(count: int) -> str:
    """A size for people, rounded up, so that what is asked for is enough."""
    for unit in ("GiB", "MiB"):
        size = UNITS[unit.lower()]
        if count >= 10 * size:
            return f"{-(-count // size)}{unit}"
        if count >= size:
            return f"{-(-10 * count // size) / 10:g}{unit}"
    return f"{max(1, -(-count // 1024))}KiB"
