"""The way from a user's folder to a graph on disk, in stages; a stage that is done is not done again."""

import contextlib
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd

from rapgnn.datasets.columns import (
    GRAPH_ID,
    ID,
    NO_IDS,
    SOURCE,
    TARGET,
    Labels,
    Reading,
    Roles,
    dialect_notes,
    find_labels,
)
from rapgnn.datasets.edges import edge_table
from rapgnn.datasets.folder import check_classes, ignoring
from rapgnn.datasets.frames import Frame, checked
from rapgnn.datasets.sources import cache_dir
from rapgnn.errors import InputError
from rapgnn.files import locked, read_regular, write_atomic, write_error
from rapgnn.graph.convert import RawGraph
from rapgnn.graph.graph import Graph
from rapgnn.graph.labels import UNKNOWN
from rapgnn.graph.nodes import node_graph
from rapgnn.graph.validate import SPLITS, Faults, check_disjoint
from rapgnn.scale.disk_graph import (
    IDS,
    DiskGraph,
    about,
    array_path,
    check_size,
    is_sealed,
    read_manifest,
    seal,
    unseal,
)
from rapgnn.scale.tables.database import Database, Sources, find_sources, literal, quoted
from rapgnn.scale.tables.edges import make_ids, map_edges, write_edges
from rapgnn.scale.tables.features import NodeTable, Writer, kept_encoding, write_features

FIRST = 1 << 24  # cells of a table's first rows, by which its columns are told
LEAST = 1000  # rows of it
WORK, STAGES = "work", "stages.json"
MEMORY = 4 << 30


class Track(Protocol):
    """Who is told how far the work is."""

    def start(self, title: str, total: int | None) -> None: ...

    def set(self, done: int, title: str) -> None: ...


class _Silent:
    def start(self, title: str, total: int | None) -> None: ...

    def set(self, done: int, title: str) -> None: ...


def convert_folder(
    folder: Path | str,
    out: Path | str | None = None,
    reading: Reading | None = None,
    memory: int = MEMORY,
    threads: int | None = None,
    track: Track | None = None,
) -> DiskGraph:
    """The graph of a folder of tables, on disk; made once, and again where the files or the options change.

    Args:
        folder: as ``rapgnn fit`` reads it; see ``rapgnn.scale.tables.database`` for what may be there besides.
        out: where the graph goes; None: below the cache folder.
        reading: how the folder is to be read.
        memory: bytes that the conversion may use; the database spills to ``out`` what does not fit.
        threads: of the database; None: one per core.
        track: is told of progress.
    """
    sources, reading = find_sources(folder), reading or Reading()
    if reading.trained or reading.encoding is not None:
        raise InputError("a folder is converted to train on it, not for a model that is trained already.")
    key = sources.key(reading)
    name = sources.folder.resolve().name
    target = Path(out) if out is not None else cache_dir() / "graphs" / f"{name}-{key}"
    with contextlib.suppress(InputError):
        if is_sealed(target) and read_manifest(target).get("source") == key:
            return DiskGraph.open(target)
    _refuse_other(target)
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise write_error(target, error) from error
    with locked(target):
        work = _Conversion(sources, reading, target, key, track or _Silent())
        work.run(name, memory, threads)
    return DiskGraph.open(target)


def _refuse_other(target: Path) -> None:
    """Do not write among files that are something else."""
    there = [path.name for path in target.iterdir()] if target.is_dir() else []
    if target.exists() and (not target.is_dir() or (there and not {"graph.json", WORK, "checked.json"} & set(there))):
        raise InputError(f"cannot write {target}: it is there already, and no graph on disk.")


