"""Graphs larger than memory, from files to predictions under one memory limit after another.

Every limit has a process of its own (``python -m`` of this module); the peak is that of what no file backs, over the
conversion of tables, the whole fit and the prediction of all nodes. On a GPU the process may be allowed a part of its
memory, and the predictions may be compared with those of the whole graph in memory, without any limit.

And the hops at several sizes against the cost model of ``rapgnn plan``, whose rates are measured in the same minutes.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rapgnn import Config, InputError, RAPNodeClassifier
from rapgnn.graph.validate import SPLITS
from rapgnn.memory import PeakAnonymous, anonymous_bytes, read_size
from rapgnn.scale.disk_graph import DiskGraph
from rapgnn.scale.hops import Budget, DiskHops, untrained
from rapgnn.scale.plan import Machines, Problem, Rates, from_disk, measure_rates
from rapgnn.training.predict import model_on
from rapgnn_lab.bench.generated import PowerLaw, write_power_law
from rapgnn_lab.store import Record, Row, answer, in_child, machine


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
    """A row per memory limit; the graph stays in the folder for the next run, and tables are converted under the same
    limit."""

    def in_process(limit: str) -> Record:
        graph = write_power_law(size, folder)
        request = {"graph": str(graph.folder), "limit": limit, "settings": settings, "device": device}
        request |= {"device_memory": device_memory, "compare": compare}
        if tables:
            request["tables"] = str(write_tables(graph, graph.folder.with_suffix(".tables")))
        return in_child("rapgnn_lab.bench.disk", request)

    common = {
        "dataset": size.name,
        "method": "rap",
        "nodes": size.nodes,
        "edges": 2 * (size.edges // 2),
        "features": size.features,
        "training_rows": size.train,
        "settings": settings,
        "begins_with": "Parquet tables" if tables else "a graph on disk",
        **({} if device_memory is None else {"device_memory": device_memory}),
    } | machine(device)
    return [Row(common | {"memory_limit": limit}, partial(in_process, limit)) for limit in limits]


def measure(request: Record) -> Record:
    """From the tables or the graph on disk to predictions of every node under the limit: what it took."""
    if "tables" not in request:
        return _fit_and_predict(DiskGraph.open(request["graph"], verify=False), request)
    from rapgnn.scale.tables.convert import convert_folder

    tables = Path(request["tables"])
    with tempfile.TemporaryDirectory(dir=tables.parent) as made:
        start = time.perf_counter()
        with PeakAnonymous() as converting:
            graph = convert_folder(tables, Path(made) / "graph", memory=read_size(request["limit"]))
        seconds, peak = time.perf_counter() - start, converting.bytes / 2**20
        record = _fit_and_predict(graph, request)
    files = sum(path.stat().st_size for path in tables.iterdir())
    peaks = {"convert_peak_mb": peak, "peak_memory_mb": max(peak, record["peak_memory_mb"])}
    return record | peaks | {"convert_seconds": seconds, "tables_bytes": files}


def _fit_and_predict(graph: DiskGraph, request: Record) -> Record:
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
    right, scores = {"val": 0, "test": 0}, []
    held = {split: np.zeros(graph.num_nodes, dtype=bool) for split in right}
    for split, mask in held.items():
        mask[graph.rows(split)] = True
    with PeakAnonymous() as predicting:
        for nodes, part in estimator.predict_parts(graph):
            same = part.scores.argmax(1).numpy() == graph.y[nodes]
            if request.get("compare"):
                scores.append(part.scores)
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
        **(_difference(estimator, graph, torch.cat(scores)) if scores else {}),
    }


def allow_memory(size: int) -> None:
    """Let this process take so many bytes of the GPU and no more; torch answers what is above as out of memory."""
    total = torch.cuda.mem_get_info()[1]
    torch.cuda.set_per_process_memory_fraction(min(1.0, size / total))


def _difference(estimator: Any, graph: DiskGraph, scores: torch.Tensor) -> Record:
    """How far predictions lie from those of a fit with the same settings and the whole graph in memory."""
    if torch.device(estimator.device).type == "cuda":
        allow_memory(1 << 62)
    start = time.perf_counter()
    whole = RAPNodeClassifier(settings=estimator.config_.to_dict(), search=False, device=estimator.device)
    inside = graph.to_graph()
    model = whole.fit_graph(inside).model_
    wanted = model_on(model, inside, device=estimator.device)(torch.arange(graph.num_nodes)).scores.cpu()
    largest = float((scores - wanted).abs().max() / wanted.abs().max())
    same = float((scores.argmax(1) == wanted.argmax(1)).double().mean())
    return {"memory_seconds": time.perf_counter() - start, "relative_error": largest, "same_class": same}


def write_tables(graph: DiskGraph, folder: Path) -> Path:
    """nodes.parquet and edges.parquet, each pair of nodes listed once; a folder that is there already is used again."""
    if folder.exists():
        return folder
    try:
        import duckdb
    except ImportError as error:
        raise InputError("Parquet files need duckdb: pip install 'rapgnn[big]'.") from error
    unfinished, splits = folder.with_suffix(".unfinished"), np.zeros(graph.num_nodes, dtype=np.int8)
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    for number, name in enumerate(SPLITS, 1):
        splits[graph.rows(name)] = number
    nodes = {"id": np.arange(graph.num_nodes), "label": np.asarray(graph.y), "part": splits}
    nodes |= {f"x{column}": np.asarray(graph.features[:, column]) for column in range(graph.num_features)}
    receiver = np.repeat(np.arange(graph.num_nodes, dtype=np.int32), np.diff(graph.indptr))
    edges = {"source": np.asarray(graph.indices), "target": receiver}
    queries = {
        "nodes": (nodes, f"SELECT * EXCLUDE part, {['', *SPLITS]}[part + 1] AS split FROM nodes"),
        "edges": (edges, "SELECT * FROM edges WHERE source <= target"),
    }
    with duckdb.connect() as database:
        for name, (columns, query) in queries.items():
            database.register(name, columns)
            path = str(unfinished / f"{name}.parquet").replace("'", "''")
            database.execute(f"COPY ({query}) TO '{path}'")
    return unfinished.rename(folder)


# The cost model.

DEGREE, FEATURES, LAYERS, SHARE = 20, 32, 4, 0.02
LINEAR = Config(num_layers=LAYERS, embedding="identity", activation="identity", head="ridge", normalize_features=False)


def plan_costs(sizes: Sequence[int], memory: str, repeats: int, folder: Path) -> list[Row]:
    rates = cache(partial(measure_rates, folder))
    common = {"dataset": "power-law", "method": "hops", "features": FEATURES, "layers": LAYERS, "repeats": repeats}
    common |= {"memory_limit": read_size(memory, "--memory")} | machine("cpu")
    wanted = [common | {"nodes": nodes} for nodes in sizes]
    return [Row(settings, partial(measure_costs, settings, rates, folder)) for settings in wanted]


def measure_costs(settings: Record, rates: Callable[[], Rates], folder: Path) -> Record:
    """The median of several runs of one size; the graph's files are dropped from the page cache before each."""
    labelled = max(1, round(SHARE * settings["nodes"] / 2))
    size = PowerLaw(settings["nodes"], DEGREE * settings["nodes"], FEATURES, 4, train=labelled, val=labelled, test=0)
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    runs = []
    with tempfile.TemporaryDirectory(prefix=".rapgnn-plan-", dir=folder) as work:
        graph = write_power_law(size, Path(work))
        problem, rows = Problem.of(graph, LAYERS), np.union1d(graph.train, graph.val)
        predicted = from_disk(problem, Machines(1, settings["memory_limit"]), rates())
        for number in range(settings["repeats"]):
            empty_cache(graph.folder)
            with PeakAnonymous() as peak:
                start = time.perf_counter()
                hops = DiskHops(graph, untrained(graph, LINEAR), Budget(settings["memory_limit"]))
                store = hops.store(Path(work) / f"hops-{number}", rows)
                runs.append((time.perf_counter() - start, peak, store))
    seconds, peak, store = sorted(runs, key=lambda run: run[0])[len(runs) // 2]
    return {
        "edges": problem.edges,
        "rows": problem.rows,
        "blocks": len(store.blocks),
        "kept_bytes": store.bytes,
        "seconds": seconds,
        "all_seconds": [run[0] for run in runs],
        "peak_bytes": peak.bytes,
        "predicted": predicted.to_dict(),
        "ratio_seconds": predicted.total / seconds,
        "ratio_memory": predicted.memory / peak.bytes if peak.bytes else None,
        "load_average": load,
        "rates": vars(rates()),
    }


def empty_cache(folder: Path) -> None:
    """Drop a folder's files from the page cache, where the system lets it be done."""
    for path in folder.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())
            if hasattr(os, "posix_fadvise"):
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


if __name__ == "__main__":
    answer(measure)
