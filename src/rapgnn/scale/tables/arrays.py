"""What a conversion writes: ``features``, encoded as the reader of small files encodes them; ``indptr``, ``indices``
and ``weights``, for which the database joins the ends of edges with the ids of nodes and sorts.

One pass over the nodes' rows learns means, spreads and categories, a second one encodes and writes.
"""

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
import scipy.sparse as sp

from rapgnn.datasets.columns import OTHER_ID, Reading, Roles, besides_x, learn_table, repeated_id, without
from rapgnn.datasets.frames import Frame, feature_array
from rapgnn.datasets.tables import EdgeTable, dropped_edges, edge_table, unknown_end, unknown_ends
from rapgnn.errors import InputError
from rapgnn.files import write_error
from rapgnn.graph.graph import SCALED
from rapgnn.graph.table import COMMA, MOST_CATEGORIES, PLAIN, Encoding, Words
from rapgnn.graph.validate import LARGEST, NEGATIVE, as_float32, check_edge_weight, refuse_features
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


BATCH = 1 << 20  # edges at a time
_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")
_WIDE = (*_WHOLE, "UBIGINT", "HUGEINT")
_NUMBERS = (*_WIDE, "FLOAT", "DOUBLE", "DECIMAL", "BOOLEAN")


def make_ids(base: Database, nodes: Frame, column: str | None) -> int:
    """Make the table ``ids``, whose ``rowid`` is a node's number, and check it; gives the number of nodes."""
    if column is None:
        (n,) = base.row("SELECT count(*) FROM nodes", nodes.path)
        base.run(f"CREATE OR REPLACE TABLE ids AS SELECT range AS id FROM range({n})")
        return n
    base.run(f"CREATE OR REPLACE TABLE ids AS SELECT {base.cell('nodes', column)} AS id FROM nodes", nodes.path)
    n, known, different = base.row("SELECT count(*), count(id), count(DISTINCT id) FROM ids")
    if known < n:
        (row,) = base.row("SELECT min(rowid) FROM ids WHERE id IS NULL")
        raise without(nodes.path, column, row, n - known, OTHER_ID)
    if different < n:
        (value,) = base.row(
            "SELECT id FROM (SELECT id, rowid AS r, row_number() OVER (PARTITION BY id ORDER BY rowid) AS k FROM ids) "
            "WHERE k = 2 ORDER BY r LIMIT 1"
        )
        raise repeated_id(nodes.path, column, value, n - different)
    return n


def map_edges(base: Database, edges: Frame, nodes: Frame, n: int, numbered: bool, reading: Reading) -> list[str]:
    """Make the table ``mapped`` (source, target, weight), ends by their numbers; gives what is to be said.

    Args:
        edges: the first rows of the edges, with their columns and types.
        numbered: no column names the nodes.
    """
    table = edge_table(edges, reading)
    ends = {end: base.cell("edges", getattr(table, end).name) for end in ("source", "target")}
    weight = next((base.cell("edges", name) for name, role in table.roles.items() if role == "weight"), None)
    taken = ", ".join(f"e.{name} AS {end}" for end, name in ends.items())
    types = {row[0]: row[1] for row in base.rows(f"DESCRIBE SELECT {taken}, ids.id FROM edges e, ids LIMIT 0")}
    named = {end: _type(types[end], types["id"]) for end in ends}
    keep = f"CAST(e.{weight} AS DOUBLE)" if weight else "NULL"
    whole = all(kind == "BIGINT" for kind in named.values())
    if whole and base.row("SELECT count(*) FROM ids WHERE id <> rowid") == (0,):  # a number is its own row
        place = {end: f"CASE WHEN e.{name} >= 0 AND e.{name} < {n} THEN e.{name} END" for end, name in ends.items()}
        joined = "edges e"
    else:
        place = {end: f"{end}_ids.rowid" for end in ends}
        joined = "edges e" + "".join(
            f" LEFT JOIN ids {end}_ids ON CAST(e.{name} AS {named[end]}) = CAST({end}_ids.id AS {named[end]})"
            for end, name in ends.items()
        )
    chosen = ", ".join(f"CAST({sql} AS INTEGER) AS {end}" for end, sql in place.items())
    base.run(f"CREATE OR REPLACE TABLE mapped AS SELECT {chosen}, {keep} AS weight FROM {joined}", edges.path, False)
    total, known, *lost = base.row(
        "SELECT count(*), count(*) FILTER (source IS NOT NULL AND target IS NOT NULL), "
        "count(*) FILTER (source IS NULL), count(*) FILTER (target IS NULL) FROM mapped"
    )
    notes: list[str] = []
    if known < total:
        _refuse_unknown(base, table, nodes, dict(zip(ends, lost, strict=True)), named, numbered, reading)
        notes.append(dropped_edges(total - known, total))
    if weight is not None:
        worst, least = base.row(
            "SELECT max(CASE WHEN weight IS NULL OR NOT isfinite(weight) THEN 'infinity'::DOUBLE ELSE abs(weight) END)"
            ", min(weight) FROM mapped"
        )
        if worst is not None and worst > LARGEST:
            check_edge_weight(np.array([worst]), 1)
        notes += [NEGATIVE] if least is not None and least < 0 else []
    return notes


