"""``rapgnn fit``, ``evaluate`` and ``predict``: one model, saved and used."""

from pathlib import Path
from typing import Annotated, Any

import typer

from rapgnn.cli.app import app
from rapgnn.cli.cluster import ClusterOption, check_workers, worker_engine
from rapgnn.cli.disk import (
    MemoryOption,
    StoreOption,
    disk_graph,
    fit_from_disk,
    is_disk_graph,
    open_estimator,
    predict_from_disk,
    score_disk,
)
from rapgnn.cli.progress import show_progress
from rapgnn.cli.reading import FILE_OPTIONS, USUAL_OPTIONS, folder_options, show_columns
from rapgnn.cli.report import check_report, write_fitted
from rapgnn.cli.scores import ClassWeightOption, MetricOption, check_goal, score_model, show_scores
from rapgnn.cli.shared import (
    BackboneOption,
    DataDir,
    Device,
    EmbeddingOption,
    EpochsOption,
    HeadOption,
    HiddenOption,
    JsonFile,
    LayersOption,
    NetworkOption,
    Quiet,
    SettingsOption,
    check_options,
    describe_network,
    load,
    read_settings,
    say,
    write_json,
)
from rapgnn.errors import InputError

ModelFolder = Annotated[Path, typer.Argument(help="A folder that rapgnn fit made.")]
Data = Annotated[str, typer.Argument(help="A dataset name, sbm:nodes=5000,..., or a folder.")]


@app.command()
@folder_options(shown=USUAL_OPTIONS)
def fit(
    data: Data,
    out: Annotated[Path, typer.Option(help="Folder for the trained model.")],
    reading: Any,
    backbone: BackboneOption = None,
    layers: LayersOption = None,
    hidden: HiddenOption = None,
    epochs: EpochsOption = None,
    embedding: EmbeddingOption = None,
    head: HeadOption = None,
    settings: SettingsOption = None,
    network: NetworkOption = None,
    metric: MetricOption = None,
    class_weight: ClassWeightOption = None,
    report: Annotated[Path | None, typer.Option(help="An HTML page about the model.")] = None,
    budget: Annotated[float | None, typer.Option(help="Seconds to search for what is not given.")] = None,
    memory: MemoryOption = None,
    store: StoreOption = None,
    cluster: ClusterOption = None,
    seed: Annotated[int, typer.Option(help="Decides everything random.")] = 0,
    device: Device = "cpu",
    data_dir: DataDir = None,
    json_file: JsonFile = None,
    quiet: Quiet = False,
) -> None:
    """Train on a graph or on many, and save the model. What is not given is chosen on validation.
    More options for your own folder: rapgnn data info --help.

    Example: rapgnn fit my-graph/ --label species --out model/
    """
    from rapgnn.estimators.estimators import RAPNodeClassifier, estimator_for
    from rapgnn.experiments.tuned import best_settings, default_config
    from rapgnn.files import check_writable
    from rapgnn.training.checkpoint import check_target

    check_writable(json_file)
    check_target(out)
    if report is not None:
        check_report(report)
    if budget is not None and not budget >= 0:
        raise InputError(f"--budget must not be negative, got {budget}.")
    overrides = read_settings(
        settings, backbone=backbone, num_layers=layers, hidden_channels=hidden, epochs=epochs, head=head
    )
    check_options(overrides, embedding, device, seed)
    described = describe_network(network, bool(overrides) or embedding is not None)
    if any(option is not None for option in (memory, store, cluster)) or is_disk_graph(data):
        if described is not None:
            raise InputError("--network needs the graph in memory: leave --memory, --store and --cluster out.")
        check_workers(data)
        overrides |= {} if embedding is None else {"embedding": embedding}
        kept = {"memory_limit": memory, "scoring": metric, "class_weight": class_weight, "seed": seed, "device": device}
        kept |= {"engine": worker_engine(store), "cluster": cluster}
        limited = RAPNodeClassifier(settings=overrides, **kept)
        with disk_graph(data, data_dir, reading, limited.limit_bytes()) as disk:
            check_goal(metric, class_weight, disk.task)
            fit_from_disk(limited, disk, out, store, json_file)
        typer.echo(f"next: rapgnn predict {out} {data} --out predictions.csv")
        return
    graph = load(data, data_dir, reading=reading)
    show_columns(graph)
    check_goal(metric, class_weight, graph.task)
    known = described is None and best_settings(graph.name, "rap", "best", graph.objective.higher) is not None
    if known or embedding == "best":
        overrides = default_config(graph, "rap", embedding).to_dict() | overrides
    elif embedding is not None:
        overrides |= {"embedding": embedding}
    estimator = estimator_for(graph.task)(
        settings=overrides,
        network=described,
        search=not known,
        time_budget=budget,
        scoring=metric,
        class_weight=class_weight,
        seed=seed,
        device=device,
    )
    fit_and_save(estimator, graph, out, json_file)
    if report is not None:
        write_fitted(estimator, graph, report)
    typer.echo(f"next: rapgnn predict {out} {data} --out predictions.csv")
    typer.echo(f"      rapgnn evaluate {out} {data}")


