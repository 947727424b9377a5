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
    EmbeddingOption,
    EpochsOption,
    HeadOption,
    HiddenOption,
    JsonFile,
    LayersOption,
    SettingsOption,
    load,
    pick_device,
    read_settings,
    write_json,
)
from rapgnn.errors import InputError


@app.command()
def fit(
    data: Annotated[str, typer.Argument(help="A dataset name, sbm:nodes=5000,..., or a folder.")],
    out: Annotated[Path, typer.Option(help="Folder for the trained model.")],
    backbone: BackboneOption = None,
    layers: LayersOption = None,
    hidden: HiddenOption = None,
    epochs: EpochsOption = None,
    embedding: EmbeddingOption = None,
    head: HeadOption = None,
    settings: SettingsOption = None,
    seed: Annotated[int, typer.Option(help="Decides everything random.")] = 0,
    device: Device = "cpu",
    data_dir: DataDir = None,
    json_file: JsonFile = None,
) -> None:
    """Train RAP-GNN on a graph or on many, and save the model.

    Example: rapgnn fit my-graph/ --out model/
    """
    from rapgnn.checkpoint import check_target
    from rapgnn.defaults import default_config
    from rapgnn.files import check_writable

    check_writable(json_file)
    check_target(out)
    given = {"backbone": backbone, "num_layers": layers, "hidden_channels": hidden, "epochs": epochs, "head": head}
    overrides = read_settings(settings, given)
    graph = load(data, data_dir).to(pick_device(device))
    config = default_config(graph, "rap", embedding).update(**overrides)
    fit_and_save(graph, config, seed, out, json_file)


def fit_and_save(graph: Any, config: Any, seed: int, out: Path, json_file: Path | None = None) -> dict[str, Any]:
    """Train the random layers' embedding and head, save the model, and print its scores: the record of it."""
    from rapgnn.checkpoint import Schema, save_checkpoint
    from rapgnn.training import fit_rap

    with show_progress() as track:
        track.start(f"{graph.name} RAP-GNN", 1 if config.head == "ridge" else config.epochs)
        fitted = fit_rap(graph, config, seed, track.advance)
    save_checkpoint(out, fitted.model.cpu(), Schema.of(graph))  # type: ignore[arg-type]
    record = {"dataset": graph.name, "task": graph.task, "metric": graph.rule.metric, "engine": fitted.engine}
    record |= {"model": str(out), "config": config.to_dict()}
    model, graph = fitted.model, graph.to("cpu")
    record |= _scores(model, graph, ("train", "val", "test"))
    write_json([record], json_file)
    typer.echo(f"saved {out} ({fitted.engine} engine, because {fitted.reason})")
    _show_scores(graph, record)
    return record


@app.command()
def evaluate(
    model: Annotated[Path, typer.Argument(help="A folder that rapgnn fit made.")],
    data: Annotated[str, typer.Argument(help="A dataset name, sbm:nodes=5000,..., or a folder.")],
    data_dir: DataDir = None,
    json_file: JsonFile = None,
) -> None:
    """Score a saved model on the splits of a graph, the one it was trained on or another.

    Example: rapgnn evaluate model/ my-graph/
    """
    from rapgnn.checkpoint import load_checkpoint
    from rapgnn.files import check_writable

    check_writable(json_file)
    loaded, schema = load_checkpoint(model)
    graph = load(data, data_dir)
    schema.check(graph)
    record = {"dataset": graph.name, "task": graph.task, "metric": graph.rule.metric, "model": str(model)}
    record |= _scores(loaded, graph, ("train", "val", "test"))
    write_json([record], json_file)
    _show_scores(graph, record)


@app.command()
def predict(
    model: Annotated[Path, typer.Argument(help="A folder that rapgnn fit made.")],
    data: Annotated[str, typer.Argument(help="A dataset name, sbm:nodes=5000,..., or a folder.")],
    out: Annotated[Path, typer.Option(help="Predictions: a .csv or .parquet file.")],
    samples: Annotated[int, typer.Option(help="Mean over so many draws, with its spread; 0: the model's own way.")] = 0,
    data_dir: DataDir = None,
) -> None:
    """Predict every row of a graph with a saved model: id, label, probability and its spread over draws.

    Example: rapgnn predict model/ my-graph/ --out predictions.csv --samples 32
    """
    from rapgnn.checkpoint import load_checkpoint
    from rapgnn.files import check_writable
    from rapgnn.inference import predictor_on
    from rapgnn.predictions import TABLES, prediction_table, write_table

    check_writable(out, TABLES)
    if samples < 0:
        raise InputError(f"--samples must not be negative, got {samples}.")
    loaded, schema = load_checkpoint(model)
    graph = load(data, data_dir)
    schema.check(graph)
    predictor = predictor_on(loaded, graph, "mean" if samples else None, samples or None)
    table = prediction_table(graph, predictor)
    write_table(table, out)
    typer.echo(f"wrote {len(table)} predictions to {out}")


def _scores(model: Any, graph: Any, splits: tuple[str, ...]) -> dict[str, float]:
    from rapgnn.inference import predictor_on

    predictor = predictor_on(model, graph)
    found = {}
    for split in splits:
        rows = graph.rows(split)
        if len(rows):
            found[split] = graph.rule.score(predictor(rows).scores, graph.y[rows])
    return found


def _show_scores(graph: Any, record: dict[str, Any]) -> None:
    unit = " %" if graph.rule.percent else ""
    for split in ("train", "val", "test"):
        if split in record:
            typer.echo(f"{split:<6} {graph.rule.title} {graph.rule.show(record[split])}{unit}")
