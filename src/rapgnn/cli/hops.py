"""Graphs larger than memory on the command line: ``rapgnn hops``, and what fit, evaluate and predict do with them."""

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from rapgnn.cli import shared
from rapgnn.errors import InputError

MemoryOption = Annotated[
    str | None, typer.Option("--memory", help="A limit, such as 8GiB.", rich_help_panel=shared.LARGE)
]
StoreOption = Annotated[
    Path | None, typer.Option("--store", help="Hops: kept here, or from rapgnn hops.", rich_help_panel=shared.LARGE)
]
LABELLED, EVERY = "labelled", "all"


def is_disk_graph(data: str) -> bool:
    """Whether this names the folder of a graph on disk."""
    from rapgnn.scale.disk_graph import is_sealed

    return is_sealed(Path(data))


@contextlib.contextmanager
def disk_graph(data: str, data_dir: Path | None, reading: Any, memory: str | None) -> Iterator[Any]:
    """The graph on disk that is meant: the folder of one, or tables that become one, or a dataset that is written."""
    import tempfile

    from rapgnn.memory import read_size
    from rapgnn.scale.disk_graph import DiskGraph
    from rapgnn.scale.tables.convert import MEMORY, convert_folder

    path, limit = Path(data), MEMORY if memory is None else read_size(memory, "--memory")
    if is_disk_graph(data):
        yield DiskGraph.open(path, say=shared.say)
    elif path.is_dir():
        with shared.show_progress() as track:
            graph = convert_folder(path, None, reading, limit, track=track)
        shared.say(f"the tables are kept as a graph on disk in {graph.folder}")
        yield graph
    else:
        with tempfile.TemporaryDirectory(prefix="rapgnn-graph-") as folder:
            yield DiskGraph.write(Path(folder) / "graph", shared.load(data, data_dir, reading=reading))


@contextlib.contextmanager
def shown_hops(title: str) -> Iterator[Callable[[int, int], None]]:
    """Progress over hops: a function that is told how many of how many are done. Of several workers the first tells."""
    with shared.show_progress() as track:
        begun: list[int] = []

        def on_hop(done: int, of: int) -> None:
            if begun != [of]:
                begun[:] = [of]
                track.start(title, of)
            track.set(done, title)

        yield on_hop


@shared.app.command()
@shared.folder_options(shared.DISK_OPTIONS)
def hops(
    data: Annotated[str, typer.Argument(help="The folder of a graph on disk, or of tables.")],
    out: Annotated[Path, typer.Option(help="Folder for the hop store.")],
    reading: Any,
    rows: Annotated[str, typer.Option(help="labelled: train and val; all, for error bars.")] = LABELLED,
    backbone: shared.BackboneOption = None,
    layers: shared.LayersOption = None,
    embedding: shared.EmbeddingOption = None,
    settings: shared.SettingsOption = None,
    memory: MemoryOption = None,
    seed: Annotated[int, typer.Option(help="Of a random embedding.")] = 0,
    device: shared.Device = "cpu",
    data_dir: shared.DataDir = None,
    json_file: shared.JsonFile = None,
    quiet: shared.Quiet = False,
) -> None:
    """Compute the hops of a graph that is larger than memory and keep them in a folder, for rapgnn fit --store.
    A run that was stopped goes on after the last block of columns that is whole.

    Example: rapgnn hops my-graph/ --out hops/ --memory 8GiB
    """
    import time

    import numpy as np

    from rapgnn.device import pick_device
    from rapgnn.errors import check_choice
    from rapgnn.estimators.disk import DiskEstimator
    from rapgnn.files import check_writable
    from rapgnn.memory import PeakAnonymous, read_size, show_size
    from rapgnn.scale.fit import labelled_graph
    from rapgnn.scale.homes import open_home
    from rapgnn.scale.hops import Budget, untrained

    check_writable(json_file)
    check_choice("rows", rows, (LABELLED, EVERY))
    check_workers(data)
    fixed = shared.read_settings(settings, backbone=backbone, num_layers=layers, embedding=embedding)
    shared.check_options(fixed, embedding, device, seed)
    limit, start = None if memory is None else read_size(memory, "--memory"), time.perf_counter()
    with disk_graph(data, data_dir, reading, memory) as graph, PeakAnonymous() as peak:
        small, nodes = labelled_graph(graph)
        config = DiskEstimator(settings=fixed, seed=seed).plain_settings(small)
        model = untrained(graph, config, seed)
        wanted = nodes if rows == LABELLED else np.arange(graph.num_nodes)
        budget = Budget(limit, pick_device(device))
        with shown_hops(f"{graph.name} hops") as on_hop, open_home(hops_option(out, None), budget.device) as home:
            computed = home.hops(graph, model, budget)
            store = computed.store(out, wanted, on_hop)
        end_others()
    record = {
        "dataset": graph.name,
        "store": str(out),
        "rows": len(wanted),
        "columns": store.of.channels,
        "hops": list(store.of.hops),
        "blocks": len(store.blocks),
        "bytes": store.bytes,
        "seconds": time.perf_counter() - start,
        "peak_memory_mb": peak.bytes / 2**20,
        "config": model.config.to_dict(),
    }
    shared.write_json([record], json_file)
    blocks = f"{len(store.blocks)} block{'s' if len(store.blocks) > 1 else ''}"
    shared.tell(f"stored {len(store.of.hops)} hops of {len(wanted):,} rows and {store.of.channels} columns in {out}")
    shared.tell(f"{show_size(store.bytes)} in {blocks} of columns, exact because {computed.reason}")
    shared.tell(f"next: rapgnn fit {data} --store {out} --out model")


