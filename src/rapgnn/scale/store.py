"""The hop store: a folder with the hops S^k h⁰ of the rows that are wanted, one set of files per block of columns.

    hops.json                   manifest: what the hops are of, which blocks are done, sizes and checksums
    rows.npy                    int64 [r], the nodes, ascending
    columns-<a>-<b>-hop-<k>.npy float32 [r, b - a]

Every file is written under a temporary name and renamed when it is whole, and a block counts only when the manifest
names its files. So a run that was killed goes on with the first block that is missing. Several processes may fill a
store at the same time.
"""

import json
import re
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rapgnn.errors import InputError
from rapgnn.files import TEMPORARY, is_regular, locked, new_folder, sha256, write_atomic, write_error
from rapgnn.scale.disk_graph import check_file, open_array, read_json, save_parts

FORMAT = "rapgnn-hops-1"
MANIFEST, ROWS = "hops.json", "rows.npy"
PART = re.compile(r"columns-\d+-\d+-hop-\d+\.npy")
BEING_WRITTEN = 60.0  # seconds: another run may be writing a temporary file that changed since
CURE = "compute the hops again into a new folder"

Columns = tuple[int, int]  # the first one and the end


@dataclass(frozen=True)
class HopsOf:
    """What tells the hops in a store from others.

    Args:
        graph: the fingerprint of the graph on disk.
        backbone, self_loops, eps: of S, as in ``Config``.
        hops: the k of every S^k h⁰ that is stored.
        operator_scale: what each step is divided by.
        embedding: the fingerprint of h⁰.
        channels: d.
    """

    graph: str
    backbone: str
    self_loops: bool
    eps: float
    hops: tuple[int, ...]
    operator_scale: float
    embedding: str
    channels: int

    def covers(self, other: "HopsOf") -> bool:
        """Whether all hops of the other are among these."""
        mine, others = asdict(self), asdict(other)
        return set(others.pop("hops")) <= set(mine.pop("hops")) and mine == others


