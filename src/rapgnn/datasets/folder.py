"""A user's own graph, or graphs: a folder of tables, or one file of edges.

``nodes``: ``id`` (any type; without it rows are numbered), features (all other columns, or the array in
``features.npy``, a row per row of ``nodes``), ``label``, ``split``.
``edges``: ``source``, ``target``, optionally ``weight``. With ``graphs`` (``id``, ``label``, ``split``) there are many
graphs; nodes, and edges where node ids repeat, then have a column ``graph``. Edges alone are a graph without features
and labels.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from rapgnn.datasets.columns import (
    GRAPH,
    GRAPH_ID,
    ID,
    NO_IDS,
    SOURCE,
    TARGET,
    Labels,
    Reading,
    Roles,
    are_numbers,
    column_uses,
    dialect_notes,
    find_labels,
    learn_features,
    row_ids,
)
from rapgnn.datasets.edges import EdgeTable, edge_table, ends_in_many, ends_in_one, known_edges, places
from rapgnn.datasets.frames import ENDINGS, Frame, find_file, read_file, read_frame, with_features
from rapgnn.errors import InputError
from rapgnn.graph.convert import RawGraph, both_ways
from rapgnn.graph.graph import Graph
from rapgnn.graph.labels import blank_labels, fill_gaps, find_classes, label_column, split_classes, to_numbers
from rapgnn.graph.lists import make_graphs
from rapgnn.graph.nodes import NO_FEATURES, make_split, node_graph
from rapgnn.graph.table import Encoding, structural_features
from rapgnn.graph.validate import SPLITS, Faults, check_edge_weight, check_features, rows_by_split

__all__ = ["Reading", "edges_only", "is_table_file", "read_folder"]
HOLDS = "a graph folder holds nodes and edges, and graphs where there are many"
FOR_MANY = "edge features are for many graphs"


def is_table_file(path: Path) -> bool:
    """Whether this is one table rather than a folder of them."""
    return path.is_file() and path.name.lower().endswith(ENDINGS)


def edges_only(path: Path) -> bool:
    """Whether there are edges here and nothing else, so no labels."""
    if path.is_file():
        return True
    return find_file(path, "edges") is not None and not any(find_file(path, stem) for stem in ("nodes", "graphs"))


def read_folder(folder: Path, name: str, reading: Reading | None = None, **changes: Any) -> Graph:
    """The graph, or the graphs, in ``folder`` (or in a file of edges), checked.

    Args:
        changes: fields of ``reading`` that have other values.
    """
    reading = replace(reading or Reading(), **changes)
    graph = _read_folder(folder, name, reading)
    return replace(graph, read_as=partial(read_folder, folder.absolute(), name, reading))


def _read_folder(folder: Path, name: str, reading: Reading) -> Graph:
    if reading.encoding is not None:
        known = reading.encoding
        named = {role: getattr(reading, role) or getattr(known, role) for role in ("id", "source", "target")}
        reading = replace(reading, directed=known.directed, impute=known.impute, label=known.label, **named)
    frames = _read(folder, reading)
    reading, frames = ignoring(folder, reading, frames)
    notes = dialect_notes(list(frames.values()))
    edges = frames["edges"]
    if "nodes" not in frames:
        table = edge_table(edges, reading)
        return _one(_named_nodes(table), table, name, replace(reading, labelled=False, id=None), notes)
    nodes = frames["nodes"]
    if not len(nodes.table):
        raise InputError(f"{nodes.path} has no rows.")
    if "graphs" in frames:
        return many_graphs(nodes, edges, frames["graphs"], name, reading, notes)
    return _one(nodes, edges, name, reading, notes)


def _read(folder: Path, reading: Reading) -> dict[str, Frame]:
    """The tables by their names; every file that cannot be read is named."""
    options, faults = reading.options, Faults()
    ends = (*reading.named("source", SOURCE), *reading.named("target", TARGET))
    if edges_only(folder):
        file = folder if folder.is_file() else find_file(folder, "edges")
        return {"edges": read_file(file or folder, ends, options)}
    frames: dict[str, Frame] = {}
    own = (*reading.named("id", ()), *GRAPH_ID)
    for stem in ("graphs", "nodes"):
        with faults.collect():
            if stem == "nodes" or find_file(folder, stem) is not None:
                frames[stem] = read_frame(folder, stem, HOLDS, own, options)
    words: list[str] = []
    if "nodes" in frames:
        with faults.collect():
            frames["nodes"] = with_features(frames["nodes"], folder)
        words += _words(frames["nodes"], reading.named("id", ID), ends)
    if "graphs" in frames:
        words += _words(frames["graphs"], GRAPH_ID, GRAPH)
    with faults.collect():
        frames["edges"] = read_frame(folder, "edges", HOLDS, words, options)
    faults.check()
    return frames


def _words(frame: Frame, names: Sequence[str], columns: Sequence[str]) -> Sequence[str]:
    """The columns that name this table's rows, where its rows' names are words."""
    found = frame.take(*names)
    return columns if found is not None and not pd.api.types.is_numeric_dtype(found[1]) else ()


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


def _one(nodes: Frame, edges: Frame | EdgeTable, name: str, reading: Reading, notes: list[str]) -> Graph:
    """One graph; everything that is wrong with it is refused at once."""
    faults, roles = Faults(), Roles()
    ids: pd.Index = pd.RangeIndex(len(nodes.table))
    labels = table = ends = learned = None
    numbers = False
    with faults.collect():
        own = row_ids(nodes, roles, reading.named("id", ID), needed=reading.id is not None)
        if own is None:
            notes.append(NO_IDS)
        else:
            ids = own
    unnamed = bool(faults.found)
    with faults.collect():
        labels = find_labels(nodes, reading, roles)
        numbers = are_numbers(nodes, labels, reading)
        if not numbers:
            check_classes(nodes, labels, reading)
    with faults.collect():
        learned = learn_features(nodes, roles, reading)
    with faults.collect():
        table = edges if isinstance(edges, EdgeTable) else edge_table(edges, reading)
        if not unnamed:
            ends = ends_in_one(table, ids, nodes, reading.drop_unknown_edges, numbered=NO_IDS in notes)
    faults.check()
    if labels is None or table is None or ends is None or learned is None:
        raise InputError(f"{nodes.path} cannot be read.")
    known = known_edges(ends, notes)
    edge_index, copied = both_ways(ends[:, known], len(nodes.table), reading.directed)
    weight = table.weight
    if weight is not None:
        weight = check_edge_weight(weight, ends.shape[1]).numpy()[known][copied]
    features, encoding = learned
    given: dict[str, Any] = {**labels.splits, "num_nodes": len(nodes.table), "ids": ids.to_numpy()}
    graph = node_graph(
        RawGraph(features, edge_index, weight, y=labels.values, **given),
        classes=reading.classes,
        encoding=encoding,
        task="regression" if numbers else "classification",
        labelled=reading.labelled,
        trained=reading.trained,
        seed=reading.seed,
        name=name,
    )
    kept = graph.encoding or Encoding("given")
    if not reading.trained:
        named = {"label": labels.column, "id": reading.id, "source": reading.source, "target": reading.target}
        kept = replace(kept, directed=reading.directed, impute=reading.impute, **named)
    if labels.names is not None and reading.labelled and not reading.trained:
        graph = replace(graph, classes=labels.names)
    if table.further:
        notes = [*notes, f"{FOR_MANY}; on one graph {', '.join(map(str, table.further))} are left out."]
    uses = column_uses(nodes, roles, kept.columns, kept.left_out) if nodes.path != table.frame.path else []
    uses += column_uses(table.frame, table.roles, otherwise=FOR_MANY)
    return replace(graph, encoding=replace(kept, uses=tuple(uses)), notes=(*notes, *graph.notes))


def check_classes(nodes: Frame, labels: Labels, reading: Reading) -> None:
    """Refuse a column of labels that are no classes, by its name."""
    if labels.column is None or not reading.labelled or reading.trained:
        return
    try:
        find_classes(label_column(labels.values))
    except InputError as error:
        raise InputError(
            f"{nodes.path}: column {labels.column}: {str(error).rstrip('.')}; --label names another."
        ) from error


# Many graphs from a user's tables: nodes, edges and graphs.


@dataclass(frozen=True)
class GraphLabels:
    """The labels of graphs: values, class names, kind of task, and what the table says."""

    values: Any
    classes: tuple[Any, ...] | None
    kind: str
    labels: Labels


def many_graphs(nodes: Frame, edges: Frame, graphs: Frame, name: str, reading: Reading, notes: list[str]) -> Graph:
    """The graphs side by side; everything that is wrong with them is refused at once."""
    faults, roles, graph_roles = Faults(), Roles(), Roles()
    found = labels = learned = table = None
    with faults.collect():
        graph_ids = row_ids(graphs, graph_roles, GRAPH_ID)
        graph_ids = pd.RangeIndex(len(graphs.table)) if graph_ids is None else graph_ids
        home_column = nodes.need(*GRAPH)
        roles[home_column[0]] = "graph"
        home = places(nodes, home_column[1], graph_ids, graphs)
        ids = row_ids(nodes, roles, reading.named("id", ID), unique=False, needed=reading.id is not None)
        if ids is None:
            ids = pd.RangeIndex(len(nodes.table))
            notes.append(NO_IDS)
        table = edge_table(edges, reading)
        ends = ends_in_many(table, ids, home, graph_ids, nodes, graphs, reading.drop_unknown_edges)
        found = graph_ids, home, ends
    with faults.collect():
        labels = _graph_labels(graphs, reading, graph_roles, notes)
    if found is not None:
        with faults.collect():
            learned = learn_features(nodes, roles, reading)
    faults.check()
    if found is None or labels is None or learned is None or table is None:
        raise InputError(f"{nodes.path} cannot be read.")
    graph_ids, home, ends = found
    order = np.argsort(home, kind="stable")  # nodes graph by graph
    sizes = np.bincount(home, minlength=len(graph_ids))
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    known = known_edges(ends, notes)
    edge_index, copied = both_ways(place[ends[:, known]], len(order), reading.directed)
    weight = None
    if table.weight is not None:
        weight = check_edge_weight(table.weight, ends.shape[1]).numpy()[known][copied]
    edge_features = edges.table[table.further].iloc[known[copied]]
    features, edge_attr, encoding = _encoded(learned, order, edge_features, edge_index, reading, notes)
    splits = labels.labels.splits if reading.labelled else {}
    if not reading.trained:
        named = {"label": labels.labels.column, "id": reading.id, "source": reading.source, "target": reading.target}
        encoding = replace(encoding, **named)
    left = [str(c) for c in graphs.table.columns if c not in graph_roles]
    if left:
        notes.append(f"columns of {graphs.path.name} that are no id, label or split are left out: {', '.join(left)}.")
    if reading.labelled and not reading.trained and not splits:
        y = torch.from_numpy(np.array(labels.values))
        rows, said = make_split(y if labels.kind == "classification" else y.reshape(len(y), -1), reading.seed, "graphs")
        splits = {split: rows[split].numpy() for split in SPLITS}
        notes += said
    nameless = not splits  # a trained model's data need no splits, a graph for it has none then
    if nameless:
        splits = {"train": np.arange(len(graph_ids))}
    given: dict[str, Any] = {**splits, "edge_weight": weight, "edge_attr": edge_attr, "task": labels.kind, "name": name}
    given |= {"classes": labels.classes, "unseen_classes": reading.trained}
    built = make_graphs(features, edge_index, sizes, labels.values, **given)
    none = torch.zeros(0, dtype=torch.int64)
    rows = dict.fromkeys(SPLITS, none) if nameless else {}
    uses = column_uses(graphs, graph_roles, otherwise="no id, label or split")
    uses += column_uses(nodes, roles, encoding.columns, encoding.left_out)
    uses += column_uses(edges, table.roles, encoding.edge_columns, encoding.left_out)
    return replace(
        built,
        **rows,
        ids=graph_ids.to_numpy(),
        encoding=replace(encoding, uses=tuple(uses)),
        notes=tuple(notes) if reading.trained else (*notes, *built.notes),
    )


def _graph_labels(graphs: Frame, reading: Reading, roles: Roles, notes: list[str]) -> GraphLabels:
    labels = find_labels(graphs, reading, roles)
    values, count = labels.values, len(graphs.table)
    if not reading.labelled:
        return GraphLabels(np.zeros(count, dtype=np.int64), reading.classes, "classification", labels)
    names = None if labels.names is None else reading.classes or labels.names
    if are_numbers(graphs, labels, reading):
        return GraphLabels(fill_gaps(values), names, "regression", labels)
    if names is not None:
        return GraphLabels(values, names, "multilabel", labels)
    column = label_column(values)
    notes += blank_labels(values)
    if reading.classes is not None:
        return GraphLabels(to_numbers(column, reading.classes), reading.classes, "classification", labels)
    try:
        numbers, classes = split_classes(column, rows_by_split(labels.splits, column.notna().to_numpy()))
    except InputError as error:
        raise InputError(f"{graphs.path}: {error}") from error
    return GraphLabels(numbers, classes, "classification", labels)


def _encoded(
    learned: tuple[Any, Encoding | None],
    order: np.ndarray,
    edge_table: pd.DataFrame,
    edge_index: np.ndarray,
    reading: Reading,
    notes: list[str],
) -> tuple[Any, Any, Encoding]:
    """Node and edge features of many graphs, and how they were made; what is to be said about it goes to ``notes``."""
    table, encoding = learned
    if encoding is None:
        encoding = Encoding("structural") if table is None else Encoding("given")
    if not reading.trained:
        if edge_table.shape[1]:
            of_edges = Encoding.learn(edge_table, reading.impute, "edge")
            reasons = encoding.left_out | of_edges.left_out
            encoding = replace(encoding, edge_columns=of_edges.columns, left_out=reasons)
        encoding = replace(encoding, directed=reading.directed, impute=reading.impute)
        notes += encoding.notes
    if encoding.kind == "structural":
        features = structural_features(edge_index, len(order))
        notes.append(NO_FEATURES)
    elif table is None:
        raise InputError("the model was trained with node features, and these graphs have none.")
    elif isinstance(table, pd.DataFrame):
        ordered = table.iloc[order]
        features = encoding.encode(ordered, notes=notes) if encoding.kind == "table" else ordered
    else:
        features = table[order]
    edge_attr = encoding.encode_edges(edge_table, notes)
    return check_features(features), edge_attr, encoding
