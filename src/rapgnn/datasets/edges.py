"""The ends of edges, as a user's table names them -> row numbers of nodes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rapgnn.datasets.columns import GRAPH, SOURCE, TARGET, WEIGHT, Reading, Roles, without
from rapgnn.datasets.frames import Frame
from rapgnn.errors import InputError, shown
from rapgnn.graph.validate import Faults

CURE = "add it, or leave such edges out (--drop-unknown-edges)"


@dataclass(frozen=True)
class EdgeTable:
    """The columns of the edges: both ends, a weight where there is one, the edge's graph likewise, and what is left."""

    frame: Frame
    source: pd.Series
    target: pd.Series
    weight: np.ndarray | None
    further: list[str]
    roles: Roles


def edge_table(edges: Frame, reading: Reading) -> EdgeTable:
    """Which column of the edges is what."""
    faults, roles = Faults(), Roles()
    ends: list[tuple[str, pd.Series]] = []
    for role, usual in (("source", SOURCE), ("target", TARGET)):
        with faults.collect():
            ends.append(edges.need(*reading.named(role, usual), cure=f": --{role} names another"))
            roles[ends[-1][0]] = role
    values, weight, graph = None, edges.take(*WEIGHT), edges.take(*GRAPH)
    with faults.collect():
        if weight is not None:
            roles[weight[0]] = "weight"
            if not pd.api.types.is_numeric_dtype(weight[1]) or pd.api.types.is_complex_dtype(weight[1]):
                raise InputError(f"{edges.path}: {weight[0]} must be numbers: correct it, or leave it out (--ignore).")
            values = weight[1].to_numpy(dtype=np.float64, na_value=np.nan)
    if graph is not None:
        roles[graph[0]] = "graph"
    faults.check()
    further = [c for c in edges.table.columns if c not in roles]
    return EdgeTable(edges, ends[0][1], ends[1][1], values, further, roles)


def places(frame: Frame, values: pd.Series, ids: pd.Index, named: Frame) -> tuple[np.ndarray, list[str]]:
    """The row number of each named row, -1 where there is none; and, for a sentence, the first that is not there."""
    missing = values.isna()
    if missing.any():
        raise without(frame.path, str(values.name), int(missing.argmax()), int(missing.sum()))
    wanted = pd.Index(values)
    if pd.api.types.is_numeric_dtype(ids) != pd.api.types.is_numeric_dtype(wanted):  # 7 and "7": both as words
        ids, wanted = ids.astype(str), wanted.astype(str)
    if not ids.is_unique:
        raise InputError(f"{named.path}: two ids read the same as words: {shown(ids[ids.duplicated()][0])}.")
    place = np.asarray(ids.get_indexer(wanted), dtype=np.int64)
    unknown = np.flatnonzero(place < 0)
    first = [unknown_end(str(values.name), wanted[row], int(row), len(unknown)) for row in unknown[:1]]
    return place, first


def unknown_end(name: str, value: Any, row: int, count: int) -> str:
    """An end that is no node, for a sentence: its first edge, and how many there are."""
    word = shown(str(value))[1:-1]
    return f"{name} {word} (row {row}; {count} such)"


def unknown_ends(path: Path, unknown: list[str], nodes: Path, numbered: bool) -> InputError:
    """What is said where ends of edges are no nodes.

    Args:
        unknown: what ``unknown_end`` says, once or for both ends.
        numbered: no column names the nodes, which may be why.
    """
    nor = f", nor {unknown[1]}" if len(unknown) > 1 else ""
    cure = "rows are numbered from 0 there, --id names a column of ids" if numbered else CURE
    return InputError(f"{path}: {unknown[0]} is not in {nodes.name}{nor}: {cure}.")


def dropped_edges(count: int, total: int) -> str:
    """What is noted where edges of unknown nodes were left out."""
    return f"{count} of {total} edges name unknown nodes and were dropped."


def ends_in_one(edges: EdgeTable, ids: pd.Index, nodes: Frame, drop: bool, numbered: bool = False) -> np.ndarray:
    """``[2, m]``: the row in ``nodes`` of both ends of every edge, -1 where it is to be dropped.

    Args:
        numbered: no column names the nodes, which may be why an edge's ends are not there.
    """
    faults, ends, unknown = Faults(), list[np.ndarray](), list[str]()
    for values in (edges.source, edges.target):
        with faults.collect():
            place, missing = places(edges.frame, values, ids, nodes)
            ends.append(place)
            unknown += missing
    with faults.collect():
        if unknown and not drop:
            raise unknown_ends(edges.frame.path, unknown, nodes.path, numbered)
    faults.check()
    return np.stack(ends)


def ends_in_many(
    edges: EdgeTable, ids: pd.Index, home: np.ndarray, graph_ids: pd.Index, nodes: Frame, graphs: Frame, drop: bool
) -> np.ndarray:
    """The same where there are many graphs; node ids may repeat from graph to graph."""
    path, column = edges.frame.path, edges.frame.take(*GRAPH)
    if column is None:
        if not ids.is_unique:
            raise InputError(f"{path} needs a column graph, because node ids repeat from graph to graph.")
        return ends_in_one(edges, ids, nodes, drop)
    which, unknown = places(edges.frame, column[1], graph_ids, graphs)
    if unknown and not drop:
        raise InputError(f"{path}: {unknown[0]} is not in {graphs.path.name}.")
    codes, distinct = pd.factorize(ids)
    keys = pd.Index(home * len(distinct) + codes)
    if not keys.is_unique:
        row = int(keys.duplicated().argmax())
        raise InputError(f"{nodes.path}: node {ids[row]} occurs more than once in graph {graph_ids[home[row]]}.")
    ends = ends_in_one(edges, pd.Index(distinct), nodes, drop)
    for values, end in zip((edges.source, edges.target), ends, strict=True):
        end[:] = np.where((which < 0) | (end < 0), -1, keys.get_indexer(pd.Index(which * len(distinct) + end)))
        if (end < 0).any() and not drop:
            row = int((end < 0).argmax())
            raise InputError(f"{path}: row {row} names node {values.iloc[row]}, which its graph does not have: {CURE}.")
    return ends


def known_edges(ends: np.ndarray, notes: list[str]) -> np.ndarray:
    """The edges both ends of which are there; how many were dropped is noted."""
    known = (ends >= 0).all(axis=0)
    if not known.all():
        notes.append(dropped_edges(int((~known).sum()), ends.shape[1]))
    return np.flatnonzero(known)
