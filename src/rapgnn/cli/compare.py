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
@shared.folder_options()
@shared.network_options
def compare(
    reading: Any,
    dataset: shared.Data = None,
    methods: Annotated[str, typer.Option(help=METHODS_HELP)] = "fit,rap,end-to-end,no-edges",
    seeds: Annotated[int | None, typer.Option(help="Default 5; --quick 3; 1 for folds.")] = None,
    first_seed: Annotated[int, typer.Option(help="The first seed.")] = 0,
    overrides: Any = None,
    engine: Annotated[str | None, typer.Option(help="auto, polynomial or stepwise.")] = None,
    inference: Annotated[str | None, typer.Option(help="auto, expected, mean or sample.")] = None,
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
    from rapgnn.device import pick_device
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
    embedding = overrides.pop("embedding", None)
    overrides |= shared.read_settings(None, engine=engine, inference=inference)
    shared.check_options(overrides, embedding, device)
    graph = shared.load(dataset, data_dir, attributes, reading).to(pick_device(device))
    count = (1 if graph.folds else 3 if quick else 5) if seeds is None else seeds
    if "no-edges" in names and len(names) > 1:
        try:
            check_own_features(graph)
        except InputError as error:
            shared.say(f"no-edges is left out: {error}")
            names.remove("no-edges")
    configs = comparison.plan(graph, names, embedding, overrides, quick)
    with shared.show_progress() as track:

        def on_start(method: str) -> None:
            steps = comparison.total_steps(method, configs[method], count, graph.folds, protocol)
            track.start(comparison.methods()[method].title, steps)

        numbers = range(first_seed, first_seed + count)
        records = comparison.compare(graph, configs, numbers, protocol, on_start, track.advance)
    shared.write_json(records, json_file)
    show_comparison(records, quick)
    if plot:
        plot_comparison(records, plot)
    for path in filter(None, (json_file, plot)):
        shared.tell(f"wrote {path}")


def show_comparison(records: list[dict[str, Any]], quick: bool = False) -> None:
    """Metric and cost of every method in 80 columns, what else there is to know below."""
    from rich.table import Table

    from rapgnn.compare import methods
    from rapgnn.estimators.card import counted
    from rapgnn.graph.scores import metrics_for

    first = records[0]
    metric = metrics_for(first["task"])[first["metric"]]
    kinds = ("", "strict_") if "strict_mean" in first else ("",)
    table = Table("method")
    title = f"{metric.title} %" if metric.percent else metric.title
    for heading in [title, "strict", "fit s", "ms/epoch", "MB"]:
        if heading != "strict" or len(kinds) > 1:
            table.add_column(heading, justify="right")
    for r in records:
        scores = [_with_deviation(metric, r, kind) for kind in kinds]
        costs = [f"{r['fit_seconds']:.2f}", _or_dash(r["train_ms_per_epoch"], ".3g"), _or_dash(r["peak_memory_mb"])]
        table.add_row(methods()[r["method"]].title, *scores, *costs, style="bold" if r["method"] == "fit" else None)
    console = shared.wide_console(WIDTH)
    console.print(f"{first['dataset']} · {first['hardware']} · {counted(len(first['seeds']), 'seed')}")
    console.print(table)
    runs = len(first.get("values", first["seeds"]))
    deviation = f"±: sample standard deviation of {runs} runs" if runs > 1 else "One run has no deviation"
    console.print(f"{deviation}; ms/epoch: training alone; MB: peak memory.")
    if len(kinds) > 1:
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
        console.print(f"{methods()[r['method']].title}: {_how(r)}.", style="dim")


def _or_dash(value: float | None, form: str = ".0f") -> str:
    return "-" if value is None or value != value else f"{value:{form}}"


def _how(record: dict[str, Any]) -> str:
    """How a method was trained: its layers and epochs, or what it chose itself."""
    from rapgnn.compare import METHODS, methods
    from rapgnn.estimators.card import counted
    from rapgnn.network.encode import EMBEDDINGS

    method, config, most = methods()[record["method"]], record["config"], max(record["epochs"])
    if not method.configured:
        last = f"; seed {record['seeds'][-1]}: {config['model']}" if config.get("model") else ""
        return f"{counted(most, 'candidate')} tried on validation{last}"
    words = "" if record["method"] == "pretrained-embedding" else f"{counted(config['num_layers'], 'layer')}, "
    words += counted(most, "epoch")
    if method.fit is not METHODS["rap"].fit:
        return words
    if config.get("embedding") in EMBEDDINGS and EMBEDDINGS[config["embedding"]].trained == "before":
        words += f" after {config['pretrain_epochs']} of phase 1"
    return f"{words}, {record['engine']} engine, because {record['engine_reason']}"


def _with_deviation(metric: Any, record: dict[str, Any], kind: str = "") -> str:
    """``mean ± sample standard deviation``; one value has none."""
    factor, digits = (100, 2) if metric.percent else (1, 3)
    values = record[f"{kind}values"]
    deviation = f" ± {factor * statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{factor * record[f'{kind}mean']:.{digits}f}{deviation}"


def plot_comparison(records: list[dict[str, Any]], path: Path) -> None:
    """Metric with its spread, and the time of one fit, a bar for every method."""
    from matplotlib.figure import Figure

    from rapgnn.compare import methods
    from rapgnn.estimators.card import counted
    from rapgnn.files import write_atomic
    from rapgnn.graph.scores import metrics_for

    first, titles = records[0], [methods()[r["method"]].title for r in records]
    metric, seeds = metrics_for(first["task"])[first["metric"]], len(first["seeds"])
    colors = ["#c44e52" if r["method"] in ("fit", "rap") else "#4c72b0" for r in records]
    factor, digits = (100, 1) if metric.percent else (1, 3)
    means, stds = ([factor * r[key] if r[key] == r[key] else 0.0 for r in records] for key in ("mean", "std"))
    times = [max(r["fit_seconds"], 1e-3) for r in records]
    figure = Figure(figsize=(10, 0.55 * len(records) + 1.6), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    bars = left.barh(titles, means, xerr=stds, color=colors, error_kw={"capsize": 3, "lw": 1})
    left.bar_label(bars, [f"{mean:.{digits}f}" for mean in means], padding=3, fontsize=9)
    which = "10-fold" if "fold," in first["protocol"] else "test"
    unit = " (%)" if metric.percent else "" if metric.higher else " (lower is better)"
    top = 112 if metric.percent else 1.25 * max(m + s for m, s in zip(means, stds, strict=True)) or 1.0
    left.set(xlabel=f"{which} {metric.title}{unit}", xlim=(0, top))
    bars = right.barh(titles, times, color=colors)
    right.bar_label(bars, [f"{seconds:.3g}" for seconds in times], padding=3, fontsize=9)
    right.set(xscale="log", xlabel="time of one fit (s, log scale)", xlim=(min(times) / 3, max(times) * 6))
    right.xaxis.set_major_formatter("{x:g}")
    right.xaxis.set_minor_formatter("")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    left.invert_yaxis()
    figure.suptitle(f"{first['dataset']}: training methods, mean of {counted(seeds, 'seed')}")
    write_atomic(path, lambda temporary: figure.savefig(temporary, dpi=150, format=path.suffix[1:].lower()))
