"""Features of nodes larger than memory -> ``features`` on disk, encoded as the reader of small files encodes them.

One pass over the rows learns means, spreads and categories, a second one encodes and writes.
"""

import io
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
import scipy.sparse as sp

from rapgnn.datasets.columns import NUMBERS_ROWS, Reading, Roles, besides_x, numbers_rows
from rapgnn.datasets.dialect import as_numbers
from rapgnn.datasets.frames import Frame, feature_array
from rapgnn.errors import InputError, shown
from rapgnn.files import write_error
from rapgnn.graph.column import (
    MOST_CATEGORIES,
    Column,
    LeftOut,
    Spread,
    encode_column,
    is_number,
    is_stamps,
    learn_column,
    numbers_of,
    refuse_gaps,
    word_column,
)
from rapgnn.graph.nodes import SCALED
from rapgnn.graph.table import Encoding, differ_in_size
from rapgnn.graph.validate import Faults, as_float32, refuse_features
from rapgnn.scale.disk_graph import array_path
from rapgnn.scale.tables.database import Database, quoted

AT_ONCE = 1 << 23  # numbers of a batch
NO_FEATURES = "a graph larger than memory needs node features, and there are none: add columns, or features.npy."

Tell = Callable[[int], None]


@dataclass(frozen=True)
class NodeTable:
    """The view ``nodes`` of a database.

    Args:
        first: its first rows, with its columns and their types.
        rows: how many there are.
        decimal: the mark of its written numbers; empty: words are never numbers.
        grouped: the columns of words that are numbers with marks between their thousands.
    """

    base: Database
    first: Frame
    rows: int
    decimal: str = ""
    grouped: dict[str, bool] = field(default_factory=dict)

    def batches(self, names: list[str], size: int) -> Iterator[dict[str, pd.Series]]:
        """Some columns, a batch of rows at a time, written numbers as numbers."""
        for batch in self.base.batches(f"SELECT {', '.join(map(quoted, names))} FROM nodes", size, self.first.path):
            part = batch.to_pandas()
            yield {name: self.read(part[name]) if self.grouped.get(name) else part[name] for name in names}

    def read(self, values: pd.Series) -> pd.Series:
        """A column whose numbers mark their thousands, as numbers."""
        found = as_numbers(values, self.decimal)
        if found is None and values.notna().any():
            raise InputError(f"{self.first.path}: column {shown(values.name)} holds numbers, and words further down.")
        return pd.Series(np.full(len(values), np.nan)) if found is None else found[0]

    @property
    def whole(self) -> bool:
        """Whether the first rows are all rows."""
        return len(self.first.table) == self.rows