def fit_and_save(estimator: Any, graph: Any, out: Path, json_file: Path | None = None) -> dict[str, Any]:
    """Train an estimator, save the model, and print its scores: the record of it."""
    import warnings

    from rapgnn.errors import InputNotice
    from rapgnn.estimators.words import chosen_words
    from rapgnn.graph.goals import with_goal
    from rapgnn.training.checkpoint import check_target

    if check_target(out):
        say(f"replaces the model in {out}")
    with show_progress() as track, warnings.catch_warnings():
        warnings.simplefilter("ignore", InputNotice)  # loading has said it, the rest is said below
        settings = estimator.settings
        epochs = None if estimator.search else 1 if settings.get("head") == "ridge" else settings.get("epochs")
        track.start(f"{graph.name} RAP-GNN", epochs)
        tried: list[float] = []
        goal = with_goal(graph, estimator.scoring).objective

        def on_trial(settings: dict[str, Any], value: float) -> None:
            tried.append(goal.merit(value))
            best = goal.show(goal.merit(max(tried)))
            track.set(len(tried), f"{graph.name}: best of {len(tried)} candidates {best}")

        estimator.fit_graph(graph, on_trial, track.advance)
    for note in estimator.notes_[len(graph.notes) :]:
        say(note)
    estimator.save(out)
    config = estimator.config_
    record = {"dataset": graph.name, "task": graph.task, "metric": graph.objective.metric, "engine": estimator.engine_}
    record |= {"model": str(out), "config": config.to_dict(), "candidates": len(estimator.trials_)}
    record |= {"class_weight": estimator.class_weight_}
    asked = {"scoring": estimator.scoring, "seed": estimator.seed}
    asked["class_weight"] = estimator.class_weight_ or estimator.class_weight
    record |= score_model(estimator.model_, graph, **asked)
    write_json([record], json_file)
    typer.echo(f"saved {out} ({estimator.engine_} engine, because {estimator.engine_reason_})")
    if estimator.trials_:
        chosen = chosen_words(estimator.model_)
        balanced = ", classes weighted" if estimator.class_weight_ else ""
        how = "as described" if estimator.network else f"chosen on validation among {len(estimator.trials_)}"
        typer.echo(f"{how}: {chosen}{balanced}")
    show_scores(graph, record)
    return record


