"""A graph on disk as a user would bring it: Parquet tables of nodes and edges, each pair of nodes listed once."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from rapgnn.errors import InputError
from rapgnn.scale.disk_graph import DiskGraph

ROWS = 1 << 17  # nodes that are written together


def write_tables(graph: DiskGraph, folder: Path) -> Path:
    """``folder`` with nodes.parquet and edges.parquet; one that is there already is used again."""
    if folder.exists():
        return folder
    unfinished = folder.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    _write(unfinished / "nodes.parquet", _nodes(graph))
    _write(unfinished / "edges.parquet", _edges(graph))
    return unfinished.rename(folder)


def _write(path: Path, parts: Iterator[dict[str, Any]]) -> None:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise InputError("Parquet files need pyarrow: pip install 'rapgnn[big]'.") from error
    writer = None
    try:
        for part in parts:
            table = pa.table(part)
            writer = writer or pq.ParquetWriter(path, table.schema)
            writer.write_table(table)
    finally:
        if writer is not None:
            writer.close()


def _nodes(graph: DiskGraph) -> Iterator[dict[str, Any]]:
    """Some rows after others: id, label, split, features."""
    split = np.zeros(graph.num_nodes, dtype=np.int8)
    names = np.array(["", "train", "val", "test"], dtype=object)
    for number, name in enumerate(names[1:], 1):
        split[graph.rows(name)] = number
    for start in range(0, graph.num_nodes, ROWS):
        rows = slice(start, min(start + ROWS, graph.num_nodes))
        features = np.ascontiguousarray(graph.features[rows])
        yield {
            "id": np.arange(rows.start, rows.stop),
            "label": graph.y[rows],
            "split": names[split[rows]],
        } | {f"x{column}": features[:, column] for column in range(graph.num_features)}


def _edges(graph: DiskGraph) -> Iterator[dict[str, Any]]:
    """Those of some receivers after others, from the smaller number to the larger one."""
    for start in range(0, graph.num_nodes, ROWS):
        stop = min(start + ROWS, graph.num_nodes)
        indptr = graph.indptr[start : stop + 1]
        receiver = np.repeat(np.arange(start, stop), np.diff(indptr))
        sender = np.asarray(graph.indices[indptr[0] : indptr[-1]])
        once = sender <= receiver
        yield {"source": sender[once], "target": receiver[once].astype(np.int32)}