class HopStore:
    """A hop store that was opened, or is being filled.

    Args:
        folder: where it is.
        of: what its hops are of.
        rows: the nodes, ascending.
        blocks: columns -> its files, {name: {"bytes", "sha256"}}, one per hop.
    """

    def __init__(self, folder: Path, of: HopsOf, rows: np.ndarray, blocks: dict[Columns, dict[str, Any]]):
        self.folder, self.of, self.rows, self.blocks = folder, of, rows, blocks
        self._maps: dict[tuple[Columns, int], np.ndarray] = {}
        self._left_over: set[str] = set()

    @classmethod
    def create(cls, folder: Path | str, of: HopsOf, rows: np.ndarray) -> "HopStore":
        """A store to be filled. One that is there goes on where it has blocks of the same hops; it will do, too, where
        it is filled and has these hops of these nodes among others."""
        folder, rows = Path(folder), np.ascontiguousarray(rows, dtype=np.int64)
        if len(rows) and (rows[0] < 0 or bool((np.diff(rows) <= 0).any())):
            raise InputError("the rows of a hop store must be node numbers in ascending order.")
        try:
            with new_folder(folder), locked(folder):  # another run may begin with the same folder
                if is_regular(folder / MANIFEST):
                    return cls._continued(folder, of, rows)
                names = {path.name for path in folder.iterdir()}
                if not all(name == ROWS or TEMPORARY.fullmatch(name) for name in names):
                    raise InputError(f"cannot write the hops to {folder}: it holds other files; name a new folder.")
                write_atomic(folder / ROWS, lambda temporary: save_parts(temporary, rows.shape, "<i8", [rows]))
                store = cls(folder, of, rows, {})
                store._write_manifest()
        except OSError as error:
            raise write_error(folder, error) from error
        return store

    @classmethod
    def _continued(cls, folder: Path, of: HopsOf, rows: np.ndarray) -> "HopStore":
        present = cls.open(folder, complete=False)
        if not present.missing() and present.of.covers(of):
            present.places(rows)
        elif present.of != of or not np.array_equal(present.rows, rows):
            raise InputError(f"{folder} holds other hops: name a new folder, or remove this one.")
        present._left_over = present._unnamed()
        return present

    @classmethod
    def open(cls, folder: Path | str, verify: bool = True, complete: bool = True) -> "HopStore":
        """The store in ``folder``; a file that is missing, truncated or altered is refused by name.

        Args:
            verify: also compare checksums, which reads every file once.
            complete: refuse a store that is not filled to the end.
        """
        folder = Path(folder)
        manifest = _manifest(folder)
        try:
            of = HopsOf(**{**manifest["of"], "hops": tuple(manifest["of"]["hops"])})
            blocks = _blocks(manifest)
            files = {ROWS: manifest["rows"]} | {name: f for block in blocks.values() for name, f in block.items()}
            for name, file in files.items():
                check_file(folder / name, int(file["bytes"]), file["sha256"] if verify else None, "hop store", CURE)
            rows = np.load(folder / ROWS, allow_pickle=False)
        except (KeyError, TypeError, IndexError, AttributeError) as error:
            raise InputError(f"refused {folder / MANIFEST}: it is altered: {CURE}.") from error
        except (OSError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"refused {folder}: {error}: {CURE}.") from error
        store = cls(folder, of, rows, blocks)
        if complete and store.missing():
            first = store.missing()[0][0]
            raise InputError(
                f"the hop store {folder} is unfinished from column {first} on: run the same command again."
            )
        return store

    def missing(self, width: int | None = None) -> list[Columns]:
        """The columns that are not there, in blocks of at most so many."""
        gaps, at = [], 0
        for start, stop in [*sorted(self.blocks), (self.of.channels, self.of.channels)]:
            while at < start:
                end = start if width is None else min(start, at + width)
                gaps.append((at, end))
                at = end
            at = max(at, stop)
        return gaps

    def path(self, columns: Columns, hop: int) -> Path:
        """The file of one hop of a block."""
        return self.folder / f"columns-{columns[0]:06d}-{columns[1]:06d}-hop-{hop:03d}.npy"

    def write(self, columns: Columns, hop: int, parts: Iterable[Tensor]) -> None:
        """Write one hop of a block, given its rows ``[some rows, columns]`` part by part."""
        shape = len(self.rows), columns[1] - columns[0]
        arrays = (part.detach().cpu().contiguous().numpy() for part in parts)
        write_atomic(self.path(columns, hop), lambda temporary: save_parts(temporary, shape, "<f4", arrays))

    def finish(self, columns: Columns) -> None:
        """Let a block count of which every hop is written; not where another run has removed one, or has the block."""
        with locked(self.folder):
            paths = [self.path(columns, hop) for hop in self.of.hops]
            if not any(start <= columns[0] and columns[1] <= stop for start, stop in self.refresh()):
                self.drop(columns)
            elif all(path.is_file() for path in paths):
                self.blocks[columns] = {path.name: _file(path) for path in paths}
                self._write_manifest()

    def refresh(self, width: int | None = None) -> list[Columns]:
        """Take in what other processes have finished meanwhile, and give what is ``missing`` still."""
        self.blocks |= _blocks(_manifest(self.folder))
        return self.missing(width)

    def drop(self, columns: Columns) -> None:
        """Remove what was written of a block that does not count."""
        for hop in self.of.hops if columns not in self.blocks else ():
            self.path(columns, hop).unlink(missing_ok=True)

    def tidy(self) -> None:
        """Remove what runs that were killed had left in the folder when it was opened to be filled."""
        for path in (self.folder / name for name in self._left_over & self._unnamed()):
            if PART.fullmatch(path.name) or time.time() - path.stat().st_mtime > BEING_WRITTEN:
                path.unlink(missing_ok=True)

    def _unnamed(self) -> set[str]:
        """What lies in the folder and is no part of a block that counts."""
        named = {name for files in self.blocks.values() for name in files}
        names = {path.name for path in self.folder.iterdir()} - named
        return {name for name in names if TEMPORARY.fullmatch(name) or PART.fullmatch(name)}

    def _write_manifest(self) -> None:
        blocks = [{"columns": list(columns), "files": files} for columns, files in sorted(self.blocks.items())]
        rows = {"count": len(self.rows)} | _file(self.folder / ROWS)
        text = json.dumps({"format": FORMAT, "of": asdict(self.of), "rows": rows, "blocks": blocks}, indent=1) + "\n"
        write_atomic(self.folder / MANIFEST, lambda temporary: temporary.write_text(text))

    @property
    def bytes(self) -> int:
        """Of all hops."""
        return 4 * len(self.rows) * len(self.of.hops) * self.of.channels

    def places(self, nodes: np.ndarray) -> np.ndarray:
        """Where these nodes are among the rows; refused where one is missing."""
        at = np.searchsorted(self.rows, nodes)
        if len(nodes) and (at.max() >= len(self.rows) or not np.array_equal(self.rows[at], nodes)):
            raise InputError(f"the hop store {self.folder} does not have all rows that are asked for: {CURE}.")
        return at

    def read(self, rows: slice | np.ndarray, hops: list[int] | None = None) -> Tensor:
        """The hops of some of the rows, ``[rows, K, d]``.

        Args:
            rows: places among the rows.
            hops: which k; None: all.
        """
        chosen = list(self.of.hops) if hops is None else hops
        count = len(range(*rows.indices(len(self.rows)))) if isinstance(rows, slice) else len(rows)
        out = np.empty((count, len(chosen), self.of.channels), dtype=np.float32)
        for columns in sorted(self.blocks):
            for i, hop in enumerate(chosen):
                out[:, i, slice(*columns)] = self.hop(columns, hop)[rows]
        return torch.from_numpy(out)

    def hop(self, columns: Columns, hop: int) -> np.ndarray:
        """One hop of a block that counts, ``[rows, columns]``, memory-mapped."""
        if (columns, hop) not in self._maps:
            self._maps[columns, hop] = open_array(self.path(columns, hop))
        return self._maps[columns, hop]


def _manifest(folder: Path) -> dict[str, Any]:
    return read_json(folder / MANIFEST, FORMAT, "hop store", CURE)


def _blocks(manifest: dict[str, Any]) -> dict[Columns, dict[str, Any]]:
    return {(int(block["columns"][0]), int(block["columns"][1])): block["files"] for block in manifest["blocks"]}


def _file(path: Path) -> dict[str, Any]:
    return {"bytes": path.stat().st_size, "sha256": sha256(path)}
