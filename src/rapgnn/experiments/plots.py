"""Plots of records: methods side by side, and cost by depth."""

from pathlib import Path

from rapgnn.experiments.run import Record
from rapgnn.files import write_atomic
from rapgnn.graph.tasks import TASKS
from rapgnn.training.methods import METHODS

COLORS = {
    "rap": "#c44e52",
    "rap-stepwise": "#dd8452",
    "end-to-end": "#4c72b0",
    "end-to-end-pyg": "#64b5cd",
    "pyg-sgconv": "#55a868",
    "pyg-sign": "#8c8c8c",
}


def plot_comparison(records: list[Record], path: Path) -> None:
    """Metric with its spread, and training time per epoch, one bar per method."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 0.55 * len(records) + 1.6), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    titles = [METHODS[r["method"]].title for r in records]
    colors = ["#c44e52" if r["method"] == "rap" else "#4c72b0" for r in records]
    task = TASKS[records[0]["task"]]
    factor = 100 if task.percent else 1
    means, stds = ([factor * r[key] if r[key] == r[key] else 0.0 for r in records] for key in ("mean", "std"))
    left.barh(titles, means, xerr=stds, color=colors, error_kw={"capsize": 3, "lw": 1})
    top = 112 if task.percent else 1.25 * max(m + s for m, s in zip(means, stds, strict=True)) or 1.0
    for i, (mean, std) in enumerate(zip(means, stds, strict=True)):
        left.text(mean + std + top / 110, i, f"{mean:.1f}" if task.percent else f"{mean:.3f}", va="center", fontsize=9)
    which = "10-fold" if "fold," in records[0]["protocol"] else "test"
    unit = " (%)" if task.percent else "" if task.higher else " (lower is better)"
    left.set(xlabel=f"{which} {task.title}{unit}", xlim=(0, top))
    times = [max(r["train_ms_per_epoch"], 1e-3) for r in records]
    right.hlines(titles, min(times) / 3, times, color="#cccccc", lw=1.5, zorder=1)
    right.scatter(times, titles, c=colors, s=60, zorder=2)
    for i, value in enumerate(times):
        right.text(value * 1.15, i, f"{value:.3g}", va="center", fontsize=9)
    right.set(xscale="log", xlabel="training time per epoch (ms, log scale)", xlim=(min(times) / 3, max(times) * 6))
    right.xaxis.set_major_formatter("{x:g}")
    right.xaxis.set_minor_formatter("")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    left.invert_yaxis()
    seeds = len(records[0]["seeds"])
    figure.suptitle(f"{records[0]['dataset']}: training methods, mean of {seeds} seed{'s' if seeds > 1 else ''}")
    write_atomic(path, lambda temporary: figure.savefig(temporary, dpi=150, format=path.suffix[1:].lower()))


def plot_depth(records: list[Record], path: Path) -> None:
    """Training time per epoch and peak memory over depth, both on log scales."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4.8), layout="constrained")
    for axes, key, label in zip(
        figure.subplots(1, 2),
        ("train_ms_per_epoch", "peak_memory_mb"),
        ("training epoch (ms)", "peak memory (MB)"),
        strict=True,
    ):
        titles = {r["method"]: r["title"] for r in records}
        for name, title in titles.items():
            rows = sorted((r for r in records if r["method"] == name and r[key]), key=lambda r: r["num_layers"])
            style = {"lw": 2.5 if name == "rap" else 1.5, "color": COLORS[name]}
            axes.plot([r["num_layers"] for r in rows], [r[key] for r in rows], marker="o", label=title, **style)
        axes.set(xscale="log", yscale="log", xlabel="layers", ylabel=label)
        depths = sorted({r["num_layers"] for r in records})
        axes.set_xticks(depths, [str(d) for d in depths])
        axes.minorticks_off()
        axes.spines[["top", "right"]].set_visible(False)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=9, frameon=False)
    first = records[0]
    figure.suptitle(f"{first['dataset']}, {first['hidden_channels']} channels, {first['hardware']}")
    write_atomic(path, lambda temporary: figure.savefig(temporary, dpi=150, format=path.suffix[1:].lower()))
