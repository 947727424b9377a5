"""A user's own graph, or graphs: a folder of tables.

``nodes``: ``id`` (any type; without it rows are numbered), features (all other columns), ``label``, ``split``.
``edges``: ``source``, ``target``, optionally ``weight``. With ``graphs`` (``id``, ``label``, ``split``) there are many
graphs; nodes, and edges where node ids repeat, then have a column ``graph``.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from rapgnn.datasets.columns import (
    GRAPH,
    GRAPH_ID,
    ID,
    SOURCE,
    TARGET,
    Labels,
    Reading,
    both_ways,
    edge_columns,
    ends_in_graphs,
    find_labels,
    places,
    row_ids,
)
from rapgnn.datasets.frames import Frame, find_file, read_frame
from rapgnn.errors import InputError
from rapgnn.graph.batch import make_graphs
from rapgnn.graph.convert import RawGraph
from rapgnn.graph.graph import Graph
from rapgnn.graph.labels import find_classes, label_column, shown_label, to_numbers
from rapgnn.graph.nodes import NO_FEATURES, node_graph
from rapgnn.graph.splits import make_split
from rapgnn.graph.structural import structural_features
from rapgnn.graph.table import Encoding
from rapgnn.graph.validate import SPLITS, check_edge_weight, check_features

HOLDS = "a graph folder holds nodes and edges, and graphs where there are many"


def read_folder(folder: Path, name: str, reading: Reading | None = None) -> Graph:
    """The graph, or the graphs, in ``folder``, checked."""
    reading = reading or Reading()
    if reading.encoding is not None:
        known = reading.encoding
        reading = replace(reading, directed=known.directed, impute=known.impute, label=known.label)
    graphs = None
    if find_file(folder, "graphs") is not None:
        graphs = read_frame(folder, "graphs", HOLDS, words=GRAPH_ID)
    nodes = read_frame(folder, "nodes", HOLDS, words=GRAPH_ID)
    named = [*_words(nodes, ID, (*SOURCE, *TARGET)), *(_words(graphs, GRAPH_ID, GRAPH) if graphs else ())]
    edges = read_frame(folder, "edges", HOLDS, words=named)
    absent = next((name for name in reading.ignore if name not in {*nodes.table.columns, *edges.table.columns}), None)
    if absent is not None:
        raise InputError(f"{folder} has no column {absent!r} to ignore.")
    if not len(nodes.table):
        raise InputError(f"{nodes.path} has no rows.")
    if graphs is not None:
        return _many(nodes, edges, graphs, name, reading)
    return _one(nodes, edges, name, reading)


def _words(frame: Frame, names: Sequence[str], columns: Sequence[str]) -> Sequence[str]:
    """The columns that name this table's rows, where its rows' names are words."""
    found = frame.take(*names)
    return columns if found is not None and not pd.api.types.is_numeric_dtype(found[1]) else ()


def _one(nodes: Frame, edges: Frame, name: str, reading: Reading) -> Graph:
    used: list[str] = []
    ids = row_ids(nodes, used)
    labels = find_labels(nodes, reading, used)
    if labels.column is not None and reading.labelled and not reading.trained:
        try:
            find_classes(label_column(labels.values))
        except InputError as error:
            raise InputError(f"{nodes.path}, column {labels.column}: {error}") from error
    source, target, weight, further = edge_columns(edges)
    ends = [places(edges, column, ids, nodes) for column in (source, target)]
    edge_index, weight = _edges(np.stack(ends), weight, len(nodes.table), reading)
    features = _feature_table(nodes, used, reading)
    encoding = reading.encoding
    if isinstance(features, pd.DataFrame) and not reading.trained:
        encoding = Encoding.learn(features, reading.impute)
    given: dict[str, Any] = {**labels.splits, "num_nodes": len(nodes.table), "ids": ids.to_numpy()}
    parts = RawGraph(features, edge_index, weight, y=labels.values, **given)
    graph = node_graph(
        parts,
        classes=reading.classes,
        encoding=encoding,
        labelled=reading.labelled,
        trained=reading.trained,
        seed=reading.seed,
        name=name,
    )
    kept = graph.encoding or Encoding("given")
    if not reading.trained:
        kept = replace(kept, directed=reading.directed, impute=reading.impute, label=labels.column)
    if labels.names is not None and reading.labelled and not reading.trained:
        graph = replace(graph, classes=labels.names)
    notes = list(graph.notes)
    extra = [c for c in further if c not in reading.ignore]
    if extra:
        notes.append(f"edge features are for many graphs; on one graph {', '.join(map(str, extra))} are left out.")
    return replace(graph, encoding=kept, notes=tuple(notes))


def _many(nodes: Frame, edges: Frame, graphs: Frame, name: str, reading: Reading) -> Graph:
    told_of: list[str] = []
    graph_ids = row_ids(graphs, told_of, names=GRAPH_ID)
    used: list[str] = []
    home_column = nodes.need(*GRAPH)
    used.append(home_column[0])
    home = places(nodes, home_column[1], graph_ids, graphs)
    order = np.argsort(home, kind="stable")  # nodes graph by graph
    sizes = np.bincount(home, minlength=len(graph_ids))
    ids = row_ids(nodes, used, unique=False)
    source, target, weight, further = edge_columns(edges)
    if weight is not None:
        raise InputError(f"{edges.path}: weighted edges are for one graph, not for many.")
    ends = ends_in_graphs(edges, source, target, ids, home, graph_ids, nodes, graphs)
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    edge_index, copied = both_ways(place[ends], len(order), reading.directed)
    edge_table = edges.table[[c for c in further if c not in reading.ignore]].iloc[copied]
    ordered = Frame(nodes.path, nodes.table.iloc[order], None if nodes.matrix is None else nodes.matrix[order])
    features, edge_attr, encoding, notes = _encoded(ordered, edge_table, used, edge_index, reading)
    y, classes, kind, labels, left = _graph_labels(graphs, reading, told_of)
    splits = labels.splits if reading.labelled else {}
    if not reading.trained:
        encoding = replace(encoding, label=labels.column)
    if left:
        notes.append(f"columns of {graphs.path.name} that are no id, label or split are left out: {', '.join(left)}.")
    if reading.labelled and not reading.trained and not splits:
        known = torch.from_numpy(np.array(y))
        rows, said = make_split(
            known if kind == "classification" else known.reshape(len(known), -1), reading.seed, "graphs"
        )
        splits = {split: rows[split].numpy() for split in SPLITS}
        notes += said
    nameless = not splits  # a trained model's data need no splits, a graph for it has none then
    if nameless:
        splits = {"train": np.arange(len(graph_ids))}
    given: dict[str, Any] = {**splits, "edge_attr": edge_attr, "task": kind, "name": name}
    built = make_graphs(features, edge_index, sizes, y, **given)
    none = torch.zeros(0, dtype=torch.int64)
    rows = dict.fromkeys(SPLITS, none) if nameless else {}
    outputs = built.num_outputs if classes is None else len(classes)
    return replace(
        built,
        **rows,
        classes=classes,
        num_outputs=outputs,
        ids=graph_ids.to_numpy(),
        encoding=encoding,
        notes=tuple(notes),
    )


def _edges(ends: np.ndarray, weight: Any, n: int, reading: Reading) -> tuple[np.ndarray, Any]:
    edge_index, copied = both_ways(ends, n, reading.directed)
    return edge_index, None if weight is None else check_edge_weight(weight, ends.shape[1]).numpy()[copied]


def _graph_labels(
    graphs: Frame, reading: Reading, used: list[str]
) -> tuple[Any, tuple[Any, ...] | None, str, Labels, list[str]]:
    """(values, class names, kind of task, what the table says, columns without a meaning)."""
    labels = find_labels(graphs, reading, used)
    left = [str(c) for c in graphs.table.columns if c not in used and c not in reading.ignore]
    values, count = labels.values, len(graphs.table)
    if not reading.labelled:
        return np.zeros(count, dtype=np.int64), reading.classes, "classification", labels, left
    if labels.names is not None:
        return values, reading.classes or labels.names, "multilabel", labels, left
    number = pd.api.types.is_float_dtype(values) and bool((values.dropna() % 1 != 0).any())
    if reading.task == "regression" or (reading.task is None and number and reading.classes is None):
        if not pd.api.types.is_numeric_dtype(values):
            raise InputError(f"{graphs.path}: targets of a regression must be numbers.")
        return values.to_numpy(dtype=np.float64, na_value=np.nan), None, "regression", labels, left
    column = label_column(values)
    classes = reading.classes or find_classes(column)
    if len(classes) < 2:
        raise InputError(
            f"{graphs.path}: every label is {shown_label(values.dropna().iloc[0])}: there is nothing to tell apart."
        )
    return to_numbers(column, classes), classes, "classification", labels, left


def _feature_table(nodes: Frame, used: list[str], reading: Reading) -> Any:
    """The columns that are features, an npz file's x, or None."""
    rest = nodes.without([*used, *reading.ignore])
    if nodes.matrix is not None:
        if rest.shape[1] and not reading.trained:
            raise InputError(f"{nodes.path} holds x and also {rest.columns[0]}: put it into x, or ignore it.")
        return nodes.matrix
    return rest if rest.shape[1] else None


def _encoded(
    nodes: Frame, edge_table: pd.DataFrame, used: list[str], edge_index: np.ndarray, reading: Reading
) -> tuple[Any, Any, Encoding, list[str]]:
    """Node and edge features of many graphs, how they were made, and what is to be said about it."""
    table, encoding, notes = _feature_table(nodes, used, reading), reading.encoding, []
    if encoding is None:
        encoding = Encoding("structural") if table is None else Encoding("given")
        if isinstance(table, pd.DataFrame):
            encoding = Encoding.learn(table, reading.impute)
        if edge_table.shape[1]:
            encoding = replace(encoding, edge_columns=Encoding.learn(edge_table, reading.impute, "edge").columns)
        encoding = replace(encoding, directed=reading.directed, impute=reading.impute)
    if encoding.kind == "structural":
        features = structural_features(edge_index, len(nodes.table))
        notes.append(NO_FEATURES)
    elif table is None:
        raise InputError("the model was trained with node features, and these graphs have none.")
    else:
        features = encoding.encode(table) if encoding.kind == "table" and isinstance(table, pd.DataFrame) else table
    return check_features(features), encoding.encode_edges(edge_table), encoding, notes
