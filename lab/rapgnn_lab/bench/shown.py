"""The table of every benchmark, a row per record and a note where one could not be measured; the plots by depth and by
size, in the style of the paper's."""

from collections.abc import Sequence
from pathlib import Path
from string import Formatter

from rich.markdown import Markdown

from rapgnn.cli.shared import wide_console
from rapgnn.compare import Record
from rapgnn.files import write_atomic
from rapgnn_lab.bench.suite.compare import suite_table
from rapgnn_lab.paper.plots import Figure, Panel, Series, lines, save_image
from rapgnn_lab.results import COLUMNS, make_table

DEPTH = {"epoch_ms": "epoch with validation (ms)", "infer_ms": "inference (ms)", "peak_memory_mb": "peak memory (MB)"}
SCALE = {
    "seconds": {"build_seconds": "operator", "hops_seconds": "hops", "predict_seconds": "all nodes predicted"},
    "epoch with validation (ms)": {
        "epoch_ms": "RAP epoch",
        "end_to_end_epoch_ms": "end-to-end epoch",
        "floor_ms": "one read of the hops",
    },
    "MB": {"peak_memory_mb": "peak memory", "hop_megabytes": "stored hops"},
}


def show(name: str, title: str, records: Sequence[Record]) -> None:
    """Print a benchmark's table; a column that no record has is left out."""
    if name == "auto":
        parts = [f"## {title}", suite_table(records)]
    else:
        slopes = [r for r in records if r.get("method") == "slope"]
        rows = [r | {"said": _stages(r.get("stages", {}))} for r in records if r not in slopes]
        parts = [f"## {title} · {rows[0]['hardware']}", _table(name, rows)]
        parts += ["## log-log slopes (1: linear)", _table("slopes", slopes)] if slopes else []
    wide_console().print(Markdown("\n\n".join(parts)))


def _stages(stages: Record) -> str:
    """Where a fit's time went, and the peak there."""
    return ", ".join(f"{name} {one['seconds']:.2f} ({one['peak_mb']:,.0f})" for name, one in stages.items())


def _table(name: str, records: Sequence[Record]) -> str:
    there = {key for r in records for key, value in r.items() if value not in (None, "")}
    columns = f"{COLUMNS[name]} | note: {{note}}".split("|")
    shown = [column for column in columns if all(key in there for _, key, _, _ in Formatter().parse(column) if key)]
    return make_table(records, "|".join(shown))


def plot(name: str, records: Sequence[Record], path: Path) -> None:
    """Save the plot of ``bench depth`` or ``bench scale``."""
    rows = [r for r in records if r["method"] != "slope"]
    first = rows[0]
    if name == "depth":
        title = f"{first['dataset']}, {first['hidden_channels']} channels, {first['hardware']}"
        panels = [lines(rows, key, "num_layers", "layers", label, label) for key, label in DEPTH.items()]
    else:
        title = f"generated graphs, {first['num_layers']} layers, {first['hardware']}"
        panels = [_by_size(rows, unit, keys) for unit, keys in SCALE.items()]
    figures, kind = [Figure(panels)], path.suffix[1:].lower()
    write_atomic(path, lambda temporary: save_image(figures, title, temporary, kind))


def _by_size(records: Sequence[Record], unit: str, keys: dict[str, str]) -> Panel:
    """A line per quantity and width, over the number of edges."""
    series: dict[str, Series] = {}
    for width in sorted({r["hidden_channels"] for r in records}):
        for key, title in keys.items():
            points = sorted((r["edges"], r[key]) for r in records if r["hidden_channels"] == width and r.get(key))
            if points:
                series[f"{title}, width {width}"] = Series(*zip(*points, strict=True), place=len(series))
    return Panel("lines", unit, "", "directed edges", unit, series)
