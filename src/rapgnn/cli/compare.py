"""``rapgnn compare``: methods side by side, on a dataset or on a user's own folder."""

import statistics
from pathlib import Path
from typing import Annotated, Any

import typer

from rapgnn.cli import shared
from rapgnn.errors import InputError

METHODS_HELP = (
    "Comma-separated: fit (what rapgnn fit makes), rap (RAP-GNN as published), end-to-end (every weight trained), "
    "no-edges (fit without edges), pretrained-embedding, fixed-diagonal, fixed-full, random-full, identity, or all."
)
WIDTH = 80


@shared.app.command()
@shared.folder_options(shown=("label",))
def compare(
    dataset: Annotated[str, typer.Argument(help="A dataset name, sbm:nodes=5000,..., or a folder.")],
    reading: Any,
    methods: Annotated[str, typer.Option(help=METHODS_HELP)] = "fit,rap,end-to-end,no-edges",
    seeds: Annotated[int | None, typer.Option(help="Default 5; --quick 3; 1 for folds.")] = None,
    first_seed: Annotated[int, typer.Option(help="The first seed.")] = 0,
    backbone: shared.BackboneOption = None,
    layers: shared.LayersOption = None,
    hidden: shared.HiddenOption = None,
    epochs: shared.EpochsOption = None,
    embedding: shared.EmbeddingOption = None,
    head: shared.HeadOption = None,
    engine: Annotated[str | None, typer.Option(help="auto, polynomial or stepwise.")] = None,
    inference: Annotated[str | None, typer.Option(help="auto, expected, mean or sample.")] = None,
    settings: shared.SettingsOption = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer seeds and fewer end-to-end epochs.")] = False,
    protocol: Annotated[str, typer.Option(help="Folds: paper, strict, both.")] = "both",
    attributes: shared.Attributes = False,
    device: shared.Device = "cpu",
    data_dir: shared.DataDir = None,
    json_file: shared.JsonFile = None,
    quiet: shared.Quiet = False,
    plot: Annotated[Path | None, typer.Option(help="Save a plot (png, svg, pdf).")] = None,
) -> None:
    """Train methods side by side and print one table: what rapgnn fit makes, RAP-GNN as published, the same
    architecture trained end to end, and no edges at all. Settings apply to all but the first and the last.

    Example: rapgnn compare my-graph/ --label species --json compared.json
    """
    from rapgnn import compare as comparison
    from rapgnn.errors import check_choice
    from rapgnn.estimators.evaluation import check_own_features
    from rapgnn.files import check_writable

    check_writable(json_file)
    check_writable(plot, shared.PLOTS)
    names = comparison.named_methods(methods)
    check_choice("protocol", protocol, comparison.PROTOCOLS)
    if seeds is not None and seeds < 1:
        raise InputError(f"the number of seeds must be at least 1, got {seeds}.")
    if not 0 <= first_seed < (1 << 32) - 10_000:
        raise InputError(f"--first-seed must lie between 0 and 2^32 - 10000, got {first_seed}.")
    given = {"epochs": epochs, "head": head, "engine": engine, "inference": inference}
    overrides = shared.read_settings(settings, backbone=backbone, num_layers=layers, hidden_channels=hidden, **given)
    shared.check_options(overrides, embedding, device)
    graph = shared.on_device(shared.load(dataset, data_dir, attributes, reading), device)
    count = (1 if graph.folds else 3 if quick else 5) if seeds is None else seeds
    if "no-edges" in names and len(names) > 1:
        try:
            check_own_features(graph)
        except InputError as error:
            shared.say(f"no-edges is left out: {error}")
            names.remove("no-edges")
    configs = comparison.plan(graph, names, embedding, overrides, quick)
    with shared.show_progress() as track:
        records = comparison.compare(
            graph,
            configs,
            range(first_seed, first_seed + count),
            protocol,
            on_start=lambda m: track.start(
                comparison.methods()[m].title, comparison.total_steps(m, configs[m], count, graph.folds, protocol)
            ),
            on_epoch=track.advance,
        )
    shared.write_json(records, json_file)
    show_comparison(records, quick)
    if plot:
        plot_comparison(records, plot)
    for path in filter(None, (json_file, plot)):
        typer.echo(f"wrote {path}")


def show_comparison(records: list[dict[str, Any]], quick: bool = False) -> None:
    """Metric and cost of every method in 80 columns, what else there is to know below."""
    from rich.table import Table

    from rapgnn.compare import methods
    from rapgnn.graph.scores import metrics_for
    from rapgnn.graph.tasks import TASKS

    first = records[0]
    known = metrics_for(first["task"])
    task = known.get(first["metric"], known[TASKS[first["task"]].metric])
    strict = "strict_mean" in first
    table = Table()
    table.add_column("method")
    title = f"{task.title} %" if task.percent else task.title
    for heading in [title, *(["strict"] if strict else []), "fit s", "ms/epoch", "MB"]:
        table.add_column(heading, justify="right")
    for r in records:
        table.add_row(
            methods()[r["method"]].title,
            _with_deviation(task, r),
            *([_with_deviation(task, r, "strict_")] if strict else []),
            f"{r['fit_seconds']:.2f}",
            _or_dash(r["train_ms_per_epoch"], ".3g"),
            _or_dash(r["peak_memory_mb"], ".0f"),
            style="bold" if r["method"] == "fit" else None,
        )
    console = shared.wide_console(WIDTH)
    console.print(f"{first['dataset']} · {first['hardware']} · {_counted(len(first['seeds']), 'seed')}")
    console.print(table)
    _explain(console, records, quick)


