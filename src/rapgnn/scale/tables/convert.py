"""The way from a user's folder to a graph on disk, in stages; a stage that is done is not done again."""

import contextlib
import json
import re
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
    Reading,
    Roles,
    check_classes,
    dialect_notes,
    find_labels,
    row_ids,
)
from rapgnn.datasets.frames import Frame, checked
from rapgnn.datasets.sources import cache_dir
from rapgnn.datasets.tables import edge_table, ignoring
from rapgnn.errors import InputError
from rapgnn.files import locked, read_regular, write_atomic, write_error
from rapgnn.graph.convert import RawGraph
from rapgnn.graph.graph import build_graph
from rapgnn.graph.labels import UNKNOWN
from rapgnn.graph.validate import SPLITS, Faults, check_disjoint
from rapgnn.scale.disk_graph import (
    IDS,
    DiskGraph,
    about,
    array_path,
    check_size,
    is_sealed,
    read_manifest,
    save_parts,
    seal,
    unseal,
)
from rapgnn.scale.tables.arrays import ArrayFile, make_ids, map_edges, write_edges, write_features
from rapgnn.scale.tables.database import Database, Sources, find_sources, literal

FIRST = 1 << 24  # cells of a table's first rows, by which its columns are known; at least LEAST rows
LEAST = 1000
BATCH = 1 << 18  # rows of labels at a time
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
    plain = re.sub(r"[^\w.-]", "_", name, flags=re.ASCII)  # the database's own files have plain names
    target = Path(out) if out is not None else cache_dir() / "graphs" / f"{plain}-{key}"
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
        try:
            work.run(name, memory, threads)
        except OSError as error:
            raise write_error(target, error) from error
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
        reading, roles = self.reading, Roles()
        with Database(work, memory, threads) as base:
            nodes = self._stage("nodes", lambda: self._nodes(base))
            n, numbered = nodes["rows"], nodes["id"] is None
            base.columns = nodes["columns"]
            first = self._first(base)
            roles |= {} if numbered else {nodes["id"]: "id"}
            find_labels(first["nodes"], reading, roles)
            weighted = edge_table(first["edges"], reading).weight is not None
            labels = self._stage("labels", lambda: self._labels(base, first["nodes"], n))
            notes = self._stage(
                "joining", lambda: map_edges(base, first["edges"], first["nodes"], n, numbered, reading)
            )
            edges = self._stage("sorting", lambda: self._edges(base, n, weighted))
            made = self._stage("features", lambda: self._features(base, first["nodes"], n, roles, labels["column"]))
        manifest = about(
            name, n, edges, made["width"], len(labels["classes"]), weighted, labels["task"], labels["classes"]
        )
        files = {"nodes": self.sources.nodes[0], "edges": self.sources.edges[0]}
        forms = [Frame(path, pd.DataFrame(), form=tuple(nodes["forms"][stem])) for stem, path in files.items()]
        notes = [*dialect_notes(forms), *([NO_IDS] if numbered else []), *notes, *made["notes"], *labels["notes"]]
        self.track.start("checksums", None)
        seal(self.target, {**manifest, "encoding": made["encoding"], "notes": notes, "source": self.key})
        shutil.rmtree(work, ignore_errors=True)

    def _stage(self, name: str, make: Callable[[], Any]) -> Any:
        """What a stage gave, or gives now; it is noted when it is done."""
        work = self.target / WORK
        done = _noted(work).get("done", {})
        if name not in done:
            self.track.start(name, None)
            done[name] = make()
            text = json.dumps({"key": self.key, "done": done})
            write_atomic(work / STAGES, lambda temporary: temporary.write_text(text))
        return done[name]

    def _nodes(self, base: Database) -> dict[str, Any]:
        """Both tables as views, the columns checked by their names, the nodes numbered."""
        faults, reading, roles, n = Faults(), self.reading, Roles(), 0
        forms: dict[str, list[str]] = {}
        with faults.collect():
            own = (*reading.named("id", ()), *GRAPH_ID)
            forms["nodes"] = base.load("nodes", self.sources.nodes, own, reading)
        with faults.collect():
            words = self._words(base) if "nodes" in forms else ()
            forms["edges"] = base.load("edges", self.sources.edges, words, reading)
        faults.check()
        first = self._first(base)
        if not len(first["nodes"].table):
            raise InputError(f"{first['nodes'].path} has no rows.")
        with faults.collect():
            column = first["nodes"].take(*reading.named("id", ID))
            if column is None and reading.id is not None:
                row_ids(first["nodes"], roles, reading.named("id", ID), needed=True)
            n = make_ids(base, first["nodes"], None if column is None else column[0])
            check_size(n)
            if column is not None:
                path = literal(str(self.target / IDS))
                base.run(f"COPY (SELECT id FROM ids ORDER BY rowid) TO {path} (FORMAT parquet)")
        with faults.collect():
            find_labels(first["nodes"], reading, roles)
        with faults.collect():
            edge_table(first["edges"], reading)
        faults.check()
        return {"rows": n, "id": None if column is None else column[0], "forms": forms, "columns": base.columns}

    def _words(self, base: Database) -> tuple[str, ...]:
        """The columns of the edges whose cells are words: their ends, where the nodes' ids are."""
        nodes = Frame(self.sources.nodes[0], base.first("nodes", 0, self.sources.nodes[0]))
        named = nodes.take(*self.reading.named("id", ID))
        if named is None or pd.api.types.is_numeric_dtype(named[1]):
            return ()
        return (*self.reading.named("source", SOURCE), *self.reading.named("target", TARGET))

    def _first(self, base: Database) -> dict[str, Frame]:
        """The first rows of both tables, without the columns that the user leaves out."""
        frames = {}
        for stem, files in (("nodes", self.sources.nodes), ("edges", self.sources.edges)):
            limit = max(LEAST, FIRST // max(1, len(base.columns[stem])) if stem == "nodes" else 0)
            frames[stem] = checked(Frame(files[0], base.first(stem, limit, files[0])))
        return ignoring(self.reading, frames)[1]

    def _labels(self, base: Database, nodes: Frame, n: int) -> dict[str, Any]:
        """Write ``y``, ``train``, ``val`` and ``test``; only the labelled rows are held in memory."""
        roles = Roles()
        find_labels(nodes, self.reading, roles)
        table = _labelled(base, nodes, roles)
        rows, held = table.pop(ROW).to_numpy(), Frame(nodes.path, table)
        labels = find_labels(held, self.reading, {})
        check_classes(held, labels, self.reading)
        check_disjoint({split: rows[labels.splits[split]] for split in SPLITS if split in labels.splits})
        # The labelled rows are a graph of their own, without edges: labels, classes and splits are checked as usual.
        splits: dict[str, Any] = labels.splits
        raw = RawGraph(np.zeros((len(rows), 1)), np.zeros((2, 0), dtype=np.int64), y=labels.values, **splits)
        task = "multilabel" if labels.task == "multilabel" else "classification"
        graph = build_graph(raw, seed=self.reading.seed, task=task)
        y = graph.y.numpy()
        with ArrayFile(self.target, "y", (n, *y.shape[1:]), y.dtype, fortran=False) as file:
            for start in range(0, n, BATCH):
                block = np.full((min(BATCH, n - start), *y.shape[1:]), UNKNOWN if y.ndim == 1 else np.nan, y.dtype)
                first, last = np.searchsorted(rows, (start, start + BATCH))
                block[rows[first:last] - start] = y[first:last]
                file.add(block)
                self.track.set(start + len(block), "labels")
        for split in SPLITS:
            chosen = rows[graph.rows(split).numpy()]
            save_parts(array_path(self.target, split), chosen.shape, "<i8", [chosen])
        classes = labels.names if labels.names is not None else graph.classes
        return {"task": graph.task, "classes": list(classes or ()), "column": labels.column, "notes": list(graph.notes)}

    def _edges(self, base: Database, n: int, weighted: bool) -> int:
        count = write_edges(
            base, self.target, n, weighted, self.reading.directed, lambda m: self.track.set(m, "sorting")
        )
        for name in ("mapped", "reversed"):
            base.run(f"DROP TABLE IF EXISTS {name}")
        return count

    def _features(self, base: Database, nodes: Frame, n: int, roles: Roles, label: str | None) -> dict[str, Any]:
        self.track.start("features", 2 * n)
        array, reading = self.sources.features, self.reading
        width, encoding, notes = write_features(
            base, nodes, n, self.target, roles, array, reading, lambda done: self.track.set(done, "features")
        )
        return {"width": width, "encoding": reading.remembered(encoding, label).to_dict(), "notes": notes}


def _noted(work: Path) -> dict[str, Any]:
    with contextlib.suppress(OSError, ValueError):
        noted = json.loads(read_regular(work / STAGES, 1 << 26))
        return noted if isinstance(noted, dict) else {}
    return {}


ROW = "number_of_the_row"


def _labelled(base: Database, nodes: Frame, roles: Roles) -> pd.DataFrame:
    """The rows that have a label or a split, those columns of them, and their numbers.

    The first row is always there, so that a table without any label is refused in its own words; and the first row
    whose label is -1, which tells what -1 means here.
    """
    cells = {str(name): base.cell("nodes", name) for name in nodes.table.columns if name in roles}
    numbered = f"SELECT row_number() OVER () - 1 AS {ROW}, {', '.join(cells.values())} FROM nodes"
    chosen = [f"{ROW} = 0"]
    for name, cell in cells.items():
        values = nodes.table[name]
        if roles[name] == "split" and pd.api.types.is_bool_dtype(values):
            chosen.append(cell)
        elif roles[name] == "label" and pd.api.types.is_numeric_dtype(values):
            chosen.append(f"{cell} <> {UNKNOWN}")
            (unknown,) = base.row(f"SELECT min({ROW}) FROM ({numbered}) WHERE {cell} = {UNKNOWN}")
            chosen += [] if unknown is None else [f"{ROW} = {unknown}"]
        else:
            chosen.append(f"{cell} IS NOT NULL")
    table = base.table(f"SELECT * FROM ({numbered}) WHERE {' OR '.join(chosen)} ORDER BY {ROW}", nodes.path)
    return table.set_axis([ROW, *cells], axis=1)
