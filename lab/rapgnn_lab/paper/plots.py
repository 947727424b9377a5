"""The figures: each is described once, and drawn as an image, a file of its own or inside a page."""

import base64
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np

from rapgnn.files import write_atomic
from rapgnn.report import parts
from rapgnn_lab.results import NONE, format_number, title_of
from rapgnn_lab.store import Record, packaged

GIVEN: Record = packaged("paper/plots.toml")
ORDER: list[str] = GIVEN["order"]
OUTGROWS = "random-full-uniform"  # its variance leaves the image, so that the others can be told apart
BACKBONES = {"gcn": "GCN", "sage": "GraphSAGE"}
BY_DEPTH, BY_LAYER, TIMES, GAPS = (GIVEN[name] for name in ("by-depth", "by-layer", "times", "gaps"))


@dataclass(frozen=True)
class Series:
    """Points under one name, and the spread of y where there is one."""

    x: Sequence[Any]
    y: Sequence[Any]
    place: int = 0
    spread: Sequence[float] = ()


@dataclass(frozen=True)
class Panel:
    """One plot.

    Args:
        kind: "lines", "dots" and "bars" beside names, or "matrix".
        says: what is to be seen, for those who do not see it.
        log: whether the numbers are on a logarithmic axis.
        matrix: packed, see ``unpack``.
    """

    kind: str
    title: str
    says: str
    x: str
    y: str
    series: dict[str, Series] = field(default_factory=dict)
    log: bool = True
    matrix: Record = field(default_factory=dict)


@dataclass(frozen=True)
class Figure:
    """Panels side by side, and the same values as a table."""

    panels: Sequence[Panel]
    table: parts.Table | None = None


def lines(records: Sequence[Record], key: str, x: str, x_title: str, title: str, unit: str) -> Panel:
    """A line per strategy; shares of accuracy in percent, on a linear axis."""
    share = key == "mean"
    factor, show = (100, "{:.1f}".format) if share else (1, format_number)
    series = {}
    for method in dict.fromkeys(r["method"] for r in records):
        mine = sorted((r for r in records if r["method"] == method and r.get(key)), key=lambda r: r[x])
        if mine:
            values, spread = [factor * r[key] for r in mine], [100 * r["std"] for r in mine] if share else ()
            series[mine[0]["title"]] = Series([r[x] for r in mine], values, ORDER.index(method), spread)
    ends = ", ".join(f"{name} {show(one.y[-1])}" for name, one in series.items())
    last = max((place for one in series.values() for place in one.x), default=0)
    return Panel("lines", title, f"At {last} {x_title}: {ends}.", x_title, unit, series, not share)


def _dots(rows: Sequence[Record], names: Sequence[str], titles: dict[str, str]) -> dict[str, Series]:
    series = {}
    for at, (key, title) in enumerate(titles.items()):
        there = [(r[key], name) for r, name in zip(rows, names, strict=True) if r.get(key) is not None]
        series |= {title: Series(*zip(*there, strict=True), place=at)} if there else {}
    return series


def _gap(records: Sequence[Record], column: str, key: str = "mean") -> float | None:
    means = {r["method"]: r.get(key) for r in reversed(records) if r.get("column") == column}
    ours, theirs = means.get("rap"), means.get("end-to-end")
    return None if ours is None or theirs is None else 100 * (ours - theirs)


def glance(measured: dict[str, list[Record]]) -> list[Figure]:
    """RAP-GNN against End-to-End, ours beside the paper's, on every dataset whose metric is a share."""
    datasets: dict[str, list[Record]] = {}
    for r in (r for item in ("table1", "table2", "table3", "molbace") for r in measured.get(item, [])):
        if r.get("metric") != "rmse":
            datasets.setdefault(title_of(r["dataset"]), []).append(r)
    if not datasets:
        return []
    columns = {"paper": ("faithful", "paper_mean"), "faithful": ("faithful",), "best": ("best",)}
    gaps = [{name: _gap(mine, *column) for name, column in columns.items()} for mine in datasets.values()]
    ahead = sum((gap["faithful"] or 0) > 0 for gap in gaps)
    says = (
        f"Right of zero RAP-GNN has the higher mean. In the paper's settings that is so on {ahead} of {len(gaps)} "
        "datasets; the claims say where the difference is more than chance. An RMSE has no points and is left out."
    )
    series = _dots(gaps, list(datasets), GAPS)
    panel = Panel("dots", "RAP-GNN against end-to-end training", says, "points", "", series, log=False)
    rows = [[NONE if gap[key] is None else f"{gap[key]:+.2f}" for key in GAPS] for gap in gaps]
    cells = [[name, *row] for name, row in zip(datasets, rows, strict=True)]
    values = parts.Table(["", *GAPS.values()], cells, "RAP-GNN minus End-to-End, points")
    return [Figure([panel], values)]


