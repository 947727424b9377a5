"""``rapgnn fit``: train on a graph or on many, and save the model."""

from pathlib import Path
from typing import Annotated, Any

import typer

from rapgnn.cli import shared
from rapgnn.cli.evaluate import ClassWeightOption, MetricOption, check_goal, score_model, show_scores
from rapgnn.cli.hops import (
    ClusterOption,
    MemoryOption,
    StoreOption,
    check_workers,
    disk_graph,
    fit_from_disk,
    hops_option,
    is_disk_graph,
)
from rapgnn.cli.report import check_report, write_page
from rapgnn.errors import InputError


@shared.app.command()
@shared.folder_options(shown=shared.USUAL_OPTIONS)
def fit(
    data: shared.Data,
    out: Annotated[Path, typer.Option(help="Folder for the trained model.")],
    reading: Any,
    backbone: shared.BackboneOption = None,
    layers: shared.LayersOption = None,
    hidden: shared.HiddenOption = None,
    epochs: shared.EpochsOption = None,
    embedding: shared.EmbeddingOption = None,
    head: shared.HeadOption = None,
    settings: shared.SettingsOption = None,
    network: shared.NetworkOption = None,
    metric: MetricOption = None,
    class_weight: ClassWeightOption = None,
    report: Annotated[Path | None, typer.Option(help="An HTML page about the model.")] = None,
    budget: Annotated[float | None, typer.Option(help="Seconds to search for what is not given.")] = None,
    memory: MemoryOption = None,
    store: StoreOption = None,
    cluster: ClusterOption = None,
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
    given = {"backbone": backbone, "num_layers": layers, "hidden_channels": hidden, "epochs": epochs}
    overrides = shared.read_settings(settings, **given, head=head, embedding=embedding)
    shared.check_options(overrides, device=device, seed=seed)
    described = shared.describe_network(network, bool(overrides))
    if any(option is not None for option in (memory, store, cluster)) or is_disk_graph(data):
        if described is not None:
            raise InputError("--network needs the graph in memory: leave --memory, --store and --cluster out.")
        check_workers(data)
        kept = {"memory_limit": memory, "scoring": metric, "class_weight": class_weight, "seed": seed, "device": device}
        limited = RAPNodeClassifier(settings=overrides, hops=hops_option(store, cluster), **kept)
        with disk_graph(data, data_dir, reading, limited.limit_bytes()) as disk:
            check_goal(metric, class_weight, disk.task)
            fit_from_disk(limited, disk, out, store, json_file)
        typer.echo(f"next: rapgnn predict {out} {data} --out predictions.csv")
        return
    graph = shared.load(data, data_dir, reading=reading)
    shared.show_columns(graph)
    check_goal(metric, class_weight, graph.task)
    estimator = estimator_for(graph.task)(
        settings=overrides,
        network=described,
        time_budget=budget,
        scoring=metric,
        class_weight=class_weight,
        seed=seed,
        device=device,
    )
    fit_and_save(estimator, graph, out, json_file)
    if report is not None:
        write_page(estimator, graph, report)
    typer.echo(f"next: rapgnn predict {out} {data} --out predictions.csv")
    typer.echo(f"      rapgnn evaluate {out} {data}")


def fit_and_save(estimator: Any, graph: Any, out: Path, json_file: Path | None = None) -> dict[str, Any]:
    """Train an estimator, save the model, and print its scores: the record of it."""
    import warnings

    from rapgnn.errors import InputNotice
    from rapgnn.estimators.evaluation import chosen_words
    from rapgnn.graph.scores import with_goal
    from rapgnn.training.checkpoint import check_target

    if check_target(out):
        shared.say(f"replaces the model in {out}")
    with shared.show_progress() as track, warnings.catch_warnings():
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
        shared.say(note)
    estimator.save(out)
    config = estimator.config_
    record = {"dataset": graph.name, "task": graph.task, "metric": graph.objective.metric, "engine": estimator.engine_}
    record |= {"model": str(out), "config": config.to_dict(), "candidates": len(estimator.trials_)}
    record |= {"class_weight": estimator.class_weight_}
    asked = {"scoring": estimator.scoring, "seed": estimator.seed}
    asked["class_weight"] = estimator.class_weight_ or estimator.class_weight
    record |= score_model(estimator.model_, graph, **asked)
    shared.write_json([record], json_file)
    typer.echo(f"saved {out} ({estimator.engine_} engine, because {estimator.engine_reason_})")
    if estimator.trials_:
        chosen = chosen_words(estimator.model_)
        balanced = ", classes weighted" if estimator.class_weight_ else ""
        how = "as described" if estimator.network else f"chosen on validation among {len(estimator.trials_)}"
        typer.echo(f"{how}: {chosen}{balanced}")
    show_scores(graph, record)
    return record
