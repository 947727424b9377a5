"""Files that are whole or absent: written under a temporary name, then renamed."""

import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rapgnn.errors import InputError


def write_atomic(path: Path, write: Callable[[Path], Any]) -> None:
    """Let ``write`` fill a temporary file beside ``path``, flush it to disk, and put it in place in one step."""
    path = path.resolve()  # a link stays a link: what it points to is replaced
    if path.exists() and not path.is_file():  # a device or a pipe cannot be replaced, only written to
        write(path)
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=path.suffix)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}.") from error
    os.close(handle)
    temporary = Path(name)
    try:
        write(temporary)
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}.") from error
    finally:
        temporary.unlink(missing_ok=True)


def check_writable(path: Path | None, suffixes: tuple[str, ...] = ()) -> None:
    """Refuse an output path before any work is done for it."""
    if path is None:
        return
    if suffixes and path.suffix.lower() not in suffixes:
        raise InputError(f"cannot write {path}: the name must end in {', '.join(suffixes)}.")
    if path.is_dir():
        raise InputError(f"cannot write {path}: it is a folder.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}."):
            pass
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}.") from error


def sha256(path: Path) -> str:
    """The file's SHA-256, hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
