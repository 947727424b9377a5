"""``rapgnn fit``, ``evaluate`` and ``predict``: one model, saved and used."""

from pathlib import Path
from typing import Annotated, Any

import typer

from rapgnn.cli.app import app
from rapgnn.cli.progress import show_progress
from rapgnn.cli.shared import (
    BackboneOption,
    DataDir,
    Device,
    DirectedOption,
    EmbeddingOption,
    EpochsOption,
    HeadOption,
    HiddenOption,
    IgnoreOption,
    ImputeOption,
    JsonFile,
    LabelOption,
    LayersOption,
    SettingsOption,
    TaskOption,
    load,
    read_settings,
    reading_of,
    say,
    write_json,
)
from rapgnn.errors import InputError

SPLITS = ("train", "val", "test")
ModelFolder = Annotated[Path, typer.Argument(help="A folder that rapgnn fit made.")]
Data = Annotated[str, typer.Argument(help="A dataset name, sbm:nodes=5000,..., or a folder.")]


@app.command()
def fit(
    data: Data,
    out: Annotated[Path, typer.Option(help="Folder for the trained model.")],
    label: LabelOption = None,
    ignore: IgnoreOption = None,
    impute: ImputeOption = False,
    directed: DirectedOption = False,
    task: TaskOption = None,
    backbone: BackboneOption = None,
    layers: LayersOption = None,
    hidden: HiddenOption = None,
    epochs: EpochsOption = None,
    embedding: EmbeddingOption = None,
    head: HeadOption = None,
    settings: SettingsOption = None,
    budget: Annotated[float | None, typer.Option(help="Seconds to search for what is not given.")] = None,
    seed: Annotated[int, typer.Option(help="Decides everything random.")] = 0,
    device: Device = "cpu",
    data_dir: DataDir = None,
    json_file: JsonFile = None,
) -> None:
    """Train on a graph or on many, and save the model. What is not given is chosen on validation.

    Example: rapgnn fit my-graph/ --label species --out model/
    """
    from rapgnn.estimators.estimators import estimator_for
    from rapgnn.experiments.tuned import best_settings, default_config
    from rapgnn.files import check_writable
    from rapgnn.training.checkpoint import check_target

    check_writable(json_file)
    check_target(out)
    if budget is not None and not budget >= 0:
        raise InputError(f"--budget must not be negative, got {budget}.")
    overrides = read_settings(
        settings, backbone=backbone, num_layers=layers, hidden_channels=hidden, epochs=epochs, head=head
    )
    reading = reading_of(label, ignore, impute, directed, task, seed)
    graph = load(data, data_dir, reading=reading)
    known = best_settings(graph.name, "rap", "best", graph.objective.higher) is not None
    if known or embedding == "best":
        overrides = default_config(graph, "rap", embedding).to_dict() | overrides
    elif embedding is not None:
        overrides |= {"embedding": embedding}
    estimator = estimator_for(graph.task)(
        settings=overrides, search=not known, time_budget=budget, seed=seed, device=device
    )
    fit_and_save(estimator, graph, out, json_file)


def fit_and_save(estimator: Any, graph: Any, out: Path, json_file: Path | None = None) -> dict[str, Any]:
    """Train an estimator, save the model, and print its scores: the record of it."""
    import warnings

    from rapgnn.errors import InputNotice

    with show_progress() as track, warnings.catch_warnings():
        warnings.simplefilter("ignore", InputNotice)  # loading has said it
        settings = estimator.settings
        epochs = None if estimator.search else 1 if settings.get("head") == "ridge" else settings.get("epochs")
        track.start(f"{graph.name} RAP-GNN", epochs)
        tried: list[float] = []

        def on_trial(settings: dict[str, Any], value: float) -> None:
            tried.append(graph.objective.merit(value))
            best = graph.objective.show(graph.objective.merit(max(tried)))
            track.set(len(tried), f"{graph.name}: best of {len(tried)} candidates {best}")

        estimator.fit_graph(graph, on_trial, track.advance)
    estimator.save(out)
    config = estimator.config_
    record = {"dataset": graph.name, "task": graph.task, "metric": graph.objective.metric, "engine": estimator.engine_}
    record |= {"model": str(out), "config": config.to_dict(), "candidates": len(estimator.trials_)}
    record |= _scores(estimator.model_, graph)
    write_json([record], json_file)
    typer.echo(f"saved {out} ({estimator.engine_} engine, because {estimator.engine_reason_})")
    if estimator.trials_:
        chosen = f"{config.backbone}, {config.num_layers} layers, {config.embedding} embedding, {config.head} head"
        typer.echo(f"chosen on validation among {len(estimator.trials_)}: {chosen}")
    _show_scores(graph, record)
    return record


