"""Hops of one block of columns on disk while it is computed, so that a run which is killed goes on from the last one.

Every worker writes its rows of hop k: all of them, which the next hop needs, and the wanted ones, which are the result.
File names carry the rows, so that any number of workers can go on from them.
"""

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from rapgnn.files import TEMPORARY, write_atomic

NAME = re.compile(r"(whole|wanted)-(\d+)\.(\d+)-(\d+)\.npy")


class SavedHops:
    """The files of one block of columns. A kind is ``"whole"`` or ``"wanted"``.

    Args:
        folder: of this block of this graph, with these settings.
    """

    def __init__(self, folder: Path):
        self.folder = folder

    def write(self, kind: str, hop: int, rows: slice, values: np.ndarray) -> None:
        """Rows of one hop, counted among all nodes or among the wanted ones; the file is whole or absent."""
        if rows.start < rows.stop:
            write_atomic(self._path(kind, hop, rows), lambda temporary: np.save(temporary, values))

    def read(self, kind: str, hop: int, rows: slice, width: int) -> np.ndarray:
        """Rows of one hop, ``[rows, width]``, from the files of any workers; ``covers`` has said that they exist."""
        parts = [np.empty((0, width), dtype=np.float32)]
        at = rows.start
        for first, last, path in self._files(kind, hop):
            if first <= at < min(last, rows.stop):
                stop = min(last, rows.stop)
                parts.append(np.load(path, mmap_mode="r", allow_pickle=False)[at - first : stop - first])
                at = stop
        return np.concatenate(parts)

    def covers(self, kind: str, hop: int, rows: slice) -> bool:
        """Whether all these rows of a hop are there."""
        at = rows.start
        for first, last, _ in self._files(kind, hop):
            at = max(at, last) if first <= at else at
        return at >= rows.stop

    def last(self, own: slice, wanted: slice, hops: tuple[int, ...]) -> int:
        """The last hop from which these rows can go on, or the last of all; -1 where there is none.

        Args:
            own: the worker's rows, counted among all nodes.
            wanted: those of them that are wanted, counted among the wanted ones.
            hops: the k that are wanted, ascending.
        """
        missing = next((k for k in hops if not self.covers("wanted", k, wanted)), None)
        if missing is None:
            return hops[-1]
        return next((k for k in range(missing - 1, -1, -1) if self.covers("whole", k, own)), -1)

    def forget(self, hop: int, rows: slice) -> None:
        """Remove all rows of an earlier hop, which nobody needs any more; the wanted ones stay."""
        self._path("whole", hop, rows).unlink(missing_ok=True)

    def remove(self) -> None:
        """All files of the block, also those that a killed worker left unfinished, and the folder."""
        for path in list(self.folder.iterdir()) if self.folder.is_dir() else ():
            if NAME.fullmatch(path.name) or TEMPORARY.fullmatch(path.name):
                path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self.folder.rmdir()
            self.folder.parent.rmdir()

    def _path(self, kind: str, hop: int, rows: slice) -> Path:
        return self.folder / f"{kind}-{hop:05}.{rows.start}-{rows.stop}.npy"

    def _files(self, kind: str, hop: int) -> Iterator[tuple[int, int, Path]]:
        """(first row, last row, path) of a hop's files, in order."""
        found = []
        for path in self.folder.glob(f"{kind}-{hop:05}.*.npy"):
            match = NAME.fullmatch(path.name)
            if match:
                found.append((int(match[3]), int(match[4]), path))
        yield from sorted(found)
