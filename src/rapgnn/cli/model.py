"""The user's own model: ``rapgnn fit``, ``predict``, ``evaluate`` and ``report``."""

import textwrap
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from rapgnn.cli import hops, shared
from rapgnn.errors import InputError

WIDTH = 80
MOST_CLASSES = 20
PAGES = (".html", ".htm")
MetricOption = Annotated[str | None, typer.Option("--metric", help="Choose by rocauc, f1_macro, ...")]
ClassWeightOption = Annotated[str | None, typer.Option("--class-weight", help="balanced: classes count the same.")]


@shared.app.command()
@shared.folder_options(shown=shared.USUAL_OPTIONS)
@shared.network_options
def fit(
    data: shared.Data,
    out: Annotated[Path, typer.Option(help="Folder for the trained model.")],
    reading: Any,
    overrides: Any,
    no_search: Annotated[bool, typer.Option("--no-search", help="Train one network with general settings.")] = False,
    metric: MetricOption = None,
    class_weight: ClassWeightOption = None,
    report: Annotated[Path | None, typer.Option(help="An HTML page about the model.")] = None,
    budget: Annotated[float | None, typer.Option(help="Seconds to search for what is not given.")] = None,
    memory: hops.MemoryOption = None,
    store: hops.StoreOption = None,
    cluster: hops.ClusterOption = None,
    seed: Annotated[int, typer.Option(help="Decides everything random.")] = 0,
    device: shared.Device = "cpu",
    data_dir: shared.DataDir = None,
    json_file: shared.JsonFile = None,
    quiet: shared.Quiet = False,
) -> None:
    """Train on a graph or on many, and save the model. What is not given is chosen on validation.
    More options for your own folder: rapgnn data info --help.

    Example: rapgnn fit my-graph/ --label species --out model/
    """
    from rapgnn.estimators.estimators import RAPNodeClassifier, estimator_for
    from rapgnn.files import check_writable
    from rapgnn.training.checkpoint import check_target

    check_writable(json_file)
    check_target(out)
    if report is not None:
        check_report(report)
    if budget is not None and not budget >= 0:
        raise InputError(f"--budget must not be negative, got {budget}.")
    shared.check_options(overrides, device=device, seed=seed)
    goal = {"scoring": metric, "class_weight": class_weight, "seed": seed, "device": device}
    if any(option is not None for option in (memory, store, cluster)) or hops.is_disk_graph(data):
        hops.check_workers(data)
        where = {"memory_limit": memory, "hops": hops.hops_option(store, cluster)}
        limited = RAPNodeClassifier(settings=overrides, **where, **goal)
        with hops.disk_graph(data, data_dir, reading, limited.limit_bytes()) as disk:
            check_goal(metric, class_weight, disk.task)
            hops.fit_from_disk(limited, disk, out, store, json_file)
        typer.echo(f"next: rapgnn predict {out} {data} --out predictions.csv")
        return
    graph = shared.load(data, data_dir, reading=reading)
    shared.show_columns(graph)
    check_goal(metric, class_weight, graph.task)
    estimator = estimator_for(graph.task)(settings=overrides, search=not no_search, time_budget=budget, **goal)
    fit_and_save(estimator, graph, out, json_file)
    if report is not None:
        write_page(estimator, graph, report)
    typer.echo(f"next: rapgnn predict {out} {data} --out predictions.csv")
    typer.echo(f"      rapgnn evaluate {out} {data}")


