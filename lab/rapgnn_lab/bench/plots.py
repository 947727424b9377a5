"""The plots of the benchmarks by depth and by size: log scales, a colour per method, RAP the thick red line."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rapgnn.compare import Record
from rapgnn.files import write_atomic

COLORS = {
    "rap": "#c44e52",
    "rap-stepwise": "#dd8452",
    "fixed-diagonal": "#e6a3a5",
    "pretrained-embedding": "#937860",
    "fixed-full": "#8172b3",
    "random-full": "#b5a8d5",
    "end-to-end": "#4c72b0",
    "end-to-end-pyg": "#64b5cd",
    "pyg-sgconv": "#55a868",
    "pyg-sign": "#8c8c8c",
}
DEPTH = {"epoch_ms": "epoch with validation (ms)", "infer_ms": "inference (ms)", "peak_memory_mb": "peak memory (MB)"}
SCALE = {
    "seconds": {
        "build_seconds": ("operator", "#4c72b0"),
        "hops_seconds": ("hops", "#c44e52"),
        "predict_seconds": ("all nodes predicted", "#55a868"),
    },
    "epoch with validation (ms)": {
        "epoch_ms": ("RAP epoch", "#c44e52"),
        "end_to_end_epoch_ms": ("end-to-end epoch", "#64b5cd"),
        "floor_ms": ("one read of the hops", "#4d4d4d"),
    },
    "MB": {"peak_memory_mb": ("peak memory", "#8172b3"), "hop_megabytes": ("stored hops", "#8c8c8c")},
}


def plot(name: str, records: Sequence[Record], path: Path) -> None:
    """Save a benchmark's plot: three panels, one legend below them."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(14.6, 5.3), layout="constrained")
    panels = list(figure.subplots(1, 3))
    figure.suptitle((_depth if name == "depth" else _scale)(panels, records))
    handles: dict[str, Any] = {}
    for axes in panels:
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(True, color="#eeeeee", zorder=0)
        handles |= dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    place = {"loc": "outside lower center", "ncols": 4}
    figure.legend(handles.values(), handles.keys(), fontsize=8.5, frameon=False, **place)
    write_atomic(path, lambda temporary: figure.savefig(temporary, dpi=150, format=path.suffix[1:].lower()))


def _depth(panels: Sequence[Any], records: Sequence[Record]) -> str:
    """An epoch, a prediction and peak memory over depth, a line per method; the title."""
    ticks = {depth: str(depth) for depth in sorted({r["num_layers"] for r in records})}
    for axes, (key, label) in zip(panels, DEPTH.items(), strict=True):
        for name, title in {r["method"]: r["title"] for r in records}.items():
            mine = [r for r in records if r["method"] == name]
            style = {"lw": 2.8, "zorder": 3} if name == "rap" else {"lw": 1.4, "zorder": 2}
            _line(axes, mine, "num_layers", key, title, color=COLORS[name], **style)
        _log(axes, ticks, "layers", label)
    first = records[0]
    return f"{first['dataset']}, {first['hidden_channels']} channels, {first['hardware']}"


def _scale(panels: Sequence[Any], records: Sequence[Record]) -> str:
    """Times and memory over the number of edges, a line style per width; the title."""
    sizes = [r for r in records if r["method"] != "slope"]
    ticks = {r["edges"]: f"{r['edges'] / 1e3:g}k" if r["edges"] < 1e6 else f"{r['edges'] / 1e6:.3g}M" for r in sizes}
    widths = sorted({r["hidden_channels"] for r in sizes})
    for axes, (label, lines) in zip(panels, SCALE.items(), strict=True):
        for width, style in zip(widths, ("-", "--", ":", "-.") * len(widths), strict=False):
            mine = [r for r in sizes if r["hidden_channels"] == width]
            for key, (title, color) in lines.items():
                _line(axes, mine, "edges", key, f"{title}, width {width}", color=color, ls=style)
        _log(axes, ticks, "directed edges", label)
    return f"generated graphs, {sizes[0]['num_layers']} layers, {sizes[0]['hardware']}"


def _line(axes: Any, records: Sequence[Record], x: str, key: str, label: str, **style: Any) -> None:
    points = sorted((r[x], r[key]) for r in records if r.get(key))
    if points:
        axes.plot(*zip(*points, strict=True), marker="o", ms=4, label=label, **style)


def _log(axes: Any, ticks: dict[int, str], xlabel: str, ylabel: str) -> None:
    """Log scales with numbers in full; between powers of ten too, where there are few of these."""
    axes.set(xscale="log", yscale="log", xlabel=xlabel, ylabel=ylabel)
    axes.set_xticks(list(ticks), list(ticks.values()))
    axes.set_xticks([], minor=True)
    low, high = axes.dataLim.intervaly
    axes.yaxis.set_major_formatter("{x:,g}")
    axes.yaxis.set_minor_formatter("{x:,g}" if 0 < high < 30 * low else "")
