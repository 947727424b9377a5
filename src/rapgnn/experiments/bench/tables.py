"""The tables of all benchmarks, in one style: what is compared on the left, numbers on the right, a note where a row
could not be measured."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.table import Table

from rapgnn.experiments.run import Record
from rapgnn.experiments.tables import wide_console

NONE = "-"


def number(value: float | None) -> str:
    """Three digits, and thousands in full."""
    if value is None:
        return NONE
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def ratio(value: float | None) -> str:
    """How many times as fast, or as large."""
    if value is None:
        return NONE
    return f"{value:,.0f}×" if value >= 100 else f"{value:.1f}×" if value >= 0.95 else f"{value:.2g}×"


def count(value: float | None) -> str:
    """A whole number, with its thousands apart."""
    return NONE if value is None else f"{value:,.0f}"


def short(value: float | None) -> str:
    """A number of nodes or edges: 20k, 1.0M."""
    if value is None or value < 10_000:
        return count(value)
    return f"{value / 1e3:.0f}k" if value < 1e6 else f"{value / 1e6:.1f}M"


def tiny(value: float | None) -> str:
    """A share of one, by its order of magnitude."""
    return NONE if value is None else f"{value:.0e}"


def percent(value: float | None) -> str:
    """A share, times 100."""
    return NONE if value is None else f"{100 * value:.2f}"


@dataclass(frozen=True)
class Column:
    """A column: its heading, a record's key or what is computed of a record, and how it is written."""

    heading: str
    value: str | Callable[[Record], object]
    write: Callable[..., str] = str

    def cell(self, record: Record) -> str:
        value = record.get(self.value) if isinstance(self.value, str) else self.value(record)
        return NONE if value is None else self.write(value)


def bench_table(title: str, records: Sequence[Record], columns: Sequence[Column]) -> None:
    """Print a table: a row per record, words to the left, numbers to the right."""
    noted = any(r.get("note") for r in records)
    table = Table(title=title)
    for column in columns:
        words = column.write is str
        table.add_column(column.heading, justify="left" if words else "right", no_wrap=words)
    if noted:
        table.add_column("note")
    for r in records:
        bold = "bold" if r.get("method") == "rap" else None
        table.add_row(*(c.cell(r) for c in columns), *([r.get("note") or ""] if noted else []), style=bold)
    wide_console().print(table)


def say_below(*lines: str) -> None:
    """What there is to know about the numbers above."""
    console = wide_console()
    for line in lines:
        console.print(line, style="dim", highlight=False)


LAYERS = Column("layers", "num_layers", count)
METHOD = Column("method", "title")
PEAK = Column("peak MB", "peak_memory_mb", number)
_TIMES = (
    Column("train ms", "train_ms_per_epoch", number),
    Column("validate ms", "eval_ms_per_epoch", number),
    Column("epoch ms", lambda r: r.get("epoch_ms", r.get("train_ms_per_epoch")), number),
    Column("vs end-to-end", "speedup_vs_end_to_end", ratio),
    Column("vs PyG", "speedup_vs_pyg", ratio),
    Column("infer ms", "infer_ms", number),
    Column("all rows ms", "infer_all_ms", number),
    Column("before ms", lambda r: r.get("precompute_ms") or None, number),
    PEAK,
)
_BELOW = (
    "epoch: training and validation; vs: how many times as fast an epoch is; before: once, before the first epoch;",
    "infer: scores of the test rows, all that can be kept prepared; all rows: scores of every row by a walk over the "
    "graph.",
)


def _hardware(records: Sequence[Record]) -> str:
    return str(records[0]["hardware"])


def show_depth(records: Sequence[Record]) -> None:
    """One row per depth and method, with the ratio to end-to-end training on the same sparse product."""
    first = records[0]
    title = f"{first['dataset']} · {first['hidden_channels']} channels · {_hardware(records)}"
    bench_table(title, records, [LAYERS, METHOD, *_TIMES])
    say_below(*_BELOW)


def show_graphs(records: Sequence[Record]) -> None:
    """One row per method, with the ratio to end-to-end training."""
    first = records[0]
    title = f"{first['dataset']} · {first['num_layers']} layers · {first['hidden_channels']} channels"
    title = f"{title} · batches of {first['batch_size']} · {_hardware(records)}"
    bench_table(title, records, [METHOD, *_TIMES])
    say_below(*_BELOW)


def show_auto(records: Sequence[Record]) -> None:
    """One row per graph: accuracy and time of the estimator with nothing set, and of the tuned GCN."""
    columns = [
        Column("graph", "dataset"),
        Column("kind", "about"),
        Column("nodes", "nodes", count),
        Column("accuracy", "mean", percent),
        Column("GCN", "gcn_mean", percent),
        Column("difference", lambda r: r["mean"] - r["gcn_mean"], lambda v: f"{100 * v:+.2f}"),
        Column("fit s", "fit_seconds", lambda v: f"{v:.2f}"),
        Column("GCN s, 200 epochs", "gcn_seconds", lambda v: f"{v:.2f}"),
        Column("ratio", lambda r: r["gcn_seconds"] / r["fit_seconds"], ratio),
    ]
    bench_table(f"RAPNodeClassifier() against a tuned PyG GCN · {_hardware(records)}", records, columns)


def show_wide(records: Sequence[Record]) -> None:
    """One row per number of labels: how long the estimator with nothing set takes on wide bags of words."""
    columns = [
        Column("labels", "labels"),
        Column("nodes", "nodes", short),
        Column("features", "features", count),
        Column("labelled", "labelled", count),
        Column("accuracy", "mean", percent),
        Column("fit s", "fit_seconds", number),
        Column("predict s", "predict_seconds", number),
        Column("candidates", "candidates", count),
        PEAK,
    ]
    bench_table(f"RAPNodeClassifier() on wide bags of words · {_hardware(records)}", records, columns)


