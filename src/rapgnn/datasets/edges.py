"""The edges of one graph as rows of a table: which nodes each joins, and what else its columns say of it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rapgnn.datasets.columns import OPTIONS, Reading, named_options, times_of
from rapgnn.datasets.frames import Frame
from rapgnn.datasets.tables import edge_table, is_table_file, parts_of_network, read_frames, table_frame
from rapgnn.errors import InputError, shown
from rapgnn.graph.convert import is_network
from rapgnn.graph.graph import Graph


@dataclass(frozen=True)
class EdgeRows:
    """A table with a row per edge.

    Args:
        frame: the table, where it came from included.
        ends: node numbers ``[2, m]``; -1 where there is no such node.
        further: names of the columns that are no ends, those aside that the user leaves out.
    """

    frame: Frame
    ends: np.ndarray
    further: tuple[str, ...]

    def column(self, name: str) -> pd.Series:
        """A column by its name."""
        if name not in self.frame.table:
            raise InputError(f"{self.frame.path} has no column {shown(name)}; it has {self.frame.names}.")
        return pd.Series(self.frame.table[name])

    def times(self, name: str) -> np.ndarray:
        """A column of numbers or dates, as numbers."""
        values = self.column(name)
        if values.isna().any():
            raise InputError(f"{self.frame.path}: {name} is missing in row {int(values.isna().argmax())}.")
        return times_of(self.frame, name, values)


def edge_rows(data: Any, given: dict[str, Any], graph: Graph) -> EdgeRows:
    """The table of the edges of what a user gave, its nodes numbered as in ``graph``.

    Args:
        data, given: a folder, a file of edges, a network, or ``nodes`` and ``edges`` among what is given: DataFrames or
            files.
    """
    files = {name for name in ("nodes", "edges") if isinstance(given.get(name), str | Path)}
    known = {name: value for name, value in given.items() if name in {*OPTIONS} - {"nodes", "edges"} | files}
    data = Path(given["nodes"] if "nodes" in files else given["edges"]).parent if files else data
    reading = Reading(labelled=False, encoding=graph.encoding).with_options(named_options(known, OPTIONS))
    if is_network(data):
        rows = [{**own, "source": u, "target": v} for u, v, own in parts_of_network(data).edges]
        frame = Frame(Path("edges"), pd.DataFrame(rows, columns=None if rows else ["source", "target"]))
    elif isinstance(data, str | Path) and (Path(data).is_dir() or is_table_file(Path(data))):
        frame = read_frames(Path(data), reading.as_trained())["edges"]
    elif isinstance(given.get("edges"), pd.DataFrame):
        frame = table_frame(given["edges"], "edges")
    else:
        raise InputError("columns of edges are in a table of edges: give a folder, DataFrames or a network.")
    table = edge_table(frame, reading.as_trained())
    ids = pd.RangeIndex(graph.num_nodes) if graph.ids is None else pd.Index(graph.ids)
    ends = []
    for side in (table.source, table.target):
        names = pd.Index(side)
        words = pd.api.types.is_numeric_dtype(ids.infer_objects()) != pd.api.types.is_numeric_dtype(names)
        ends.append((ids.astype(str) if words else ids).get_indexer(names.astype(str) if words else names))
    apart = {name for name, role in table.roles.items() if role in ("source", "target")}
    ignored = {name.strip() for names in reading.ignore for name in (names, *names.split(","))}
    further = tuple(str(name) for name in frame.table if name not in apart and name not in ignored)
    return EdgeRows(frame, np.stack(ends), further)
