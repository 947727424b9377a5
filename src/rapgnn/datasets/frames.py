"""One file of a user's folder as a table: CSV, Parquet or npz, found by its stem."""

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rapgnn.errors import InputError

ENDINGS = (".csv", ".csv.gz", ".parquet", ".npz")


@dataclass(frozen=True)
class Frame:
    """A table with where it came from; ``matrix`` is the array ``x`` of an npz file, whose rows go with the table's."""

    path: Path
    table: pd.DataFrame
    matrix: np.ndarray | None = None

    def take(self, *names: str) -> tuple[str, pd.Series] | None:
        """The first column with one of these names, whatever its case."""
        by_name = {str(name).strip().lower(): name for name in reversed(list(self.table.columns))}
        found = next((by_name[name] for name in names if name in by_name), None)
        return None if found is None else (found, self.table.loc[:, found])

    def need(self, *names: str) -> tuple[str, pd.Series]:
        found = self.take(*names)
        if found is None:
            raise InputError(f"{self.path} has no column named {names[0]!r}; it has {self.names}.")
        return found

    @property
    def names(self) -> str:
        """The columns, for a sentence."""
        there = [*([] if self.matrix is None else ["x"]), *map(str, self.table.columns)]
        return ", ".join(there) or "no column at all"

    def without(self, names: Sequence[str]) -> pd.DataFrame:
        return self.table.loc[:, [name for name in self.table.columns if name not in names]]


def find_file(folder: Path, stem: str) -> Path | None:
    """``stem.csv``, ``stem.csv.gz``, ``stem.parquet`` or ``stem.npz``; more than one is refused."""
    found = [folder / f"{stem}{ending}" for ending in ENDINGS if (folder / f"{stem}{ending}").is_file()]
    if len(found) > 1:
        raise InputError(f"{folder} holds {' and '.join(p.name for p in found)}: keep one of them.")
    return found[0] if found else None


def read_frame(folder: Path, stem: str, holds: str) -> Frame:
    """The table called ``stem`` in the folder.

    Args:
        holds: what the folder should hold, for the sentence that says it is missing.
    """
    path = find_file(folder, stem)
    if path is None:
        raise InputError(f"{folder / stem}.csv (or .parquet, .npz) is missing: {holds}.")
    if path.suffix == ".npz":
        return _from_npz(path)
    try:
        table = _parquet(path) if path.suffix == ".parquet" else pd.read_csv(path, low_memory=False)
    except InputError:
        raise
    except Exception as error:  # pandas and pyarrow have no common base for what a broken file raises
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        raise InputError(f"cannot read {path}: {reason}.") from error
    if not table.columns.is_unique:
        raise InputError(f"two columns of {path} have the same name.")
    if not isinstance(table.index, pd.RangeIndex):
        table = table.reset_index()
    return Frame(path, table)


def _parquet(path: Path) -> pd.DataFrame:
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise InputError("Parquet needs pyarrow: install it with pip install 'rapgnn[parquet]'.") from None
    return pd.read_parquet(path)


def _from_npz(path: Path) -> Frame:
    """One-dimensional arrays are columns; the two-dimensional x is kept as it is, other tables become columns."""
    arrays = _arrays(path)
    matrix = arrays.pop("x", None)
    if matrix is not None and matrix.ndim not in (1, 2):
        raise InputError(f"{path}: x must be a table with a row per node, got shape {matrix.shape}.")
    columns: dict[str, Any] = {}
    for name, array in arrays.items():
        if array.ndim == 1:
            columns[name] = array
        elif array.ndim == 2:
            columns |= {name if array.shape[1] == 1 else f"{name}_{j}": array[:, j] for j in range(array.shape[1])}
        else:
            raise InputError(f"{path}: {name} must be one value per row, got shape {array.shape}.")
    lengths = {name: len(values) for name, values in columns.items()}
    if matrix is not None:
        lengths = {"x": len(matrix)} | lengths
    if len(set(lengths.values())) > 1:
        first, *rest = lengths.items()
        odd = next(item for item in rest if item[1] != first[1])
        raise InputError(f"{path}: {first[0]} has {first[1]} entries but {odd[0]} has {odd[1]}.")
    size = next(iter(lengths.values()), 0)
    return Frame(path, pd.DataFrame(columns, index=pd.RangeIndex(size)), matrix)


def _arrays(path: Path) -> dict[str, Any]:
    try:
        if not zipfile.is_zipfile(path):
            raise ValueError("it is not an npz archive")
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError, KeyError, NotImplementedError, zipfile.BadZipFile, SyntaxError) as error:
        raise InputError(f"cannot read {path}: {str(error).splitlines()[0].rstrip('.')}.") from error
    except Exception as error:  # zlib.error and whatever else damaged compression raises
        raise InputError(f"cannot read {path}: {error}.") from error