@app.command()
def evaluate(model: ModelFolder, data: Data, data_dir: DataDir = None, json_file: JsonFile = None) -> None:
    """Score a saved model on the splits of a graph, the one it was trained on or another.

    Example: rapgnn evaluate model/ my-graph/
    """
    from rapgnn.files import check_writable

    check_writable(json_file)
    loaded, graph, _ = _open(model, data, data_dir, labelled=True)
    record = {"dataset": graph.name, "task": graph.task, "metric": graph.objective.metric, "model": str(model)}
    record |= _scores(loaded, graph)
    write_json([record], json_file)
    _show_scores(graph, record)


@app.command()
def predict(
    model: ModelFolder,
    data: Data,
    out: Annotated[Path, typer.Option(help="Predictions: a .csv or .parquet file.")],
    samples: Annotated[int, typer.Option(help="Mean and spread over so many draws; 0: from the exact variance.")] = 0,
    data_dir: DataDir = None,
) -> None:
    """Predict every row of a graph with a saved model: id, label, probability and its spread.

    Example: rapgnn predict model/ my-graph/ --out predictions.csv
    """
    from rapgnn.estimators.table import TABLES, prediction_table, write_table
    from rapgnn.files import check_writable
    from rapgnn.training.predict import predictor_on

    check_writable(out, TABLES)
    if samples < 0 or samples == 1:
        raise InputError(f"--samples must be 0, or 2 and more for a spread, got {samples}.")
    loaded, graph, schema = _open(model, data, data_dir, labelled=False)
    predictor = predictor_on(loaded, graph, "mean" if samples else "auto", samples or None, error_bars=True)
    table = prediction_table(graph, predictor, schema.classes)
    write_table(table, out)
    typer.echo(f"wrote {len(table)} predictions to {out}")


def _open(model: Path, data: str, data_dir: Path | None, labelled: bool) -> tuple[Any, Any, Any]:
    """(model, graph, schema): the data read as the model's were."""
    from dataclasses import replace

    from rapgnn.datasets.folder import Reading
    from rapgnn.training.checkpoint import load_checkpoint

    loaded, schema = load_checkpoint(model)
    kind = schema.task.partition("-")[2]
    reading = Reading(
        classes=schema.classes,
        encoding=schema.encoding,
        trained=True,
        labelled=labelled,
        task="regression" if kind == "regression" else "classification",
    )
    graph = load(data, data_dir, reading=reading)
    if not labelled and graph.task.partition("-")[0] == schema.task.partition("-")[0]:
        graph = replace(graph, task=schema.task, num_outputs=schema.out_channels)
    schema.check(graph)
    return loaded, graph, schema


def _scores(model: Any, graph: Any) -> dict[str, float]:
    """The metric of every split that has rows; of all labelled rows, where there is no split."""
    from rapgnn.training.predict import predictor_on

    predictor = predictor_on(model, graph)
    rows = {split: graph.rows(split) for split in SPLITS if len(graph.rows(split))}
    if not rows:
        rows = {"all": graph.labelled}
        say("the data name no split: every labelled row counts, also any that the model was trained on.")
    if not sum(map(len, rows.values())):
        raise InputError("there are no labels to score against.")
    return {split: graph.objective.score(predictor(index).scores, graph.y[index]) for split, index in rows.items()}


def _show_scores(graph: Any, record: dict[str, Any]) -> None:
    unit = " %" if graph.objective.percent else ""
    for split in (*SPLITS, "all"):
        if split in record:
            typer.echo(f"{split:<6} {graph.objective.title} {graph.objective.show(record[split])}{unit}")
