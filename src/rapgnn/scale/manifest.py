"""What lies in the folder of a graph on disk: the arrays, their sizes and checksums, and the check against them."""

import contextlib
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from rapgnn.errors import InputError
from rapgnn.files import is_regular, read_regular, sha256, write_atomic

FORMAT = "rapgnn-graph-1"
MANIFEST, CHECKED = "graph.json", "checked.json"
ARRAYS = ("indptr", "indices", "weights", "features", "y", "train", "val", "test")
OPTIONAL = ("weights",)
IDS = "ids.parquet"
CURE = "make the folder again"

Say = Callable[[str], None]


def array_path(folder: Path, name: str) -> Path:
    """The file of one array."""
    return folder / f"{name}.npy"


def create_array(folder: Path, name: str, shape: tuple[int, ...], dtype: Any, fortran: bool = False) -> np.ndarray:
    """A new array in a file, of zeros, to be filled part by part; memory-mapped unless it is empty."""
    path = array_path(folder, name)
    if 0 in shape:
        empty = np.zeros(shape, dtype, order="F" if fortran else "C")
        np.save(path, empty)
        return empty
    return np.lib.format.open_memmap(path, "w+", np.dtype(dtype), shape, fortran_order=fortran)


def open_array(path: Path) -> np.ndarray:
    """An array of a file, memory-mapped and read-only; an empty one is read."""
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        with contextlib.suppress(OSError, ValueError, EOFError):
            array = np.load(path, allow_pickle=False)
            if array.size == 0:  # which cannot be mapped
                return array
        raise InputError(f"refused {path}: it is no numpy array: {CURE}.") from error


def seal(folder: Path, about: dict[str, Any], say: Say = lambda line: None) -> None:
    """Write the manifest, last of all files, so that a folder with one is whole.

    Args:
        about: what the manifest says beyond format, files and fingerprint; ``num_nodes``, ``task``, and so on.
    """
    names = [f"{name}.npy" for name in ARRAYS if is_regular(array_path(folder, name))]
    names += [IDS] if is_regular(folder / IDS) else []
    files: dict[str, dict[str, Any]] = {}
    for name in names:
        say(f"checksum of {name}")
        files[name] = {"bytes": (folder / name).stat().st_size, "sha256": sha256(folder / name)}
    told = {"num_nodes", "num_edges", "num_features", "task"}
    content = {name: noted["sha256"] for name, noted in files.items() if name != IDS}
    marks = json.dumps([{k: about[k] for k in sorted(told)}, content], sort_keys=True)
    fingerprint = hashlib.sha256(marks.encode()).hexdigest()[:16]
    manifest = {"format": FORMAT, **about, "fingerprint": fingerprint, "files": files}
    text = json.dumps(manifest, indent=1)
    _note(folder, {name: _state(folder / name) for name in names})
    write_atomic(folder / MANIFEST, lambda temporary: temporary.write_text(text))


def unseal(folder: Path) -> None:
    """Take the manifest away before the arrays change."""
    (folder / MANIFEST).unlink(missing_ok=True)


def is_sealed(folder: Path) -> bool:
    """Whether there is a whole graph in this folder."""
    return is_regular(folder / MANIFEST)


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest, refused where it is none."""
    path = folder / MANIFEST
    try:
        told = json.loads(read_regular(path, 1 << 26))
    except OSError as error:
        raise InputError(f"{folder} is no graph on disk: {path} cannot be read.") from error
    except ValueError as error:
        raise InputError(f"refused {path}: it is truncated or altered (no JSON): {CURE}.") from error
    if not isinstance(told, dict) or told.get("format") != FORMAT or not isinstance(told.get("files"), dict):
        raise InputError(f"refused {path}: it is no manifest of the format {FORMAT}: {CURE}.")
    return told


def check_files(folder: Path, manifest: dict[str, Any], verify: bool | None, say: Say = lambda line: None) -> None:
    """Refuse the first file that is missing, truncated or altered, by name.

    Sizes are always compared. A checksum is taken once, and again where a file's time of change is another than then.

    Args:
        verify: True takes every checksum anew; False takes none.
    """
    noted = {} if verify else _noted(folder)
    fresh = dict(noted)
    for name, told in manifest["files"].items():
        path = folder / name
        if not is_regular(path):
            raise InputError(f"the graph on disk is incomplete: {path} is missing: {CURE}.")
        state = _state(path)
        if state[0] != told["bytes"]:
            raise InputError(f"refused {path}: it has {state[0]:,} bytes, not {told['bytes']:,}: {CURE}.")
        if verify is False or noted.get(name) == state:
            continue
        say(f"checksum of {name}")
        if sha256(path) != told["sha256"]:
            raise InputError(f"refused {path}: it is altered (its SHA-256 differs from the manifest's): {CURE}.")
        fresh[name] = state
    if fresh != noted:
        with contextlib.suppress(InputError):  # a folder that cannot be written to: checked again next time
            _note(folder, fresh)


def _state(path: Path) -> list[int]:
    found = path.stat()
    return [found.st_size, found.st_mtime_ns]


def _noted(folder: Path) -> dict[str, list[int]]:
    with contextlib.suppress(OSError, ValueError):
        found = json.loads(read_regular(folder / CHECKED, 1 << 20))
        return found if isinstance(found, dict) else {}
    return {}


def _note(folder: Path, states: dict[str, list[int]]) -> None:
    text = json.dumps(states)
    write_atomic(folder / CHECKED, lambda temporary: temporary.write_text(text))
