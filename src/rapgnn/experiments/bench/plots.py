"""The plots of all benchmarks, in one style: log scales, a colour per method, RAP the thick red line."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rapgnn.experiments.run import Record
from rapgnn.files import write_atomic

COLORS = {
    "rap": "#c44e52",
    "rap-search": "#8c2d30",
    "rap-stepwise": "#dd8452",
    "fixed-diagonal": "#e6a3a5",
    "pretrained-embedding": "#937860",
    "fixed-full": "#8172b3",
    "random-full": "#b5a8d5",
    "end-to-end": "#4c72b0",
    "end-to-end-pyg": "#64b5cd",
    "pyg-sgconv": "#55a868",
    "pyg-sign": "#8c8c8c",
    "sgc": "#55a868",
    "sign": "#8c8c8c",
    "appnp": "#ccb974",
    "gcn": "#64b5cd",
}
OTHER = "#4d4d4d"


@dataclass(frozen=True)
class Panel:
    """One pair of axes: the record's key on the y axis, and its label."""

    key: str
    label: str


def plot_depth(records: Sequence[Record], path: Path) -> None:
    """An epoch, a prediction and peak memory over depth."""
    timed = "epoch_ms" if any("epoch_ms" in r for r in records) else "train_ms_per_epoch"
    panels = [
        Panel(timed, "epoch with validation (ms)" if timed == "epoch_ms" else "training epoch (ms)"),
        Panel("infer_ms", "inference (ms)"),
        Panel("peak_memory_mb", "peak memory (MB)"),
    ]
    panels = [panel for panel in panels if any(r.get(panel.key) for r in records)]
    _save(_lines(records, panels, "num_layers", "layers", _about(records)), path)


def plot_memory(records: Sequence[Record], path: Path) -> None:
    """Peak memory over depth, and bars where there is one depth alone."""
    graphs = list(dict.fromkeys(r["dataset"] for r in records))
    figure = _figure(5.2 * len(graphs), 5.0)
    for axes, graph in zip(_axes(figure, len(graphs)), graphs, strict=True):
        mine = [r for r in records if r["dataset"] == graph and r.get("peak_memory_mb")]
        if len({r["num_layers"] for r in mine}) > 1:
            _draw(axes, mine, Panel("peak_memory_mb", "peak memory (MB)"), "num_layers", "layers")
        else:
            _bars(axes, mine, "peak_memory_mb", "peak memory (MB)")
        layers = sorted({r["num_layers"] for r in mine})
        axes.set_title(f"{graph}, {layers[0]} layers" if len(layers) == 1 else graph, fontsize=10)
    _legend(figure)
    figure.suptitle(_about(records, graph=False))
    _save(figure, path)


def plot_graphs(records: Sequence[Record], path: Path) -> None:
    """Bars of an epoch and of a prediction, one per method."""
    figure = _figure(10, 0.5 * len(records) + 1.8)
    panels = [Panel("epoch_ms", "epoch with validation (ms)"), Panel("infer_ms", "inference on the test graphs (ms)")]
    for axes, panel in zip(_axes(figure, 2), panels, strict=True):
        _bars(axes, [r for r in records if r.get(panel.key)], panel.key, panel.label)
    figure.suptitle(_about(records))
    _save(figure, path)


def plot_scale(records: Sequence[Record], path: Path) -> None:
    """Times and memory over the number of edges, a line style per width."""
    sizes = [r for r in records if r["method"] != "slope"]
    figure = _figure(14, 5.4)
    widths = sorted({r["hidden_channels"] for r in sizes})
    for axes, (label, lines) in zip(_axes(figure, len(_SCALE)), _SCALE.items(), strict=True):
        values: list[float] = []
        for width, style in zip(widths, ("-", "--", ":", "-.") * len(widths), strict=False):
            mine = sorted((r for r in sizes if r["hidden_channels"] == width), key=lambda r: r["edges"])
            for key, (title, color) in lines.items():
                _line(axes, mine, "edges", key, f"{title}, width {width}", color=color, ls=style)
                values += [r[key] for r in mine if r.get(key)]
        axes.set(xscale="log", yscale="log", xlabel="directed edges", ylabel=label)
        ticks = {r["edges"]: _short(r["edges"]) for r in sizes}
        axes.set_xticks(list(ticks), list(ticks.values()))
        axes.xaxis.set_minor_locator(_no_ticks())
        _plain_ticks(axes.yaxis, values)
    _legend(figure)
    figure.suptitle(f"generated graphs, {sizes[0]['num_layers']} layers, {sizes[0]['hardware']}")
    _save(figure, path)