def _or_dash(value: float | None, form: str) -> str:
    return "-" if value is None or value != value else f"{value:{form}}"


def _explain(console: Any, records: list[dict[str, Any]], quick: bool) -> None:
    from rapgnn.compare import METHODS, methods
    from rapgnn.network.embedding import EMBEDDINGS

    first = records[0]
    runs = len(first.get("values", first["seeds"]))
    deviation = f"±: sample standard deviation of {runs} runs" if runs > 1 else "One run has no deviation"
    console.print(f"{deviation}; ms/epoch: training alone; MB: peak memory.")
    if "strict_mean" in first:
        console.print(
            "First figure: the paper's protocol, 10 folds at the epoch that is best on average for the held-out folds, "
            "which makes it optimistic; strict: epoch chosen on an inner validation fold (settings may have seen all)."
        )
    if "positive_share" in first:
        precision = "; ".join(f"{methods()[r['method']].title} {100 * r['average_precision']:.1f}" for r in records)
        share = 100 * first["positive_share"]
        console.print(f"{share:.1f} % of the known test labels are positive; average precision %: {precision}.")
    if quick:
        console.print(
            "Quick run: end-to-end and random-full trained for fewer epochs; leave out --quick for the full run."
        )
    for r in records:
        name, config = methods()[r["method"]].title, r["config"]
        if not methods()[r["method"]].configured:  # chooses its settings itself
            tried, chosen = _counted(max(r["epochs"]), "candidate"), config.get("model")
            first_seed = f"; seed {r['seeds'][-1]}: {chosen}" if chosen else ""
            console.print(f"{name}: {tried} tried on validation{first_seed}.", style="dim")
            continue
        layers = "" if r["method"] == "pretrained-embedding" else f"{_counted(config['num_layers'], 'layer')}, "
        epochs = _counted(max(r["epochs"]), "epoch")
        phases = methods()[r["method"]].fit is METHODS["rap"].fit
        kind = EMBEDDINGS.get(config.get("embedding", ""))
        before = phases and kind is not None and kind.trained == "before"
        first_phase = f" after {config['pretrain_epochs']} of phase 1" if before else ""
        reason = f", {r['engine']} engine, because {r['engine_reason']}" if phases else ""
        console.print(f"{name}: {layers}{epochs}{first_phase}{reason}.", style="dim")


def _with_deviation(task: Any, record: dict[str, Any], kind: str = "") -> str:
    """``mean ± sample standard deviation``; one value has none."""
    factor, digits = (100, 2) if task.percent else (1, 3)
    shown, values = f"{factor * record[f'{kind}mean']:.{digits}f}", record.get(f"{kind}values")
    if values is not None and len(values) < 2:
        return shown
    deviation = record[f"{kind}std"] if values is None else statistics.stdev(values)
    return f"{shown} ± {factor * deviation:.{digits}f}"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def plot_comparison(records: list[dict[str, Any]], path: Path) -> None:
    """Metric with its spread, and the time of one fit, a bar for every method."""
    from matplotlib.figure import Figure

    from rapgnn.compare import methods
    from rapgnn.files import write_atomic
    from rapgnn.graph.tasks import TASKS

    figure = Figure(figsize=(10, 0.55 * len(records) + 1.6), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    titles = [methods()[r["method"]].title for r in records]
    colors = ["#c44e52" if r["method"] in ("fit", "rap") else "#4c72b0" for r in records]
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
    times = [max(r["fit_seconds"], 1e-3) for r in records]
    right.hlines(titles, min(times) / 3, times, color="#cccccc", lw=1.5, zorder=1)
    right.scatter(times, titles, c=colors, s=60, zorder=2)
    for i, value in enumerate(times):
        right.text(value * 1.15, i, f"{value:.3g}", va="center", fontsize=9)
    right.set(xscale="log", xlabel="time of one fit (s, log scale)", xlim=(min(times) / 3, max(times) * 6))
    right.xaxis.set_major_formatter("{x:g}")
    right.xaxis.set_minor_formatter("")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    left.invert_yaxis()
    seeds = len(records[0]["seeds"])
    figure.suptitle(f"{records[0]['dataset']}: training methods, mean of {seeds} seed{'s' if seeds > 1 else ''}")
    write_atomic(path, lambda temporary: figure.savefig(temporary, dpi=150, format=path.suffix[1:].lower()))
