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

import pandas as pd

from rapgnn.datasets.columns import GRAPH, GRAPH_ID, ID, SOURCE, TARGET, Reading
from rapgnn.datasets.frames import ENDINGS, Frame, read_file, with_features
from rapgnn.datasets.tables import graph_of
from rapgnn.errors import InputError
from rapgnn.graph.graph import Graph
from rapgnn.graph.validate import Faults

HOLDS = "a graph folder holds nodes and edges, and graphs where there are many"


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
    graph = graph_of(read_frames(folder, reading.as_trained()), name, reading)
    return replace(graph, read_as=partial(read_folder, folder.absolute(), name, reading))


def read_frames(folder: Path, reading: Reading) -> dict[str, Frame]:
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
