"""A user's own graph, or graphs: a folder of tables.

``nodes``: ``id`` (any type; without it rows are numbered), features (all other columns), ``label``, ``split``.
``edges``: ``source``, ``target``, optionally ``weight``. With ``graphs`` (``id``, ``label``, ``split``) there are many
graphs; nodes, and edges where node ids repeat, then have a column ``graph``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from rapgnn.checks import SPLITS, check_edge_weight, check_features
from rapgnn.datasets.frames import Frame, find_file, read_frame
from rapgnn.encoding import Encoding
from rapgnn.errors import InputError, shown
from rapgnn.features import structural_features
from rapgnn.graph import Graph
from rapgnn.graphs import make_graphs
from rapgnn.inputs import NO_FEATURES, Parts, make_split, node_graph
from rapgnn.labels import find_classes, label_column, to_numbers, told

HOLDS = "a graph folder holds nodes and edges, and graphs where there are many"
ID, LABEL, GRAPH = ("id", "node", "node_id"), ("label", "y", "class", "target"), ("graph", "graph_id")
SOURCE, TARGET, WEIGHT = ("source", "src", "from"), ("target", "dst", "to"), ("weight", "edge_weight")
SPLIT_WORDS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "valid", "validation", "dev"), "val"),
    **dict.fromkeys(("test", "testing"), "test"),
}


@dataclass(frozen=True)
class Reading:
    """How a folder is to be read.

    Args:
        label: the label's column; None: ``label``, ``y``, ``class`` or ``target``.
        ignore: columns to leave out.
        impute: fill missing values instead of refusing them.
        directed: edges count in the direction they are listed in; otherwise in both.
        task: for many graphs: ``"classification"`` or ``"regression"``; None tells by the labels.
        classes, encoding: those of a trained model that the folder is read for.
        trained: whether there is one.
        labelled: whether labels are needed.
        seed: of the split, where the folder names none.
    """

    label: str | None = None
    ignore: Sequence[str] = ()
    impute: bool = False
    directed: bool = False
    task: str | None = None
    classes: tuple[Any, ...] | None = None
    encoding: Encoding | None = None
    trained: bool = False
    labelled: bool = True
    seed: int = 0


def read_folder(folder: Path, name: str, reading: Reading | None = None) -> Graph:
    """The graph, or the graphs, in ``folder``, checked."""
    reading = reading or Reading()
    if reading.encoding is not None:
        known = reading.encoding
        reading = replace(reading, directed=known.directed, impute=known.impute, label=known.label)
    nodes = read_frame(folder, "nodes", HOLDS)
    edges = read_frame(folder, "edges", HOLDS)
    strange = next((name for name in reading.ignore if name not in {*nodes.table.columns, *edges.table.columns}), None)
    if strange is not None:
        raise InputError(f"{folder} has no column {strange!r} to ignore.")
    if not len(nodes.table):
        raise InputError(f"{nodes.path} has no rows.")
    if find_file(folder, "graphs") is not None:
        return _many(nodes, edges, read_frame(folder, "graphs", HOLDS), name, reading)
    return _one(nodes, edges, name, reading)


def _one(nodes: Frame, edges: Frame, name: str, reading: Reading) -> Graph:
    used: list[str] = []
    ids = _ids(nodes, used)
    y, splits = _labels(nodes, reading, used)
    source, target, weight, edge_columns = _edge_columns(edges)
    ends = [_places(edges, column, ids, nodes) for column in (source, target)]
    edge_index, weight = _edges(np.stack(ends), weight, len(nodes.table), reading)
    features = _feature_table(nodes, used, reading)
    encoding = reading.encoding
    if isinstance(features, pd.DataFrame) and not reading.trained:
        encoding = Encoding.learn(features, reading.impute)
    parts = Parts(features, edge_index, weight, y=y, **splits, num_nodes=len(nodes.table), ids=ids.to_numpy())
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
    kept = replace(kept, directed=reading.directed, impute=reading.impute, label=reading.label)
    notes = list(graph.notes)
    extra = [c for c in edge_columns if c not in reading.ignore]
    if extra:
        notes.append(f"edge features are for many graphs; on one graph {', '.join(map(str, extra))} are left out.")
    return replace(graph, encoding=kept, notes=tuple(notes))


def _many(nodes: Frame, edges: Frame, graphs: Frame, name: str, reading: Reading) -> Graph:
    graph_ids = _ids(graphs, [])
    used: list[str] = []
    home_column = nodes.need(*GRAPH)
    used.append(home_column[0])
    home = _places(nodes, home_column[1], graph_ids, graphs)
    order = np.argsort(home, kind="stable")  # nodes graph by graph
    sizes = np.bincount(home, minlength=len(graph_ids))
    ids = _ids(nodes, used, unique=False)
    source, target, weight, edge_columns = _edge_columns(edges)
    if weight is not None:
        raise InputError(f"{edges.path}: weighted edges are for one graph, not for many.")
    ends = _ends_in_graphs(edges, source, target, ids, home, graph_ids, nodes, graphs)
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    edge_index, copied = _both_ways(place[ends], len(order), reading.directed)
    edge_table = edges.table[[c for c in edge_columns if c not in reading.ignore]].iloc[copied]
    ordered = Frame(nodes.path, nodes.table.iloc[order], None if nodes.matrix is None else nodes.matrix[order])
    features, edge_attr, encoding, notes = _encoded(ordered, edge_table, used, edge_index, reading)
    y, classes, kind, splits = _graph_labels(graphs, reading)
    if reading.labelled and not reading.trained and not splits:
        known = torch.from_numpy(np.array(y))
        rows, said = make_split(
            known if kind == "classification" else known.reshape(len(known), -1), reading.seed, "graphs"
        )
        splits = {split: rows[split].numpy() for split in SPLITS}
        notes += said
    if not reading.labelled or (reading.trained and not splits):
        splits = {"train": np.arange(len(graph_ids))}
    given: dict[str, Any] = {**splits, "edge_attr": edge_attr, "task": kind, "name": name}
    built = make_graphs(features, edge_index, sizes, y, **given)
    none = torch.zeros(0, dtype=torch.int64)
    rows = dict.fromkeys(SPLITS, none) if not reading.labelled else {}
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


def _ids(frame: Frame, used: list[str], unique: bool = True) -> pd.Index:
    """What the rows are called; their numbers, where no column says it."""
    found = frame.take(*ID)
    if found is None:
        return pd.RangeIndex(len(frame.table))
    used.append(found[0])
    if found[1].isna().any():
        raise InputError(f"{frame.path}: row {int(found[1].isna().argmax())} has no {found[0]}.")
    ids = pd.Index(found[1])
    if unique and not ids.is_unique:
        raise InputError(f"{frame.path}: the {found[0]} {ids[ids.duplicated()][0]} occurs more than once.")
    return ids


def _places(frame: Frame, values: pd.Series, ids: pd.Index, named: Frame) -> np.ndarray:
    """The row number of each named row."""
    if values.isna().any():
        raise InputError(f"{frame.path}: row {int(values.isna().argmax())} has no {values.name}.")
    ids, wanted = _same_kind(ids, pd.Index(values))
    if not ids.is_unique:
        raise InputError(f"{named.path}: two ids read the same as words: {shown(ids[ids.duplicated()][0])}.")
    place = np.asarray(ids.get_indexer(wanted), dtype=np.int64)
    unknown = place < 0
    if unknown.any():
        row = int(unknown.argmax())
        raise InputError(
            f"{frame.path}: {values.name} {wanted[row]} (row {row}; {int(unknown.sum())} such) is not in {named.path}."
        )
    return place


def _same_kind(ids: pd.Index, wanted: pd.Index) -> tuple[pd.Index, pd.Index]:
    """Both as they are, or both as words where one holds numbers and the other does not."""
    if pd.api.types.is_numeric_dtype(ids) == pd.api.types.is_numeric_dtype(wanted):
        return ids, wanted
    return ids.astype(str), wanted.astype(str)


def _edge_columns(edges: Frame) -> tuple[pd.Series, pd.Series, Any, list[str]]:
    source, target, weight = edges.need(*SOURCE), edges.need(*TARGET), edges.take(*WEIGHT)
    taken = [source[0], target[0], *([] if weight is None else [weight[0]])]
    graph = edges.take(*GRAPH)
    rest = [c for c in edges.table.columns if c not in (*taken, *([] if graph is None else [graph[0]]))]
    values = None
    if weight is not None:
        if not pd.api.types.is_numeric_dtype(weight[1]) or pd.api.types.is_complex_dtype(weight[1]):
            raise InputError(f"{edges.path}: {weight[0]} must be numbers.")
        values = weight[1].to_numpy(dtype=np.float64, na_value=np.nan)
    return source[1], target[1], values, rest


def _edges(ends: np.ndarray, weight: Any, n: int, reading: Reading) -> tuple[np.ndarray, Any]:
    edge_index, copied = _both_ways(ends, n, reading.directed)
    return edge_index, None if weight is None else check_edge_weight(weight, ends.shape[1]).numpy()[copied]


def _both_ways(ends: np.ndarray, n: int, directed: bool) -> tuple[np.ndarray, np.ndarray]:
    """The edges with those reversed that are listed in one direction only, and which listed edge each comes from."""
    listed = np.arange(ends.shape[1])
    if directed:
        return ends, listed
    missing = _absent(ends[1] * n + ends[0], ends[0] * n + ends[1])
    return np.concatenate([ends, ends[::-1, missing]], axis=1), np.concatenate([listed, missing])


def _absent(wanted: np.ndarray, there: np.ndarray) -> np.ndarray:
    """The places of ``wanted`` whose number is not in ``there``; by two sorts, several times faster than np.isin."""
    if not len(wanted):
        return np.zeros(0, dtype=np.int64)
    order, there = np.argsort(wanted), np.sort(there)
    rising = wanted[order]
    place = np.minimum(np.searchsorted(there, rising), len(there) - 1)
    return np.sort(order[there[place] != rising])


def _labels(frame: Frame, reading: Reading, used: list[str]) -> tuple[Any, dict[str, np.ndarray]]:
    """(labels or None, splits) of the rows of a table."""
    found = frame.need(reading.label.lower()) if reading.label else frame.take(*LABEL)
    several = (
        [] if found is not None else [c for c in frame.table.columns if str(c).lower().startswith(("label_", "y_"))]
    )
    used += several if found is None else [found[0]]
    splits: dict[str, np.ndarray] = {}
    column = frame.take("split")
    if column is not None:
        used.append(column[0])
        words = column[1].astype(object).where(column[1].notna(), "").astype(str).str.strip().str.lower().to_numpy()
        odd = next((w for w in words if w and w not in SPLIT_WORDS), None)
        if odd is not None:
            raise InputError(f"{frame.path}: split {shown(odd)} is unknown: use train, val and test.")
        for split in SPLITS:
            splits[split] = np.flatnonzero([SPLIT_WORDS.get(w) == split for w in words])
    for split in SPLITS:
        mask = frame.take(f"{split}_mask")
        if mask is None:
            continue
        used.append(mask[0])
        if not pd.api.types.is_bool_dtype(mask[1]) or mask[1].isna().any():
            raise InputError(f"{frame.path}: give {mask[0]} as booleans.")
        splits[split] = np.flatnonzero(mask[1].to_numpy(dtype=bool))
    if column is not None and not any(len(rows) for rows in splits.values()):
        splits = {}  # a split column that says nothing
    if found is not None:
        return found[1], splits
    odd = next((c for c in several if not pd.api.types.is_numeric_dtype(frame.table[c])), None)
    if odd is not None:
        raise InputError(f"{frame.path}: {odd} must hold only 0, 1 and gaps (unknown), as one of several labels.")
    table = frame.table[several].to_numpy(dtype=np.float64, na_value=np.nan) if several else None
    if table is None and reading.labelled:
        raise InputError(f"{frame.path} has no label column (label, y, class or target); it has {frame.names}.")
    return table, splits


def _graph_labels(graphs: Frame, reading: Reading) -> tuple[Any, tuple[Any, ...] | None, str, dict[str, np.ndarray]]:
    """(labels, class names, kind of task, splits)."""
    values, splits = _labels(graphs, reading, [])
    count = len(graphs.table)
    if not reading.labelled:
        return np.zeros(count, dtype=np.int64), reading.classes, "classification", {}
    if isinstance(values, np.ndarray):
        return values, reading.classes or tuple(range(values.shape[1])), "multilabel", splits
    number = pd.api.types.is_float_dtype(values) and bool((values.dropna() % 1 != 0).any())
    if reading.task == "regression" or (reading.task is None and number and reading.classes is None):
        if not pd.api.types.is_numeric_dtype(values):
            raise InputError(f"{graphs.path}: targets of a regression must be numbers.")
        return values.to_numpy(dtype=np.float64, na_value=np.nan), None, "regression", splits
    column = label_column(values)
    classes = reading.classes or find_classes(column)
    if len(classes) < 2:
        raise InputError(
            f"{graphs.path}: every label is {told(values.dropna().iloc[0])}: there is nothing to tell apart."
        )
    return to_numbers(column, classes), classes, "classification", splits


def _ends_in_graphs(
    edges: Frame,
    source: pd.Series,
    target: pd.Series,
    ids: pd.Index,
    home: np.ndarray,
    graph_ids: pd.Index,
    nodes: Frame,
    graphs: Frame,
) -> np.ndarray:
    """The row in ``nodes`` of both ends of every edge; node ids may repeat from graph to graph."""
    column = edges.take(*GRAPH)
    if column is None:
        if not ids.is_unique:
            raise InputError(f"{edges.path} needs a column graph, because node ids repeat from graph to graph.")
        return np.stack([_places(edges, values, ids, nodes) for values in (source, target)])
    which = _places(edges, column[1], graph_ids, graphs)
    codes, distinct = pd.factorize(ids)
    keys = pd.Index(home * len(distinct) + codes)
    if not keys.is_unique:
        row = int(keys.duplicated().argmax())
        raise InputError(f"{nodes.path}: node {ids[row]} occurs more than once in graph {graph_ids[home[row]]}.")
    found = []
    for values in (source, target):
        place = keys.get_indexer(pd.Index(which * len(distinct) + _places(edges, values, pd.Index(distinct), nodes)))
        if (place < 0).any():
            row = int((place < 0).argmax())
            raise InputError(f"{edges.path}: row {row} names node {values.iloc[row]}, which its graph does not have.")
        found.append(place)
    return np.stack(found)


def _feature_table(nodes: Frame, used: list[str], reading: Reading) -> Any:
    """The columns that are features, an npz file's x, or None."""
    rest = nodes.without([*used, *reading.ignore])
    if nodes.matrix is not None:
        if rest.shape[1]:
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
        encoding = replace(encoding, directed=reading.directed, impute=reading.impute, label=reading.label)
    if encoding.kind == "structural":
        features = structural_features(edge_index, len(nodes.table))
        notes.append(NO_FEATURES)
    elif table is None:
        raise InputError("the model was trained with node features, and these graphs have none.")
    else:
        features = encoding.encode(table) if encoding.kind == "table" and isinstance(table, pd.DataFrame) else table
    return check_features(features), encoding.encode_edges(edge_table), encoding, notes