def fit_and_save(estimator: Any, graph: Any, out: Path, json_file: Path | None = None) -> dict[str, Any]:
    """Train an estimator, save the model, and print its scores: the record of it."""
    from rapgnn.errors import InputNotice
    from rapgnn.estimators.describe import describe_model
    from rapgnn.graph.scores import with_goal
    from rapgnn.search.start import first_point, start_config
    from rapgnn.training.checkpoint import check_target

    if check_target(out):
        shared.say(f"replaces the model in {out}")
    with shared.show_progress() as track, warnings.catch_warnings():
        warnings.simplefilter("ignore", InputNotice)  # loading has said it, the rest is said below
        first = first_point(graph, start_config(graph), estimator.fixed_settings())
        epochs = None if estimator.search else 1 if first.head == "ridge" else first.epochs
        track.start(f"{graph.name} RAP-GNN", epochs)
        merits: list[float] = []
        objective = with_goal(graph, estimator.scoring).objective

        def on_trial(settings: dict[str, Any], value: float) -> None:
            merits.append(objective.merit(value))
            best = objective.show(objective.merit(max(merits)))
            track.set(len(merits), f"{graph.name}: best of {len(merits)} candidates {best}")

        estimator.fit_graph(graph, on_trial, track.advance)
    for note in estimator.notes_[len(graph.notes) :]:
        shared.say(note)
    estimator.save(out)
    weights, trials = estimator.class_weight_, len(estimator.trials_)
    record = {"dataset": graph.name, "task": graph.task, "engine": estimator.engine_, "model": str(out)}
    record |= {"config": estimator.config_.to_dict(), "candidates": trials, "class_weight": weights}
    goal = {"scoring": estimator.scoring, "class_weight": weights or estimator.class_weight}
    record |= score_model(estimator.model_, graph, seed=estimator.seed, **goal)
    shared.write_json([record], json_file)
    typer.echo(f"saved {out} ({estimator.engine_} engine, because {estimator.engine_reason_})")
    if trials:
        how = f"chosen on validation among {trials}" if estimator.search else "as described"
        typer.echo(f"{how}: {describe_model(estimator.model_)}{', classes weighted' if weights else ''}")
    show_scores(graph, record)
    return record


def check_goal(metric: str | None, class_weight: str | None, task: str) -> None:
    """Refuse a metric or a weighting that the task does not have, before any work."""
    from rapgnn.graph.scores import BALANCED, check_metric

    if metric is not None:
        check_metric(metric, task)
    if class_weight not in (None, BALANCED):
        raise InputError(f"--class-weight takes {BALANCED}, got {class_weight!r}; in Python also {{label: weight}}.")


@shared.app.command()
@shared.folder_options(taken=shared.FILE_OPTIONS)
def predict(
    model: shared.ModelFolder,
    data: shared.Data,
    out: Annotated[Path, typer.Option(help="Predictions: a .csv or .parquet file.")],
    reading: Any,
    samples: Annotated[int, typer.Option(help="Mean and spread over so many draws; 0: from the exact variance.")] = 0,
    probabilities: Annotated[bool, typer.Option("--probabilities", help="A column for every class.")] = False,
    no_spread: Annotated[bool, typer.Option("--no-spread", help="Leave the spread out.")] = False,
    memory: hops.MemoryOption = None,
    store: hops.StoreOption = None,
    device: shared.Device = "cpu",
    data_dir: shared.DataDir = None,
    quiet: shared.Quiet = False,
) -> None:
    """Predict every row of a graph with a saved model: id, label, probability, its spread, and known: whether the data
    had the row's label.

    Example: rapgnn predict model/ my-graph/ --out predictions.csv
    """
    from rapgnn.device import pick_device
    from rapgnn.estimators.table import TABLES, prediction_table, write_table
    from rapgnn.files import check_writable
    from rapgnn.training.predict import model_on

    check_writable(out, TABLES)
    if samples < 0 or samples == 1:
        raise InputError(f"--samples must be 0, or 2 and more for a spread, got {samples}.")
    if samples and no_spread:
        raise InputError("--samples draws for a spread: leave out --no-spread or --samples.")
    device = pick_device(device)
    if memory is not None or store is not None or hops.is_disk_graph(data):
        if samples:
            raise InputError("predictions on a graph on disk are exact: leave out --samples.")
        limited = hops.open_estimator(model, memory, device)
        with hops.disk_graph(data, data_dir, reading, limited.limit_bytes()) as disk:
            hops.predict_from_disk(limited, disk, out, probabilities, not no_spread, store)
        return
    try:
        loaded, graph, schema = shared.open_model(model, data, data_dir, reading, labelled=True)
        known = graph.labelled
    except InputError as error:  # there are no labels, or not the model's: neither is needed to predict
        loaded, graph, schema = shared.open_model(model, data, data_dir, reading, labelled=False)
        known = graph.labelled[:0]
        if "no label column" not in str(error) and "no row has a label" not in str(error):
            shared.say(f"the labels in the data were not read: {error}")
    inference = "mean" if samples else None if no_spread else "auto"
    with shared.show_progress() as track:
        track.start(f"{graph.name} predictions, hops", None)
        how = {"error_bars": not no_spread, "device": device, "on_hop": track.advance}
        predictor = model_on(loaded, graph, inference=inference, num_samples=samples or None, **how)
        table = prediction_table(graph, predictor, schema.classes, probabilities, known)
    write_table(table, out)
    typer.echo(f"wrote {len(table)} predictions to {out}")