@dataclass
class _Conversion:
    sources: Sources
    reading: Reading
    target: Path
    key: str
    track: Track

    def run(self, name: str, memory: int, threads: int | None) -> None:
        """All stages that are not done."""
        work = self.target / WORK
        if _noted(work).get("key") != self.key:
            shutil.rmtree(work, ignore_errors=True)
        work.mkdir(exist_ok=True)
        unseal(self.target)
        with Database(work, memory, threads) as base:
            nodes = self._stage("nodes", lambda: self._nodes(base))
            first, table, roles = self._first(base, nodes)
            labels = self._stage("labels", lambda: self._labels(base, first, nodes["rows"]))
            mapped = self._stage("joining", lambda: self._map(base, first, nodes))
            edges = self._stage("sorting", lambda: self._edges(base, nodes["rows"], mapped["weighted"]))
            made = self._stage("features", lambda: self._features(table, roles, labels["column"]))
        told = about(
            name,
            nodes["rows"],
            edges["edges"],
            made["width"],
            len(labels["classes"]),
            mapped["weighted"],
            labels["task"],
            labels["classes"],
        )
        notes = [*self._notes(nodes, made["grouped"]), *mapped["notes"], *made["notes"], *labels["notes"]]
        self.track.start("checksums", None)
        seal(self.target, {**told, "encoding": made["encoding"], "notes": notes, "source": self.key})
        shutil.rmtree(work, ignore_errors=True)

    def _stage(self, name: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """What a stage gave, or gives now; it is noted when it is done."""
        work = self.target / WORK
        noted = _noted(work)
        done = noted.get("done", {})
        if name not in done:
            self.track.start(name, None)
            done[name] = make()
            text = json.dumps({"key": self.key, "done": done})
            write_atomic(work / STAGES, lambda temporary: temporary.write_text(text))
        return done[name]

    def _nodes(self, base: Database) -> dict[str, Any]:
        """Both tables as views, the columns checked by their names, the nodes numbered."""
        faults, reading = Faults(), self.reading
        own = (*reading.named("id", ()), *GRAPH_ID)
        dialect = other = None
        with faults.collect():
            dialect = base.load("nodes", self.sources.nodes, own, reading.options)
        with faults.collect():
            other = base.load("edges", self.sources.edges, self._words(base), reading.options)
        faults.check()
        frames = self._frames(base, LEAST)
        if not len(frames["nodes"].table):
            raise InputError(f"{frames['nodes'].path} has no rows.")
        with faults.collect():
            found = frames["nodes"].take(*reading.named("id", ID))
            if found is None and reading.id is not None:
                frames["nodes"].need(*reading.named("id", ID))
            column = None if found is None else found[0]
            n = make_ids(base, frames["nodes"], column)
            check_size(n)
        with faults.collect():
            find_labels(frames["nodes"], reading, {})
        with faults.collect():
            edge_table(frames["edges"], reading)
        faults.check()
        if column is not None:
            path = literal(str(self.target / IDS))
            base.run(f"COPY (SELECT id FROM ids ORDER BY rowid) TO {path} (FORMAT parquet)")
        written = {"nodes": (self.sources.nodes[0], dialect), "edges": (self.sources.edges[0], other)}
        return {
            "rows": n,
            "id": column,
            "decimal": "" if dialect is None else dialect.decimal,
            "told": {stem: [] if form is None else form.told(path) for stem, (path, form) in written.items()},
        }

    def _words(self, base: Database) -> tuple[str, ...]:
        """The columns of the edges whose cells are words: their ends, where the nodes' ids are."""
        if "nodes" not in base.tables():
            return ()
        named = checked(base.frame(self.sources.nodes[0], "nodes", 0)).take(*self.reading.named("id", ID))
        if named is None or pd.api.types.is_numeric_dtype(named[1]):
            return ()
        return (*self.reading.named("source", SOURCE), *self.reading.named("target", TARGET))

    def _frames(self, base: Database, limit: int) -> dict[str, Frame]:
        """The first rows of both tables, without the columns that the user leaves out."""
        files = {"nodes": self.sources.nodes, "edges": self.sources.edges}
        frames = {stem: checked(base.frame(paths[0], stem, limit)) for stem, paths in files.items()}
        return ignoring(self.sources.folder, self.reading, frames)[1]

    def _first(self, base: Database, nodes: dict[str, Any]) -> tuple[Frame, NodeTable, Roles]:
        """The first rows of the nodes, all of them as a table to stream, and the columns that are no features."""
        width = len(base.rows("DESCRIBE nodes"))
        first = self._frames(base, max(LEAST, FIRST // width))["nodes"]
        roles: Roles = {} if nodes["id"] is None else {nodes["id"]: "id"}
        find_labels(first, self.reading, roles)
        return first, NodeTable(base, first, nodes["rows"], nodes["decimal"]), roles

    def _labels(self, base: Database, first: Frame, n: int) -> dict[str, Any]:
        self.track.start("labels", n)
        found = write_labels(base, self.target, first, n, self.reading, lambda done: self.track.set(done, "labels"))
        return {**vars(found), "classes": list(found.classes), "notes": list(found.notes)}

    def _map(self, base: Database, first: Frame, nodes: dict[str, Any]) -> dict[str, Any]:
        edges = self._frames(base, LEAST)["edges"]
        notes = map_edges(base, edges, first, nodes["rows"], nodes["id"] is None, self.reading)
        table = edge_table(edges, self.reading)
        return {"weighted": table.weight is not None, "notes": notes}

    def _edges(self, base: Database, n: int, weighted: bool) -> dict[str, Any]:
        directed = self.reading.directed
        done = write_edges(base, self.target, n, weighted, directed, lambda m: self.track.set(m, "sorting"))
        for name in ("mapped", "reversed"):
            base.run(f"DROP TABLE IF EXISTS {quoted(name)}")
        return {"edges": done}

    def _features(self, table: NodeTable, roles: Roles, label: str | None) -> dict[str, Any]:
        self.track.start("features", 2 * table.rows)
        width, encoding, notes = write_features(
            table, self.target, roles, self.sources.features, self.reading, lambda d: self.track.set(d, "features")
        )
        kept = kept_encoding(encoding, self.reading, label).to_dict()
        return {"width": width, "encoding": kept, "notes": notes, "grouped": list(table.grouped)}

    def _notes(self, nodes: dict[str, Any], grouped: list[str]) -> list[str]:
        """What is to be said about how the files are written, and about rows without names."""
        told: dict[str, list[str]] = nodes["told"]
        marked = f"thousands separators in {', '.join(grouped[:5])}{', ...' * (len(grouped) > 5)}"
        files = {"nodes": self.sources.nodes[0], "edges": self.sources.edges[0]}
        further = {"nodes": [marked] if grouped else [], "edges": []}
        frames = [Frame(path, pd.DataFrame(), told=(*told[stem], *further[stem])) for stem, path in files.items()]
        return [*dialect_notes(frames), *([NO_IDS] if nodes["id"] is None else [])]


def _noted(work: Path) -> dict[str, Any]:
    with contextlib.suppress(OSError, ValueError):
        found = json.loads(read_regular(work / STAGES, 1 << 26))
        return found if isinstance(found, dict) else {}
    return {}


# Labels and splits of a node table larger than memory: only the labelled rows are held.


BATCH = 1 << 18  # rows at a time


@dataclass(frozen=True)
class Targets:
    """What the labels say: the task, the classes, and what is to be told."""

    task: str
    classes: tuple[Any, ...]
    column: str | None
    notes: tuple[str, ...]


def write_labels(base: Database, folder: Path, nodes: Frame, n: int, reading: Reading, tell: Any) -> Targets:
    """Write ``y``, ``train``, ``val`` and ``test``.

    Args:
        nodes: the first rows of the nodes, with their columns and types.
        tell: is told how many rows are read.
    """
    roles: Roles = {}
    find_labels(nodes, reading, roles)
    rows, table = _labelled(base, nodes, roles, tell)
    kept = Frame(nodes.path, table)
    labels = find_labels(kept, reading, {})
    check_classes(kept, labels, reading)
    check_disjoint({split: rows[labels.splits[split]] for split in SPLITS if split in labels.splits})
    graph = _numbered(labels, len(rows), reading)
    y = graph.y.numpy()
    blank = -1 if y.ndim == 1 else np.nan
    shape = (n, *y.shape[1:])
    with Writer(folder, "y", shape, y.dtype) as file:
        width = 1 if y.ndim == 1 else y.shape[1]
        for start in range(0, n, BATCH):
            stop = min(n, start + BATCH)
            block = np.full((stop - start, *y.shape[1:]), blank, dtype=y.dtype)
            first, last = np.searchsorted(rows, (start, stop))
            block[rows[first:last] - start] = y[first:last]
            file.put(start * width, block.reshape(-1))
    for split in SPLITS:
        np.save(array_path(folder, split), rows[graph.rows(split).numpy()])
    classes = labels.names if labels.names is not None else graph.classes
    return Targets(graph.task, tuple(classes or ()), labels.column, graph.notes)


def _labelled(base: Database, nodes: Frame, roles: Roles, tell: Any) -> tuple[np.ndarray, pd.DataFrame]:
    """The rows that have a label or a split, and those columns of them."""
    names = [str(name) for name in nodes.table.columns if name in roles]
    rows: list[np.ndarray] = [np.zeros(0, dtype=np.int64)]
    parts: list[pd.DataFrame] = [nodes.table.loc[:, names].iloc[:0]]
    begin, unknown_seen = 0, False
    for batch in base.batches(f"SELECT {', '.join(map(quoted, names))} FROM nodes", BATCH, nodes.path):
        part = batch.to_pandas()
        said = np.zeros(len(part), dtype=bool)
        for name in names:
            column = part[name]
            known = column.notna().to_numpy(dtype=bool, copy=True)
            if roles[name] == "label" and pd.api.types.is_numeric_dtype(column):
                blank = known & (column == UNKNOWN).to_numpy(dtype=bool)
                known &= ~blank
                if blank.any() and not unknown_seen:  # one of them stays: it tells what -1 means here
                    known[int(blank.argmax())] = unknown_seen = True
            if pd.api.types.is_bool_dtype(column) and roles[name] == "split":
                known &= column.to_numpy(dtype=bool)
            said |= known
        said[:1] |= begin == 0  # a table without any label is refused in its own words
        rows.append(begin + np.flatnonzero(said))
        parts.append(part.loc[said])
        begin += len(part)
        tell(begin)
    filled = [part for part in parts if len(part)] or parts[:1]
    return np.concatenate(rows), pd.concat(filled, ignore_index=True)


def _numbered(labels: Labels, count: int, reading: Reading) -> Graph:
    """The labelled rows as a graph of their own, without edges: its labels, classes and splits are checked as usual."""
    nothing = np.zeros((2, 0), dtype=np.int64)
    splits: dict[str, Any] = labels.splits
    raw = RawGraph(np.zeros((count, 1), dtype=np.float32), nothing, y=labels.values, **splits)
    return node_graph(raw, seed=reading.seed)