def depth(records: list[Record]) -> list[Figure]:
    times = [r for r in records if r["kind"] == "time"]
    scored = [r | {"num_layers": r["config"]["num_layers"]} for r in records if r["kind"] == "accuracy"]
    panels = [lines(times, key, "num_layers", "layers", f"{t} ({unit})", unit) for key, (t, unit) in BY_DEPTH.items()]
    header = ["", "layers", *(f"{title}, {unit}" for title, unit in BY_DEPTH.values())]
    rows = [[r["title"], r["num_layers"], *(format_number(r.get(key)) for key in BY_DEPTH)] for r in times]
    words = ("layers", "Accuracy on the test nodes (%)", "test accuracy (%)")
    figures = [Figure(panels, parts.Table(header, rows, "Time and memory by depth"))] if times else []
    return figures + ([Figure([lines(scored, "mean", "num_layers", *words)])] if scored else [])


def memory(records: list[Record]) -> list[Figure]:
    there, panels = [r for r in records if r.get("peak_memory_mb")], []
    for name in dict.fromkeys(r["dataset"] for r in there):
        mine = {r["title"]: r["peak_memory_mb"] for r in there if r["dataset"] == name}
        words = ", ".join(f"{title} {format_number(peak)} MB" for title, peak in mine.items())
        first = next(r for r in there if r["dataset"] == name)
        title = f"{title_of(name)}, {first['num_layers']} layers, {first['hidden_channels']} channels"
        series = {"": Series(list(mine.values()), list(mine))}
        panels.append(Panel("bars", title, f"Peak memory of training: {words}.", "MB", "", series))
    return [Figure(panels)] if panels else []


def large(records: list[Record]) -> list[Figure]:
    times, panels = [r for r in records if r["kind"] == "time"], []
    for dataset, backbone in dict.fromkeys((r["dataset"], r["backbone"]) for r in times):
        mine = [r for r in times if (r["dataset"], r["backbone"]) == (dataset, backbone)]
        ours = ", ".join(f"{r['title']} {format_number(r.get('train_ms_per_epoch'))} ms" for r in mine)
        series, title = _dots(mine, [r["title"] for r in mine], TIMES), f"{dataset}, {BACKBONES[backbone]}"
        panels.append(Panel("dots", title, f"Our training epoch: {ours}.", "ms", "", series))
    return [Figure(panels)] if panels else []


def collapse(records: list[Record]) -> list[Figure]:
    words = {key: (title, key.replace("_", " ")) for key, title in BY_LAYER.items()}
    return [Figure([lines(records, key, "layer", "layer", *said) for key, said in words.items()])]


def weights(records: list[Record]) -> list[Figure]:
    panels = []
    for r in records:
        share, chance = 100 * r["diagonal_share"], 100 * r["random_diagonal_share"]
        says = f"{share:.2f} % of the squares lie on the diagonal, {chance:.2f} % would by chance."
        panels.append(Panel("matrix", r["title"], says, "to channel", "from channel", log=False, matrix=r["matrix"]))
    return [Figure(panels)]


def unpack(packed: Record) -> np.ndarray:
    """A matrix whose entries were stored as one of 255 levels, in base64."""
    levels = np.frombuffer(base64.b64decode(packed["levels"]), dtype=np.int8)
    return packed["step"] * levels.reshape(packed["shape"]).astype(np.float64)


# As an image.

LIGHT: dict[Any, Any] = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
}
LIGHT |= {"grid.color": "#e6e6e6", "axes.titlesize": 10, "lines.linewidth": 1.6, "lines.markersize": 5}


def look(place: int) -> Record:
    """Of a line, in matplotlib's words."""
    marker = "osD^XP*h"[place % len(parts.COLOURS)]
    return {"color": parts.colour(place), "marker": marker, "ls": "-" if place < len(parts.COLOURS) else "--"}


def save_image(figures: Sequence[Figure], title: str, path: Path | IO[bytes], kind: str = "png") -> None:
    """All panels as one image of this kind, whatever the file's name, with one legend below."""
    import matplotlib
    import matplotlib.figure

    panels = [panel for figure in figures for panel in figure.panels]
    columns = 2 if len(panels) == 4 else min(3, len(panels))
    rows = math.ceil(len(panels) / columns)
    with matplotlib.rc_context(LIGHT):
        image = matplotlib.figure.Figure(figsize=(13, 4.6 * rows + 0.3), layout="constrained")
        grid = image.subplots(rows, columns, squeeze=False).flat
        handles: dict[str, Any] = {}
        for axes, panel in zip(grid, panels, strict=False):
            axes.set(title=panel.title, xlabel=panel.x, ylabel=panel.y)
            _ON_AXES[panel.kind](axes, panel)
            handles |= dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
        for axes in grid[len(panels) :]:
            axes.set_axis_off()
        if handles:
            place = {"loc": "outside lower center", "ncols": 4, "fontsize": 9, "frameon": False}
            image.legend(handles.values(), handles.keys(), **place)
        image.suptitle(title)
        image.savefig(path, dpi=150, format=kind)


