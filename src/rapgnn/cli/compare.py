"""``rapgnn compare``: methods side by side, on a dataset or on a user's own folder."""

import statistics
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
    overrides: Any = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer seeds and fewer end-to-end epochs.")] = False,
    device: shared.Device = "cpu",
    data_dir: shared.DataDir = None,
    json_file: shared.JsonFile = None,
    quiet: shared.Quiet = False,
) -> None:
    """Train methods side by side and print one table: what rapgnn fit makes, RAP-GNN as published, the same
    architecture trained end to end, and no edges at all. Settings apply to all but the first and the last.

    Example: rapgnn compare my-graph/ --label species --json compared.json
    """
    from rapgnn import compare as comparison
    from rapgnn.device import pick_device
    from rapgnn.estimators.evaluation import check_own_features
    from rapgnn.files import check_writable

    check_writable(json_file)
    names = comparison.named_methods(methods)
    if seeds is not None and seeds < 1:
        raise InputError(f"the number of seeds must be at least 1, got {seeds}.")
    embedding = overrides.pop("embedding", None)
    shared.check_options(overrides, embedding, device)
    graph = shared.load(dataset, data_dir, reading).to(pick_device(device))
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
            steps = comparison.total_steps(method, configs[method], count, graph.folds)
            track.start(comparison.methods()[method].title, steps)

        records = comparison.compare(graph, configs, range(count), on_start=on_start, on_epoch=track.advance)
    shared.write_json(records, json_file)
    show_comparison(records, quick)
    if json_file is not None:
        shared.tell(f"wrote {json_file}")


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