def _type(end: str, name: str) -> str:
    """The type in which ends of edges and ids are compared: words where one of them is."""
    kinds = (end.partition("(")[0], name.partition("(")[0])
    for named, compared in ((_WHOLE, "BIGINT"), (_WIDE, "HUGEINT"), (_NUMBERS, "DOUBLE")):
        if all(kind in named for kind in kinds):
            return compared
    return "VARCHAR"


def _refuse_unknown(
    base: Database,
    table: EdgeTable,
    nodes: Frame,
    lost: dict[str, int],
    named: dict[str, str],
    numbered: bool,
    reading: Reading,
) -> None:
    """Say which end is missing or unknown; nothing where such edges are to be dropped."""
    path, unknown = table.frame.path, []
    for end, count in lost.items():
        name = str(getattr(table, end).name)
        cell = base.cell("edges", name)
        (empty,) = base.row(f"SELECT count(*) FROM edges WHERE {cell} IS NULL")
        listed = f"SELECT row_number() OVER () - 1 AS row, {cell} AS value FROM edges"
        if empty:
            (row,) = base.row(f"SELECT min(row) FROM ({listed}) WHERE value IS NULL")
            raise without(path, name, row, empty)
        if count:
            row, value = base.row(
                f"SELECT row, value FROM ({listed}) l WHERE NOT EXISTS (SELECT 1 FROM ids WHERE "
                f"CAST(ids.id AS {named[end]}) = CAST(l.value AS {named[end]})) ORDER BY row LIMIT 1"
            )
            unknown.append(unknown_end(name, value, row, count))
    if unknown and not reading.drop_unknown_edges:
        raise unknown_ends(path, unknown, nodes.path, numbered)


def write_edges(base: Database, folder: Path, n: int, weighted: bool, directed: bool, on_rows: OnRows) -> int:
    """Write the three arrays; gives the number of edges.

    Args:
        directed: False adds the reverse of edges that are listed in one direction only.
        on_rows: is given how many edges are written.
    """
    known = "SELECT source, target, weight FROM mapped WHERE source IS NOT NULL AND target IS NOT NULL"
    if not directed:
        base.run(
            f"CREATE OR REPLACE TABLE reversed AS SELECT target AS source, source AS target, weight FROM ({known}) m "
            "WHERE NOT EXISTS (SELECT 1 FROM mapped r WHERE r.source = m.target AND r.target = m.source)",
            ordered=False,
        )
        known = f"{known} UNION ALL SELECT source, target, weight FROM reversed"
    (m,) = base.row(f"SELECT count(*) FROM ({known})")
    order = "key, weight" if weighted else "key"
    taken = f"(CAST(target AS BIGINT) << 32) | source AS key{', CAST(weight AS FLOAT) AS weight' if weighted else ''}"
    array_path(folder, "weights").unlink(missing_ok=True)
    with contextlib.ExitStack() as files:
        indptr = files.enter_context(ArrayFile(folder, "indptr", (n + 1,), np.int64))
        indices = files.enter_context(ArrayFile(folder, "indices", (m,), np.int32))
        weights = files.enter_context(ArrayFile(folder, "weights", (m,), np.float32)) if weighted else None
        rows, written = 0, 0  # whose beginnings are known, and edges so far
        for batch in base.batches(f"SELECT {taken} FROM ({known}) ORDER BY {order}", BATCH):
            key = batch.column(0).to_numpy()
            target = key >> 32
            last = int(target[-1])  # where its row begins is known, where it ends is not
            indptr.add(written + np.searchsorted(target, np.arange(rows, last + 1)))
            rows = last + 1
            indices.add(key & ((1 << 32) - 1))
            if weights is not None:
                weights.add(batch.column(1).to_numpy())
            written += len(key)
            on_rows(written)
        for start in range(rows, n + 1, BATCH):
            indptr.add(np.full(min(BATCH, n + 1 - start), written))
    if written != m:
        raise InputError(f"{m} edges were counted but {written} came: the files changed meanwhile; run it again.")
    return m