def fit_from_disk(estimator: Any, graph: Any, out: Path, store: Path | None, json_file: Path | None) -> None:
    """Train an estimator on a graph on disk, save the model, and print its scores."""
    import time
    import warnings

    from rapgnn.errors import InputNotice
    from rapgnn.memory import PeakAnonymous
    from rapgnn.training.checkpoint import check_target

    if check_target(out):
        shared.say(f"replaces the model in {out}")
    start = time.perf_counter()
    with PeakAnonymous() as peak, shown_hops(f"{graph.name} hops") as on_hop, warnings.catch_warnings():
        warnings.simplefilter("ignore", InputNotice)
        estimator.fit_disk(graph, store, on_hop)
    end_others()
    seconds = time.perf_counter() - start
    for note in estimator.notes_:
        shared.say(note)
    estimator.save(out)
    config, rows = estimator.config_, len(graph.train)
    record = {"dataset": graph.name, "task": graph.task, "engine": estimator.engine_, "model": str(out)}
    record |= {"fit_seconds": seconds, "peak_memory_mb": peak.bytes / 2**20, "blocks": estimator.blocks_}
    record |= {"config": config.to_dict(), "memory_limit": estimator.memory_limit}
    shared.tell(f"saved {out} ({estimator.engine_} engine, because {estimator.engine_reason_})")
    chosen = f"{config.backbone}, {config.num_layers} layers, {config.embedding} embedding, {config.head} head"
    shared.tell(f"{chosen}, {rows:,} training rows, {seconds:.1f} s")
    record |= score_disk(estimator, graph, shared.tell)
    shared.write_json([record], json_file)


def score_disk(estimator: Any, graph: Any, tell: Callable[[str], None] = typer.echo) -> dict[str, Any]:
    """The metric of every split that has rows, printed too."""
    import numpy as np

    from rapgnn.estimators.evaluation import shown
    from rapgnn.graph.scores import metrics_for

    name = estimator.scoring or estimator.schema_.objective.metric
    metric = metrics_for(graph.task)[name]
    splits = {split: np.asarray(graph.rows(split)) for split in ("train", "val", "test")}
    splits = {split: rows for split, rows in splits.items() if len(rows)}
    if not splits:
        shared.say("the data name no split, so there is nothing to score.")
        return {"metric": name}
    with shown_hops(f"{graph.name} scores") as on_hop:
        scores = estimator.measure_rows(graph, splits, on_hop)
    for split, value in scores.items():
        tell(f"{split:<6} {metric.title} {shown(metric, value)}")
    return {"metric": name} | scores


def open_estimator(model: Path, memory: str | None, device: str) -> Any:
    """A saved model as an estimator that keeps a limit."""
    from rapgnn.estimators import RAPNodeClassifier

    return RAPNodeClassifier.load(model).set_params(memory_limit=memory, device=device)


def predict_from_disk(
    estimator: Any, graph: Any, out: Path, probabilities: bool, spread: bool, store: Path | None
) -> None:
    """Write a line for every node, some nodes at a time; the file is whole or absent."""
    from rapgnn.files import write_atomic

    if out.suffix.lower() != ".csv":
        raise InputError("predictions for a graph on disk go to a .csv file, which is written part by part.")
    with shown_hops(f"{graph.name} predictions, hops") as on_hop:
        parts = estimator.predict_parts(graph, None, spread, store, on_hop)
        write_atomic(out, lambda temporary: _write_parts(temporary, estimator, graph, parts, probabilities))
    shared.tell(f"wrote {graph.num_nodes} predictions to {out}")


def _write_parts(path: Path, estimator: Any, graph: Any, parts: Any, probabilities: bool) -> None:
    import numpy as np
    import torch

    from rapgnn.estimators.table import prediction_table
    from rapgnn.graph.validate import labelled_rows

    classes = estimator.schema_.classes
    with path.open("w", newline="", encoding="utf-8") as file:
        for nodes, prediction in parts:
            rows = torch.from_numpy(nodes)
            known = rows[labelled_rows(torch.from_numpy(np.array(graph.y[nodes])))]
            table = prediction_table(graph, lambda _, p=prediction: p, classes, probabilities, known, rows)
            table.to_csv(file, index=False, header=not nodes[0])


# Several processes and machines on the command line: ``--cluster``, and commands that torchrun starts many times.


ClusterOption = Annotated[
    str | None, typer.Option("--cluster", help="Hops on Ray: auto, or its address.", rich_help_panel=shared.LARGE)
]


def check_workers(data: str) -> None:
    """Refuse tables where torchrun started this process: many would convert them at once."""
    if _together() and not is_disk_graph(data):
        raise InputError(f"the workers share a graph on disk, made by rapgnn data convert: {data} is none.")


def hops_option(store: Path | None, cluster: str | None) -> str:
    """The estimator's ``hops``: by the workers that torchrun started, who need a store that all see, or on Ray."""
    if not _together():
        return "memory" if cluster is None else f"ray://{cluster}"
    if cluster is not None:
        raise InputError("--cluster is the address of a Ray: leave it out where torchrun starts the command.")
    if store is None:
        raise InputError("the workers of torchrun need one folder for the hops: give --store.")
    return "torchrun"


def end_others() -> None:
    """What follows is done by one worker, the first."""
    if _together() and int(os.environ["RANK"]):
        raise typer.Exit


def _together() -> bool:
    return int(os.environ.get("WORLD_SIZE", 1)) > 1 and "RANK" in os.environ
