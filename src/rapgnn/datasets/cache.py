"""Datasets parsed once: plain arrays in the cache, without pickle, under a name that changes with the files.

The SHA-256 of a cached file lies beside it: what does not match is parsed again and replaced.
"""

import contextlib
import hashlib
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from rapgnn.datasets.sources import cache_dir
from rapgnn.errors import InputError
from rapgnn.files import is_regular, read_regular, remove_special, sha256, write_atomic

Arrays = dict[str, np.ndarray]
VERSION = 1  # of what the parsers make of a file; raise it when that changes


def parsed(name: str, folder: Path, files: Sequence[Path], parse: Callable[[Path], Arrays]) -> Arrays:
    """What ``parse(folder)`` gives, or gave the last time the same files were read."""
    digest = hashlib.sha256(str(VERSION).encode())
    for path in files:
        digest.update(sha256(path).encode() if is_regular(path) else b"-")
    kept = cache_dir() / "parsed" / f"{name}-{digest.hexdigest()[:16]}.npz"
    noted = kept.with_name(f"{kept.name}.sha256")
    try:
        if read_regular(noted, 1 << 10).decode().strip() == sha256(kept):
            with kept.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
                return {key: arrays[key] for key in arrays.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, KeyError):
        pass  # not there, or damaged: parsed again and replaced
    fresh = parse(folder)
    with contextlib.suppress(InputError, OSError):  # a cache that cannot be written costs time, not the data
        for path in (kept, noted):
            remove_special(path)
        write_atomic(kept, lambda temporary: np.savez(temporary, **fresh))  # type: ignore[arg-type]
        checksum = sha256(kept)
        write_atomic(noted, lambda temporary: temporary.write_text(f"{checksum}\n"))
    return fresh