@shared.app.command()
@shared.folder_options(taken=shared.FILE_OPTIONS)
def evaluate(
    model: shared.ModelFolder,
    data: shared.Data,
    reading: Any,
    memory: hops.MemoryOption = None,
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
    if memory is not None or hops.is_disk_graph(data):
        limited = hops.open_estimator(model, memory, device)
        with hops.disk_graph(data, data_dir, reading, limited.limit_bytes()) as disk:
            record = {"dataset": disk.name, "task": disk.task, "model": str(model)} | hops.score_disk(limited, disk)
        shared.write_json([record], json_file)
        return
    loaded, graph, _ = shared.open_model(model, data, data_dir, reading, labelled=True)
    record = {"dataset": graph.name, "task": graph.task, "model": str(model)}
    record |= score_model(loaded, graph, seed=loaded.seed, device=device)
    shared.write_json([record], json_file)
    show_scores(graph, record)


def score_model(model: Any, graph: Any, device: str = "cpu", **goal: Any) -> dict[str, Any]:
    """The record of a model's scores; ``goal``: what it was trained for, and the seed."""
    from rapgnn.estimators.evaluation import evaluate as evaluate_model
    from rapgnn.training.predict import model_on

    record = evaluate_model(graph, model_on(model, graph, device=device), model.config, device=device, **goal)
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


@shared.app.command()
@shared.folder_options(taken=shared.FILE_OPTIONS)
def report(
    model: shared.ModelFolder,
    data: shared.Data,
    reading: Any,
    out: Annotated[Path, typer.Option(help="The page.")] = Path("report.html"),
    device: shared.Device = "cpu",
    data_dir: shared.DataDir = None,
    quiet: shared.Quiet = False,
) -> None:
    """Write one self-contained HTML page about a saved model: how good it is on these data, and why.

    Example: rapgnn report model/ my-graph/ --out report.html
    """
    from rapgnn.device import pick_device
    from rapgnn.estimators.estimators import load_model

    check_report(out)
    _, graph, _ = shared.open_model(model, data, data_dir, reading, labelled=True)
    write_page(load_model(model).set_params(device=pick_device(device)), graph, out)


def check_report(path: Path) -> None:
    """Refuse a page that cannot be written, or made, before any work."""
    from rapgnn.files import check_writable
    from rapgnn.report.page import check_installed

    check_writable(path, PAGES)
    check_installed()


def write_page(estimator: Any, graph: Any, path: Path) -> None:
    """Write the page about a trained model."""
    from rapgnn.report.model import write_model_report

    with shared.show_progress() as track:
        track.start(f"{graph.name} report", None)
        write_model_report(estimator, graph, path, lambda done, total, title: track.set(done, f"report: {title}"))
    typer.echo(f"wrote {path} ({path.stat().st_size / 1e6:.1f} MB)")