@app.command()
@folder_options(taken=FILE_OPTIONS)
def evaluate(
    model: ModelFolder,
    data: Data,
    reading: Any,
    memory: MemoryOption = None,
    device: Device = "cpu",
    data_dir: DataDir = None,
    json_file: JsonFile = None,
    quiet: Quiet = False,
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
        write_json([record], json_file)
        return
    loaded, graph, _ = _open(model, data, data_dir, reading, labelled=True)
    record = {"dataset": graph.name, "task": graph.task, "metric": graph.objective.metric, "model": str(model)}
    record |= score_model(loaded, graph, seed=loaded.seed, device=device)
    write_json([record], json_file)
    show_scores(graph, record)


@app.command()
@folder_options(taken=FILE_OPTIONS)
def predict(
    model: ModelFolder,
    data: Data,
    out: Annotated[Path, typer.Option(help="Predictions: a .csv or .parquet file.")],
    reading: Any,
    samples: Annotated[int, typer.Option(help="Mean and spread over so many draws; 0: from the exact variance.")] = 0,
    probabilities: Annotated[bool, typer.Option("--probabilities", help="A column for every class.")] = False,
    no_spread: Annotated[bool, typer.Option("--no-spread", help="Leave the spread out.")] = False,
    memory: MemoryOption = None,
    store: StoreOption = None,
    device: Device = "cpu",
    data_dir: DataDir = None,
    quiet: Quiet = False,
) -> None:
    """Predict every row of a graph with a saved model: id, label, probability, its spread, and known: whether the data
    had the row's label.

    Example: rapgnn predict model/ my-graph/ --out predictions.csv
    """
    from rapgnn.device import pick_device
    from rapgnn.estimators.table import TABLES, prediction_table, write_table
    from rapgnn.files import check_writable
    from rapgnn.training.averaged import model_on

    check_writable(out, TABLES)
    if samples < 0 or samples == 1:
        raise InputError(f"--samples must be 0, or 2 and more for a spread, got {samples}.")
    if samples and no_spread:
        raise InputError("--samples draws for a spread: leave out --no-spread or --samples.")
    device = pick_device(device)
    if memory is not None or store is not None or is_disk_graph(data):
        if samples:
            raise InputError("predictions on a graph on disk are exact: leave out --samples.")
        limited = open_estimator(model, memory, device)
        with disk_graph(data, data_dir, reading, limited.limit_bytes()) as disk:
            predict_from_disk(limited, disk, out, probabilities, not no_spread, store)
        return
    (loaded, graph, schema), known = _open_any(model, data, data_dir, reading)
    inference = "mean" if samples else None if no_spread else "auto"
    with show_progress() as track:
        track.start(f"{graph.name} predictions, hops", None)
        how = {"error_bars": not no_spread, "device": device, "on_hop": track.advance}
        predictor = model_on(loaded, graph, inference=inference, num_samples=samples or None, **how)
        table = prediction_table(graph, predictor, schema.classes, probabilities, known)
    write_table(table, out)
    typer.echo(f"wrote {len(table)} predictions to {out}")


def _open_any(model: Path, data: str, data_dir: Path | None, reading: Any) -> tuple[tuple[Any, Any, Any], Any]:
    """What ``_open`` gives, of data that need no labels, and the rows whose label the data have."""
    try:
        found = _open(model, data, data_dir, reading, labelled=True)
    except InputError as error:  # there are no labels, or not the model's: neither is needed to predict
        found = _open(model, data, data_dir, reading, labelled=False)
        if "no label column" not in str(error) and "no row has a label" not in str(error):
            say(f"the labels in the data were not read: {error}")
        return found, found[1].labelled[:0]
    return found, found[1].labelled


def _open(model: Path, data: str, data_dir: Path | None, reading: Any, labelled: bool) -> tuple[Any, Any, Any]:
    """(model, graph, schema): the data read as the model's were."""
    from dataclasses import replace

    from rapgnn.training.checkpoint import load_checkpoint

    loaded, schema = load_checkpoint(model)
    kind = schema.task.partition("-")[2]
    reading = replace(
        reading,
        classes=schema.classes,
        encoding=schema.encoding,
        trained=True,
        labelled=labelled,
        task="regression" if kind == "regression" else "classification",
    )
    graph = load(data, data_dir, reading=reading, labels=labelled)
    if not labelled and graph.task.partition("-")[0] == schema.task.partition("-")[0]:
        graph = replace(graph, task=schema.task, num_outputs=schema.out_channels)
    schema.check(graph)
    return loaded, graph, schema
