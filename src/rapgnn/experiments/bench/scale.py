"""Time and memory by the size of the graph, up to ogbn-products': building, hops, an epoch, the whole fit, prediction.

Beside an epoch stands its floor: the time that one read of the stored hops takes at the bandwidth of a copy.
"""

import math
import time
from collections.abc import Sequence

import torch

from rapgnn.experiments.bench.depth import bench_config
from rapgnn.experiments.bench.generated import PowerLaw
from rapgnn.experiments.bench.ready import ReadyGraph, fits, ready, trained_bytes
from rapgnn.experiments.bench.rows import Row, machine, measure_or_say
from rapgnn.experiments.bench.timing import affordable, copy_bandwidth, loop_times, seconds_of, wait
from rapgnn.experiments.run import Record, warm_up
from rapgnn.memory import PeakMemory
from rapgnn.models.config import Config
from rapgnn.models.rapgnn import RAPGNN
from rapgnn.propagation.engine import PolynomialRepresentation, Representation
from rapgnn.training.fit import build_rapgnn, fit_rap
from rapgnn.training.methods import fit

QUANTITIES = ("build_seconds", "hops_seconds", "epoch_ms", "predict_seconds", "peak_memory_mb", "end_to_end_epoch_ms")


def plan(
    sizes: dict[str, PowerLaw],
    widths: Sequence[int],
    num_layers: int,
    epochs: int,
    device: str,
    repeats: int,
    end_to_end: bool = True,
    precision: str = "float32",
) -> list[Row]:
    """A row per size and width."""
    rows, last = [], [("", None)]

    def graph_of(name: str) -> tuple[ReadyGraph, float]:
        if last[0][0] != name:  # one graph at a time
            last[0] = ("", None)
            graph = sizes[name].generate().to(device)
            start = time.perf_counter()
            built = ready(graph)
            wait(device)
            last[0] = (name, (built, time.perf_counter() - start))  # type: ignore[assignment]
        found = last[0][1]
        assert found is not None
        return found

    for name, size in sizes.items():
        for width in widths:
            settings = {
                "dataset": "power-law",
                "method": "rap",
                "size": name,
                "nodes": size.nodes,
                "edges": size.edges,
                "features": size.features,
                "training_rows": size.train,
                "hidden_channels": width,
                "num_layers": num_layers,
                "epochs": epochs,
                "repeats": repeats,
                "end_to_end": end_to_end,
                "hop_precision": precision,
            } | machine(device)
            rows.append(
                Row(settings, lambda name=name, s=settings: measure(*graph_of(name), s, repeats if end_to_end else 0))
            )
    return rows


def measure(graph: ReadyGraph, build_seconds: float, settings: Record, repeats: int) -> Record:
    """One size and width.

    Args:
        repeats: epochs of end-to-end training; 0 leaves it out.
    """
    device = graph.y.device
    warm_up(["rap", "end-to-end"], str(device))
    config = bench_config(settings["num_layers"], settings["hidden_channels"])
    config = config.update(epochs=settings["epochs"], hop_precision=settings["hop_precision"])
    assert graph.built is not None
    model = build_rapgnn(graph, graph.built, config, 0)
    kept: list[Representation] = []
    hops_seconds = seconds_of(lambda: kept.append(_representation(model, graph)), device)
    hop_bytes = _hop_bytes(kept.pop())
    with PeakMemory(device) as peak:
        start = time.perf_counter()
        fitted = fit_rap(graph, config, 0)
        wait(device)
        fit_seconds = time.perf_counter() - start
    if device.type == "cuda":
        fitted = fit_rap(graph, config, 0)  # the first one has compiled kernels on the way
    every = torch.arange(graph.num_nodes, device=device)
    predict_seconds = seconds_of(lambda: fitted.predict(every), device)
    bandwidth = copy_bandwidth(device)
    times = loop_times(fitted.loop, whole=True)
    floor_ms = hop_bytes / bandwidth / 1e6
    slow = measure_or_say(lambda: _end_to_end(graph, config, repeats)) if repeats else {}
    ratio = slow["end_to_end_epoch_ms"] / times["epoch_ms"] if slow.get("end_to_end_epoch_ms") else None
    return (
        times
        | {
            "nnz": graph.built.matrix.nnz,
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
            "speedup_vs_end_to_end": ratio,
        }
        | slow
    )


@torch.no_grad()
def _representation(model: RAPGNN, graph: ReadyGraph) -> Representation:
    return model.embed(graph.x, graph.operator("gcn")).rows(graph.train, expect=graph.val)


def _hop_bytes(representation: Representation) -> int:
    """Bytes of what every epoch reads; 0 where the layers run one by one."""
    if not isinstance(representation, PolynomialRepresentation):
        return 0
    hops = representation.filter.hops
    return hops.element_size() * hops.numel()


def _end_to_end(graph: ReadyGraph, config: Config, repeats: int) -> Record:
    """An epoch of end-to-end training with the same sparse product, where it fits."""
    if not fits(trained_bytes(graph, config), graph.y.device):
        return {"end_to_end_epoch_ms": None, "note": "end-to-end does not fit"}
    with PeakMemory(graph.y.device) as peak:
        first = fit("end-to-end", graph, config.update(epochs=1), 0).loop
        seconds = (first.train_ms_per_epoch + first.eval_ms_per_epoch) / 1e3
        loop = fit("end-to-end", graph, config.update(epochs=1 + affordable(seconds, repeats)), 0).loop
    times = loop_times(loop, whole=False)
    return {
        "end_to_end_epoch_ms": times["epoch_ms"],
        "end_to_end_train_ms": times["train_ms_per_epoch"],
        "end_to_end_peak_memory_mb": peak.megabytes,
    }


def finish(records: Sequence[Record]) -> list[Record]:
    """The records, and after them the slopes of log time over log size."""
    rows = [r for r in records if r["method"] != "slope"]
    machine_keys = ("device", "hardware", "threads", "versions", "num_layers", "epochs")
    common = {key: rows[0][key] for key in machine_keys if key in rows[0]} | {"dataset": "power-law", "method": "slope"}
    slopes = []
    for against, other in (("edges", "hidden_channels"), ("hidden_channels", "size")):
        places = list(dict.fromkeys(r[other] for r in rows))
        for at in places if against == "edges" else places[-1:]:  # by width at the largest size alone
            mine = [r for r in rows if r[other] == at]
            for quantity in QUANTITIES if against == "edges" else QUANTITIES[1:]:
                points = [(r[against], r[quantity]) for r in mine if r.get(quantity)]
                if len({x for x, _ in points}) > 1:
                    named = f"width {at}" if other == "hidden_channels" else str(at)
                    slope = {"quantity": quantity, "against": against, "at": named, "slope": log_slope(points)}
                    slopes.append(common | slope | {"points": len(points)})
    return [*rows, *slopes]


def log_slope(points: Sequence[tuple[float, float]]) -> float:
    """The slope of the straight line through the points' logarithms, by least squares."""
    xs, ys = [math.log(x) for x, _ in points], [math.log(y) for _, y in points]
    mx, my = sum(xs) / len(xs), sum(ys) / len(ys)
    return sum((x - mx) * (y - my) for x, y in zip(xs, ys, strict=True)) / sum((x - mx) ** 2 for x in xs)
