"""The same hops by one process, by torchrun's workers and on Ray, into a file.

python -m rapgnn.experiments.cluster_check results/bench-cluster/two-cores.json
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from rapgnn.datasets.synthetic import BlockModel
from rapgnn.files import write_atomic
from rapgnn.models.config import Config
from rapgnn.scale.disk_graph import DiskGraph
from rapgnn.scale.hops import untrained
from rapgnn.scale.on_ray import connected
from rapgnn.scale.ray_hops import hops_on_ray
from rapgnn.versions import hardware, versions

GRAPH = BlockModel(nodes=200_000, degree=20, features=64, train=500, val=1000, test=1000, seed=0)
LAYERS, REPEATS, WORKERS = 4, 3, (1, 2)


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
    model = untrained(graph, Config(num_layers=LAYERS, embedding="identity", activation="identity"))
    nodes, start = np.union1d(graph.train, graph.val), time.perf_counter()
    with connected("local", workers):
        begun = time.perf_counter()
        hops_on_ray(graph, nodes, model, out, width=GRAPH.features // 4)
        done = time.perf_counter()
    return done - begun, time.perf_counter() - start


def measure(folder: Path) -> list[dict[str, Any]]:
    """One record for every way and number of workers; ways take turns, so that all see the same load."""
    graph = DiskGraph.write(folder / "graph", GRAPH.generate())
    ways = {"torchrun": by_command, "ray": on_ray}
    seconds: dict[tuple[str, int], list[tuple[float, float]]] = {}
    load = os.getloadavg()[0]
    for repeat in range(REPEATS):
        for name, way in ways.items():
            for workers in WORKERS:
                found = way(graph, folder / f"{name}-{workers}-{repeat}", workers)
                seconds.setdefault((name, workers), []).append(found)
    common = {"dataset": "sbm", "nodes": graph.num_nodes, "edges": graph.num_edges, "features": graph.num_features}
    common |= {"layers": LAYERS, "load_before": load, "load_after": os.getloadavg()[0], "hardware": hardware("cpu")}
    common |= {
        "date": str(date.today()),
        "versions": versions(),
        "command": "python -m rapgnn.experiments.cluster_check",
    }
    return [
        {
            "way": name,
            "workers": workers,
            "hop_seconds": statistics.median(hops for hops, _ in times),
            "total_seconds": statistics.median(whole for _, whole in times),
            "values": [list(pair) for pair in times],
            **common,
        }
        for (name, workers), times in seconds.items()
    ]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        text = json.dumps(measure(Path(made)), indent=1) + "\n"
    write_atomic(Path(sys.argv[1]), lambda temporary: temporary.write_text(text))
