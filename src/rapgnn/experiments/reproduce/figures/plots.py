"""The plots of times and memory, and the style of all plots: log scales, a colour and a marker for each strategy.

Colours are those of Okabe and Ito, which colour-blind readers can tell apart.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rapgnn.experiments.reproduce.tables import DATASETS
from rapgnn.experiments.run import Record

DPI = 150
BACKBONES = {"gcn": "GCN", "sage": "GraphSAGE"}


@dataclass(frozen=True)
class Style:
    """How a strategy is drawn."""

    color: str
    marker: str
    dash: str = "-"
    width: float = 1.6

    @property
    def line(self) -> Record:
        """For matplotlib."""
        style = {"color": self.color, "marker": self.marker, "ls": self.dash, "lw": self.width}
        return style | {"ms": 5, "zorder": 3 if self.width > 2 else 2}


STYLES = {
    "rap": Style("#D55E00", "o", width=2.8),
    "rap-stepwise": Style("#D55E00", "s", "--"),
    "fixed-diagonal": Style("#E69F00", "^"),
    "fixed-full": Style("#009E73", "D"),
    "random-full": Style("#56B4E9", "v"),
    "random-full-uniform": Style("#56B4E9", "v", ":"),
    "end-to-end": Style("#0072B2", "P"),
    "end-to-end-small": Style("#0072B2", "P", "--"),
    "end-to-end-pyg": Style("#000000", "X", "--"),
    "pretrained-embedding": Style("#999999", "*"),
    "identity": Style("#CC79A7", "h"),
}


def new_figure(width: float, height: float) -> Any:
    """An empty figure."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def new_axes(figure: Any, number: int) -> list[Any]:
    """So many pairs of axes side by side, with a light grid."""
    found = list(figure.subplots(1, number, squeeze=False)[0])
    for axes in found:
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(True, color="#e6e6e6", zorder=0)
        axes.set_axisbelow(True)
    return found


def legend(figure: Any, columns: int = 4) -> None:
    """One legend for all axes, below them."""
    handles: dict[str, Any] = {}
    for axes in figure.axes:
        handles |= dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    if handles:
        place = {"loc": "outside lower center", "ncols": columns}
        figure.legend(handles.values(), handles.keys(), fontsize=9, frameon=False, **place)


def save(figure: Any, path: Path) -> None:
    """As a PNG file, whatever the name ends in."""
    figure.savefig(path, dpi=DPI, format="png")


def plain_log(axis: Any) -> None:
    """Numbers in full on a log axis."""
    axis.set_major_formatter("{x:,g}")
    axis.set_minor_formatter("")


def plot_depth(records: list[Record], path: Path) -> None:
    """Training time, inference time and accuracy by depth."""
    times = [r for r in records if r["kind"] == "time"]
    scored = [
        {"method": r["method"], "num_layers": r["config"]["num_layers"], "percent": 100 * r["mean"], "std": r["std"]}
        for r in records
        if r["kind"] == "accuracy" and r["mean"] is not None
    ]
    figure = new_figure(13, 4.9)
    panels = new_axes(figure, 3 if scored else 2)
    for axes, (key, label) in zip(panels, _MEASURED, strict=False):
        _lines(axes, times, key, label)
        axes.set_yscale("log")
        plain_log(axes.yaxis)
    if scored:
        _lines(panels[2], scored, "percent", "test accuracy (%)")
        panels[2].set_ylim(0, 100)
    for axes, letter in zip(panels, "abc", strict=False):
        axes.set_title(f"({letter})", loc="left", fontsize=10)
    legend(figure)
    figure.suptitle(f"PubMed, GCN with residual connections; times with {_sizes(times[0])}")
    save(figure, path)


_MEASURED = (("train_ms_per_epoch", "training epoch (ms)"), ("infer_ms", "inference (ms)"))


def _sizes(record: Record) -> str:
    return f"{record['hidden_channels']} channels, {record['hardware']}"