_SCALE = {
    "seconds": {
        "build_seconds": ("operator", "#4c72b0"),
        "hops_seconds": ("hops", "#c44e52"),
        "predict_seconds": ("all nodes predicted", "#55a868"),
    },
    "epoch with validation (ms)": {
        "epoch_ms": ("RAP epoch", "#c44e52"),
        "end_to_end_epoch_ms": ("end-to-end epoch", "#64b5cd"),
        "floor_ms": ("one read of the hops", OTHER),
    },
    "MB": {"peak_memory_mb": ("peak memory", "#8172b3"), "hop_megabytes": ("stored hops", "#8c8c8c")},
}


def _short(value: float) -> str:
    return f"{value / 1e3:g}k" if value < 1e6 else f"{value / 1e6:.3g}M"


def plot_peers(records: Sequence[Record], path: Path) -> None:
    """Test accuracy over seconds, a panel per dataset: up and to the left is better."""
    graphs = list(dict.fromkeys(r["dataset"] for r in records))
    figure = _figure(5.0 * len(graphs), 4.9)
    markers = {"published": "o", "tuned": "D", "known": "*", "search": "P"}
    for axes, graph in zip(_axes(figure, len(graphs)), graphs, strict=True):
        for r in (r for r in records if r["dataset"] == graph and r.get("seconds")):
            label = f"{r['title']}, {r['kind']}" if r["kind"] in ("published", "tuned") else r["title"]
            style = {"color": COLORS.get(r["method"], OTHER), "marker": markers.get(r["kind"], "o"), "label": label}
            axes.errorbar(r["seconds"], 100 * r["mean"], 100 * r["std"], capsize=2, lw=1, ls="", ms=9, **style)
        axes.set(xscale="log", xlabel="seconds to a trained model", ylabel="test accuracy (%)", title=graph)
        axes.xaxis.set_major_formatter("{x:,g}")
        axes.xaxis.set_minor_formatter("")
    _legend(figure)
    figure.suptitle(f"from arrays to a trained model, {records[0]['hardware']}")
    _save(figure, path)


def plot_spmm(records: Sequence[Record], path: Path) -> None:
    """The share of the copy's bandwidth by kernel, a panel per graph, a group per order and width."""
    graphs = list(dict.fromkeys(r["dataset"] for r in records))
    kernels = {r["method"]: r["title"] for r in records}
    colors = ("#c44e52", "#4c72b0", "#55a868", "#8172b3", "#ccb974", OTHER)
    groups = list(dict.fromkeys((r["order"], r["width"]) for r in records))
    figure = _figure(4.4 * len(graphs) + 0.8, 0.17 * len(groups) * (len(kernels) + 1) + 2.2)
    for axes, graph in zip(_axes(figure, len(graphs)), graphs, strict=True):
        for i, (kernel, title) in enumerate(kernels.items()):
            mine = {(r["order"], r["width"]): r for r in records if (r["dataset"], r["method"]) == (graph, kernel)}
            shares = [100 * (mine.get(group, {}).get("copy_share") or 0.0) for group in groups]
            places = [at + (i + 0.5) / (len(kernels) + 1) - 0.5 for at in range(len(groups))]
            axes.barh(places, shares, 1 / (len(kernels) + 1), color=colors[i % len(colors)], label=title)
        axes.set(xlabel="bandwidth, % of a copy's", title=graph)
        axes.set_yticks(range(len(groups)), [f"{order}, {width}" for order, width in groups])
        axes.invert_yaxis()
    _legend(figure)
    figure.suptitle(f"sparse product by node order and width, {records[0]['hardware']}")
    _save(figure, path)


