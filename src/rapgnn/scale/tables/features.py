"""Features of nodes larger than memory -> ``features`` on disk, encoded as the reader of small files encodes them.

One pass over the rows learns means, spreads and categories, a second one encodes and writes.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
import scipy.sparse as sp

from rapgnn.datasets.columns import Reading, Roles, besides_x, learn_table
from rapgnn.datasets.frames import Frame, feature_array
from rapgnn.errors import InputError
from rapgnn.files import write_error
from rapgnn.graph.graph import SCALED
from rapgnn.graph.table import COMMA, MOST_CATEGORIES, PLAIN, Encoding, Words
from rapgnn.graph.validate import as_float32, refuse_features
from rapgnn.scale.disk_graph import array_path
from rapgnn.scale.tables.database import Database, literal

AT_ONCE = 1 << 23  # numbers of a batch
NO_FEATURES = "a graph larger than memory needs node features, and there are none: add columns, or features.npy."

OnRows = Callable[[int], None]


class NodeTable:
    """The view ``nodes`` of a database, as ``Encoding.learn`` goes through it.

    Args:
        nodes: its first rows, with its columns and their types.
        names: the columns that are features.
        rows: how many rows there are.
        on_rows: is given how many rows are read.
    """

    def __init__(self, base: Database, nodes: Frame, names: list[str], rows: int, on_rows: OnRows):
        self._base, self._path, self._on_rows, self.rows = base, nodes.path, on_rows, rows
        self.first = {name: nodes.table[name] for name in names}
        for name, values in self.first.items():
            if pd.api.types.is_bool_dtype(values) and self.words(name).known < rows:
                self.first[name] = values.astype(object)  # true, false and gaps are words

    def parts(self, names: list[str]) -> Iterator[pd.DataFrame]:
        """Some columns, a batch of rows at a time."""
        done, size = 0, AT_ONCE // len(names)
        cells = ", ".join(self._base.cell("nodes", name) for name in names)
        for batch in self._base.batches(f"SELECT {cells} FROM nodes", size, self._path):
            yield batch.to_pandas().set_axis(names, axis=1)
            done += len(batch)
            self._on_rows(done)

    def words(self, name: str) -> Words:
        """What a column of words holds, by how often the database counts them."""
        cell = self._base.cell("nodes", name)
        word = f"CAST({cell} AS VARCHAR)"
        number = f"regexp_full_match(trim({word}), {literal(PLAIN)})"
        known, different, numbers, far = self._base.row(
            f"SELECT count({cell}), count(DISTINCT {cell}), count(*) FILTER ({number}), "
            f"count(DISTINCT TRY_CAST(trim({word}) AS DOUBLE)) FILTER ({number}) FROM nodes"
        )
        odd = f"SELECT {word} FROM nodes WHERE {cell} IS NOT NULL AND NOT {number}"
        (first,) = self._base.row(f"{odd} LIMIT 1") or (None,)
        other = self._base.row(f"{odd} AND NOT regexp_full_match({word}, {literal(COMMA)}) LIMIT 1")
        frequent = self._base.rows(
            f"SELECT CAST({cell} AS VARCHAR) AS word FROM nodes WHERE {cell} IS NOT NULL GROUP BY word "
            f"ORDER BY count(*) DESC, word LIMIT {MOST_CATEGORIES}"
        )
        return Words(self.rows, known, different, [row[0] for row in frequent], numbers, far, first, not other)


def write_features(
    base: Database,
    nodes: Frame,
    rows: int,
    folder: Path,
    roles: Roles,
    array: Path | None,
    reading: Reading,
    on_rows: OnRows,
) -> tuple[int, Encoding, list[str]]:
    """Write ``features``; gives their number, how they were made, and what is to be said.

    Args:
        roles: the columns that are no features.
        array: the file of an array that holds all features.
        on_rows: is given how many rows are done, of both passes.
    """
    names = [str(name) for name in nodes.table.columns if name not in roles]
    if array is not None:
        if names:
            raise besides_x(nodes.path, names[0])
        x = feature_array(array, rows)
        x = x[:, None] if x.ndim == 1 else x
        if not x.size:
            raise InputError(
                f"node features must be a table with a row per node and at least one column, got {x.shape}."
            )
        scaling = Encoding.for_array(x)
        encoding, notes = scaling or Encoding("given"), [] if scaling is None else [SCALED]
        width, step = x.shape[1], max(1, AT_ONCE // x.shape[1])
        parts: Any = (np.asarray(x[start : start + step]) for start in range(0, rows, step))
        encode = as_float32 if scaling is None else scaling.encode_array
    else:
        if not names:
            raise InputError(NO_FEATURES)
        encoding = learn_table(NodeTable(base, nodes, names, rows, on_rows), nodes.path, reading.impute)
        if not encoding.columns:
            raise InputError(NO_FEATURES)
        width, notes, encode = encoding.width or 0, encoding.notes, encoding.encode
        used = NodeTable(base, nodes, [column.name for column in encoding.columns], rows, lambda done: None)
        parts = used.parts(list(used.first))
    begin, bad, largest = 0, 0, 0.0
    with ArrayFile(folder, "features", (rows, width), np.float32) as file:
        for part in parts:
            block: Any = encode(part)
            block = block.toarray() if sp.issparse(block) else block
            bad += int((~np.isfinite(block)).sum())
            largest = largest if bad else max(largest, float(np.abs(block).max(initial=0)))
            file.put_rows(begin, block)
            begin += len(block)
            on_rows(rows + begin)
    refuse_features(bad, largest)
    return width, encoding, notes


class ArrayFile:
    """An array in numpy's format, written piece by piece, never whole in memory; tables are in Fortran order.

    Written, not memory-mapped: a full disk is then an error that can be told, and pages do not count as memory.
    ``with``: closed, and flushed to disk, at the end.
    """

    def __init__(self, folder: Path, name: str, shape: tuple[int, ...], dtype: Any, fortran: bool = True):
        self.path, self.shape, self.dtype, self.done = array_path(folder, name), shape, np.dtype(dtype), 0
        about = {
            "descr": np.lib.format.dtype_to_descr(self.dtype),
            "shape": shape,
            "fortran_order": fortran and len(shape) > 1,
        }
        try:
            self.path.unlink(missing_ok=True)  # a reader that has the old file open keeps it
            self._file = self.path.open("wb", buffering=0)
            np.lib.format.write_array_header_1_0(self._file, about)
            self._start = self._file.tell()
            self._file.truncate(self._start + self.dtype.itemsize * int(np.prod(shape, dtype=np.int64)))
        except OSError as error:
            raise write_error(self.path, error) from error

    def put(self, place: int, values: np.ndarray) -> None:
        """Write numbers from the ``place``-th one on, in the file's order."""
        block = np.ascontiguousarray(values, dtype=self.dtype).reshape(-1).data.cast("B")
        offset, done = self._start + self.dtype.itemsize * place, 0
        try:
            while done < len(block):
                self._file.seek(offset + done)
                done += self._file.write(block[done : done + (1 << 30)]) or 0
        except OSError as error:
            raise write_error(self.path, error) from error

    def add(self, values: np.ndarray) -> None:
        """Write what comes next."""
        self.put(self.done, values)
        self.done += values.size

    def put_rows(self, row: int, block: np.ndarray) -> None:
        """Write rows of a table: each column's part goes to its own place in the file."""
        for j, values in enumerate(np.ascontiguousarray(block.T, dtype=self.dtype)):
            self.put(j * self.shape[0] + row, values)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *rest: object) -> None:
        if kind is None:
            os.fsync(self._file.fileno())
        self._file.close()