def _lines(axes: Any, records: Sequence[Record], key: str, label: str) -> None:
    """A line per strategy over the number of layers; a spread where the records have one."""
    for name, style in STYLES.items():
        mine = sorted((r for r in records if r["method"] == name and r.get(key)), key=lambda r: r["num_layers"])
        if not mine:
            continue
        xs, ys = [r["num_layers"] for r in mine], [r[key] for r in mine]
        axes.plot(xs, ys, **style.line, **({"label": mine[0]["title"]} if "title" in mine[0] else {}))
        if "std" in mine[0]:
            spread = [100 * r["std"] for r in mine]
            axes.errorbar(xs, ys, spread, color=style.color, fmt="none", capsize=3, lw=1)
    ticks = sorted({r["num_layers"] for r in records})
    axes.set(xscale="log", xlabel="layers", ylabel=label)
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.xaxis.minorticks_off()


def plot_memory(records: list[Record], path: Path) -> None:
    """Bars of peak memory, a panel per graph."""
    graphs = list(dict.fromkeys(r["dataset"] for r in records))
    figure = new_figure(12, 4.2)
    for axes, name in zip(new_axes(figure, len(graphs)), graphs, strict=True):
        mine = [r for r in records if r["dataset"] == name]
        sizes = [r.get("peak_memory_mb") or 0.0 for r in mine]
        least, most = min((size for size in sizes if size), default=1.0), max(*sizes, 1.0)
        start = 10 ** math.floor(math.log10(least) - 0.1)  # bars begin at a power of ten
        for at, (r, size) in enumerate(zip(mine, sizes, strict=True)):
            hatch = "//" if r["method"] == "rap-stepwise" else ""
            axes.barh(at, size, color=STYLES[r["method"]].color, hatch=hatch, edgecolor="white", zorder=2)
            said = r.get("note") or _amount(size)
            axes.annotate(said, (size or start, at), (4, 0), textcoords="offset points", va="center", fontsize=9)
        axes.set_yticks(range(len(mine)), [r["title"] for r in mine])
        axes.set(xscale="log", xlabel="peak memory above the loaded data (MB)", xlim=(start, 3 * most))
        where = f"{mine[0]['num_layers']} layers, {mine[0]['hidden_channels']} channels"
        axes.set_title(f"{DATASETS.get(name, name)}, {where}", fontsize=10)
        axes.grid(False, axis="y")
        axes.invert_yaxis()
        plain_log(axes.xaxis)
    figure.suptitle(records[0]["hardware"])
    save(figure, path)


def _amount(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def plot_large(records: list[Record], path: Path) -> None:
    """Training and evaluation time of every strategy, ours filled and the paper's empty, a panel per table."""
    times = [r for r in records if r["kind"] == "time"]
    tables = list(dict.fromkeys((r["dataset"], r["backbone"]) for r in times))
    figure = new_figure(13, 4.8)
    for axes, (dataset, backbone) in zip(new_axes(figure, len(tables)), tables, strict=True):
        mine = [r for r in times if (r["dataset"], r["backbone"]) == (dataset, backbone)]
        titles = [r["title"] for r in mine]
        for ours, paper, marker, color, label, shift in _TIMES:
            filled, empty = ([(r[key], at + shift) for at, r in enumerate(mine) if r.get(key)] for key in (ours, paper))
            shape = {"marker": marker, "s": 52, "zorder": 3}
            ring = {"facecolors": "none", "edgecolors": color, "linewidths": 1.5}
            for points, whose, face in ((filled, "ours", {"color": color}), (empty, "paper (RTX 4090)", ring)):
                if points:
                    axes.scatter(*zip(*points, strict=True), label=f"{label}, {whose}", **face, **shape)
        axes.set_yticks(range(len(titles)), titles if axes is figure.axes[0] else [])
        axes.set(xscale="log", xlabel="milliseconds", ylim=(len(titles) - 0.5, -0.5))
        axes.set_title(f"{dataset}, {BACKBONES[backbone]}", fontsize=10)
        plain_log(axes.xaxis)
    legend(figure)
    figure.suptitle(f"generated graphs, {times[0]['hardware']}")
    save(figure, path)


_TIMES = (
    ("train_ms_per_epoch", "paper_train_ms", "o", "#D55E00", "training epoch", -0.13),
    ("infer_all_ms", "paper_eval_ms", "s", "#0072B2", "evaluation", 0.13),
)