def _log(axes: Any, side: str) -> None:
    """A logarithmic axis with numbers in full."""
    axes.set(**{f"{side}scale": "log"})
    getattr(axes, f"{side}axis").set_major_formatter("{x:,g}")
    getattr(axes, f"{side}axis").set_minor_formatter("")


def _draw_lines(axes: Any, panel: Panel) -> None:
    for name, one in panel.series.items():
        axes.plot(one.x, one.y, label=name, **look(one.place), markevery=max(1, len(one.x) // 8))
        if one.spread:
            axes.errorbar(one.x, one.y, one.spread, color=parts.colour(one.place), fmt="none", capsize=3, lw=1)
    if panel.x != "layer":
        ticks = sorted({place for one in panel.series.values() for place in one.x})
        axes.set_xscale("log")
        axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
        axes.xaxis.minorticks_off()
    if panel.log:
        _log(axes, "y")
    else:
        axes.set_ylim(0, 100)
    if panel.y == "variance":
        axes.yaxis.set_major_formatter("{x:g}")
        others = [v for one in panel.series.values() if one.place != ORDER.index(OUTGROWS) for v in one.y]
        axes.set_ylim(min(others) / 30, 30 * max(others))


def _draw_dots(axes: Any, panel: Panel) -> None:
    for name, one in panel.series.items():
        colour = parts.colour(one.place - one.place % 2)  # ours and the paper's are a pair
        face = {"facecolors": "none", "edgecolors": colour, "linewidths": 1.5} if one.place % 2 else {"color": colour}
        axes.scatter(one.x, one.y, **face, marker="os"[one.place // 2], s=52, zorder=3, label=name)
    axes.invert_yaxis()
    if panel.log:
        _log(axes, "x")
    else:
        axes.axvline(0, color=parts.INK, lw=1)


def _draw_bars(axes: Any, panel: Panel) -> None:
    (one,) = panel.series.values()
    drawn = axes.barh(one.y, one.x, color=[parts.colour(0)], zorder=2)
    axes.bar_label(drawn, [format_number(value) for value in one.x], padding=4, fontsize=9)
    axes.invert_yaxis()
    _log(axes, "x")
    axes.set_xlim(10 ** math.floor(math.log10(min(one.x)) - 0.1), 3 * max(one.x))  # bars begin at a power of ten


def _draw_matrix(axes: Any, panel: Panel) -> None:
    matrix = unpack(panel.matrix)
    limit = float(np.quantile(np.abs(matrix), 0.999)) or 1.0
    drawn = axes.imshow(matrix, cmap="RdBu_r", vmin=-limit, vmax=limit, interpolation="nearest")
    axes.figure.colorbar(drawn, ax=axes, shrink=0.8, label="weight", extend="both")
    axes.set_title(f"{panel.title}\n{panel.says}")
    axes.grid(False)


_ON_AXES = {"lines": _draw_lines, "dots": _draw_dots, "bars": _draw_bars, "matrix": _draw_matrix}


def to_parts(figure: Figure) -> list[parts.Part]:
    """The figure on a page: its image, and folded below it the same in words and as a table."""
    image = io.BytesIO()
    save_image([figure], "", image)
    titles, data = "; ".join(panel.title for panel in figure.panels), base64.b64encode(image.getvalue()).decode()
    words = "\n".join(f"- {panel.title}: {panel.says}" for panel in figure.panels)
    below = [parts.Prose(words), *([figure.table] if figure.table else [])]
    return [parts.Prose(f"![{titles}](data:image/png;base64,{data})"), parts.More("The same in words", below)]


def save_depth(records: Sequence[Record], path: Path) -> None:
    """Save the plot of ``bench depth``."""
    first = records[0]
    title = f"{first['dataset']}, {first['hidden_channels']} channels, {first['hardware']}"
    figures = [
        Figure(
            [lines(records, key, "num_layers", "layers", label, label) for key, label in GIVEN["bench-depth"].items()]
        )
    ]
    write_atomic(path, lambda temporary: save_image(figures, title, temporary, path.suffix[1:].lower()))
