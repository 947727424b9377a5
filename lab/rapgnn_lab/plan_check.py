"""Hops from disk at several sizes against the cost model, measured into results/scale/plan.json.

    python -m rapgnn_lab.plan_check
    python -m rapgnn_lab.plan_check --nodes 20000,50000  # other sizes

The files of a graph are dropped from the page cache before each run. Run it on an otherwise idle machine: rates and
runs are measured in the same minutes.
"""

import os
import sys
import tempfile
import time
from argparse import ArgumentParser
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from rapgnn.compare import Record
from rapgnn.device import hardware, versions
from rapgnn.errors import InputError, shown
from rapgnn.memory import PeakAnonymous, read_size
from rapgnn.network.config import Config
from rapgnn.scale.hops import Budget, Hops, untrained
from rapgnn.scale.plan import Machines, Problem, Rates, from_disk, measure_rates
from rapgnn_lab.bench.generated import PowerLaw, write_power_law
from rapgnn_lab.results import one_sentence, results_folder
from rapgnn_lab.store import write_json

SIZES = (100_000, 500_000, 2_000_000)
DEGREE, FEATURES, LAYERS, SHARE = 20, 32, 4, 0.02
LINEAR = Config(num_layers=LAYERS, embedding="identity", activation="identity", head="ridge")


def empty_cache(folder: Path) -> None:
    """Drop a folder's files from the page cache, where the system lets it be done."""
    for path in folder.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())
            if hasattr(os, "posix_fadvise"):
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def check(nodes: int, rates: Rates, folder: Path, memory: int) -> Record:
    """One size: what was predicted, and what it took."""
    labelled = max(1, round(SHARE * nodes / 2))
    size = PowerLaw(nodes, DEGREE * nodes, FEATURES, classes=4, train=labelled, val=labelled, test=0)
    graph = write_power_law(size, folder)
    problem = Problem.of(graph, LAYERS)
    predicted = from_disk(problem, Machines(1, memory), rates)
    model = untrained(graph, LINEAR.update(normalize_features=False))
    empty_cache(graph.folder)
    with PeakAnonymous() as peak:
        start = time.perf_counter()
        rows = np.union1d(graph.train, graph.val)
        store = Hops(graph, model, Budget(memory)).store(folder / f"hops-{nodes}", rows)
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
    parser.add_argument("--memory", default="1GiB", help="limit of every run")
    parser.add_argument("--repeats", type=int, default=3, help="runs of a size, of which the median counts")
    parser.add_argument("--root", type=Path, default=Path(), help="the repository")
    given = parser.parse_args(arguments)
    folder = results_folder(given.root)
    memory, sizes = read_size(given.memory, "--memory"), _sizes(given.nodes)
    common = {
        "command": " ".join(["python -m rapgnn_lab.plan_check", *(sys.argv[1:] if arguments is None else [])]),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "hardware": hardware("cpu"),
        "versions": versions(),
    }
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
        measured = f"{run['seconds']:.2f} s, predicted {run['predicted']['total_seconds']:.2f} s"
        print(f"{nodes:>9,} nodes: {measured}; {run['peak_bytes'] >> 20} MiB, {run['predicted']['memory'] >> 20} MiB")
    record = common | {"load_average": load, "rates": vars(rates), "runs": runs}
    write_json(folder / "scale" / "plan.json", [record])
    return 0


def _sizes(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"--nodes takes whole numbers separated by commas, got {shown(text)}.") from None


if __name__ == "__main__":
    sys.exit(main())
