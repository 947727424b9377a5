"""The table of every benchmark: a row per record, a column per key, a note where a row could not be measured."""

from collections.abc import Iterable, Sequence

from rich.table import Table

from rapgnn.cli.shared import wide_console
from rapgnn.compare import Record
from rapgnn_lab.bench.suite.compare import HEADER, goals, suite_cells

NONE = "-"


def number(value: float | None) -> str:
    """Three digits, and thousands in full."""
    if value is None:
        return NONE
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def ratio(value: float) -> str:
    """How many times as fast, or as large."""
    return f"{value:,.0f}×" if value >= 100 else f"{value:.1f}×" if value >= 0.95 else f"{value:.2g}×"


def short(value: float) -> str:
    """A number of nodes or edges: 20k, 1.0M."""
    if value < 10_000:
        return f"{value:,.0f}"
    return f"{value / 1e3:.0f}k" if value < 1e6 else f"{value / 1e6:.1f}M"


HEADINGS = {
    "dataset": "graph",
    "title": "method",
    "num_layers": "layers",
    "hidden_channels": "width",
    "mean": "accuracy %",
    "std": "±",
    "train_ms_per_epoch": "train ms",
    "eval_ms_per_epoch": "validate ms",
    "infer_all_ms": "all rows ms",
    "precompute_ms": "before ms",
    "preprocess_seconds": "before s",
    "end_to_end_epoch_ms": "trained ms",
    "memory_ratio_vs_end_to_end": "less than end-to-end",
    "floor_ratio": "of floor",
    "copy_share": "of a copy",
    "nnz": "entries",
    "relative_error": "off memory by",
    "times_rap": "vs RAP",
    "gather_gb_per_s": "gathered GB/s",
}
"""What the other keys are called follows from their names."""


_TIMES = (
    "title train_ms_per_epoch eval_ms_per_epoch epoch_ms speedup_vs_end_to_end speedup_vs_pyg infer_ms infer_all_ms "
    "precompute_ms peak_memory_mb"
)
TABLES = {
    "depth": f"num_layers {_TIMES}",
    "disk": "nodes edges memory_limit peak_memory_mb blocks convert_seconds hops_seconds fit_seconds predict_seconds "
    "device_peak_mb relative_error",
    "files": "ids listed_edges megabytes seconds",
    "graphs": _TIMES,
    "memory": "dataset nodes edges num_layers title peak_memory_mb memory_ratio_vs_end_to_end data_mb",
    "peers": "dataset title setting mean std seconds preprocess_seconds times_rap search_seconds",
    "scale": "size nodes edges hidden_channels build_seconds hops_seconds epoch_ms fit_seconds predict_seconds "
    "peak_memory_mb hop_megabytes floor_ratio end_to_end_epoch_ms speedup_vs_end_to_end",
    "slopes": "quantity against at slope points",
    "spmm": "dataset nodes nnz order width title ms gb_per_s copy_share gather_gb_per_s",
    "wide": "labels nodes features labelled mean fit_seconds predict_seconds candidates peak_memory_mb",
}
"""The columns of every benchmark; docs/benchmarks.md says what they mean."""


def show(name: str, title: str, records: Sequence[Record]) -> None:
    """Print a benchmark's table; a column that no record has is left out."""
    if name == "auto":
        _print(title, HEADER[:10], (suite_cells(r)[:10] for r in records), goals(records))
        return
    slopes = [r for r in records if r["method"] == "slope"] if name == "scale" else []
    records = [r for r in records if r not in slopes]
    keys = [key for key in TABLES[name].split() if any(r.get(key) is not None for r in records)]
    noted = any(r.get("note") for r in records)
    rows = [[*(cell(r, key) for key in keys), *([r.get("note") or ""] if noted else [])] for r in records]
    header = [*map(heading, keys), *(["note"] if noted else [])]
    _print(f"{title} · {records[0]['hardware']}", header, rows)
    if slopes:
        show("slopes", "log-log slopes (1: linear)", slopes)


def heading(key: str) -> str:
    """What a column is called."""
    words = key.replace("speedup_vs_", "vs ").replace("end_to_end", "end-to-end").replace("pyg", "PyG")
    words = words.replace("_seconds", " s").replace("gb_per_s", "GB/s").replace("megabytes", "MB").replace("_mb", " MB")
    return HEADINGS.get(key, words.replace("_memory", "").replace("_", " "))


def cell(record: Record, key: str) -> str:
    """A value as the table writes it."""
    value = record.get(key)
    if value is None or isinstance(value, str):
        return value or NONE
    if key in ("mean", "std"):
        return f"{100 * value:.2f}"
    if "ratio" in key or "speedup" in key or key == "times_rap":
        return ratio(value)
    return f"{value:.0e}" if key == "relative_error" else short(value) if isinstance(value, int) else number(value)


def _print(title: str, header: Sequence[str], rows: Iterable[Sequence[str]], below: str = "") -> None:
    """Words to the left, numbers to the right."""
    rows = list(rows)
    table = Table(title=title)
    for column, values in zip(header, zip(*rows, strict=True), strict=True):
        words = any(value[:1].isalpha() for value in values)
        table.add_column(column, justify="left" if words else "right", no_wrap=words)
    for row in rows:
        table.add_row(*row)
    console = wide_console()
    console.print(table)
    if below:
        console.print(below, style="dim", highlight=False)
