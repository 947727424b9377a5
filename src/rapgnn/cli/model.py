"""The user's own model: ``rapgnn fit``, ``predict``, ``evaluate`` and ``report``."""

import textwrap
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from rapgnn.cli import hops, links, shared
from rapgnn.errors import InputError

WIDTH = 80
MOST_CLASSES = 20
PAGES = (".html", ".htm")
MetricOption = Annotated[str | None, typer.Option("--metric", help="Choose by rocauc, f1_macro, ...")]
ClassWeightOption = Annotated[str | None, typer.Option("--class-weight", help="balanced: classes count the same.")]


ThresholdOption = Annotated[
    str | None, typer.Option("--threshold", help="Yes from 0.3 on, or the best for f1, or for costs fp=1,fn=5.")
]
PositiveOption = Annotated[str | None, typer.Option("--positive", help="The class looked for; else the rarer of two.")]


@shared.app.command()
@shared.folder_options()
@shared.network_options
def fit(
    out: Annotated[Path, typer.Option(help="Folder for the trained model.")],
    reading: Any,
    overrides: Any,
    data: shared.Data = None,
    of_links: Annotated[bool, typer.Option("--links", help="Learn which nodes have a link.")] = False,
    relation: Annotated[str | None, typer.Option(help="Links of one relation of tables: user,buys,item.")] = None,
    edge_label: Annotated[str | None, typer.Option(help="Learn this column of the edges.")] = None,
    no_search: Annotated[bool, typer.Option("--no-search", help="Train one network with general settings.")] = False,
    metric: MetricOption = None,
    class_weight: ClassWeightOption = None,
    positive: PositiveOption = None,
    threshold: ThresholdOption = None,
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
    if of_links:
        goal = {"metric": metric, "class_weight": class_weight, "positive": positive, "threshold": threshold}
        goal |= {"budget": budget, "memory": memory, "store": store, "cluster": cluster, "set": overrides}
        links.refuse(goal, "not for --links")
        links.fit(data, reading, relation, data_dir, out, not no_search, seed, report, json_file)
        return
    links.refuse({"relation": relation}, "for --links")
    goal = {"scoring": metric, "class_weight": class_weight, "seed": seed, "device": device}
    goal |= {"pos_label": positive, "threshold": read_threshold(threshold)}
    if edge_label is not None:
        links.refuse({"label": reading.label, "memory": memory, "store": store, "cluster": cluster}, "not for edges")
        edges = links.read_labelled(data, edge_label, reading, data_dir, seed)
        check_goal(metric, class_weight, edges.task)
        estimator = estimator_for(edges.task)(settings=overrides, search=not no_search, time_budget=budget, **goal)
        graph = estimator.described(edges)
        fit_and_save(estimator, graph, out, json_file)
        if report is not None:
            write_page(estimator, graph, report)
    elif data is None or not (hops.is_disk_graph(data) or any(o is not None for o in (memory, store, cluster))):
        graph = shared.load(data, data_dir, reading=reading)
        shared.show_columns(graph)
        check_goal(metric, class_weight, graph.task)
        estimator = estimator_for(graph.task)(settings=overrides, search=not no_search, time_budget=budget, **goal)
        fit_and_save(estimator, graph, out, json_file)
        if report is not None:
            write_page(estimator, graph, report)
    else:
        hops.check_workers(data)
        check_folder(reading)
        where = {"memory_limit": memory, "hops": hops.hops_option(store, cluster)}
        limited = RAPNodeClassifier(settings=overrides, **where, **goal)
        with hops.disk_graph(data, data_dir, reading, memory) as disk:
            check_goal(metric, class_weight, disk.task)
            hops.fit_from_disk(limited, disk, out, store, json_file)
    shared.tell(f"next: rapgnn predict {out} {shared.given(data, reading)} --out predictions.csv")
    shared.tell(f"      rapgnn evaluate {out} {shared.given(data, reading)}")


def read_threshold(given: str | None) -> Any:
    """A number, the name of a metric, or the costs ``fp=1,fn=5``."""
    if given is None:
        return None
    with suppress(ValueError):
        return float(given)
    if "=" not in given:
        return given
    names = {"fp": "false_positive", "fn": "false_negative"}
    costs = shared.read_settings(given.split(","), "--threshold")
    return {names.get(name, name): cost for name, cost in costs.items()}


def with_answers(estimator: Any, positive: str | None, threshold: str | None) -> Any:
    """A saved model that looks for another class, or has another threshold, where these are given."""
    given = {"pos_label": positive, "threshold": read_threshold(threshold)}
    return estimator.set_params(**{name: value for name, value in given.items() if value is not None})


def check_folder(reading: Any) -> None:
    """Refuse options that tables which are read part by part do not have."""
    for name in set(shared.FOLDER_OPTIONS) - set(shared.DISK_OPTIONS):
        if getattr(reading, name) is not None:
            raise InputError(f"--{name} is for graphs in memory: leave out --memory, --store and --cluster.")


def fit_and_save(estimator: Any, graph: Any, out: Path, json_file: Path | None = None) -> dict[str, Any]:
    """Train an estimator, save the model, and print its scores: the record of it."""
    from rapgnn.errors import InputNotice
    from rapgnn.estimators.card import describe_model
    from rapgnn.graph.rows import with_goal
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
    record |= score_model(estimator, graph) | {"validation_score": estimator.validation_score_}
    estimator.save(out, record)  # again, with its scores in MODEL.md
    shared.write_json([record], json_file)
    shared.tell(f"saved {out} ({estimator.engine_} engine, because {estimator.engine_reason_})")
    if trials:
        how = f"chosen on validation among {trials} by {estimator.ranked_by_}" if estimator.search else "as described"
        shared.tell(f"{how}: {describe_model(estimator.model_)}{', classes weighted' if weights else ''}")
    show_scores(graph, record, shared.tell)
    return record


def check_goal(metric: str | None, class_weight: str | None, task: str) -> None:
    """Refuse a metric or a weighting that the task does not have, before any work."""
    from rapgnn.graph.rows import BALANCED
    from rapgnn.graph.scores import check_metric

    if metric is not None:
        check_metric(metric, task)
    if class_weight not in (None, BALANCED):
        raise InputError(f"--class-weight takes {BALANCED}, got {class_weight!r}; in Python also {{label: weight}}.")


@shared.app.command()
@shared.folder_options(shared.FILE_OPTIONS)
def predict(
    model: shared.ModelFolder,
    reading: Any,
    out: Annotated[Path | None, typer.Option(help="Predictions: a .csv or .parquet file.")] = None,
    pairs: links.PairsOption = None,
    top: Annotated[int | None, typer.Option(help="Links: recommend so many to every node.")] = None,
    into: Annotated[str | None, typer.Option(help="Predictions: a new table of the database.")] = None,
    data: shared.Data = None,
    samples: Annotated[int, typer.Option(help="Mean and spread over so many draws; 0: from the exact variance.")] = 0,
    probabilities: Annotated[bool, typer.Option("--probabilities", help="A column for every class.")] = False,
    no_spread: Annotated[bool, typer.Option("--no-spread", help="Leave the spread out.")] = False,
    coverage: Annotated[
        float | None, typer.Option(help="0.9: sets, or low and high, that hold the truth that often.")
    ] = None,
    threshold: ThresholdOption = None,
    explain: Annotated[str | None, typer.Option(help="Ids a,b: what moved these predictions.")] = None,
    memory: hops.MemoryOption = None,
    store: hops.StoreOption = None,
    device: shared.Device = "cpu",
    data_dir: shared.DataDir = None,
    json_file: shared.JsonFile = None,
    quiet: shared.Quiet = False,
) -> None:
    """Predict every row of a graph with a saved model: id, label, probability, its spread, and known: whether the data
    had the row's label.

    Example: rapgnn predict model/ my-graph/ --out predictions.csv
    """
    from rapgnn.datasets import database
    from rapgnn.datasets.database import is_database
    from rapgnn.estimators.conformal import check_coverage, coverage_columns
    from rapgnn.estimators.table import TABLES, prediction_table, write_table
    from rapgnn.files import check_writable
    from rapgnn.graph.validate import check_whole
    from rapgnn.network.config import bounds
    from rapgnn.training.predict import model_on

    if (into is not None) == (out is not None) or (into is not None and not is_database(data or "")):
        raise InputError("predictions go to --out, a file, or --into, a new table of the database: give one of them.")
    check_writable(out, TABLES)
    check_writable(json_file)
    if samples:
        check_whole("--samples", samples, 2, bounds("num_samples")[1])
    if samples and no_spread:
        raise InputError("--samples draws for a spread: leave out --no-spread or --samples.")
    if coverage is not None:
        check_coverage(coverage)
    if links.is_model(model):
        if out is None:
            raise InputError("predictions of links go to --out, a file.")
        links.predict(model, data, reading, data_dir, out, pairs, top, json_file)
        return
    links.refuse({"pairs": pairs, "top": top}, "for a model of links")
    if data is not None and (memory is not None or store is not None or hops.is_disk_graph(data)):
        check_folder(reading)
        if coverage is not None:
            raise InputError("predictions on a graph on disk have no sets: leave out --coverage.")
        if samples:
            raise InputError("predictions on a graph on disk are exact: leave out --samples.")
        limited = hops.open_estimator(model, memory, device)
        with hops.disk_graph(data, data_dir, reading, memory) as disk:
            assert out is not None
            hops.predict_from_disk(limited, disk, out, probabilities, not no_spread, store)
        return
    try:
        estimator, graph = shared.open_model(model, data, data_dir, reading, device=device)
        known = graph.labelled
    except InputError as error:  # there are no labels, or not the model's: neither is needed to predict
        estimator, graph = shared.open_model(model, data, data_dir, reading, labelled=False, device=device)
        known = graph.labelled[:0]
        if "no label column" not in str(error) and "no row has a label" not in str(error):
            shared.say(f"the labels in the data were not read: {error}")
    how = {"inference": "mean" if samples else None if no_spread else "auto", "num_samples": samples or None}
    with shared.show_progress() as track:
        track.start(f"{graph.name} predictions, hops", None)
        how |= {"error_bars": not no_spread, "device": estimator.device, "on_hop": track.advance}
        predictor = model_on(estimator.model_, graph, **how)
        names, numbers = estimator.schema_.classes, graph.objective.metric == "rmse"
        with_answers(estimator, None, threshold)
        more = None if coverage is None else partial(coverage_columns, estimator.judges(), coverage, numbers=numbers)
        table = prediction_table(graph, predictor, names, probabilities, known, more=more, decide=estimator.decided)
    asked = [] if explain is None else explained_rows(graph, explain)
    explanations = estimator.explain(graph, asked) if asked else []
    if out is not None:
        write_table(table, out)
    else:
        database.write_table(table, str(data), str(into))
    record = {
        "dataset": graph.name,
        "task": graph.task,
        "model": str(model),
        "out": str(out or into),
        "rows": len(table),
    }
    shared.write_json([record | {"explanations": [one.to_dict() for one in explanations]}], json_file)
    for one in explanations:
        typer.echo(one.text())
    shared.tell(f"wrote {len(table)} predictions to {out or into}")


def explained_rows(graph: Any, names: str) -> list[Any]:
    """The rows of a comma-separated list of ids, or of their numbers where there are no ids."""
    words = [names] if graph.ids is not None and names in graph.ids.astype(str) else names.split(",")
    words = [word.strip() for word in words if word.strip()]
    if not words:
        raise InputError(f"--explain takes ids of rows, separated by commas, got {names!r}.")
    if graph.ids is not None:
        return words
    if not all(word.isdecimal() for word in words):
        raise InputError(f"--explain takes numbers of rows, 0 to {graph.num_rows - 1}, got {names!r}.")
    return [int(word) for word in words]


@shared.app.command()
@shared.folder_options(shared.FILE_OPTIONS)
def evaluate(
    model: shared.ModelFolder,
    reading: Any,
    data: shared.Data = None,
    pairs: links.PairsOption = None,
    positive: PositiveOption = None,
    threshold: ThresholdOption = None,
    memory: hops.MemoryOption = None,
    device: shared.Device = "cpu",
    data_dir: shared.DataDir = None,
    json_file: shared.JsonFile = None,
    quiet: shared.Quiet = False,
) -> None:
    """Score a saved model on the splits of a graph, the one it was trained on or another. Where the data name no split,
    that of the fit counts, which is saved with the model.

    Example: rapgnn evaluate model/ my-graph/
    """
    from rapgnn.files import check_writable

    check_writable(json_file)
    if links.is_model(model):
        links.evaluate(model, data, reading, data_dir, pairs, json_file)
        return
    links.refuse({"pairs": pairs}, "for a model of links")
    if data is not None and (memory is not None or hops.is_disk_graph(data)):
        check_folder(reading)
        limited = hops.open_estimator(model, memory, device)
        with hops.disk_graph(data, data_dir, reading, memory) as disk:
            record = {"dataset": disk.name, "task": disk.task, "model": str(model)} | hops.score_disk(limited, disk)
        shared.write_json([record], json_file)
        return
    estimator, graph = shared.open_model(model, data, data_dir, reading, device=device)
    own, graph = graph, with_answers(estimator, positive, threshold).with_splits(graph)
    if graph is not own and len(graph.test):
        shared.say("the data name no split: the rows count that the model was not trained on, as saved with it.")
    record = {"dataset": graph.name, "task": graph.task, "model": str(model)}
    record |= score_model(estimator, graph)
    shared.write_json([record], json_file)
    show_scores(graph, record)


def score_model(estimator: Any, graph: Any) -> dict[str, Any]:
    """The record of a model's scores, by the metric it was trained for."""
    record = estimator.evaluate(graph)
    if "all" in record:
        shared.say("the data name no split: every labelled row counts, also any that the model was trained on.")
    return record


def show_scores(graph: Any, record: dict[str, Any], tell: Callable[[str], None] = typer.echo) -> None:
    """A few lines of at most 80 columns."""
    from rapgnn.estimators.evaluation import facts, shown
    from rapgnn.graph.scores import metrics_for
    from rapgnn.graph.validate import SPLITS

    metric = metrics_for(graph.task)[record["metric"]]
    for split in (*SPLITS, "all"):
        if split in record:
            value = shown(metric, record[split])
            if split == "val" and (free := record.get("validation_score")) is not None:
                value += f" ({shown(metric, free)} corrected for the choice)"
            tell(f"{split:<6} {metric.title} {value}")
    tell(f"on {record['scored_split']}, {record['scored_rows']} rows:")
    for title, value in facts(graph.task, record):
        tell(f"  {title:<44}{value:>10}")
    classes = record.get("per_class", [])
    if classes:
        tell(f"  {'class':<24}{'precision':>10}{'recall':>10}{'rows':>10}")
    for row in classes[:MOST_CLASSES]:
        name = textwrap.shorten(str(row["class"]), 23, placeholder="...") or str(row["class"])[:23]
        values = ["-" if row[key] is None else f"{100 * row[key]:.2f} %" for key in ("precision", "recall")]
        tell(f"  {name:<24}{values[0]:>10}{values[1]:>10}{row['rows']:>10}")
    if len(classes) > MOST_CLASSES:
        tell(f"  and {len(classes) - MOST_CLASSES} classes more (--json lists all)")
    for sentence in filter(None, (record["without_edges_missing"], *record["verdict"])):
        tell(textwrap.fill(sentence, WIDTH))


@shared.app.command()
@shared.folder_options(shared.FILE_OPTIONS)
def report(
    model: shared.ModelFolder,
    reading: Any,
    data: shared.Data = None,
    out: Annotated[Path, typer.Option(help="The page.")] = Path("report.html"),
    device: shared.Device = "cpu",
    data_dir: shared.DataDir = None,
    quiet: shared.Quiet = False,
) -> None:
    """Write one self-contained HTML page about a saved model: how good it is on these data, and why.

    Example: rapgnn report model/ my-graph/ --out report.html
    """
    check_report(out)
    if links.is_model(model):
        links.report(model, data, reading, data_dir, out)
        return
    write_page(*shared.open_model(model, data, data_dir, reading, device=device), out)


def check_report(path: Path) -> None:
    """Refuse a page that cannot be written, or made, before any work."""
    from rapgnn.files import check_writable
    from rapgnn.report.page import check_installed

    check_writable(path, PAGES)
    check_installed()


def write_page(estimator: Any, graph: Any, path: Path) -> None:
    """Write the page about a trained model."""
    from rapgnn.report.model import SECTIONS, write_model_report

    with shared.show_progress() as track:
        track.start(f"{graph.name} report", len(SECTIONS))
        write_model_report(estimator, graph, path, lambda done, total, title: track.set(done, f"report: {title}"))
    shared.tell(f"wrote {path} ({path.stat().st_size / 1e6:.1f} MB)")
