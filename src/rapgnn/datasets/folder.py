"""A user's own graph, or graphs: a folder of tables, or one file of edges.

``nodes``: ``id`` (any type; without it rows are numbered), features (all other columns, or the array in
``features.npy``, a row per row of ``nodes``), ``label``, ``split``.
``edges``: ``source``, ``target``, optionally ``weight``. With ``graphs`` (``id``, ``label``, ``split``) there are many
graphs; nodes, and edges where node ids repeat, then have a column ``graph``. Edges alone are a graph without features
and labels.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rapgnn.datasets.columns import (
    GRAPH,
    GRAPH_ID,
    ID,
    NO_IDS,
    SOURCE,
    TARGET,
    Reading,
    Roles,
    check_classes,
    column_uses,
    dialect_notes,
    find_labels,
    learn_features,
    learn_table,
    row_ids,
)
from rapgnn.datasets.edges import EdgeTable, edge_table, ends_in_many, ends_in_one, known_edges, places
from rapgnn.datasets.frames import ENDINGS, Frame, read_file, with_features
from rapgnn.errors import InputError
from rapgnn.graph.convert import RawGraph, both_ways
from rapgnn.graph.graph import Graph, build_graph
from rapgnn.graph.table import Encoding
from rapgnn.graph.validate import Faults, check_edge_weight

__all__ = ["Reading", "edges_only", "is_table_file", "read_folder"]
HOLDS = "a graph folder holds nodes and edges, and graphs where there are many"
FOR_MANY = "edge features are for many graphs"


def is_table_file(path: Path) -> bool:
    """Whether this is one table rather than a folder of them."""
    return path.is_file() and path.name.lower().endswith(ENDINGS)


def edges_only(path: Path, reading: Reading) -> bool:
    """Whether there are edges here and nothing else, so no labels."""
    if path.is_file():
        return True
    return bool(reading.file(path, "edges")) and not any(reading.file(path, stem) for stem in ("nodes", "graphs"))


def read_folder(folder: Path, name: str, reading: Reading | None = None, **changes: Any) -> Graph:
    """The graph, or the graphs, in ``folder`` (or in a file of edges), checked.

    Args:
        changes: fields of ``reading`` that have other values.
    """
    reading = replace(reading or Reading(), **changes)
    graph = _read_folder(folder, name, reading)
    return replace(graph, read_as=partial(read_folder, folder.absolute(), name, reading))


def _read(folder: Path, reading: Reading) -> dict[str, Frame]:
    """The tables by their names; every file that cannot be read is named."""
    options, faults = reading.options, Faults()
    ends = (*reading.named("source", SOURCE), *reading.named("target", TARGET))
    if edges_only(folder, reading):
        file = folder if folder.is_file() else reading.file(folder, "edges")
        return {"edges": read_file(file or folder, ends, options)}
    frames: dict[str, Frame] = {}
    own = (*reading.named("id", ()), *GRAPH_ID)
    for stem in ("graphs", "nodes"):
        with faults.collect():
            if stem == "nodes" or reading.file(folder, stem) is not None:
                frames[stem] = _named_file(folder, stem, own, reading)
    words: list[str] = []
    if "nodes" in frames:
        with faults.collect():
            frames["nodes"] = with_features(frames["nodes"], folder) if reading.nodes is None else frames["nodes"]
        words += _words(frames["nodes"], reading.named("id", ID), ends)
    if "graphs" in frames:
        words += _words(frames["graphs"], GRAPH_ID, GRAPH)
    with faults.collect():
        frames["edges"] = _named_file(folder, "edges", words, reading)
    faults.check()
    return frames


def _words(frame: Frame, names: Sequence[str], columns: Sequence[str]) -> Sequence[str]:
    """The columns that name this table's rows, where its rows' names are words."""
    column = frame.take(*names)
    return columns if column is not None and not pd.api.types.is_numeric_dtype(column[1]) else ()


def _named_file(folder: Path, stem: str, words: Sequence[str], reading: Reading) -> Frame:
    path = reading.file(folder, stem)
    if path is None and reading.nodes is not None:
        raise InputError(f"the file of {stem} is not named: give nodes and edges.")
    if path is None:
        raise InputError(f"{folder / stem}.csv (or .parquet, .npz) is missing: {HOLDS}.")
    return read_file(path, words, reading.options)


def ignoring(folder: Path, reading: Reading, frames: dict[str, Frame]) -> tuple[Reading, dict[str, Frame]]:
    """The tables without the columns that the user leaves out."""
    given = [reading.ignore] if isinstance(reading.ignore, str) else list(reading.ignore)
    there = {str(column) for frame in frames.values() for column in frame.table.columns}
    names = [part for item in given for part in ([item] if item in there else [p.strip() for p in item.split(",")])]
    absent = [name for name in names if name and name not in there]
    if absent:
        raise InputError(f"{folder} has no column {', '.join(map(repr, absent))} to ignore.")
    names = [name for name in names if name]
    return replace(reading, ignore=tuple(names)), {stem: frame.ignoring(names) for stem, frame in frames.items()}


def _named_nodes(edges: EdgeTable) -> Frame:
    """The nodes that the edges name, in order."""
    ends = pd.concat([edges.source, edges.target], ignore_index=True).dropna()
    ids = pd.unique(ends)
    if pd.api.types.is_numeric_dtype(ends):
        ids = np.sort(ids)
    if not len(ids):
        raise InputError(f"{edges.frame.path} has no rows.")
    return Frame(edges.frame.path, pd.DataFrame({"id": pd.Series(ids, dtype=ends.dtype)}))


def _read_folder(folder: Path, name: str, reading: Reading) -> Graph:
    if reading.encoding is not None:
        known = reading.encoding
        named = {role: getattr(reading, role) or getattr(known, role) for role in ("id", "source", "target")}
        reading = replace(reading, directed=known.directed, impute=known.impute, label=known.label, **named)
    reading, frames = ignoring(folder, reading, _read(folder, reading))
    if "nodes" in frames:
        if not len(frames["nodes"].table):
            raise InputError(f"{frames['nodes'].path} has no rows.")
        return _graph(frames["nodes"], frames["edges"], frames.get("graphs"), name, reading)
    table = edge_table(frames["edges"], reading)
    return _graph(_named_nodes(table), table.frame, None, name, replace(reading, labelled=False, id=None))


def _graph(nodes: Frame, edges: Frame, graphs: Frame | None, name: str, reading: Reading) -> Graph:
    """The graph, or the graphs side by side; everything that is wrong with the tables is refused at once."""
    faults, roles, graph_roles = Faults(), Roles(), Roles()
    rows = nodes if graphs is None else graphs  # the table of what has labels
    notes = dialect_notes([frame for frame in (graphs, nodes, edges) if frame is not None])
    ids, graph_ids = pd.RangeIndex(len(nodes.table)), pd.RangeIndex(len(rows.table))
    home = labels = learned = table = ends = None
    with faults.collect():
        if graphs is not None:
            own = row_ids(graphs, graph_roles, GRAPH_ID)
            graph_ids = graph_ids if own is None else own
            column = nodes.need(*GRAPH)
            roles[column[0]] = "graph"
            home, unknown = places(nodes, column[1], graph_ids, graphs)
            if unknown:
                raise InputError(f"{nodes.path}: {unknown[0]} is not in {graphs.path.name}.")
        own = row_ids(nodes, roles, reading.named("id", ID), unique=graphs is None, needed=reading.id is not None)
        notes += [NO_IDS] if own is None else []
        ids = ids if own is None else own
    named = not faults.sentences
    with faults.collect():
        labels = find_labels(rows, reading, roles if graphs is None else graph_roles)
        check_classes(rows, labels, reading)
    if named or graphs is None:
        with faults.collect():
            learned = learn_features(nodes, roles, reading)
    with faults.collect():
        table = edge_table(edges, reading)
        if named and graphs is not None and home is not None:
            ends = ends_in_many(table, ids, home, graph_ids, nodes, graphs, reading.drop_unknown_edges)
        elif named:
            ends = ends_in_one(table, ids, nodes, reading.drop_unknown_edges, numbered=NO_IDS in notes)
    faults.check()
    assert labels is not None
    notes += labels.notes
    assert learned is not None
    assert table is not None
    assert ends is not None
    features, encoding = learned
    given: dict[str, Any] = {"ids": ids.to_numpy()}
    if home is not None:
        order = np.argsort(home, kind="stable")  # nodes graph by graph
        features = (
            features.iloc[order]
            if isinstance(features, pd.DataFrame)
            else (None if features is None else features[order])
        )
        ends = np.where(ends < 0, -1, np.argsort(order)[ends])
        given = {"ids": graph_ids.to_numpy(), "sizes": np.bincount(home, minlength=len(graph_ids))}
    known = known_edges(ends, notes)
    edge_index, copied = both_ways(ends[:, known], len(ids), reading.directed)
    weight = None
    if table.weight is not None:
        weight = check_edge_weight(table.weight, ends.shape[1]).numpy()[known][copied]
    edge_attr = None
    if graphs is not None and table.further:
        edge_attr = edges.table[table.further].iloc[known[copied]]
        if not reading.trained:
            of_edges = learn_table(edge_attr, edges.path, reading.impute, "edge")
            encoding = encoding or Encoding("given")
            reasons = encoding.left_out | of_edges.left_out
            encoding = replace(encoding, edge_columns=of_edges.columns, left_out=reasons)
    elif table.further:
        notes.append(f"{FOR_MANY}; on one graph {', '.join(map(str, table.further))} are left out.")
    if graphs is not None and (left := [str(c) for c in graphs.table.columns if c not in graph_roles]):
        notes.append(f"columns of {graphs.path.name} that are no id, label or split are left out: {', '.join(left)}.")
    graph = build_graph(
        RawGraph(features, edge_index, weight, edge_attr, labels.values, num_nodes=len(ids), **labels.splits, **given),
        classes=reading.classes,
        encoding=encoding,
        task=labels.task,
        labelled=reading.labelled,
        trained=reading.trained,
        seed=reading.seed,
        name=name,
    )
    encoding = graph.encoding or Encoding("given")
    if not reading.trained:
        encoding = reading.remembered(encoding, labels.column)
        if labels.names is not None and reading.labelled:
            graph = replace(graph, classes=labels.names)
    uses = [] if graphs is None else column_uses(graphs, graph_roles, otherwise="no id, label or split")
    if nodes.path != edges.path:
        uses += column_uses(nodes, roles, encoding.columns, encoding.left_out)
    columns = () if graphs is None else encoding.edge_columns
    uses += column_uses(edges, table.roles, columns, encoding.left_out if columns else {}, FOR_MANY)
    return replace(graph, encoding=replace(encoding, uses=tuple(uses)), notes=(*notes, *graph.notes))
