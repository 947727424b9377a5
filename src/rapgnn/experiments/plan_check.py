"""The cost model against what it predicts: hops from disk at several sizes, time and memory, into results/scale.

    python -m rapgnn.experiments.plan_check                      # measures, and writes results/scale/plan.json
    python -m rapgnn.experiments.plan_check --nodes 20000,50000  # other sizes

The graphs are random, every node receives from the same number of others; their files are dropped from the page cache
before each run. Run it on an otherwise idle machine: rates and runs are measured in the same minutes.
"""

import os
import sys
import tempfile
import time
from argparse import ArgumentParser
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from rapgnn.errors import InputError, shown
from rapgnn.experiments.results import one_sentence, results_folder, write_records
from rapgnn.memory import PeakAnonymous
from rapgnn.models.config import Config
from rapgnn.scale.blocks import Budget
from rapgnn.scale.disk_graph import DiskGraph, about
from rapgnn.scale.hops import hops_of, untrained
from rapgnn.scale.manifest import array_path, seal
from rapgnn.scale.plan.layouts import Machines, from_disk
from rapgnn.scale.plan.problem import Problem
from rapgnn.scale.plan.rates import Rates, measure_rates
from rapgnn.scale.sizes import read_size
from rapgnn.scale.tables.arrays import Appender, TableWriter
from rapgnn.versions import hardware, versions

SIZES = (100_000, 500_000, 2_000_000)
DEGREE, FEATURES, LAYERS, SHARE = 20, 32, 4, 0.02
MEMORY = "1GiB"
ROWS_AT_ONCE = 1 << 17
CLASSES = 4


def random_graph(folder: Path, nodes: int, seed: int = 0) -> DiskGraph:
    """A graph on disk in which every node receives from ``DEGREE`` random ones; made by blocks of rows."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True)
    with (
        Appender(folder, "indices", nodes * DEGREE, np.int32) as indices,
        TableWriter(folder, "features", nodes, FEATURES) as features,
    ):
        for start in range(0, nodes, ROWS_AT_ONCE):
            rows = min(ROWS_AT_ONCE, nodes - start)
            indices.add(np.sort(rng.integers(nodes, size=(rows, DEGREE), dtype=np.int32), axis=1).ravel())
            features.put_block(start, 0, rng.random((rows, FEATURES), dtype=np.float32))
    np.save(array_path(folder, "indptr"), np.arange(0, nodes * DEGREE + 1, DEGREE, dtype=np.int64))
    y = rng.integers(CLASSES, size=nodes)
    kept = np.sort(rng.permutation(nodes)[: round(SHARE * nodes)])
    splits = {"train": kept[::2], "val": kept[1::2], "test": kept[:0]}
    for name, values in {"y": y, **splits}.items():
        np.save(array_path(folder, name), values)
    seal(folder, about(f"random {nodes}", nodes, nodes * DEGREE, FEATURES, CLASSES, False, "node-classification", None))
    return DiskGraph.open(folder)


def empty_cache(folder: Path) -> None:
    """Drop a folder's files from the page cache, where the system lets it be done."""
    for path in folder.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())
            if hasattr(os, "posix_fadvise"):
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def check(nodes: int, rates: Rates, folder: Path, memory: int) -> dict[str, Any]:
    """One size: what was predicted, and what it took."""
    graph = random_graph(folder / f"graph-{nodes}", nodes)
    problem = Problem.of(graph, LAYERS)
    predicted = from_disk(problem, Machines(1, memory), rates)
    config = Config(backbone="gcn", num_layers=LAYERS, embedding="identity", activation="identity", head="ridge")
    model = untrained(graph, config.update(normalize_features=False))
    wanted = np.union1d(graph.train, graph.val)
    empty_cache(graph.folder)
    with PeakAnonymous() as peak:
        start = time.perf_counter()
        store, _ = hops_of(graph, wanted, model, Budget(memory), folder / f"hops-{nodes}")
        seconds = time.perf_counter() - start
    return {
        "nodes": nodes,
        "edges": problem.edges,
        "features": FEATURES,
        "layers": LAYERS,
        "rows": problem.rows,
        "memory_limit": memory,
        "blocks": len(store.blocks),
        "kept_bytes": store.bytes,
        "seconds": seconds,
        "peak_bytes": peak.bytes,
        "predicted": predicted.to_dict(),
        "ratio_seconds": predicted.total / seconds,
        "ratio_memory": predicted.memory / peak.bytes if peak.bytes else None,
    }


@one_sentence
def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and store."""
    parser = ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", default=",".join(map(str, SIZES)), help="sizes, separated by commas")
    parser.add_argument("--memory", default=MEMORY, help="limit of every run")
    parser.add_argument("--repeats", type=int, default=3, help="runs of a size, of which the median counts")
    parser.add_argument("--root", type=Path, default=Path(), help="the repository")
    given = parser.parse_args(arguments)
    folder = results_folder(given.root)
    memory, sizes = read_size(given.memory, "--memory"), _sizes(given.nodes)
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    rates = measure_rates(folder)
    runs = []
    for nodes in sizes:
        several = []
        for _ in range(given.repeats):
            with tempfile.TemporaryDirectory(prefix=".rapgnn-plan-", dir=folder) as work:
                several.append(check(nodes, rates, Path(work), memory))
        several.sort(key=lambda run: run["seconds"])
        run = several[len(several) // 2] | {"all_seconds": [run["seconds"] for run in several]}
        runs.append(run)
        told = f"{run['seconds']:.2f} s, predicted {run['predicted']['total_seconds']:.2f} s"
        print(f"{nodes:>9,} nodes: {told}; {run['peak_bytes'] >> 20} MiB, {run['predicted']['memory'] >> 20} MiB")
    record = {
        "command": " ".join(["python -m rapgnn.experiments.plan_check", *(sys.argv[1:] if arguments is None else [])]),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "hardware": hardware("cpu"),
        "load_average": load,
        "versions": versions(),
        "rates": rates.to_dict(),
        "runs": runs,
    }
    write_records(given.root, "scale", "plan", [record])
    return 0


def _sizes(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"--nodes takes whole numbers separated by commas, got {shown(text)}.") from None


if __name__ == "__main__":
    sys.exit(main())
