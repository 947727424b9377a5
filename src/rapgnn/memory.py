"""Peak memory of a piece of work, above what was in use when it began."""

import contextlib
import ctypes
import gc
from pathlib import Path

import torch

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


def _resident_after_reset() -> int | None:
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)  # glibc keeps freed memory, which would hide what is allocated next
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
