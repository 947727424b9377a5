"""Training methods side by side: what each is configured with, and their records."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rapgnn.errors import InputError, check_choice
from rapgnn.experiments.run import Record, run, warm_up
from rapgnn.experiments.tuned import BEST, default_config
from rapgnn.files import write_atomic
from rapgnn.graph.backbones import BACKBONES
from rapgnn.graph.graph import Graph
from rapgnn.graph.splits import FOLDS
from rapgnn.graph.tasks import TASKS
from rapgnn.layers.embedding import EMBEDDINGS
from rapgnn.models.config import Config
from rapgnn.training.methods import METHODS

QUICK_EPOCHS = {"end-to-end": 100, "random-full": 100}  # `--quick` cuts only what goes through the graph every epoch


def plan(
    graph: Graph, methods: Sequence[str], embedding: str | None, overrides: dict[str, Any], quick: bool = False
) -> dict[str, Config]:
    """The configuration of every method: the dataset's defaults, then what the user sets."""
    configs = {}
    for method in methods:
        check_choice("method", method, METHODS)
        config = default_config(graph, method, embedding if _takes(method, embedding) else None)
        clash = [key for key, value in METHODS[method].settings.items() if overrides.get(key, value) != value]
        if clash:
            raise InputError(f"{method} fixes {clash[0]}, so it cannot be set: leave {method} out with --methods.")
        other = BACKBONES.get(overrides.get("backbone", ""))
        if other is not None and len(other.terms) > 1:
            config = config.update(factors=1)  # weights side by side cannot follow one another too
        config = config.update(**overrides)
        if config.head == "ridge" and method == "random-full":
            raise InputError("random-full has no exact mean for the ridge head: leave it out with --methods.")
        if quick and method in QUICK_EPOCHS:
            config = config.update(epochs=min(config.epochs, QUICK_EPOCHS[method]))
        configs[method] = config
    if not configs:
        raise InputError(f"no method named: choose from {', '.join(METHODS)}.")
    return configs


def _takes(method: str, embedding: str | None) -> bool:
    """Whether the choice of embedding applies: end-to-end trains its own, and phase 1 alone must have one to train."""
    if method == "end-to-end" or (embedding == BEST and method != "rap"):
        return False
    pretrained = embedding in EMBEDDINGS and EMBEDDINGS[embedding].trained == "before"
    return method != "pretrained-embedding" or pretrained


def compare(
    graph: Graph,
    configs: dict[str, Config],
    seeds: Sequence[int],
    protocol: str = "both",
    on_start: Callable[[str], None] = lambda method: None,
    on_epoch: Callable[[], None] | None = None,
) -> list[Record]:
    """Train every method once per seed."""
    warm_up(list(configs), str(graph.y.device), graphs=graph.ptr is not None)
    records = []
    for method, config in configs.items():
        on_start(method)
        try:
            records.append(run(method, graph, config, seeds, protocol=protocol, on_epoch=on_epoch))
        except InputError as error:
            raise InputError(f"{method}: {error}") from error
    return records


def total_epochs(method: str, config: Config, seeds: int, folds: bool = False, protocol: str = "both") -> int:
    """How often ``on_epoch`` is called at most."""
    if folds:
        seeds *= FOLDS * (2 if protocol == "both" else 1)
    if method == "pretrained-embedding":
        return seeds * config.pretrain_epochs
    return seeds * (1 if config.head == "ridge" and method != "end-to-end" else config.epochs)


def plot(records: list[Record], path: Path) -> None:
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
