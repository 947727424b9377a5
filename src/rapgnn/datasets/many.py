"""Many graphs from a user's tables: nodes, edges and graphs."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch

from rapgnn.datasets.columns import (
    GRAPH,
    GRAPH_ID,
    ID,
    NO_IDS,
    Labels,
    Reading,
    Roles,
    are_numbers,
    find_labels,
    row_ids,
)
from rapgnn.datasets.edges import edge_table, ends_in_many, known_edges, places
from rapgnn.datasets.features import learn_features
from rapgnn.datasets.frames import Frame
from rapgnn.datasets.uses import column_uses
from rapgnn.errors import InputError
from rapgnn.graph.batch import make_graphs
from rapgnn.graph.directions import both_ways
from rapgnn.graph.faults import Faults
from rapgnn.graph.graph import Graph
from rapgnn.graph.labels import blank_labels, fill_gaps, label_column, split_classes, to_numbers
from rapgnn.graph.nodes import NO_FEATURES
from rapgnn.graph.splits import make_split
from rapgnn.graph.structural import structural_features
from rapgnn.graph.table import Encoding
from rapgnn.graph.validate import SPLITS, check_edge_weight, check_features, rows_by_split


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
