"""Plots of a comparison: methods side by side."""

from pathlib import Path

from rapgnn.experiments.run import Record
from rapgnn.files import write_atomic
from rapgnn.graph.tasks import TASKS
from rapgnn.training.methods import METHODS


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
