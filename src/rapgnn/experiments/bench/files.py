"""How long a user's folder of tables takes to load, by number of edges and kind of node ids."""

import tempfile
import time
from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd

from rapgnn.datasets.folder import read_folder
from rapgnn.experiments.bench.rows import Row, machine
from rapgnn.experiments.run import Record
from rapgnn.versions import hardware, versions

IDS = ("numbers", "words")


def plan(edges: int) -> list[Row]:
    """A row per kind of ids."""
    common = {"dataset": "generated", "listed_edges": edges} | machine("cpu")
    return [Row(common | {"ids": ids}, lambda ids=ids: bench(edges, ids)) for ids in IDS]


def bench(edges: int, ids: str) -> Record:
    """Write nodes.csv (a tenth as many nodes, two numbers, a word, a label) and edges.csv, and time the reading."""
    rng = np.random.default_rng(0)
    nodes = max(2, edges // 10)
    names = np.arange(nodes) if ids == "numbers" else np.array([f"user{i}" for i in range(nodes)], dtype=object)
    table = {"id": names, "age": rng.integers(90, size=nodes), "share": rng.random(nodes)}
    table |= {"kind": rng.choice(["p", "q", "r"], nodes), "label": rng.choice(["yes", "no"], nodes)}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        pd.DataFrame(table).to_csv(folder / "nodes.csv", index=False)
        ends = {end: names[rng.integers(nodes, size=edges)] for end in ("source", "target")}
        pd.DataFrame(ends).to_csv(folder / "edges.csv", index=False)
        del ends
        size = sum(path.stat().st_size for path in folder.iterdir()) / 1e6
        start = time.perf_counter()
        graph = read_folder(folder, "files")
        seconds = time.perf_counter() - start
    return {
        "dataset": "generated",
        "ids": ids,
        "listed_edges": edges,
        "nodes": graph.num_nodes,
        "edges": graph.edge_index.shape[1],
        "features": graph.num_features,
        "megabytes": round(size, 1),
        "seconds": seconds,
        "hardware": hardware("cpu"),
        "date": date.today().isoformat(),
        "versions": versions(),
    }
