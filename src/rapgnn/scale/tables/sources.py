"""The files of a graph that is larger than memory, where they lie in a user's folder, and what tells them from others.

The folder is the one that ``rapgnn fit`` reads. Beyond that a table may be many files, ``edges-0.parquet``,
``edges-1.parquet`` or all files in ``edges/``, in the order of their names, and features may be an array in
``features.npy``, with a row per row of ``nodes``.
"""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rapgnn.datasets.columns import Reading
from rapgnn.datasets.folder import HOLDS
from rapgnn.datasets.frames import FEATURES
from rapgnn.errors import InputError
from rapgnn.files import open_regular

ENDINGS = (".parquet", ".csv", ".csv.gz", ".tsv", ".tsv.gz")
PIECE = 1 << 20  # bytes of a file's beginning and of its end that its key is made of
VERSION = 1  # of what a conversion makes of files; raise it when that changes


@dataclass(frozen=True)
class Sources:
    """The files of one graph.

    Args:
        nodes, edges: files of one kind each, in order.
        features: an array of features, rows in the order of the nodes; None: they are columns of ``nodes``.
    """

    folder: Path
    nodes: tuple[Path, ...]
    edges: tuple[Path, ...]
    features: Path | None = None

    @property
    def files(self) -> tuple[Path, ...]:
        return (*self.nodes, *self.edges, *([] if self.features is None else [self.features]))

    def key(self, reading: Reading) -> str:
        """Sixteen hexadecimal digits that change with the files and with how they are read.

        A file counts by its name, its size, its time of change, and its first and last megabyte: hashing terabytes
        would take as long as the conversion.
        """
        digest = hashlib.sha256(json.dumps([VERSION, _plain(asdict(reading))], sort_keys=True, default=str).encode())
        for path in self.files:
            found = path.stat()
            digest.update(f"{path.name} {found.st_size} {found.st_mtime_ns} ".encode())
            with open_regular(path) as file:
                digest.update(file.read(PIECE))
                file.seek(max(0, found.st_size - PIECE))
                digest.update(file.read(PIECE))
        return digest.hexdigest()[:16]


def _plain(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value not in (None, (), [], False)}


def find_sources(folder: Path | str) -> Sources:
    """The files in a user's folder; refused where it is no folder of one graph with a table of nodes."""
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"{folder} is no folder: {HOLDS}.")
    if _files(folder, "graphs"):
        raise InputError(f"{folder} holds many graphs; only one graph can be larger than memory.")
    found = {stem: _files(folder, stem) for stem in ("nodes", "edges")}
    for stem, files in found.items():
        if not files:
            other = (
                " (a .npz file is read into memory: write it as Parquet)" if (folder / f"{stem}.npz").exists() else ""
            )
            raise InputError(f"{folder / stem}.csv (or .parquet) is missing{other}: {HOLDS}.")
    features = folder / FEATURES
    return Sources(folder, found["nodes"], found["edges"], features if features.is_file() else None)


def _files(folder: Path, stem: str) -> tuple[Path, ...]:
    """The files of one table; files of two kinds are refused."""
    found: list[list[Path]] = []
    for ending in ENDINGS:
        patterns = (f"{stem}{ending}", f"{stem}-*{ending}", f"{stem}_*{ending}", f"{stem}/*{ending}")
        patterns = (*patterns, f"{stem}{ending}/*{ending}")  # a folder called edges.parquet, as Spark writes one
        files = sorted({path for pattern in patterns for path in folder.glob(pattern) if path.is_file()})
        found += [files] if files else []
    if len(found) > 1:
        raise InputError(f"{folder} holds {' and '.join(files[0].name for files in found)}: keep one of them.")
    return tuple(found[0]) if found else ()
