"""``rapgnn predict``: every row of a graph with a saved model."""

from pathlib import Path
from typing import Annotated, Any

import typer

from rapgnn.cli import shared
from rapgnn.cli.hops import MemoryOption, StoreOption, disk_graph, is_disk_graph, open_estimator, predict_from_disk
from rapgnn.errors import InputError


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
    memory: MemoryOption = None,
    store: StoreOption = None,
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
    if memory is not None or store is not None or is_disk_graph(data):
        if samples:
            raise InputError("predictions on a graph on disk are exact: leave out --samples.")
        limited = open_estimator(model, memory, device)
        with disk_graph(data, data_dir, reading, limited.limit_bytes()) as disk:
            predict_from_disk(limited, disk, out, probabilities, not no_spread, store)
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
