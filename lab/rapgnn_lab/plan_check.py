"""Hops from disk, measured into results: against the cost model at several sizes, or by processes and on Ray.

    python -m rapgnn_lab.plan_check                      # measures, and writes results/scale/plan.json
    python -m rapgnn_lab.plan_check --nodes 20000,50000  # other sizes
    python -m rapgnn_lab.plan_check --cluster            # one process, torchrun, Ray: bench-cluster/two-cores.json

The files of a graph are dropped from the page cache before each run. Run it on an otherwise idle machine: rates and
runs are measured in the same minutes.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from rapgnn.compare import Record
from rapgnn.datasets.catalog import BlockModel
from rapgnn.device import hardware, versions
from rapgnn.errors import InputError, shown
from rapgnn.memory import PeakAnonymous, read_size
from rapgnn.network.config import Config
from rapgnn.scale.disk_graph import DiskGraph
from rapgnn.scale.hops import Budget, Hops, untrained
from rapgnn.scale.on_ray import RayHops, connected
from rapgnn.scale.plan import Machines, Problem, Rates, from_disk, measure_rates
from rapgnn_lab.bench.generated import PowerLaw, write_power_law
from rapgnn_lab.results import one_sentence, results_folder, write_records

SIZES = (100_000, 500_000, 2_000_000)
DEGREE, FEATURES, LAYERS, SHARE = 20, 32, 4, 0.02
LINEAR = Config(num_layers=LAYERS, embedding="identity", activation="identity", head="ridge")
CLUSTER = BlockModel(nodes=200_000, degree=20, features=64, train=500, val=1000, test=1000, seed=0)
WORKERS = (1, 2)


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
    graph = write_power_law(size, folder / f"graph-{nodes}")
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


def by_command(graph: DiskGraph, out: Path, workers: int) -> tuple[float, float]:
    """(seconds of the hops, seconds of the whole command), one thread per process."""
    launch = ["-m", "torch.distributed.run", f"--nproc-per-node={workers}", "-m"] if workers > 1 else ["-m"]
    command = [sys.executable, *launch, "rapgnn", "hops", str(graph.folder), "--out", str(out)]
    command += ["--layers", str(LAYERS), "--json", f"{out}.json", "--quiet"]
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    return json.loads(Path(f"{out}.json").read_text())[0]["seconds"], time.perf_counter() - start


def on_ray(graph: DiskGraph, out: Path, workers: int) -> tuple[float, float]:
    """(seconds from Ray's start to the last block, seconds with the start and end of Ray)."""
    model = untrained(graph, LINEAR)
    nodes, start = np.union1d(graph.train, graph.val), time.perf_counter()
    with connected("local", workers):
        begun = time.perf_counter()
        RayHops(graph, model, Budget(), width=CLUSTER.features // 4).store(out, nodes)
        done = time.perf_counter()
    return done - begun, time.perf_counter() - start


def check_cluster(folder: Path, repeats: int) -> list[Record]:
    """One record for every way and number of workers; ways take turns, so that all see the same load."""
    graph = DiskGraph.write(folder / "graph", CLUSTER.generate())
    ways = {(name, n): way for name, way in (("torchrun", by_command), ("ray", on_ray)) for n in WORKERS}
    before = os.getloadavg()[0]
    turns = [
        {key: way(graph, folder / f"{key[0]}-{key[1]}-{turn}", key[1]) for key, way in ways.items()}
        for turn in range(repeats)
    ]
    sizes = {"dataset": "sbm", "nodes": graph.num_nodes, "edges": graph.num_edges, "features": graph.num_features}
    common = sizes | {"layers": LAYERS, "load_before": before, "load_after": os.getloadavg()[0]}
    records = []
    for name, workers in ways:
        values = [list(turn[name, workers]) for turn in turns]
        hops, whole = (statistics.median(column) for column in zip(*values, strict=True))
        seconds = {"hop_seconds": hops, "total_seconds": whole, "values": values}
        records.append({"way": name, "workers": workers} | seconds | common)
    return records


@one_sentence
def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and store."""
    parser = ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", default=",".join(map(str, SIZES)), help="sizes, separated by commas")
    parser.add_argument("--memory", default="1GiB", help="limit of every run")
    parser.add_argument("--repeats", type=int, default=3, help="runs of a size, of which the median counts")
    parser.add_argument("--cluster", action="store_true", help="one process, torchrun's workers and Ray instead")
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
    if given.cluster:
        with tempfile.TemporaryDirectory() as work:
            records = [common | record for record in check_cluster(Path(work), given.repeats)]
        write_records(given.root, "bench-cluster/two-cores", records)
        return 0
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
    record = common | {"load_average": load, "rates": rates.to_dict(), "runs": runs}
    write_records(given.root, "scale/plan", [record])
    return 0


def _sizes(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"--nodes takes whole numbers separated by commas, got {shown(text)}.") from None


if __name__ == "__main__":
    sys.exit(main())
