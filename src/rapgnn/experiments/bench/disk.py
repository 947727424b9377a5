"""Time and peak memory of a graph larger than memory, under one memory limit after another.

Every limit has a process of its own; the peak is that of what no file backs, over the conversion of tables, the whole
fit and the prediction of all nodes. ``python -m rapgnn.experiments.bench.disk`` is that process: a request on standard
input, the record on standard output. On a GPU the process may be allowed a part of its memory, and the predictions may
be compared with those of the whole graph in memory, without any limit.
"""

import json
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rapgnn.errors import InputError
from rapgnn.experiments.bench.disk_graphs import write_power_law
from rapgnn.experiments.bench.disk_tables import write_tables
from rapgnn.experiments.bench.generated import PowerLaw
from rapgnn.experiments.bench.rows import Row, machine
from rapgnn.experiments.run import Record
from rapgnn.scale.disk_graph import DiskGraph
from rapgnn.scale.sizes import read_size


def plan(
    size: PowerLaw,
    limits: Sequence[str],
    settings: Record,
    folder: Path,
    device: str,
    tables: bool = False,
    device_memory: str | None = None,
    compare: bool = False,
) -> list[Row]:
    """A row per memory limit.

    Args:
        settings: of the estimator; what is not given is as without a search.
        folder: for the graph and the hops; the graph stays, for the next run.
        tables: begin with Parquet files, which are converted under the same limit.
        device_memory: what the process may take of a GPU; None: all of it.
        compare: with the predictions of the graph in memory, without limits.
    """
    rows = []
    for limit in limits:
        told = {
            "dataset": size.name,
            "method": "rap",
            "nodes": size.nodes,
            "edges": 2 * (size.edges // 2),
            "features": size.features,
            "training_rows": size.train,
            "memory_limit": limit,
            "settings": settings,
            "begins_with": "Parquet tables" if tables else "a graph on disk",
            **({} if device_memory is None else {"device_memory": device_memory}),
        } | machine(device)

        def measure(limit: str = limit) -> Record:
            graph = write_power_law(size, folder / f"{size.name}-{size.seed}".replace(" ", "-"))
            request = {"graph": str(graph.folder), "limit": limit, "settings": settings, "device": device}
            request |= {"device_memory": device_memory, "compare": compare}
            if tables:
                request["tables"] = str(write_tables(graph, graph.folder.with_suffix(".tables")))
            return _in_child(request)

        rows.append(Row(told, measure))
    return rows


def _in_child(request: Record) -> Record:
    words = [sys.executable, "-m", "rapgnn.experiments.bench.disk"]
    done = subprocess.run(words, input=json.dumps(request), capture_output=True, text=True)
    if done.returncode in (-9, 137):
        return {"note": "out of memory"}
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise InputError(f"measuring the limit {request['limit']} in a process of its own failed: {last}.")
    return json.loads(done.stdout.splitlines()[-1])


def measure(request: Record) -> Record:
    """From the tables or the graph on disk to predictions of every node under the limit: what it took."""
    if "tables" not in request:
        return _fit_and_predict(DiskGraph.open(request["graph"], verify=False), request)
    from rapgnn.memory import PeakAnonymous
    from rapgnn.scale.tables.convert import convert_folder

    tables = Path(request["tables"])
    with tempfile.TemporaryDirectory(dir=tables.parent) as made:
        start = time.perf_counter()
        with PeakAnonymous() as converting:
            graph = convert_folder(tables, Path(made) / "graph", memory=read_size(request["limit"]))
        seconds, peak = time.perf_counter() - start, converting.bytes / 2**20
        found = _fit_and_predict(graph, request)
    files = sum(path.stat().st_size for path in tables.iterdir())
    peaks = {"convert_peak_mb": peak, "peak_memory_mb": max(peak, found["peak_memory_mb"])}
    return found | peaks | {"convert_seconds": seconds, "tables_bytes": files}


def _fit_and_predict(graph: DiskGraph, request: Record) -> Record:
    from rapgnn import RAPNodeClassifier
    from rapgnn.device import allow_memory
    from rapgnn.memory import PeakAnonymous, anonymous_bytes

    own = {"settings": request["settings"], "memory_limit": request["limit"], "device": request["device"]}
    estimator = RAPNodeClassifier(**own)
    if request.get("device_memory"):
        allow_memory(read_size(request["device_memory"]))
    base, marks = anonymous_bytes() or 0, [time.perf_counter()]

    def on_hop(done: int, of: int) -> None:
        marks.append(time.perf_counter())

    with PeakAnonymous() as fitting:
        estimator.fit_disk(graph, on_hop=on_hop)
    fitted = time.perf_counter()
    right, told = {"val": 0, "test": 0}, []
    held = {split: np.zeros(graph.num_nodes, dtype=bool) for split in right}
    for split, mask in held.items():
        mask[graph.rows(split)] = True
    with PeakAnonymous() as predicting:
        for nodes, found in estimator.predict_parts(graph):
            same = found.scores.argmax(1).numpy() == graph.y[nodes]
            if request.get("compare"):
                told.append(found.scores)
            for split in right:
                right[split] += int((same & held[split][nodes]).sum())
    predicted = time.perf_counter()
    on_device = {"device_peak_mb": torch.cuda.max_memory_reserved() / 2**20} if request["device"] == "cuda" else {}
    return {
        "fit_seconds": fitted - marks[0],
        "hops_seconds": marks[-1] - marks[0],
        "head_seconds": fitted - marks[-1],
        "predict_seconds": predicted - fitted,
        "peak_memory_mb": max(fitting.bytes, predicting.bytes) / 2**20,
        "fit_peak_mb": fitting.bytes / 2**20,
        "predict_peak_mb": predicting.bytes / 2**20,
        "base_memory_mb": base / 2**20,
        "blocks": estimator.blocks_,
        "num_layers": estimator.config_.num_layers,
        "hidden_channels": estimator.model_.embedding.out_channels,
        **{f"{split}_accuracy": right[split] / max(1, len(graph.rows(split))) for split in right},
        "graph_bytes": sum(path.stat().st_size for path in graph.folder.glob("*.npy")),
        **on_device,
        **(_difference(estimator, graph, torch.cat(told)) if told else {}),
    }


def _difference(estimator: Any, graph: DiskGraph, scores: torch.Tensor) -> Record:
    """How far predictions lie from those of a fit with the same settings and the whole graph in memory."""
    from rapgnn import RAPNodeClassifier
    from rapgnn.device import allow_memory
    from rapgnn.training.predict import predictor_on

    if torch.device(estimator.device).type == "cuda":
        allow_memory(1 << 62)
    start = time.perf_counter()
    whole = RAPNodeClassifier(settings=estimator.config_.to_dict(), search=False, device=estimator.device)
    inside = graph.to_graph()
    model = whole.fit_graph(inside).model_
    wanted = predictor_on(model, inside, device=estimator.device)(torch.arange(graph.num_nodes)).scores.cpu()
    largest = float((scores - wanted).abs().max() / wanted.abs().max())
    same = float((scores.argmax(1) == wanted.argmax(1)).double().mean())
    return {"memory_seconds": time.perf_counter() - start, "relative_error": largest, "same_class": same}


def main() -> int:
    """The process of one limit."""
    warnings.simplefilter("ignore")
    try:
        found = measure(json.load(sys.stdin))
    except InputError as error:  # a limit that is too small is a result too
        found = {"note": str(error)}
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
