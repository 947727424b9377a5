"""``rapgnn tune``: search on validation."""

from pathlib import Path
from typing import Annotated, Any

import typer

from rapgnn.cli import shared
from rapgnn.cli.model import ClassWeightOption, MetricOption, check_goal, fit_and_save
from rapgnn.errors import InputError


@shared.app.command()
@shared.folder_options()
def tune(
    dataset: Annotated[str, typer.Argument(help="A dataset name, sbm:nodes=5000,..., or a folder.")],
    reading: Any,
    trials: Annotated[int, typer.Option(help="Finished trials to reach.")] = 50,
    minutes: Annotated[float | None, typer.Option(help="Time for the whole search.")] = None,
    method: Annotated[str, typer.Option(help="The method to tune.")] = "rap",
    space: Annotated[str | None, typer.Option(help="any, or the paper's: faithful (its datasets).")] = None,
    embedding: Annotated[str | None, typer.Option(help="Fix it; space any chooses it otherwise.")] = None,
    seeds: Annotated[int | None, typer.Option(help="Seeds per trial (default 3; 1 for folds).")] = None,
    metric: MetricOption = None,
    class_weight: ClassWeightOption = None,
    seed: Annotated[int, typer.Option(help="Your folder: decides a split.")] = 0,
    storage: Annotated[Path, typer.Option(help="Keeps every trial (SQLite; Optuna plots it).")] = Path("tune.db"),
    out: Annotated[Path | None, typer.Option(help="Folder for the best model, trained anew.")] = None,
    device: shared.Device = "cpu",
    data_dir: shared.DataDir = None,
    json_file: shared.JsonFile = None,
    quiet: shared.Quiet = False,
) -> None:
    """Search on validation only, from a short search's best RAP network; a killed search continues where it stopped.

    Processes share a search that is started several times with the same --storage.

    Example: rapgnn tune my-graph/ --minutes 30 --out model/
    """
    from rapgnn.compare import STRATEGIES
    from rapgnn.device import pick_device
    from rapgnn.errors import check_choice
    from rapgnn.estimators.estimators import estimator_for
    from rapgnn.files import check_writable
    from rapgnn.graph.rows import with_goal
    from rapgnn.network.encode import EMBEDDINGS
    from rapgnn.search.start import start_config
    from rapgnn.training.checkpoint import check_target
    from rapgnn.training.fit import fit_rap
    from rapgnn_lab.baselines.systems import METHODS
    from rapgnn_lab.tune.search import Search
    from rapgnn_lab.tune.space import ANY, SPACES, TABLES, VARIANTS
    from rapgnn_lab.tuned import FAITHFUL

    check_writable(json_file)
    check_writable(storage)
    check_choice("method", method, STRATEGIES)
    if space is not None:
        check_choice("search space", space, SPACES)
    if embedding is not None:
        check_choice("embedding", embedding, [*EMBEDDINGS, *(VARIANTS if space == FAITHFUL else ())])
    if out is not None:
        check_target(out)
        if METHODS[method].fit is not fit_rap:
            raise InputError(f"--out saves models with random layers, which {method} has not: leave it out.")
    if min(trials, 1 if seeds is None else seeds) < 1:
        raise InputError("trials and seeds must be at least 1.")
    if minutes is not None and not minutes > 0:
        raise InputError(f"--minutes must be above 0, got {minutes}.")
    shared.check_options({}, None, device, seed)
    graph = shared.load(dataset, data_dir, reading)
    check_goal(metric, class_weight, graph.task)
    graph = with_goal(graph, metric, class_weight).to(pick_device(device))
    space = space or (FAITHFUL if graph.name in TABLES else ANY)
    seeds = seeds or (1 if graph.folds else 3)
    title, show = f"{graph.name} {method}", graph.objective.show
    with shared.show_progress() as track:
        track.start(title, trials)
        plan = Search(graph, method, storage, trials, seeds, space, embedding, minutes=minutes)
        best = plan.run(lambda count, value: track.set(count, f"{title}: best validation {show(value)}"), shared.say)
    shared.write_json([best], json_file)
    values = ", ".join(f"{k}={v:.4g}" if isinstance(v, float) else f"{k}={v}" for k, v in best["settings"].items())
    first = ", what rapgnn fit chooses" if best["origin"] == "estimator" else ""
    score = f"best of {best['trials']} trials: number {best['trial']}{first}, validation {show(best['val_mean'])}"
    typer.echo(f"{score}; {values}\nevery trial is in {storage}")
    if json_file is not None:
        typer.echo(f"wrote {json_file}")
    if out is not None:
        chosen = {key: value for key, value in best["settings"].items() if key != "class_weight"}
        config = METHODS[method].configure(start_config(graph, METHODS[method].trained).update(**chosen))
        goal = {"scoring": metric, "class_weight": best["settings"].get("class_weight", class_weight)}
        model = estimator_for(graph.task)(settings=config.to_dict(), search=False, seed=seed, device=device, **goal)
        shared.say(f"training the best once more, with seed {seed}, for {out}; this is not part of --minutes.")
        shared.write_json([best | {"saved": fit_and_save(model, graph.to("cpu"), out)}], json_file)
