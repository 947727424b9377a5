"""``rapgnn evaluate``: the scores of a model beside answers that need no graph, which ``rapgnn fit`` prints too."""

import textwrap
from typing import Annotated, Any

import typer

from rapgnn.cli import shared
from rapgnn.cli.hops import (
    MemoryOption,
    disk_graph,
    is_disk_graph,
    open_estimator,
    score_disk,
)
from rapgnn.errors import InputError

SPLITS = ("train", "val", "test")
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
    record = {"dataset": graph.name, "task": graph.task, "metric": graph.objective.metric, "model": str(model)}
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


def score_model(
    model: Any,
    graph: Any,
    *,
    scoring: str | None = None,
    class_weight: Any = None,
    seed: int = 0,
    device: str = "cpu",
) -> dict[str, Any]:
    """The metric of every split that has rows (of all labelled rows, where there is no split), and what ``evaluate``
    says about the split that counts."""
    from rapgnn.estimators.evaluation import evaluate, fit_without_edges
    from rapgnn.graph.scores import metrics_for
    from rapgnn.training.predict import model_on

    predictor = model_on(model, graph, device=device)
    rows = {split: graph.rows(split) for split in SPLITS if len(graph.rows(split))}
    if not rows:
        rows = {"all": graph.labelled}
        shared.say("the data name no split: every labelled row counts, also any that the model was trained on.")
    if not sum(map(len, rows.values())):
        raise InputError("there are no labels to score against.")
    name = scoring or graph.objective.metric
    measure, record = metrics_for(graph.task)[name].measure, {"metric": name}
    for split, index in rows.items():
        found = predictor(index)
        value = graph.objective.score(found.scores, graph.y[index])
        record[split] = value if scoring is None else measure(found.probabilities, graph.y[index])
    bare, reason = None, None
    try:
        bare = fit_without_edges(graph, model.config, seed, device, scoring, class_weight)
    except InputError as error:
        reason = str(error)
    return record | evaluate(graph, predictor, scoring, bare) | {"without_edges_missing": reason}


def show_scores(graph: Any, record: dict[str, Any]) -> None:
    """A few lines of at most 80 columns."""
    from rapgnn.estimators.evaluation import shown
    from rapgnn.graph.scores import metrics_for

    metrics = metrics_for(graph.task)
    metric = metrics[record["metric"]]
    for split in (*SPLITS, "all"):
        if split in record:
            typer.echo(f"{split:<6} {metric.title} {shown(metric, record[split])}")
    where = record["scored_split"]
    beside = {"always the same answer": record["majority"], "without edges": record["without_edges"]}
    typer.echo(f"on {where}, {record['scored_rows']} rows:")
    for title, value in beside.items():
        if value is not None:
            typer.echo(f"  {metric.title + ', ' + title:<44}{shown(metric, value):>10}")
    for key in ("balanced_accuracy", "rocauc", "average_precision", "calibration_error", "mae", "r2"):
        if key in record and key != record["metric"]:
            typer.echo(f"  {metrics[key].title:<44}{shown(metrics[key], record[key]):>10}")
    _show_classes(record.get("per_class", []))
    if record["without_edges_missing"]:
        _wrapped(record["without_edges_missing"])
    for sentence in record["verdict"]:
        _wrapped(sentence)


def _show_classes(rows: list[dict[str, Any]]) -> None:
    if not rows:
        return
    typer.echo(f"  {'class':<24}{'precision':>10}{'recall':>10}{'rows':>10}")
    for row in rows[:MOST_CLASSES]:
        name = textwrap.shorten(str(row["class"]), 23, placeholder="...") or str(row["class"])[:23]
        values = "".join(
            "-".rjust(10) if row[k] is None else f"{100 * row[k]:>8.2f} %" for k in ("precision", "recall")
        )
        typer.echo(f"  {name:<24}{values}{row['rows']:>10}")
    if len(rows) > MOST_CLASSES:
        typer.echo(f"  and {len(rows) - MOST_CLASSES} classes more (--json lists all)")


def _wrapped(sentence: str) -> None:
    for line in textwrap.wrap(sentence, WIDTH):
        typer.echo(line)
