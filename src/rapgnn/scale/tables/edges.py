"""The edges of files larger than memory -> ``indptr``, ``indices`` and ``weights`` on disk.

The database joins the ends with the nodes' ids and sorts; here its sorted rows are only written down.
"""

import contextlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from rapgnn.datasets.columns import OTHER_ID, Reading, repeated_id, without
from rapgnn.datasets.frames import Frame
from rapgnn.datasets.tables import EdgeTable, dropped_edges, edge_table, unknown_end, unknown_ends
from rapgnn.errors import InputError
from rapgnn.graph.validate import LARGEST, NEGATIVE, check_edge_weight
from rapgnn.scale.disk_graph import array_path
from rapgnn.scale.tables.database import Database
from rapgnn.scale.tables.features import ArrayFile

BATCH = 1 << 20  # edges at a time
_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")
_WIDE = (*_WHOLE, "UBIGINT", "HUGEINT")
_NUMBERS = (*_WIDE, "FLOAT", "DOUBLE", "DECIMAL", "BOOLEAN")

OnRows = Callable[[int], None]


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
