"""The command line. Heavy imports happen inside the commands, so that help answers at once."""

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from rapgnn.errors import InputError

app = typer.Typer(
    name="rapgnn",
    help="Graph neural networks with random, never trained message passing.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
data_app = typer.Typer(help="Datasets: list, get, info, check.", no_args_is_help=True)
bench_app = typer.Typer(
    help="Speed and memory, always against end-to-end training in the same run.", no_args_is_help=True
)
app.add_typer(data_app, name="data")
app.add_typer(bench_app, name="bench")

PLOTS = (".png", ".svg", ".pdf")
DataDir = Annotated[Path | None, typer.Option("--data-dir", help="Folder of dataset files (also: RAPGNN_DATA).")]
JsonFile = Annotated[Path | None, typer.Option("--json", help="Write the records to this file.")]
Attributes = Annotated[bool, typer.Option("--attributes", help="Further node features, where a dataset has them.")]
BackboneOption = Annotated[str | None, typer.Option(help="gcn, sage, gin or gine.")]
LayersOption = Annotated[int | None, typer.Option(help="Number of message-passing layers.")]
HiddenOption = Annotated[int | None, typer.Option(help="Channels per layer.")]
EpochsOption = Annotated[int | None, typer.Option(help="Epochs of the main phase.")]
EmbeddingOption = Annotated[str | None, typer.Option(help="Embedding variant, or best: the best on validation.")]
HeadOption = Annotated[str | None, typer.Option(help="linear, mlp or ridge.")]
SettingsOption = Annotated[
    list[str] | None, typer.Option("--set", help="Any other setting, as name=value; may be repeated.")
]
Device = Annotated[str, typer.Option(help="cpu, cuda, or auto: cuda where there is one.")]


@app.command()
def compare(
    dataset: Annotated[str, typer.Argument(help="A dataset name, sbm:nodes=5000,..., or a folder.")],
    methods: Annotated[str, typer.Option(help="Strategies, separated by commas; all: every one.")] = "all",
    seeds: Annotated[int | None, typer.Option(help="Number of seeds (default 5; 3 with --quick; 1 for folds).")] = None,
    first_seed: Annotated[int, typer.Option(help="The first seed.")] = 0,
    backbone: BackboneOption = None,
    layers: LayersOption = None,
    hidden: HiddenOption = None,
    epochs: EpochsOption = None,
    embedding: EmbeddingOption = None,
    head: HeadOption = None,
    engine: Annotated[str | None, typer.Option(help="auto, polynomial or stepwise.")] = None,
    inference: Annotated[str | None, typer.Option(help="auto, expected, mean or sample.")] = None,
    settings: SettingsOption = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer seeds and fewer end-to-end epochs.")] = False,
    protocol: Annotated[str, typer.Option(help="Cross-validated graphs: paper, strict or both.")] = "both",
    attributes: Attributes = False,
    device: Device = "cpu",
    data_dir: DataDir = None,
    json_file: JsonFile = None,
    plot: Annotated[Path | None, typer.Option(help="Save a plot (png, svg, pdf).")] = None,
) -> None:
    """Train the strategies side by side and print one table.

    Example: rapgnn compare cora --methods rap,end-to-end --seeds 5 --json cora.json
    """
    from rapgnn import compare as comparison
    from rapgnn import tables
    from rapgnn.errors import check_choice
    from rapgnn.experiment import PROTOCOLS
    from rapgnn.files import check_writable
    from rapgnn.methods import METHODS

    check_writable(json_file)
    check_writable(plot, PLOTS)
    names = list(METHODS) if methods == "all" else [m.strip() for m in methods.split(",") if m.strip()]
    check_choice("protocol", protocol, PROTOCOLS)
    if seeds is not None and seeds < 1:
        raise InputError(f"the number of seeds must be at least 1, got {seeds}.")
    if not 0 <= first_seed < (1 << 32) - 10_000:
        raise InputError(f"--first-seed must lie between 0 and 2^32 - 10000, got {first_seed}.")
    given = {"backbone": backbone, "num_layers": layers, "hidden_channels": hidden, "epochs": epochs, "head": head}
    overrides = _settings(settings, given | {"engine": engine, "inference": inference})
    graph = _load(dataset, data_dir, attributes).to(_device(device))
    count = (1 if graph.folds else 3 if quick else 5) if seeds is None else seeds
    configs = comparison.plan(graph, names, embedding, overrides, quick)
    with _progress() as track:
        records = comparison.compare(
            graph,
            configs,
            range(first_seed, first_seed + count),
            protocol,
            on_start=lambda m: track.start(
                METHODS[m].title, comparison.total_epochs(m, configs[m], count, graph.folds, protocol)
            ),
            on_epoch=track.advance,
        )
    _write_json(records, json_file)
    tables.show_comparison(records, quick)
    if plot:
        comparison.plot(records, plot)
    for path in filter(None, (json_file, plot)):
        typer.echo(f"wrote {path}")


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
    graph = _load(dataset, data_dir, attributes).to(_device(device))
    with _progress() as track:
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
    _write_json([best], json_file)
    values = ", ".join(
        f"{key}={value:.4g}" if isinstance(value, float) else f"{key}={value}"
        for key, value in best["settings"].items()
    )
    found = graph.rule.show(best["val_mean"])
    typer.echo(f"best of {best['trials']} trials: number {best['trial']}, validation {found}; {values}")
    typer.echo(f"every trial is in {storage}")


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
    from rapgnn.checkpoint import Schema, check_target, save_checkpoint
    from rapgnn.defaults import default_config
    from rapgnn.files import check_writable
    from rapgnn.training import fit_rap

    check_writable(json_file)
    check_target(out)
    given = {"backbone": backbone, "num_layers": layers, "hidden_channels": hidden, "epochs": epochs, "head": head}
    overrides = _settings(settings, given)
    graph = _load(data, data_dir).to(_device(device))
    config = default_config(graph, "rap", embedding).update(**overrides)
    with _progress() as track:
        track.start(f"{graph.name} RAP-GNN", 1 if config.head == "ridge" else config.epochs)
        fitted = fit_rap(graph, config, seed, track.advance)
    save_checkpoint(out, fitted.model.cpu(), Schema.of(graph))  # type: ignore[arg-type]
    record = {"dataset": graph.name, "task": graph.task, "metric": graph.rule.metric, "engine": fitted.engine}
    record |= {"model": str(out), "config": config.to_dict()}
    model, graph = fitted.model, graph.to("cpu")
    record |= _scores(model, graph, ("train", "val", "test"))
    _write_json([record], json_file)
    typer.echo(f"saved {out} ({fitted.engine} engine, because {fitted.reason})")
    _show_scores(graph, record)


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
    graph = _load(data, data_dir)
    schema.check(graph)
    record = {"dataset": graph.name, "task": graph.task, "metric": graph.rule.metric, "model": str(model)}
    record |= _scores(loaded, graph, ("train", "val", "test"))
    _write_json([record], json_file)
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
    from rapgnn.predictions import TABLES, prediction_table, write_table
    from rapgnn.training import predictor_on

    check_writable(out, TABLES)
    if samples < 0:
        raise InputError(f"--samples must not be negative, got {samples}.")
    loaded, schema = load_checkpoint(model)
    graph = _load(data, data_dir)
    schema.check(graph)
    predictor = predictor_on(loaded, graph, "mean" if samples else None, samples or None)
    table = prediction_table(graph, predictor)
    write_table(table, out)
    typer.echo(f"wrote {len(table)} predictions to {out}")


def _scores(model: Any, graph: Any, splits: tuple[str, ...]) -> dict[str, float]:
    from rapgnn.training import predictor_on

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


@data_app.command("list")
def data_list(json_file: JsonFile = None) -> None:
    """The datasets by name.

    Example: rapgnn data list
    """
    from rapgnn.datasets import DATASETS, SBM

    rows = [{"dataset": name, "about": entry.about} for name, entry in DATASETS.items()]
    rows.append(
        {"dataset": SBM, "about": "generated: contextual stochastic block model, e.g. sbm:nodes=5000,degree=20"}
    )
    _write_json(rows, json_file)
    for row in rows:
        typer.echo(f"{row['dataset']:<14} {row['about']}")


@data_app.command("get")
def data_get(name: str, data_dir: DataDir = None, json_file: JsonFile = None) -> None:
    """Fetch a dataset's files, verified, unless they are there already.

    Example: rapgnn data get pubmed
    """
    from rapgnn.datasets import find_dataset
    from rapgnn.datasets.sources import locate

    folder = locate(find_dataset(name).files, data_dir, _say)
    _write_json([{"dataset": name.lower(), "folder": str(folder)}], json_file)
    typer.echo(f"{name.lower()} is in {folder}")


@data_app.command("info")
def data_info(name: str, data_dir: DataDir = None, attributes: Attributes = False, json_file: JsonFile = None) -> None:
    """Size, features, classes and splits of a dataset or a folder.

    Example: rapgnn data info cora
    """
    from rapgnn.tables import describe

    graph = _load(name, data_dir, attributes)
    row = describe(graph)
    _write_json([row], json_file)
    for key, value in row.items():
        typer.echo(f"{key:<16} {value}")


@data_app.command("check")
def data_check(name: str, data_dir: DataDir = None, json_file: JsonFile = None) -> None:
    """Verify every file of a dataset against its published SHA-256; nothing is fetched.

    Example: rapgnn data check cora --data-dir ~/graphs
    """
    from rapgnn.datasets import find_dataset, sources

    files = find_dataset(name).files
    folder = sources.find_in(files, sources.data_dir(data_dir)) or sources.cache_dir() / files.folder
    sources.verify(files, folder)
    _write_json([{"dataset": files.name, "folder": str(folder), "files": len(files.files), "intact": True}], json_file)
    typer.echo(f"{files.name}: all {len(files.files)} files in {folder} are intact")


@bench_app.command("depth")
def bench_depth(
    dataset: Annotated[str, typer.Argument(help="A dataset name or sbm:...")] = "pubmed",
    layers: Annotated[str, typer.Option(help="Depths, separated by commas.")] = "2,4,8,16,32",
    hidden: Annotated[int, typer.Option(help="Channels per layer.")] = 256,
    repeats: Annotated[int, typer.Option(help="Timed epochs of end-to-end training; the median counts.")] = 5,
    device: Device = "cpu",
    data_dir: DataDir = None,
    json_file: JsonFile = None,
    plot: Annotated[Path | None, typer.Option(help="Save a plot (png, svg, pdf).")] = None,
) -> None:
    """Time and memory of one training epoch by depth: end-to-end, layer by layer, shortcut.

    Example: rapgnn bench depth pubmed --layers 32
    """
    from rapgnn import tables
    from rapgnn.bench.depth import bench, plot_depth
    from rapgnn.files import check_writable

    check_writable(json_file)
    check_writable(plot, PLOTS)
    try:
        depths = [int(part) for part in layers.split(",")]
    except ValueError:
        raise InputError(f"--layers takes whole numbers separated by commas, got {layers!r}.") from None
    if min(depths) < 1 or hidden < 1 or repeats < 1:
        raise InputError("--layers, --hidden and --repeats must be at least 1.")
    graph = _load(dataset, data_dir).to(_device(device))
    with _progress() as track:
        track.start(f"{graph.name}, {hidden} channels", len(depths))
        records = []
        bench(_load("sbm", None).to(graph.y.device), 2, 8, 1)  # loads libraries, so that nothing timed does
        for depth in depths:
            records += bench(graph, depth, hidden, repeats)
            track.advance()
    _write_json(records, json_file)
    if plot:
        plot_depth(records, plot)
    tables.show_depth(records)


@bench_app.command("graphs")
def bench_graphs(
    dataset: Annotated[str, typer.Argument(help="A dataset of graphs.")] = "proteins",
    layers: Annotated[int, typer.Option(help="Number of message-passing layers.")] = 4,
    hidden: Annotated[int, typer.Option(help="Channels per layer.")] = 64,
    batch_size: Annotated[int, typer.Option(help="Graphs per batch.")] = 128,
    repeats: Annotated[int, typer.Option(help="Timed epochs of end-to-end training; the median counts.")] = 3,
    device: Device = "cpu",
    data_dir: DataDir = None,
    json_file: JsonFile = None,
) -> None:
    """Time and memory of one training epoch on many graphs: shortcut, layer by layer, end-to-end, PyG.

    Example: rapgnn bench graphs molhiv --batch-size 512 --repeats 1
    """
    from rapgnn import tables
    from rapgnn.bench.graphs import bench
    from rapgnn.files import check_writable

    check_writable(json_file)
    if min(layers, hidden, batch_size, repeats) < 1:
        raise InputError("--layers, --hidden, --batch-size and --repeats must be at least 1.")
    graph = _load(dataset, data_dir).to(_device(device))
    if graph.ptr is None:
        raise InputError(f"{dataset} is one graph: bench graphs takes a dataset of many, bench depth this one.")
    with _progress() as track:
        track.start(f"{graph.name}, {hidden} channels", 4)
        records = bench(graph, layers, hidden, batch_size, repeats, track.advance)
    _write_json(records, json_file)
    tables.show_graphs(records)


def main() -> None:
    """Entry point: bad input is one sentence and exit code 2, a failure one sentence and exit code 1."""
    try:
        app()
    except InputError as error:
        _fail(str(error), 2)
    except KeyboardInterrupt:
        _fail("interrupted.", 130)
    except OSError as error:
        _fail(f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}.", 1)
    except Exception as error:
        if os.environ.get("RAPGNN_DEBUG"):
            raise
        _fail(f"internal error: {type(error).__name__}: {error} (set RAPGNN_DEBUG=1 for the traceback)", 1)


def _fail(sentence: str, code: int) -> None:
    sys.stderr.write(f"rapgnn: {sentence}\n")
    raise SystemExit(code)


def _say(line: str) -> None:
    sys.stderr.write(f"rapgnn: {line}\n")


def _load(name: str, data_dir: Path | None, attributes: bool = False):
    from rapgnn.datasets import load_dataset

    return load_dataset(name, data_dir, _say, attributes)


def _device(name: str) -> str:
    import torch

    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if name not in ("cpu", "cuda"):
        raise InputError(f"device {name!r} is unknown: choose cpu, cuda or auto.")
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("no CUDA device is available: use --device cpu.")
    return name


def _settings(pairs: list[str] | None, given: dict[str, Any]) -> dict[str, Any]:
    """The settings that were given: by options of their own, then by ``--set``."""
    values = {key: value for key, value in given.items() if value is not None}
    for pair in pairs or []:
        name, equals, value = pair.partition("=")
        if not equals:
            raise InputError(f"--set takes name=value, got {pair!r}.")
        try:
            values[name] = json.loads(value)
        except json.JSONDecodeError:
            values[name] = value
    return values


def _write_json(records: list[dict[str, Any]], path: Path | None) -> None:
    from rapgnn.files import write_atomic

    if path is not None:
        records = [record | {"command": " ".join(["rapgnn", *sys.argv[1:]])} for record in records]
        text = json.dumps(_without_nan(records), indent=1, allow_nan=False) + "\n"
        write_atomic(path, lambda temporary: temporary.write_text(text))


def _without_nan(value: Any) -> Any:
    """JSON has no NaN: a metric that does not exist (an empty split) is null."""
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and value != value else value


class _Track:
    """A progress bar of the current piece of work."""

    def __init__(self, progress: Any):
        self._progress, self._task = progress, None

    def start(self, title: str, total: int) -> None:
        self.finish()
        self._task = self._progress.add_task(title, total=total)

    def advance(self) -> None:
        self._progress.advance(self._task)

    def set(self, done: int, title: str) -> None:
        self._progress.update(self._task, completed=done, description=title)

    def finish(self) -> None:
        if self._task is not None:
            task = self._progress.tasks[self._task]
            self._progress.update(self._task, completed=task.total)


@contextlib.contextmanager
def _progress() -> Iterator[_Track]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description:<24}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        track = _Track(progress)
        yield track
        track.finish()


if __name__ == "__main__":
    main()
