"""``rapgnn tune``: search on validation."""

from pathlib import Path
from typing import Annotated

import typer

from rapgnn.cli.app import app
from rapgnn.cli.progress import show_progress
from rapgnn.cli.shared import Attributes, DataDir, Device, JsonFile, load, pick_device, write_json
from rapgnn.errors import InputError


@app.command()
def tune(
    dataset: Annotated[str, typer.Argument(help="A dataset name, sbm:nodes=5000,..., or a folder.")],
    trials: Annotated[int, typer.Option(help="Finished trials the study shall hold.")] = 50,
    minutes: Annotated[float | None, typer.Option(help="Begin no new trial after so long.")] = None,
    method: Annotated[str, typer.Option(help="The strategy to tune.")] = "rap",
    embedding: Annotated[str, typer.Option(help="The embedding variant.")] = "pretrained",
    space: Annotated[str, typer.Option(help="paper: the paper's ranges; wide: past them.")] = "paper",
    seeds: Annotated[int | None, typer.Option(help="Seeds per trial (default 3; 1 for folds).")] = None,
    attributes: Attributes = False,
    storage: Annotated[Path, typer.Option(help="SQLite file that keeps every trial.")] = Path("tune.db"),
    device: Device = "cpu",
    data_dir: DataDir = None,
    json_file: JsonFile = None,
) -> None:
    """Search on validation only; every trial is stored, and a killed search goes on where it stopped.

    Example: rapgnn tune cora --method rap --embedding identity --space wide --trials 80
    """
    from rapgnn.errors import check_choice
    from rapgnn.files import check_writable
    from rapgnn.methods import METHODS
    from rapgnn.search import search

    check_writable(json_file)
    check_writable(storage)
    check_choice("method", method, METHODS)
    if trials < 1 or (seeds is not None and seeds < 1):
        raise InputError("trials and seeds must be at least 1.")
    if minutes is not None and not minutes > 0:
        raise InputError(f"--minutes must be above 0, got {minutes}.")
    graph = load(dataset, data_dir, attributes).to(pick_device(device))
    with show_progress() as track:
        track.start(f"{graph.name} {method}", trials)
        best = search(
            graph,
            method,
            storage,
            trials=trials,
            seeds=(1 if graph.folds else 3) if seeds is None else seeds,
            space=space,
            embedding=embedding,
            minutes=minutes,
            on_trial=lambda done, value: track.set(
                done, f"{graph.name} {method}: best validation {graph.rule.show(value)}"
            ),
        )
    write_json([best], json_file)
    values = ", ".join(
        f"{key}={value:.4g}" if isinstance(value, float) else f"{key}={value}"
        for key, value in best["settings"].items()
    )
    found = graph.rule.show(best["val_mean"])
    typer.echo(f"best of {best['trials']} trials: number {best['trial']}, validation {found}; {values}")
    typer.echo(f"every trial is in {storage}")
