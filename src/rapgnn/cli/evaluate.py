"""``rapgnn evaluate``: the scores of a model beside answers that need no graph, which ``rapgnn fit`` prints too."""

import textwrap
from typing import Annotated, Any

import typer

from rapgnn.cli import shared
from rapgnn.cli.hops import MemoryOption, disk_graph, is_disk_graph, open_estimator, score_disk
from rapgnn.errors import InputError

WIDTH = 80
MOST_CLASSES = 20
MetricOption = Annotated[str | None, typer.Option("--metric", help="Choose by rocauc, f1_macro, ...")]
ClassWeightOption = Annotated[str | None, typer.Option("--class-weight", help="balanced: classes count the same.")]


@shared.app.command()
@shared.folder_options(taken=shared.FILE_OPTIONS)
def evaluate(
    model: shared.ModelFolder,
    data: shared.Data,
    reading: Any,
    memory: MemoryOption = None,
    device: shared.Device = "cpu",
    data_dir: shared.DataDir = None,
    json_file: shared.JsonFile = None,
    quiet: shared.Quiet = False,
) -> None:
    """Score a saved model on the splits of a graph, the one it was trained on or another.

    Example: rapgnn evaluate model/ my-graph/
    """
    from rapgnn.device import pick_device
    from rapgnn.files import check_writable

    check_writable(json_file)
    device = pick_device(device)
    if memory is not None or is_disk_graph(data):
        limited = open_estimator(model, memory, device)
        with disk_graph(data, data_dir, reading, limited.limit_bytes()) as disk:
            record = {"dataset": disk.name, "task": disk.task, "model": str(model)} | score_disk(limited, disk)
        shared.write_json([record], json_file)
        return
    loaded, graph, _ = shared.open_model(model, data, data_dir, reading, labelled=True)
    record = {"dataset": graph.name, "task": graph.task, "model": str(model)}
    record |= score_model(loaded, graph, seed=loaded.seed, device=device)
    shared.write_json([record], json_file)
    show_scores(graph, record)


def check_goal(metric: str | None, class_weight: str | None, task: str) -> None:
    """Refuse a metric or a weighting that the task does not have, before any work."""
    from rapgnn.graph.scores import BALANCED, check_metric

    if metric is not None:
        check_metric(metric, task)
    if class_weight not in (None, BALANCED):
        raise InputError(f"--class-weight takes {BALANCED}, got {class_weight!r}; in Python also {{label: weight}}.")


def score_model(model: Any, graph: Any, device: str = "cpu", **goal: Any) -> dict[str, Any]:
    """The record of a model's scores; ``goal``: what it was trained for, and the seed."""
    from rapgnn.estimators.evaluation import evaluate_beside
    from rapgnn.training.predict import model_on

    record = evaluate_beside(graph, model_on(model, graph, device=device), model.config, device=device, **goal)
    if "all" in record:
        shared.say("the data name no split: every labelled row counts, also any that the model was trained on.")
    return record


def show_scores(graph: Any, record: dict[str, Any]) -> None:
    """A few lines of at most 80 columns."""
    from rapgnn.estimators.evaluation import facts, shown
    from rapgnn.graph.scores import metrics_for
    from rapgnn.graph.validate import SPLITS

    metric = metrics_for(graph.task)[record["metric"]]
    for split in (*SPLITS, "all"):
        if split in record:
            typer.echo(f"{split:<6} {metric.title} {shown(metric, record[split])}")
    typer.echo(f"on {record['scored_split']}, {record['scored_rows']} rows:")
    for title, value in facts(graph, record):
        typer.echo(f"  {title:<44}{value:>10}")
    classes = record.get("per_class", [])
    if classes:
        typer.echo(f"  {'class':<24}{'precision':>10}{'recall':>10}{'rows':>10}")
    for row in classes[:MOST_CLASSES]:
        name = textwrap.shorten(str(row["class"]), 23, placeholder="...") or str(row["class"])[:23]
        values = ["-" if row[key] is None else f"{100 * row[key]:.2f} %" for key in ("precision", "recall")]
        typer.echo(f"  {name:<24}{values[0]:>10}{values[1]:>10}{row['rows']:>10}")
    if len(classes) > MOST_CLASSES:
        typer.echo(f"  and {len(classes) - MOST_CLASSES} classes more (--json lists all)")
    for sentence in filter(None, (record["without_edges_missing"], *record["verdict"])):
        typer.echo(textwrap.fill(sentence, WIDTH))