def write_features(
    nodes: NodeTable, folder: Path, roles: Roles, array: Path | None, reading: Reading, tell: Tell
) -> tuple[int, Encoding, list[str]]:
    """Write ``features``; gives their number, how they were made, and what is to be said.

    Args:
        roles: the columns that are no features.
        array: the file of an array that holds all features.
        tell: is told how many rows are done, of both passes.
    """
    names = [str(name) for name in nodes.first.table.columns if name not in roles]
    if array is not None:
        if names:
            raise besides_x(nodes.first.path, names[0])
        return _write_array(feature_array(array, nodes.rows), folder, tell)
    if not names:
        raise InputError(NO_FEATURES)
    encoding = _learn(nodes, names, reading, tell)
    width = encoding.width or 0
    with TableWriter(folder, "features", nodes.rows, width) as file:
        used, begin, bad, largest = [column.name for column in encoding.columns], 0, 0, 0.0
        for part in nodes.batches(used, max(1, AT_ONCE // width)):
            blocks = [encode_column(part[column.name], column) for column in encoding.columns]
            block = as_float32(np.column_stack([b.toarray() if sp.issparse(b) else b for b in blocks]))
            bad, largest = _worst(block, bad, largest)
            file.put_block(begin, 0, block)
            begin += len(block)
            tell(nodes.rows + begin)
    refuse_features(bad, largest)
    return width, encoding, encoding.notes


def _learn(nodes: NodeTable, names: list[str], reading: Reading, tell: Tell) -> Encoding:
    """What every column is, with its mean and spread or its categories."""
    found: dict[str, Column | LeftOut] = {}
    gaps: dict[str, int] = {}
    faults = Faults(f"{nodes.first.path}: ")
    streamed: dict[str, Column] = {}
    for name in names:
        with faults.collect():
            kind = _kind(nodes, name)
            if kind is None:
                streamed[name] = Column(name)
            elif isinstance(kind, Column) and kind.date is not None and kind.categories is None:
                streamed[name] = kind
            else:
                found[name] = kind
            if isinstance(kind, Column) and kind.categories is not None:
                (known,) = nodes.base.row(f"SELECT count({quoted(name)}) FROM nodes")
                gaps |= {name: nodes.rows - known} if known < nodes.rows else {}
    faults.check()
    for name, spread in _spreads(nodes, streamed, tell).items():
        with faults.collect():
            if not spread.known:
                found[name] = LeftOut("it is empty", f"column {shown(name)} is empty: leave it out (--ignore).")
                continue
            found[name] = spread.column(name, streamed[name].date)
            gaps |= {name: spread.rows - spread.known} if spread.known < spread.rows else {}
    with faults.collect():
        refuse_gaps({} if reading.impute else {name: gaps[name] for name in names if name in gaps}, nodes.rows, "node")
    faults.check()
    columns = tuple(column for name in names if isinstance(column := found[name], Column))
    left = {name: column for name in names if isinstance(column := found[name], LeftOut)}
    if not columns:
        raise InputError(f"{nodes.first.path}: {next(iter(left.values())).sentence}" if left else NO_FEATURES)
    numbering = [name for name, column in left.items() if column.reason == NUMBERS_ROWS]
    reasons = {name: left[name].reason for name in [*numbering, *(n for n in left if n not in numbering)]}
    return Encoding("table", columns, impute=reading.impute, left_out=reasons)


def _kind(nodes: NodeTable, name: str) -> Column | LeftOut | None:
    """What a column is by its first rows, and by the database where it holds words; None: numbers."""
    values: Any = nodes.first.table[name]
    if numbers_rows(name, values) and _counts_all(nodes, name):
        return LeftOut(NUMBERS_ROWS, f"column {shown(name)} numbers the rows: leave it out (--ignore).")
    truth = pd.api.types.is_bool_dtype(values)
    if truth and nodes.base.row(f"SELECT count({quoted(name)}) FROM nodes") != (nodes.rows,):
        values = values.astype(object)  # true, false and gaps are words
    elif is_number(values):
        return None
    if is_stamps(values):
        return Column(name, date="ymd")
    if nodes.decimal and not is_number(values) and as_numbers(values.astype(object), nodes.decimal) is not None:
        nodes.grouped[name] = True
        return None
    if values.notna().any():
        first = learn_column(values, name, "node")
        if nodes.whole or (first.date is not None if isinstance(first, Column) else "dates" in first.reason):
            return first
    return _words(nodes, name)


def _counts_all(nodes: NodeTable, name: str) -> bool:
    low, high = nodes.base.row(f"SELECT min({quoted(name)}), max({quoted(name)}) FROM nodes")
    return high - low + 1 == nodes.rows


def _words(nodes: NodeTable, name: str) -> Column | LeftOut:
    """A column of words by how often the database finds them."""
    cell = quoted(name)
    (different,) = nodes.base.row(f"SELECT count(DISTINCT {cell}) FROM nodes")
    if not different:
        return LeftOut("it is empty", f"column {shown(name)} is empty: leave it out (--ignore).")
    frequent = nodes.base.rows(
        f"SELECT CAST({cell} AS VARCHAR) AS word FROM nodes WHERE {cell} IS NOT NULL GROUP BY word "
        f"ORDER BY count(*) DESC, word LIMIT {MOST_CATEGORIES}"
    )
    return word_column(name, [row[0] for row in frequent], different, nodes.rows, "node")


def _spreads(nodes: NodeTable, columns: dict[str, Column], tell: Tell) -> dict[str, Spread]:
    """The mean and spread of columns of numbers and dates."""
    found = {name: Spread() for name in columns}
    for part in nodes.batches(list(columns), max(1, AT_ONCE // len(columns))) if columns else ():
        for name, column in columns.items():
            found[name] += Spread.of(numbers_of(part[name], column))
        tell(max(spread.rows for spread in found.values()))
    return found


def _write_array(x: np.ndarray, folder: Path, tell: Tell) -> tuple[int, Encoding, list[str]]:
    """An array of features, scaled where its columns differ much in size."""
    x = x[:, None] if x.ndim == 1 else x
    n, width = x.shape
    if not n or not width:
        raise InputError(f"node features must be a table with a row per node and at least one column, got {x.shape}.")
    squares, bad, largest = np.zeros(width), 0, 0.0
    step = max(1, AT_ONCE // width)
    for start in range(0, n, step):
        block = x[start : start + step]
        with np.errstate(over="ignore", invalid="ignore"):
            squares += np.square(block, dtype=np.float64).sum(axis=0)
        bad, largest = _worst(as_float32(block), bad, largest)
        tell(min(n, start + step))
    refuse_features(bad, 0.0)
    encoding = None
    if differ_in_size(np.sqrt(squares / n)):
        spreads = [Spread() for _ in range(width)]
        for start in range(0, n, step):
            block = x[start : start + step].astype(np.float64)
            spreads = [spread + Spread.of(block[:, j]) for j, spread in enumerate(spreads)]
        encoding = Encoding("table", tuple(spread.column(str(j)) for j, spread in enumerate(spreads)))
    else:
        refuse_features(bad, largest)
    with TableWriter(folder, "features", n, width) as file:
        for start in range(0, n, step):
            block = np.asarray(x[start : start + step])
            block = as_float32(block) if encoding is None else encoding.encode_array(block)
            file.put_block(start, 0, block)
            tell(n + min(n, start + step))
    return width, encoding or Encoding("given"), [] if encoding is None else [SCALED]


def _worst(block: np.ndarray, bad: int, largest: float) -> tuple[int, float]:
    """With those before: how many numbers are not finite, and the largest magnitude."""
    finite = np.isfinite(block)
    count = int(block.size - finite.sum())
    top = 0.0 if count else float(max(block.max(initial=0), -block.min(initial=0)))
    return bad + count, max(largest, top)


def kept_encoding(encoding: Encoding, reading: Reading, label: str | None) -> Encoding:
    """How another folder is read for a model that was trained on this one."""
    named: dict[str, Any] = {"label": label, "id": reading.id, "source": reading.source, "target": reading.target}
    return replace(encoding, directed=reading.directed, impute=reading.impute, **named)


# Arrays that are written to files piece by piece, never whole in memory, in numpy's format.


def _header(shape: tuple[int, ...], dtype: np.dtype, fortran: bool) -> bytes:
    buffer = io.BytesIO()
    told = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": fortran, "shape": shape}
    np.lib.format.write_array_header_1_0(buffer, told)
    return buffer.getvalue()


class Writer:
    """A file that numbers are put into by their place. ``with``: closed, and flushed to disk, at the end."""

    def __init__(self, folder: Path, name: str, shape: tuple[int, ...], dtype: Any, fortran: bool = False):
        self.path, self.shape, self.dtype = array_path(folder, name), shape, np.dtype(dtype)
        head = _header(shape, self.dtype, fortran)
        self._start = len(head)
        try:
            self.path.unlink(missing_ok=True)  # a reader that has the old file open keeps it
            self._file = self.path.open("wb", buffering=0)
            self._file.write(head)
            self._file.truncate(self._start + self.dtype.itemsize * int(np.prod(shape, dtype=np.int64)))
        except OSError as error:
            raise write_error(self.path, error) from error

    def put(self, place: int, values: np.ndarray) -> None:
        """Write numbers from the ``place``-th one on, in the file's order."""
        block = np.ascontiguousarray(values, dtype=self.dtype).data.cast("B")
        offset, done = self._start + self.dtype.itemsize * place, 0
        try:
            while done < len(block):
                self._file.seek(offset + done)
                done += self._file.write(block[done : done + (1 << 30)]) or 0
        except OSError as error:
            raise write_error(self.path, error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *rest: object) -> None:
        if kind is None:
            os.fsync(self._file.fileno())
        self._file.close()


class Appender(Writer):
    """A one-dimensional array that is written from its first number to its last."""

    def __init__(self, folder: Path, name: str, length: int, dtype: Any):
        super().__init__(folder, name, (length,), dtype)
        self.done = 0

    def add(self, values: np.ndarray) -> None:
        """Write what comes next."""
        self.put(self.done, values)
        self.done += len(values)


class TableWriter(Writer):
    """``[n, c]`` in Fortran order, filled by blocks of rows: each column's part goes to its own place in the file."""

    def __init__(self, folder: Path, name: str, rows: int, columns: int, dtype: Any = np.float32):
        super().__init__(folder, name, (rows, columns), dtype, fortran=True)

    def put_block(self, row: int, column: int, block: np.ndarray) -> None:
        """Write the rows from ``row`` on, and the columns from ``column`` on."""
        turned = np.ascontiguousarray(block.T, dtype=self.dtype)
        if len(block) == self.shape[0]:
            self.put(column * self.shape[0], turned.reshape(-1))
            return
        for j, values in enumerate(turned):
            self.put((column + j) * self.shape[0] + row, values)
