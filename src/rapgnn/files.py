"""Files that are whole or absent: written under a temporary name, then renamed. Only regular files are read."""

import contextlib
import errno
import gzip
import hashlib
import io
import os
import re
import secrets
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rapgnn.errors import InputError, OutputError

TEMPORARY = re.compile(r"\.rapgnn-[0-9a-f]{16}(\.[^/]*)?")  # the names that write_atomic gives while it writes
UNPACKED, RATIO = 1 << 26, 250  # what a packed file may become in bytes, or in times its size: 0/1 tables do 200
LOCK_SECONDS = 60.0  # how long to wait for another process that holds a folder
BROKEN = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG, errno.EMFILE, errno.ENFILE}  # not the user's input


def write_atomic(path: Path, write: Callable[[Path], Any], like: Path | None = None) -> None:
    """Let ``write`` fill a temporary file beside ``path``, flush it to disk, and put it in place in one step.

    The file keeps the mode of the one that it replaces. A new one gets that of ``like``, or what the umask leaves.
    """
    try:
        path = path.resolve()  # a link stays a link: what it points to is replaced
        old = _stat(path)
        if old is not None and not stat.S_ISREG(old.st_mode):  # a device or a pipe cannot be replaced, only written to
            write(path)
            return
        with new_folder(path.parent):
            pattern = old or (None if like is None else _stat(like))
            _replace(path, write, None if pattern is None else stat.S_IMODE(pattern.st_mode))
    except OSError as error:
        raise write_error(path, error) from error
    except ValueError as error:
        if "\0" in str(path):
            raise write_error(path, error) from error
        raise


def _replace(path: Path, write: Callable[[Path], Any], mode: int | None) -> None:
    temporary = _create_beside(path, 0o666 if mode is None else 0o600)
    try:
        write(temporary)
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        if mode is not None:
            temporary.chmod(mode)
        temporary.replace(path)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def new_folder(folder: Path) -> Iterator[None]:
    """Make a folder and its parents; where what follows fails, those that are still empty are removed again."""
    made = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        for parent in made:
            with contextlib.suppress(OSError):
                parent.rmdir()
        raise


def remove_special(path: Path) -> None:
    """Remove what is no regular file, such as a pipe, so that a file can take its place and is not written into it."""
    if os.path.lexists(path) and not is_regular(path):
        try:
            path.unlink()
        except OSError as error:
            raise write_error(path, error) from error


def write_error(path: Path, error: Exception) -> InputError:
    """What to raise for a file that could not be written: the name is at fault, or else the disk."""
    if isinstance(error, InputError):
        return error
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
    kind = OutputError if isinstance(error, OSError) and error.errno in BROKEN else InputError
    return kind(f"cannot write {path}: {reason.rstrip('.')}.")


def check_writable(path: Path | None, suffixes: tuple[str, ...] = ()) -> None:
    """Refuse an output path before any work is done for it; nothing is left behind."""
    if path is None:
        return
    if suffixes and path.suffix.lower() not in suffixes:
        raise InputError(f"cannot write {path}: the name must end in {', '.join(suffixes)}.")
    try:
        state = _stat(path)
        if state is not None and stat.S_ISDIR(state.st_mode):
            raise InputError(f"cannot write {path}: it is a folder.")
        if state is not None and not stat.S_ISREG(state.st_mode):
            if not os.access(path, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            return
        if any(len(os.fsencode(part)) > 255 for part in path.parts):
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
        parent = path.absolute().parent
        while not parent.exists() and not parent.is_symlink():
            parent = parent.parent
        with tempfile.TemporaryFile(dir=parent):  # the folders below it are made when there is something to write
            pass
    except (OSError, ValueError) as error:
        raise write_error(path, error) from error


def read_regular(path: Path, most: int | None = None) -> bytes:
    """The contents of a regular file; a pipe, which might never answer, is not opened for reading.

    Args:
        most: bytes beyond which it is refused.
    """
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if most is not None and size > most:
            raise InputError(f"{path} is too large: {size:,} bytes, at most {most:,} are read.")
        return file.read() if most is None else file.read(most)


def open_regular(path: Path) -> io.BufferedReader:
    """A regular file, opened to read bytes; ``OSError`` for anything else."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except ValueError as error:  # a name with a NUL character
        raise OSError(errno.EINVAL, str(error), str(path)) from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return os.fdopen(handle, "rb")


def sha256(path: Path) -> str:
    """The file's SHA-256, hexadecimal."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_unpacked(path: Path, unpacked: int | None = None) -> None:
    """Refuse a packed file that becomes so much larger that it is made to fill the memory.

    Args:
        unpacked: bytes, where they are known; a gzip file's are counted.
    """
    most = max(UNPACKED, RATIO * path.stat().st_size)
    if unpacked is None:
        with gzip.open(path) as file:
            while file.tell() <= most and file.read(1 << 20):
                pass
            unpacked = file.tell()
    if unpacked > most:
        raise InputError(
            f"{path} becomes {RATIO} times as large where it is unpacked: unpack it first if you trust it."
        )


def is_regular(path: Path) -> bool:
    """Whether the path names a regular file; names that no file can have are none."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[bool]:
    """Hold a folder that exists against all other processes and threads that lock it.

    Gives False where the system has no such locks; then nobody is kept out.
    """
    try:
        import fcntl

        handle = os.open(folder, os.O_RDONLY)
    except (ImportError, PermissionError):
        yield False
        return
    try:
        yield _take(fcntl, handle, folder)
    finally:
        os.close(handle)  # which gives the lock back


def _take(fcntl: Any, handle: int, folder: Path) -> bool:
    end = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > end:
                raise OutputError(f"cannot write {folder}: another process has been writing to it for long.") from None
            time.sleep(0.005)
        except OSError:  # a network folder without locks
            return False


def _create_beside(path: Path, mode: int) -> Path:
    """A new, empty file in the folder of ``path``, which is made where it is missing."""
    suffix = path.suffix if len(os.fsencode(path.suffix)) < 32 else ""
    for _ in range(100):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.parent / f".rapgnn-{secrets.token_hex(8)}{suffix}"
        try:
            os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))
            return temporary
        except (FileExistsError, FileNotFoundError):  # the name is taken, or another process removed the folder
            continue
    raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), str(path.parent))


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
