"""The tables of README and docs/ about speed and memory, from results/."""

from collections.abc import Callable, Sequence
from pathlib import Path

from rapgnn.experiments.markdown import NONE, format_ms, format_ratio, format_table
from rapgnn.experiments.results import read_records
from rapgnn.experiments.run import Record

DEPTHS = (2, 8, 32)


MACHINES = {"two CPU cores": "", "H200": "-h200"}  # and what the file of its records is called beside the dataset


def _epoch(record: Record) -> float:
    """Milliseconds of an epoch, with its validation where that was measured."""
    return record["epoch_ms"] if "epoch_ms" in record else record["train_ms_per_epoch"]


def _ratio(value: float | None) -> str:
    return NONE if value is None else format_ratio(value)


def _megabytes(value: float | None) -> str:
    return NONE if value is None else f"{value:,.0f} MB"


def _epoch_title(records: Sequence[Record]) -> str:
    return "one epoch with validation" if all("epoch_ms" in r for r in records) else "one training epoch"


def speed_table(root: Path, file: str = "pubmed") -> str:
    """Time and memory of one epoch on PubMed with 32 layers."""
    found = [r for r in read_records(root, "bench-depth", file) if r["num_layers"] == 32 and not r.get("note")]
    inference = all("infer_ms" in r for r in found)
    rows = [
        [
            r["title"],
            format_ms(_epoch(r)),
            _ratio(r["speedup_vs_end_to_end"]),
            _ratio(r["speedup_vs_pyg"]),
            *([format_ms(r["infer_ms"])] if inference else []),
            _megabytes(r["peak_memory_mb"]),
        ]
        for r in found
    ]
    more = ["inference, ms"] if inference else []
    header = [_epoch_title(found), "ms", "faster than end-to-end", "than PyG's GCN", *more, "peak memory"]
    return format_table(header, rows)


def gpu_table(root: Path) -> str:
    """The same on a GPU."""
    return speed_table(root, "pubmed-h200")


def graph_speed_table(root: Path) -> str:
    """Time of one epoch on two graph datasets, on a CPU and on a GPU."""
    columns = [(d, m) for d in ("proteins", "molhiv") for m in MACHINES]
    found = [read_records(root, "bench-graphs", f"{d}{MACHINES[m]}") for d, m in columns]
    rows = []
    for same in zip(*found, strict=True):
        cells = [
            NONE if r.get("note") else f"{format_ms(_epoch(r))} ({_ratio(r['speedup_vs_end_to_end'])})" for r in same
        ]
        rows.append([same[0]["title"], *cells])
    titles = {"proteins": "PROTEINS", "molhiv": "molhiv"}
    header = [f"{titles[d]}, {m}, ms" for d, m in columns]
    return format_table([_epoch_title([r for records in found for r in records]), *header], rows)


def depth_speed_table(root: Path) -> str:
    """Time of one epoch on PubMed by depth, on a CPU and on a GPU."""
    found = {
        machine: {(r["method"], r["num_layers"]): r for r in read_records(root, "bench-depth", f"pubmed{end}")}
        for machine, end in MACHINES.items()
    }
    titles = {r["method"]: r["title"] for records in found.values() for r in records.values()}
    rows = []
    for method, title in titles.items():
        cells = [found[machine].get((method, depth)) for machine in MACHINES for depth in DEPTHS]
        rows.append([title, *(NONE if r is None or r.get("note") else format_ms(_epoch(r)) for r in cells)])
    header = [f"{machine}, {depth} layers" for machine in MACHINES for depth in DEPTHS]
    return format_table(["one epoch with validation, ms", *header], rows)


def memory_table(root: Path) -> str:
    """Peak memory above the loaded data."""
    rows = []
    for machine, end in MACHINES.items():
        for r in read_records(root, "bench-memory", f"pubmed{end}"):
            if r["dataset"] == "pubmed" and r["num_layers"] != 32:
                continue
            cells = [_megabytes(r.get("peak_memory_mb")), _ratio(r.get("memory_ratio_vs_end_to_end"))]
            rows.append([machine, r["dataset"], str(r["num_layers"]), r["title"], *cells])
    return format_table(["machine", "graph", "layers", "method", "peak", "less than end-to-end"], rows, left=4)


def peers_table(root: Path) -> str:
    """From arrays to a trained model, against what a user would pick instead."""
    found = [r for r in read_records(root, "bench-peers", "planetoid") if not r.get("note")]
    ours = {r["dataset"]: r["seconds"] for r in found if r["method"] == "rap"}
    rows = []
    for r in sorted(found, key=lambda r: (list(ours).index(r["dataset"]), not r["method"].startswith("rap"))):
        accuracy = f"{100 * r['mean']:.1f} ± {100 * r['std']:.1f}"
        times = format_ratio(r["seconds"] / ours[r["dataset"]])
        rows.append([r["dataset"], r["title"], r["setting"], accuracy, f"{r['seconds']:.2f}", times])
    return format_table(["graph", "method", "settings", "accuracy %", "seconds", "times RAP's"], rows, left=3)


def scale_table(root: Path) -> str:
    """Up to ogbn-products' size, on a CPU and on a GPU."""
    rows = []
    for machine, end in MACHINES.items():
        for r in read_records(root, "bench-scale", f"generated{end}"):
            if r["method"] != "rap" or r["hidden_channels"] != 256 or r.get("epoch_ms") is None:
                continue
            ratios = [r.get("speedup_vs_end_to_end"), r.get("floor_ratio")]
            seconds = [f"{r['total_seconds']:.2f}", str(r["epochs"]), format_ms(r["epoch_ms"])]
            cells = [_ratio(value) for value in ratios]
            size = [f"{r['nodes']:,}", f"{r['edges']:,}"]
            rows.append([machine, *size, *seconds, *cells, f"{r['predict_seconds']:.2f}"])
    header = ["machine", "nodes", "edges", "fit, s", "epochs", "epoch, ms", "faster than end-to-end"]
    return format_table([*header, "reads of the hops", "predict all, s"], rows)


def product_table(root: Path) -> str:
    """The sparse product by kernel, the nodes in the order they are given."""
    rows = []
    for machine, end in MACHINES.items():
        for r in read_records(root, "bench-spmm", f"products{end}"):
            if r["order"] == "given" and not r.get("note"):
                share = f"{100 * r['copy_share']:.0f} %"
                rows.append([machine, r["dataset"], str(r["width"]), r["title"], format_ms(r["ms"]), share])
    return format_table(["machine", "graph", "columns", "kernel", "ms", "of a copy's bandwidth"], rows, left=4)


def wide_table(root: Path) -> str:
    """The estimator with nothing set on wide bags of words."""
    found = read_records(root, "bench-wide", "generated")
    rows = [
        [r["labels"], f"{100 * r['mean']:.1f}", f"{r['fit_seconds']:.1f}", f"{r['predict_seconds']:.2f}"] for r in found
    ]
    size = f"{found[0]['nodes']:,} nodes, {found[0]['features']:,} features"
    return format_table([size, "accuracy %", "fit, s", "predict all, s"], rows)


SPEED_TABLES: dict[str, Callable[[Path], str]] = {
    "speed": speed_table,
    "gpu-speed": gpu_table,
    "graph-speed": graph_speed_table,
    "depth-speed": depth_speed_table,
    "memory": memory_table,
    "peers": peers_table,
    "scale": scale_table,
    "products": product_table,
    "wide": wide_table,
}
