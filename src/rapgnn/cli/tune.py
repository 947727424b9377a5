"""``rapgnn tune``: search on validation."""

from pathlib import Path
from typing import Annotated, Any

import typer

from rapgnn.cli.app import app
from rapgnn.cli.model import fit_and_save
from rapgnn.cli.progress import show_progress
from rapgnn.cli.reading import USUAL_OPTIONS, folder_options
from rapgnn.cli.scores import ClassWeightOption, MetricOption, check_goal
from rapgnn.cli.shared import (
    PLOTS,
    Attributes,
    DataDir,
    Device,
    JsonFile,
    Quiet,
    check_options,
    load,
    on_device,
    say,
    write_json,
)
from rapgnn.errors import InputError


@app.command()
@folder_options(shown=USUAL_OPTIONS)
def tune(
    dataset: Annotated[str, typer.Argument(help="A dataset name, sbm:nodes=5000,..., or a folder.")],
    reading: Any,
    trials: Annotated[int, typer.Option(help="Finished trials to reach.")] = 50,
    minutes: Annotated[float | None, typer.Option(help="Time for the whole search.")] = None,
    workers: Annotated[int, typer.Option(help="Processes that share the search.")] = 1,
    method: Annotated[str, typer.Option(help="The method to tune.")] = "rap",
    space: Annotated[str | None, typer.Option(help="any (your data), faithful, paper or wide.")] = None,
    embedding: Annotated[str | None, typer.Option(help="Fix it; space any chooses it otherwise.")] = None,
    seeds: Annotated[int | None, typer.Option(help="Seeds per trial (default 3; 1 for folds).")] = None,
    metric: MetricOption = None,
    class_weight: ClassWeightOption = None,
    seed: Annotated[int, typer.Option(help="Your folder: decides a split.")] = 0,
    attributes: Attributes = False,
    storage: Annotated[Path, typer.Option(help="Keeps every trial (SQLite).")] = Path("tune.db"),
    out: Annotated[Path | None, typer.Option(help="Folder for the best model, trained anew.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Plot what mattered (png, svg, pdf).")] = None,
    device: Device = "cpu",
    data_dir: DataDir = None,
    json_file: JsonFile = None,
    quiet: Quiet = False,
) -> None:
    """Search on validation only, from a short search's best RAP network; a killed search continues where it stopped.

    Example: rapgnn tune my-graph/ --workers 4 --minutes 30 --out model/
    """
    from rapgnn.errors import check_choice
    from rapgnn.estimators.estimators import estimator_for
    from rapgnn.estimators.start import start_config
    from rapgnn.experiments.tune.plot import plot_study
    from rapgnn.experiments.tune.search import search
    from rapgnn.experiments.tune.space import SPACES
    from rapgnn.experiments.tune.trials import weighted
    from rapgnn.files import check_writable
    from rapgnn.graph.goals import with_goal
    from rapgnn.training.checkpoint import check_target
    from rapgnn.training.fit import fit_rap
    from rapgnn.training.methods import METHODS, STRATEGIES

    check_writable(json_file)
    check_writable(storage)
    check_writable(plot, PLOTS)
    check_choice("method", method, STRATEGIES)
    if out is not None:
        check_target(out)
        if METHODS[method].fit is not fit_rap:
            raise InputError(f"--out saves models with random layers, which {method} has not: leave it out.")
    if trials < 1 or workers < 1 or (seeds is not None and seeds < 1):
        raise InputError("trials, workers and seeds must be at least 1.")
    if minutes is not None and not minutes > 0:
        raise InputError(f"--minutes must be above 0, got {minutes}.")
    check_options({}, embedding, device, seed)
    if space is not None:
        check_choice("search space", space, SPACES)
    graph = load(dataset, data_dir, attributes, reading)
    check_goal(metric, class_weight, graph.task)
    graph = on_device(with_goal(graph, metric, class_weight), device)
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
            workers=workers,
            on_trial=lambda done, value: track.set(
                done, f"{graph.name} {method}: best validation {graph.objective.show(value)}"
            ),
            say=say,
        )
    write_json([best], json_file)
    if plot:
        plot_study(storage, best, graph.task, plot)
    values = ", ".join(
        f"{key}={value:.4g}" if isinstance(value, float) else f"{key}={value}"
        for key, value in best["settings"].items()
    )
    found = graph.objective.show(best["val_mean"])
    first = ", what rapgnn fit chooses" if best["origin"] == "estimator" else ""
    typer.echo(f"best of {best['trials']} trials: number {best['trial']}{first}, validation {found}; {values}")
    typer.echo(f"every trial is in {storage}")
    for path in filter(None, (json_file, plot)):
        typer.echo(f"wrote {path}")
    if out is not None:
        _, chosen = weighted(graph, best["settings"])
        config = METHODS[method].configure(start_config(graph, METHODS[method].trained).update(**chosen))
        goal = {"scoring": metric, "class_weight": best["settings"].get("class_weight", class_weight)}
        best_model = estimator_for(graph.task)(
            settings=config.to_dict(), search=False, seed=seed, device=device, **goal
        )
        say(f"training the best once more, with seed {seed}, for {out}; this is not part of --minutes.")
        saved = fit_and_save(best_model, graph.to("cpu"), out)
        write_json([best | {"saved": saved}], json_file)
