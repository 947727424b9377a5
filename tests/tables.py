"""A folder of tables in every format, and what is read where some of its files are changed."""

import gzip
import io
import shutil
from pathlib import Path

import numpy as np
import pandas as pd

from folders import many, tables
from fuzzing import REFUSED, outcome, sane
from rapgnn import Graph, load_dataset

ENDINGS = ("csv", "csv.gz", "parquet", "npz")


def frames(kind: str) -> dict[str, pd.DataFrame]:
    if kind == "many":
        return many(12)
    nodes, edges = tables(24)
    nodes["split"] = (["train", "train", "val", "test"] * 6)[:24]
    return {"nodes": nodes, "edges": edges.iloc[:40].assign(weight=1.5)}


def as_bytes(frame: pd.DataFrame, ending: str) -> bytes:
    buffer = io.BytesIO()
    if ending == "npz":
        arrays = {c: frame[c].to_numpy(dtype=None if frame[c].dtype.kind in "biuf" else "U") for c in frame}
        np.savez(buffer, **arrays)
    elif ending == "parquet":
        frame.to_parquet(buffer, index=False)
    else:
        text = frame.to_csv(index=False).encode()
        return gzip.compress(text, mtime=0) if ending == "csv.gz" else text
    return buffer.getvalue()


TABLES = {kind: frames(kind) for kind in ("one", "many")}
FILES = {
    (kind, stem, ending): as_bytes(frame, ending)
    for kind, several in TABLES.items()
    for stem, frame in several.items()
    for ending in ENDINGS
}


def read(folder: Path, kind: str, changed: dict[str, bytes], ending: str = "csv") -> object:
    """The graph in a folder where some files are not as they should be."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for stem in TABLES[kind]:
        (folder / f"{stem}.{ending}").write_bytes(changed.get(stem, FILES[kind, stem, ending]))
    graph = outcome(lambda: load_dataset(str(folder)))
    if graph is not REFUSED:
        sane(graph)
    return graph


def check_content(graph: Graph, kind: str) -> None:
    """The graph is that of the tables."""
    told = TABLES[kind]["nodes" if kind == "one" else "graphs"]
    assert list(map(str, graph.ids)) == list(told["id"])
    assert [graph.classes[int(y)] for y in graph.y] == list(told["label"])
    assert graph.num_nodes == len(TABLES[kind]["nodes"])
    pairs = TABLES[kind]["edges"][["source", "target"]].drop_duplicates()
    if kind == "one":
        assert graph.task == "node-classification"
        number = {name: i for i, name in enumerate(told["id"])}
        ends = {frozenset((number[u], number[v])) for u, v in pairs.itertuples(index=False)}
        assert {frozenset(pair) for pair in graph.edge_index.T.tolist()} == ends
        assert [told["split"][i] for i in graph.val.tolist()] == ["val"] * int((told["split"] == "val").sum())
        assert graph.num_features == 5  # two numbers, three colours
    else:
        assert graph.task == "graph-classification"
        assert graph.ptr.diff().tolist() == TABLES[kind]["nodes"].groupby("graph").size()[told["id"]].tolist()
        assert (graph.num_features, graph.num_edge_features) == (3, 2)
