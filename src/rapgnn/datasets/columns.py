"""What the columns of a user's tables mean: ids, ends of edges, labels, splits."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from rapgnn.datasets.frames import Frame
from rapgnn.errors import InputError, shown
from rapgnn.graph.table import Encoding
from rapgnn.graph.validate import SPLITS

ID, GRAPH = ("id", "node", "node_id"), ("graph", "graph_id")
GRAPH_ID = (*GRAPH, *ID)  # what a row of graphs may call itself
LABEL, OTHER_LABELS = ("label",), ("y", "class", "target")
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


def row_ids(frame: Frame, used: list[str], unique: bool = True, names: Sequence[str] = ID) -> pd.Index:
    """What the rows are called; their numbers, where no column says it."""
    found = frame.take(*names)
    if found is None:
        return pd.RangeIndex(len(frame.table))
    used.append(found[0])
    if found[1].isna().any():
        raise InputError(f"{frame.path}: row {int(found[1].isna().argmax())} has no {found[0]}.")
    ids = pd.Index(found[1])
    if unique and not ids.is_unique:
        raise InputError(f"{frame.path}: the {found[0]} {ids[ids.duplicated()][0]} occurs more than once.")
    return ids


def places(frame: Frame, values: pd.Series, ids: pd.Index, named: Frame) -> np.ndarray:
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


def edge_columns(edges: Frame) -> tuple[pd.Series, pd.Series, Any, list[str]]:
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


def both_ways(ends: np.ndarray, n: int, directed: bool) -> tuple[np.ndarray, np.ndarray]:
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


def ends_in_graphs(
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
        return np.stack([places(edges, values, ids, nodes) for values in (source, target)])
    which = places(edges, column[1], graph_ids, graphs)
    codes, distinct = pd.factorize(ids)
    keys = pd.Index(home * len(distinct) + codes)
    if not keys.is_unique:
        row = int(keys.duplicated().argmax())
        raise InputError(f"{nodes.path}: node {ids[row]} occurs more than once in graph {graph_ids[home[row]]}.")
    found = []
    for values in (source, target):
        place = keys.get_indexer(pd.Index(which * len(distinct) + places(edges, values, pd.Index(distinct), nodes)))
        if (place < 0).any():
            row = int((place < 0).argmax())
            raise InputError(f"{edges.path}: row {row} names node {values.iloc[row]}, which its graph does not have.")
        found.append(place)
    return np.stack(found)


@dataclass(frozen=True)
class Labels:
    """The labels of a table's rows: one column, or (with ``names``) a table with a column per label; and the splits."""

    values: Any
    splits: dict[str, np.ndarray]
    column: str | None = None
    names: tuple[str, ...] | None = None


def find_labels(frame: Frame, reading: Reading, used: list[str]) -> Labels:
    """What a table says about its rows' labels and splits; the columns that say it are added to ``used``."""
    splits = _splits(frame, used)
    found, several = _label_columns(frame, reading)
    used += several if found is None else [found]
    if found is not None:
        return Labels(frame.table[found], splits, found)
    if several:
        odd = next((c for c in several if not pd.api.types.is_numeric_dtype(frame.table[c])), None)
        if odd is not None:
            raise InputError(f"{frame.path}: {odd} must hold only 0, 1 and gaps (unknown), as one of several labels.")
        table = frame.table[several].to_numpy(dtype=np.float64, na_value=np.nan)
        return Labels(table, splits, names=tuple(str(c).partition("_")[2] for c in several))
    if reading.labelled:
        raise InputError(f"{frame.path} has no label column (label, y, class or target); it has {frame.names}.")
    return Labels(None, splits)


def _label_columns(frame: Frame, reading: Reading) -> tuple[str | None, list[str]]:
    """The column of the labels, or the columns of many; a trained model's features are never taken for labels."""
    features = [c.name for c in reading.encoding.columns] if reading.encoding is not None else []
    free = replace(frame, table=frame.without(features))
    if reading.label and not reading.trained:
        return frame.need(reading.label.lower())[0], []
    if reading.label and (named := free.take(reading.label.lower())) is not None:
        return named[0], []
    if (single := free.take(*LABEL)) is not None:
        return single[0], []
    if several := _several(free, "label_", reading):
        return None, several
    if (single := free.take(*OTHER_LABELS)) is not None:
        return single[0], []
    return None, _several(free, "y_", reading)


def _several(frame: Frame, start: str, reading: Reading) -> list[str]:
    """The columns that begin so; for a trained model in the order of its labels."""
    found = {str(c).lower().removeprefix(start): c for c in frame.table.columns if str(c).lower().startswith(start)}
    if not (found and reading.trained and reading.classes):
        return list(found.values())
    wanted = [str(name).lower() for name in reading.classes]
    missing = next((name for name in wanted if name not in found), None)
    if missing is not None:
        raise InputError(f"{frame.path} has no column {start}{missing}, one of the model's labels.")
    return [found[name] for name in wanted]


def _splits(frame: Frame, used: list[str]) -> dict[str, np.ndarray]:
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
        return {}  # a split column that says nothing
    return splits