def _lines(records: Sequence[Record], panels: Sequence[Panel], x: str, label: str, title: str) -> Any:
    figure = _figure(4.6 * len(panels) + 0.8, 5.2)
    for axes, panel in zip(_axes(figure, len(panels)), panels, strict=True):
        _draw(axes, records, panel, x, label)
    _legend(figure)
    figure.suptitle(title)
    return figure


def _draw(axes: Any, records: Sequence[Record], panel: Panel, x: str, label: str) -> None:
    """A line per method."""
    titles = {r["method"]: r["title"] for r in records}
    for name, title in titles.items():
        mine = sorted((r for r in records if r["method"] == name), key=lambda r: r[x])
        style = {"lw": 2.8 if name == "rap" else 1.4, "zorder": 3 if name == "rap" else 2}
        _line(axes, mine, x, panel.key, title, color=COLORS.get(name, OTHER), **style)
    axes.set(xscale="log", yscale="log", xlabel=label, ylabel=panel.label)
    ticks = sorted({r[x] for r in records})
    axes.set_xticks(ticks, [str(t) for t in ticks])
    axes.xaxis.set_minor_locator(_no_ticks())
    _plain_ticks(axes.yaxis, [r[panel.key] for r in records if r.get(panel.key)])


def _plain_ticks(axis: Any, values: Sequence[float]) -> None:
    """Numbers in full on a log axis; between powers of ten too, where there are few of these."""
    few = bool(values) and max(values) < 30 * min(values)
    axis.set_major_formatter("{x:,g}")
    axis.set_minor_formatter("{x:,g}" if few else "")


def _line(axes: Any, records: Sequence[Record], x: str, key: str, label: str, **style: Any) -> None:
    rows = [r for r in records if r.get(key)]
    if rows:
        axes.plot([r[x] for r in rows], [r[key] for r in rows], marker="o", ms=4, label=label, **style)


def _bars(axes: Any, records: Sequence[Record], key: str, label: str) -> None:
    titles, values = [r["title"] for r in records], [r[key] for r in records]
    axes.barh(titles, values, color=[COLORS.get(r["method"], OTHER) for r in records])
    for i, value in enumerate(values):
        said = f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
        axes.annotate(said, (value, i), (4, 0), textcoords="offset points", va="center", fontsize=8)
    axes.set(xscale="log", xlabel=label)
    axes.xaxis.set_major_formatter("{x:,g}")
    axes.xaxis.set_minor_formatter("")
    if values:  # bars that are nearly equal are shown so, and numbers have room behind the longest
        low, high = min(values) / 2, 2 * max(values)
        axes.set_xlim(low, high * (high / low) ** 0.15)
    axes.invert_yaxis()


def _no_ticks() -> Any:
    from matplotlib.ticker import NullLocator

    return NullLocator()


def _figure(width: float, height: float) -> Any:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _axes(figure: Any, number: int) -> list[Any]:
    found = list(figure.subplots(1, number, squeeze=False)[0])
    for axes in found:
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(True, color="#eeeeee", zorder=0)
        axes.set_axisbelow(True)
    return found


def _legend(figure: Any) -> None:
    """One legend for all panels, below them."""
    handles: dict[str, Any] = {}
    for axes in figure.axes:
        handles |= dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    if handles:
        place = {"loc": "outside lower center", "ncols": 4 if len(handles) > 6 else 3}
        figure.legend(handles.values(), handles.keys(), fontsize=8.5, frameon=False, **place)


def _about(records: Sequence[Record], graph: bool = True) -> str:
    first = records[0]
    name = f"{first['dataset']}, " if graph else ""
    return f"{name}{first['hidden_channels']} channels, {first['hardware']}"


def _save(figure: Any, path: Path) -> None:
    form = path.suffix[1:].lower()
    write_atomic(path, lambda temporary: figure.savefig(temporary, dpi=150, format=form))
