"""Labels and splits of a node table larger than memory: only the labelled rows are held."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rapgnn.datasets.columns import Labels, Reading, Roles, find_labels
from rapgnn.datasets.folder import check_classes
from rapgnn.datasets.frames import Frame
from rapgnn.graph.convert import RawGraph
from rapgnn.graph.graph import Graph
from rapgnn.graph.labels import UNKNOWN
from rapgnn.graph.nodes import node_graph
from rapgnn.graph.validate import SPLITS, check_disjoint
from rapgnn.scale.manifest import array_path
from rapgnn.scale.tables.arrays import Writer
from rapgnn.scale.tables.database import Database, quoted

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