def show_files(records: Sequence[Record]) -> None:
    """One row per kind of node ids: how long a folder takes to load."""
    columns = [
        Column("ids", "ids"),
        Column("edges listed", "listed_edges", count),
        Column("CSV MB", "megabytes", number),
        Column("seconds", "seconds", number),
    ]
    bench_table(f"nodes.csv and edges.csv · {_hardware(records)}", records, columns)


def show_disk(records: Sequence[Record]) -> None:
    """One row per memory limit: how long a graph on disk takes, and the peak of memory that no file backs."""
    columns = [
        Column("nodes", "nodes", short),
        Column("edges", "edges", short),
        Column("limit", "memory_limit"),
        PEAK,
        Column("blocks", "blocks", count),
        *([Column("convert s", "convert_seconds", number)] if any("convert_seconds" in r for r in records) else []),
        Column("hops s", "hops_seconds", number),
        Column("fit s", "fit_seconds", number),
        Column("predict s", "predict_seconds", number),
        *([Column("GPU peak MB", "device_peak_mb", count)] if any("device_peak_mb" in r for r in records) else []),
        *([Column("off memory by", "relative_error", tiny)] if any("relative_error" in r for r in records) else []),
    ]
    bench_table(f"{records[0]['dataset']}, on disk · {_hardware(records)}", records, columns)


def show_memory(records: Sequence[Record]) -> None:
    """One row per graph, depth and method: peak memory above the loaded data, and the ratio to end-to-end."""
    columns = [
        Column("graph", "dataset"),
        Column("nodes", "nodes", short),
        Column("edges", "edges", short),
        LAYERS,
        METHOD,
        PEAK,
        Column("less than end-to-end", "memory_ratio_vs_end_to_end", ratio),
        Column("data MB", "data_mb", number),
    ]
    first = records[0]
    how = "peak of the allocator" if str(first["device"]).startswith("cuda") else "peak resident size of a process"
    bench_table(f"{first['hidden_channels']} channels · {first['hardware']}", records, columns)
    say_below(f"peak: {how} in training, above the loaded data (features and operator: data MB).")


def show_peers(records: Sequence[Record]) -> None:
    """One row per dataset and method: seconds to a trained model, and test accuracy."""
    columns = [
        Column("graph", "dataset"),
        Column("method", "title"),
        Column("settings", "setting"),
        Column("accuracy %", _accuracy, lambda v: v),
        Column("seconds", "seconds", number),
        Column("before s", "preprocess_seconds", number),
        Column("vs RAP", "times_rap", ratio),
        Column("search s", "search_seconds", number),
        Column("trials", lambda r: len(r["trials"]) if r.get("trials") else None, count),
    ]
    bench_table(f"from arrays in memory to a trained model · {_hardware(records)}", records, columns)
    say_below(
        "seconds: the median fit, what is computed once before it (before s) included; vs RAP: against RAP with its "
        "settings known;",
        "search: what choosing the settings took, beside that.",
    )


def _accuracy(r: Record) -> str | None:
    return None if r.get("mean") is None else f"{100 * r['mean']:.2f} ± {100 * r['std']:.2f}"


def show_scale(records: Sequence[Record]) -> None:
    """One row per size and width, and below them how the times grow."""
    sizes = [r for r in records if r["method"] != "slope"]
    columns = [
        Column("size", "size"),
        Column("nodes", "nodes", short),
        Column("edges", "edges", short),
        Column("width", "hidden_channels", count),
        Column("build s", "build_seconds", number),
        Column("hops s", "hops_seconds", number),
        Column("epoch ms", "epoch_ms", number),
        Column("fit s", "fit_seconds", number),
        Column("predict s", "predict_seconds", number),
        PEAK,
        Column("hops MB", "hop_megabytes", number),
        Column("of floor", "floor_ratio", ratio),
        Column("trained ms", "end_to_end_epoch_ms", number),
        Column("vs", "speedup_vs_end_to_end", ratio),
    ]
    first = sizes[0]
    title = f"{first['num_layers']} layers · {first['epochs']} epochs · {_hardware(sizes)}"
    bench_table(title, sizes, columns)
    say_below(
        f"of floor: an epoch against one read of the stored hops at {number(first.get('copy_gb_per_s'))} GB/s, the "
        "speed of a copy;",
        "trained: an epoch of end-to-end training; vs: how many times as long it takes, both with validation.",
    )
    slopes = [r for r in records if r["method"] == "slope"]
    if slopes:
        columns = [
            Column("time", "quantity"),
            Column("against", "against"),
            Column("at", "at"),
            Column("slope", "slope", lambda v: f"{v:.2f}"),
            Column("points", "points", count),
        ]
        bench_table("log-log slopes (1: linear)", slopes, columns)


def show_spmm(records: Sequence[Record]) -> None:
    """One row per graph, node order, width and kernel."""
    columns = [
        Column("graph", "dataset"),
        Column("nodes", "nodes", short),
        Column("entries", "nnz", short),
        Column("order", "order"),
        Column("width", "width", count),
        Column("kernel", "title"),
        Column("ms", "ms", number),
        Column("GB/s", "gb_per_s", number),
        Column("of a copy", "copy_share", lambda v: f"{100 * v:.0f} %"),
        Column("gathered GB/s", "gather_gb_per_s", number),
    ]
    copies = sorted({r["copy_gb_per_s"] for r in records if r.get("copy_gb_per_s")})
    speed = "" if not copies else f" · a copy: {number(copies[-1])} GB/s"
    bench_table(f"sparse product · {_hardware(records)}{speed}", records, columns)
    say_below("GB/s: matrix, dense input and output once each; gathered: a row of the input for every entry instead.")
