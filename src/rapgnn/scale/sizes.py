"""Sizes of memory as people write them: ``"8GiB"``, ``"500 MB"``, or bytes."""

import re
from typing import Any

from rapgnn.errors import InputError, shown

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
