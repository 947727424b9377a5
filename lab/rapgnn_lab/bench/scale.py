"""Time and memory by the size of the graph, up to ogbn-products': building, hops, an epoch, the whole fit, prediction.

Beside an epoch stands its floor: the time that one read of the stored hops takes at the bandwidth of a copy.
"""

import time
from collections.abc import Sequence
from functools import lru_cache

import torch

from rapgnn.compare import Record, warm_up
from rapgnn.memory import PeakMemory
from rapgnn.network.config import Config
from rapgnn.network.representation import PolynomialRepresentation
from rapgnn.training.fit import build_rapgnn, fit_rap
from rapgnn_lab.bench import timing
from rapgnn_lab.bench.depth import MEASURES, bench_config
from rapgnn_lab.bench.generated import PowerLaw
from rapgnn_lab.bench.timing import log_slopes
from rapgnn_lab.store import Row, machine, measure_or_say

LAYERS = 3
QUANTITIES = ("build_seconds", "hops_seconds", "epoch_ms", "predict_seconds", "peak_memory_mb", "end_to_end_epoch_ms")


def plan(
    sizes: dict[str, PowerLaw], widths: Sequence[int], device: str, epochs: int | None = None, repeats: int = 2
) -> list[Row]:
    """A row per size and width; ``epochs`` of the whole fit are 100 on a CPU, 500 on a GPU."""
    rows = []

    @lru_cache(maxsize=1)
    def graph_of(name: str) -> tuple[timing.ReadyGraph, float]:
        graph = sizes[name].generate().to(device)
        start = time.perf_counter()
        built = timing.ready(graph)
        timing.wait(device)
        return built, time.perf_counter() - start

    for name, size in sizes.items():
        for width in widths:
            settings = {"dataset": "power-law", "method": "rap", "size": name, "nodes": size.nodes, "edges": size.edges}
            settings |= {"features": size.features, "training_rows": size.train, "hidden_channels": width}
            settings |= {"num_layers": LAYERS, "epochs": epochs or (500 if device == "cuda" else 100)}
            settings |= {"repeats": repeats, "end_to_end": True, "hop_precision": "float32"} | machine(device)
            rows.append(Row(settings, lambda name=name, settings=settings: measure(*graph_of(name), settings)))
    return rows


def measure(graph: timing.ReadyGraph, build_seconds: float, settings: Record) -> Record:
    device = graph.y.device
    warm_up(["rap", "end-to-end"], str(device))
    config = bench_config(settings["num_layers"], settings["hidden_channels"])
    config = config.update(epochs=settings["epochs"])
    model, seen, operator = build_rapgnn(graph, config, 0)
    hops = []
    with torch.no_grad():
        walk = lambda: hops.append(model.embed(seen.x, operator).rows(graph.train, expect=graph.val))  # noqa: E731
        hops_seconds = timing.seconds_of(walk, device)
    found = hops.pop()  # what every epoch reads; nothing where the layers run one by one
    hop_bytes = found.filter.hops.nbytes if isinstance(found, PolynomialRepresentation) else 0
    with PeakMemory(device) as peak:
        start = time.perf_counter()
        fitted = fit_rap(graph, config, 0)
        timing.wait(device)
        fit_seconds = time.perf_counter() - start
    if device.type == "cuda":
        fitted = fit_rap(graph, config, 0)  # the first one has compiled kernels on the way
    every = torch.arange(graph.num_nodes, device=device)
    predict_seconds = timing.seconds_of(lambda: fitted.predict(every), device)
    bandwidth, times = timing.copy_bandwidth(device), timing.loop_times(fitted.loop, whole=True)
    floor_ms = hop_bytes / bandwidth / 1e6
    slow = measure_or_say(lambda: _end_to_end(graph, config, settings["repeats"]))
    return (
        times
        | {
            "nnz": operator.matrix.nnz,
            "build_seconds": build_seconds,
            "hops_seconds": hops_seconds,
            "fit_seconds": fit_seconds,
            "total_seconds": build_seconds + fit_seconds,
            "predict_seconds": predict_seconds,
            "peak_memory_mb": peak.megabytes,
            "hop_bytes": hop_bytes,
            "hop_megabytes": hop_bytes / 2**20,
            "copy_gb_per_s": bandwidth,
            "floor_ms": floor_ms,
            "floor_ratio": times["steady_ms_per_epoch"] / floor_ms if floor_ms else None,
            "speedup_vs_end_to_end": (slow.get("end_to_end_epoch_ms") or 0.0) / times["epoch_ms"] or None,
        }
        | slow
    )


def _end_to_end(graph: timing.ReadyGraph, config: Config, repeats: int) -> Record:
    """An epoch of end-to-end training with the same sparse product, where it fits."""
    if not timing.fits(timing.trained_bytes(graph, config), graph.y.device):
        return {"end_to_end_epoch_ms": None, "note": "end-to-end does not fit"}
    with PeakMemory(graph.y.device) as peak:
        times, _ = MEASURES["end-to-end"](graph, config, repeats)
    return {
        "end_to_end_epoch_ms": times["epoch_ms"],
        "end_to_end_train_ms": times["train_ms_per_epoch"],
        "end_to_end_peak_memory_mb": peak.megabytes,
    }


def finish(records: Sequence[Record]) -> list[Record]:
    """The records, and after them the slopes of log time over log size: by edges for every width, and by width at the
    largest size."""
    rows = [r for r in records if r["method"] != "slope"]
    shared = ("device", "hardware", "threads", "versions", "num_layers", "epochs")
    common = {key: rows[0][key] for key in shared if key in rows[0]} | {"dataset": "power-law"}
    largest = [r for r in rows if r["size"] == rows[-1]["size"]]
    slopes = log_slopes(rows, QUANTITIES, "edges", {"hidden_channels": "width {}"})
    slopes += log_slopes(largest, QUANTITIES[1:], "hidden_channels", {"size": "{}"})
    return [*rows, *(common | slope for slope in slopes)]
