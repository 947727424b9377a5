"""The hop store: a folder with the hops S^k h⁰ of the rows that are wanted, one set of files per block of columns.

    hops.json                   manifest: what the hops are of, which blocks are done, sizes and checksums
    rows.npy                    int64 [r], the nodes, ascending
    columns-<a>-<b>-hop-<k>.npy float32 [r, b - a]

Every file is written under a temporary name and renamed when it is whole, and a block counts only when the manifest
names its files. So a run that was killed goes on with the first block that is missing.
"""

import contextlib
import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rapgnn.errors import InputError
from rapgnn.files import TEMPORARY, is_regular, locked, new_folder, read_regular, sha256, write_atomic, write_error

FORMAT = "rapgnn-hops-1"
MANIFEST, ROWS = "hops.json", "rows.npy"
MOST_MANIFEST = 1 << 26
_HOP = re.compile(r"columns-\d+-\d+-hop-\d+\.npy")
CURE = "compute the hops again into a new folder"


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
        blocks: (first column, end) -> its files, {name: {"bytes", "sha256"}}, one per hop.
    """

    def __init__(self, folder: Path, of: HopsOf, rows: np.ndarray, blocks: dict[tuple[int, int], dict[str, Any]]):
        self.folder, self.of, self.rows, self.blocks = folder, of, rows, blocks
        self._maps: dict[tuple[int, int], list[np.ndarray]] = {}

    @classmethod
    def create(cls, folder: Path | str, of: HopsOf, rows: np.ndarray) -> "HopStore":
        """A store to be filled; where the folder has blocks of the same one, those stay, and what else a run that was
        killed has left is removed."""
        folder, rows = Path(folder), np.ascontiguousarray(rows, dtype=np.int64)
        if len(rows) and (rows[0] < 0 or bool((np.diff(rows) <= 0).any())):
            raise InputError("the rows of a hop store must be node numbers in ascending order.")
        if is_regular(folder / MANIFEST):
            there = cls.open(folder, complete=False)
            if there.of != of or not np.array_equal(there.rows, rows):
                raise InputError(f"{folder} holds other hops: name a new folder, or remove this one.")
            with locked(folder):
                for path in folder.iterdir():
                    if TEMPORARY.fullmatch(path.name) or (_HOP.fullmatch(path.name) and not there._names(path.name)):
                        path.unlink(missing_ok=True)
            return there
        if folder.is_dir() and any(not _is_left_over(path) for path in folder.iterdir()):
            raise InputError(f"cannot write the hops to {folder}: it holds other files; name a new folder.")
        try:
            with new_folder(folder):
                write_atomic(folder / ROWS, lambda temporary: _save_rows(temporary, rows))
                store = cls(folder, of, rows, {})
                store._write_manifest()
        except OSError as error:
            raise write_error(folder, error) from error
        return store

    @classmethod
    def open(cls, folder: Path | str, verify: bool = True, complete: bool = True) -> "HopStore":
        """The store in ``folder``; a file that is missing, truncated or altered is refused by name.

        Args:
            verify: also compare checksums, which reads every file once.
            complete: refuse a store that is not filled to the end.
        """
        folder = Path(folder)
        told = _manifest(folder)
        try:
            of = HopsOf(**{**told["of"], "hops": tuple(told["of"]["hops"])})
            blocks = {(int(b["columns"][0]), int(b["columns"][1])): b["files"] for b in told["blocks"]}
            files = {ROWS: told["rows"]} | {name: f for block in blocks.values() for name, f in block.items()}
            for name, noted in files.items():
                _check_file(folder / name, int(noted["bytes"]), noted["sha256"] if verify else None)
            rows = np.load(folder / ROWS, allow_pickle=False)
        except (KeyError, TypeError, IndexError, AttributeError) as error:
            raise InputError(f"refused {folder / MANIFEST}: it is altered: {CURE}.") from error
        except (OSError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"refused {folder}: {error}: {CURE}.") from error
        store = cls(folder, of, rows, blocks)
        if complete and store.missing():
            first = store.missing()[0]
            raise InputError(
                f"the hop store {folder} is unfinished from column {first[0]} on: run the same command again."
            )
        return store

    def missing(self, width: int | None = None) -> list[tuple[int, int]]:
        """The columns that are not there, in blocks of at most so many."""
        gaps, at = [], 0
        for start, stop in [*sorted(self.blocks), (self.of.channels, self.of.channels)]:
            while at < start:
                end = start if width is None else min(start, at + width)
                gaps.append((at, end))
                at = end
            at = max(at, stop)
        return gaps

    def write_block(self, start: int, stop: int, hops: Iterable[Iterable[Tensor]]) -> None:
        """Store a block of columns.

        Args:
            hops: for every hop of ``of.hops``, in order, its rows ``[some rows, stop - start]`` part by part.
        """
        files: dict[str, Any] = {}
        try:
            for k, parts in zip(self.of.hops, hops, strict=True):
                name = f"columns-{start:06d}-{stop:06d}-hop-{k:03d}.npy"
                files[name] = self._write_hop(self.folder / name, parts, stop - start)
        except BaseException:
            for name in files:  # nothing of half a block stays
                with contextlib.suppress(OSError):
                    (self.folder / name).unlink(missing_ok=True)
            raise
        with locked(self.folder):
            others = _manifest(self.folder)["blocks"]  # by other processes that fill the same store
            self.blocks |= {(int(b["columns"][0]), int(b["columns"][1])): b["files"] for b in others}
            self.blocks[start, stop] = files
            self._write_manifest()

    def _write_hop(self, path: Path, parts: Iterable[Tensor], width: int) -> dict[str, Any]:
        digest, noted = hashlib.sha256(), {"bytes": 0}

        def write(temporary: Path) -> None:
            with temporary.open("wb") as file:
                sink = _Sink(file, digest)
                shape = len(self.rows), width
                header: Any = {"descr": "<f4", "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(sink, header)
                for part in parts:
                    sink.write(part.detach().cpu().contiguous().numpy().data)
                noted["bytes"] = file.tell()

        write_atomic(path, write)
        return {**noted, "sha256": digest.hexdigest()}

    def _names(self, file: str) -> bool:
        return any(file in files for files in self.blocks.values())

    def _write_manifest(self) -> None:
        rows = self.folder / ROWS
        blocks = [{"columns": list(columns), "files": files} for columns, files in sorted(self.blocks.items())]
        noted = {"count": len(self.rows), "bytes": rows.stat().st_size, "sha256": sha256(rows)}
        told = {"format": FORMAT, "of": asdict(self.of), "rows": noted, "blocks": blocks}
        text = json.dumps(told, indent=1) + "\n"
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
        places = [self.of.hops.index(k) for k in chosen]
        count = len(range(*rows.indices(len(self.rows)))) if isinstance(rows, slice) else len(rows)
        out = np.empty((count, len(places), self.of.channels), dtype=np.float32)
        for columns, k, part in self._parts(rows, places):
            out[:, k, columns] = part
        return torch.from_numpy(out)

    def _parts(self, rows: slice | np.ndarray, places: list[int]) -> Iterator[tuple[slice, int, np.ndarray]]:
        for (start, stop), files in sorted(self.blocks.items()):
            if (start, stop) not in self._maps:
                self._maps[start, stop] = [_map(self.folder / name) for name in sorted(files)]
            for i, place in enumerate(places):
                yield slice(start, stop), i, self._maps[start, stop][place][rows]


class _Sink:
    """What is written goes to the file and into the checksum."""

    def __init__(self, file: Any, digest: Any):
        self.file, self.digest = file, digest

    def write(self, data: Any) -> None:
        self.file.write(data)
        self.digest.update(data)


def _save_rows(path: Path, rows: np.ndarray) -> None:
    with path.open("wb") as file:
        np.save(file, rows)


def _map(path: Path) -> np.ndarray:
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except ValueError:  # an array without entries cannot be mapped
        return np.load(path, allow_pickle=False)


def _check_file(path: Path, size: int, digest: str | None) -> None:
    if not is_regular(path):
        raise InputError(f"the hop store is incomplete: {path} is missing: {CURE}.")
    found = path.stat().st_size
    if found != size:
        raise InputError(f"refused {path}: it has {found:,} bytes, not {size:,}: {CURE}.")
    if digest is not None and sha256(path) != digest:
        raise InputError(f"refused {path}: it is altered (its SHA-256 differs from the manifest's): {CURE}.")


def _manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    try:
        told = json.loads(read_regular(path, MOST_MANIFEST))
    except OSError as error:
        raise InputError(f"{folder} is no hop store: {path} cannot be read.") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"refused {path}: it is truncated or altered (no JSON): {CURE}.") from error
    if not isinstance(told, dict) or told.get("format") != FORMAT:
        raise InputError(f"refused {path}: it is no manifest of the format {FORMAT}: {CURE}.")
    return told


def _is_left_over(path: Path) -> bool:
    """Whether a run that was killed before its first block left this."""
    return path.name == ROWS or TEMPORARY.fullmatch(path.name) is not None
