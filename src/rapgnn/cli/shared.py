"""What several commands have in common: options, loading, settings, JSON. Heavy imports happen when called."""

import contextlib
import functools
import inspect
import json
import os
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, get_args

import typer
import typer.core

from rapgnn.errors import InputError

# The progress of long work, on standard error: a bar on a terminal, a line now and then where output is piped.


LINE_SECONDS = 10.0  # between two lines where there is no terminal
_quiet = False


def set_quiet(wanted: bool) -> bool:
    """Whether this command shall show neither progress nor notices."""
    global _quiet
    _quiet = wanted
    return wanted


class Track:
    """The progress of the current piece of work: a bar on a terminal, elsewhere a line now and then.

    Args:
        bar: of rich; None: lines, and none for work that is done soon.
    """

    def __init__(
        self,
        bar: Any = None,
        write: Callable[[str], Any] = lambda line: None,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._bar, self._write, self._clock, self._task = bar, write, clock, None
        self.start("", None)

    def start(self, title: str, total: int | None) -> None:
        self.finish()
        self._title, self._total, self._done = title, total, 0
        self._begun = self._shown = self._clock()
        if self._bar is not None and title:
            self._task = self._bar.add_task(title, total=total)

    def advance(self) -> None:
        self.set(self._done + 1, self._title)

    def set(self, done: int, title: str) -> None:
        self._done, self._title, now = done, title, self._clock()
        if self._task is not None:
            self._bar.update(self._task, completed=done, description=title)
        elif now - self._shown >= LINE_SECONDS:
            self._shown = now
            of = "" if self._total is None else f" of {self._total}"
            self._write(f"rapgnn: {title}: {done}{of}, {now - self._begun:.0f} s\n")

    def finish(self) -> None:
        """The bar is full, also where the work needed fewer steps."""
        if self._task is not None:
            total = self._total or self._done
            self._bar.update(self._task, total=total, completed=total)


@contextlib.contextmanager
def show_progress() -> Iterator[Track]:
    """A track: ``start`` a piece of work, ``advance`` it or ``set`` how far it is."""
    if _quiet:
        yield Track()
        return
    if not sys.stderr.isatty():
        yield Track(write=lambda line: (sys.stderr.write(line), sys.stderr.flush()))
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description:<24}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        track = Track(bar)
        yield track
        track.finish()


FILES, NETWORK, LARGE = (
    "Your own files",
    "The network (what is not given is chosen)",
    "Graphs larger than memory",
)  # help
DataDir = Annotated[Path | None, typer.Option("--data-dir", help="Dataset files (or RAPGNN_DATA).")]
JsonFile = Annotated[Path | None, typer.Option("--json", help="Write the records to this file.")]
BackboneOption = Annotated[str | None, typer.Option(help="gcn, sage, gin or gine.", rich_help_panel=NETWORK)]
LayersOption = Annotated[int | None, typer.Option(help="Message-passing layers.", rich_help_panel=NETWORK)]
HiddenOption = Annotated[int | None, typer.Option(help="Channels per layer.", rich_help_panel=NETWORK)]
EpochsOption = Annotated[int | None, typer.Option(help="Epochs of the main phase.", rich_help_panel=NETWORK)]
EmbeddingOption = Annotated[str | None, typer.Option(help="Its variant; compare: best.", rich_help_panel=NETWORK)]
HeadOption = Annotated[str | None, typer.Option(help="linear, mlp or ridge.", rich_help_panel=NETWORK)]
SettingsOption = Annotated[
    list[str] | None, typer.Option("--set", help="Any setting: name=value, repeated.", rich_help_panel=NETWORK)
]
NETWORK_OPTIONS = {
    "backbone": BackboneOption,
    "layers": LayersOption,
    "hidden": HiddenOption,
    "epochs": EpochsOption,
    "embedding": EmbeddingOption,
    "head": HeadOption,
    "settings": SettingsOption,
}
Device = Annotated[str, typer.Option(help="cpu, cuda or auto.")]
ModelFolder = Annotated[Path, typer.Argument(help="A folder that rapgnn fit made.")]
Data = Annotated[str | None, typer.Argument(help="A dataset name, sbm:nodes=5000,..., a folder; or --nodes, --edges.")]
Quiet = Annotated[
    bool, typer.Option("--quiet", help="Errors only (evaluate, compare: scores too).", callback=set_quiet)
]


ARGUMENT = re.compile(r"`(\w+)(?:=([^`]*))?`")  # as the library's sentences name one


def with_flags(sentence: str) -> str:
    """The sentence with the flags of the command line for the library's arguments."""
    command: Any = typer.main.get_command(app)
    for word in sys.argv[1:]:
        command = getattr(command, "commands", {}).get(word, command)
    own = {flag for one in command.params for flag in one.opts}

    def flag(match: re.Match[str]) -> str:
        name = f"--{match[1].replace('_', '-')}"
        value = "" if match[2] in (None, "True") else " " + match[2].strip('"')
        return f"{name}{value}{'' if name in own else ' of rapgnn fit'}"

    return ARGUMENT.sub(flag, sentence)


def say(line: str) -> None:
    """A notice, on standard error, unless the user wants none."""
    if not _quiet:
        sys.stderr.write(f"rapgnn: {with_flags(line)}\n")


def tell(line: str) -> None:
    """What was done, on standard output, unless the user wants no such thing."""
    if not _quiet:
        typer.echo(line)


def given(data: str | None, reading: Any) -> str:
    """The data as the user named them."""
    if data is not None:
        return shlex.quote(data)
    files = {"--nodes": reading.nodes, "--edges": reading.edges}
    return " ".join(f"{option} {shlex.quote(str(path))}" for option, path in files.items() if path is not None)


def given_of(reading: Any, data_dir: Path | None, without: tuple[str, ...] = ()) -> dict[str, Any]:
    """What the options of a user's tables are in Python, some left out."""
    fields = {name: "text_encoding" if name == "encoding" else name for name in FOLDER_OPTIONS if name not in without}
    given = {name: getattr(reading, field) for name, field in fields.items()}
    return {name: value for name, value in given.items() if value} | {"data_dir": data_dir, "say": say}


def load(name: str | None, data_dir: Path | None, reading: Any = None, labels: bool = True):
    """A dataset or folder; what had to be decided on the way is said."""
    from rapgnn.datasets import load_dataset

    graph = load_dataset(name, data_dir, say, reading)
    if labels and not len(graph.labelled):
        raise InputError(
            f"{given(name, reading)} holds edges only, so there is no label column: put a nodes.csv with the columns "
            "id and label beside it, in one folder, and name that folder."
        )
    for note in graph.notes:
        say(note)
    return graph


def open_model(
    model: Path, data: str | None, data_dir: Path | None, reading: Any, labelled: bool = True, device: str = "cpu"
) -> tuple[Any, Any]:
    """The estimator that was saved, and the data read as its own were."""
    from dataclasses import replace

    from rapgnn.device import pick_device
    from rapgnn.estimators.estimators import load_model
    from rapgnn.estimators.predictions import reading_of, without_labels

    estimator = load_model(model).set_params(device=pick_device(device))
    schema = estimator.schema_
    if schema.task.startswith("edge-"):
        return estimator, estimator._graph(data, None, given_of(reading, data_dir), labelled)
    graph = load(data, data_dir, reading=replace(reading, **reading_of(schema, labelled)), labels=labelled)
    graph = graph if labelled else without_labels(graph, schema)
    schema.check(graph)
    return estimator, graph


def check_options(overrides: dict[str, Any], embedding: str | None = None, device: str = "cpu", seed: int = 0) -> None:
    """Refuse options that no data make right, before any are loaded."""
    from rapgnn.device import pick_device
    from rapgnn.errors import check_choice
    from rapgnn.graph.backbones import BACKBONES
    from rapgnn.graph.validate import check_whole
    from rapgnn.network.config import Config
    from rapgnn.network.encode import EMBEDDINGS
    from rapgnn.search.start import HOPS, wants_hops

    pick_device(device)
    check_whole("seed", seed, 0, (1 << 63) - 1)
    if embedding is not None:
        check_choice("embedding", embedding, (*EMBEDDINGS, "best"))
    faults = []
    start = HOPS if wants_hops(overrides) else Config()
    for backbone in BACKBONES:  # the data decide which, where it is not given
        try:
            start.update(**{"backbone": backbone} | overrides)
            return
        except InputError as error:
            faults.append(error)
    raise faults[0]


def read_settings(pairs: list[str] | None, option: str = "--set", **given: Any) -> dict[str, Any]:
    """The settings that were given: by options of their own, then by ``--set`` or another that is repeated."""
    values = {key: value for key, value in given.items() if value is not None}
    for pair in pairs or []:
        name, equals, value = pair.partition("=")
        if not equals:
            raise InputError(f"{option} takes name=value, got {pair!r}.")
        try:
            values[name] = json.loads(value)
        except json.JSONDecodeError:
            values[name] = value
    return values


def write_json(records: list[dict[str, Any]], path: Path | None) -> None:
    """Write the records, each with the command; a number that does not exist (a metric of no rows) is null."""
    from rapgnn.files import write_atomic

    if path is not None:
        records = [record | {"command": " ".join(["rapgnn", *sys.argv[1:]])} for record in records]
        records = json.loads(json.dumps(records), parse_constant=lambda name: None)
        write_atomic(path, lambda temporary: temporary.write_text(json.dumps(records, indent=1) + "\n"))


def wide_console(width: int = 140) -> Any:
    """Where tables go."""
    from rich.console import Console

    console = Console()
    # Piped output has no width of its own: give the table room instead of folding its cells.
    return console if console.is_terminal else Console(width=width)


# The applications that every file of commands adds its own to.


def _print_version(wanted: bool) -> None:
    if wanted:
        from rapgnn import __version__

        typer.echo(f"rapgnn {__version__}")
        raise typer.Exit


ORDER = ("fit", "predict", "evaluate", "report", "compare", "data", "hops", "plan")  # of the help; others follow


class InOrder(typer.core.TyperGroup):
    """Commands in the order in which a user meets them."""

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(self.commands, key=lambda name: ORDER.index(name) if name in ORDER else len(ORDER))


app = typer.Typer(
    name="rapgnn",
    cls=InOrder,
    help="Graph neural networks with random, never trained message passing.\n\n"
    "Example: rapgnn fit my-graph/ --label species --out model/",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
data_app = typer.Typer(
    help="Datasets: list, get, info, check, convert.\n\nExample: rapgnn data info cora", no_args_is_help=True
)


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", callback=_print_version, is_eager=True)
    ] = False,
    offline: Annotated[bool, typer.Option("--offline", help="Fetch no data (or RAPGNN_OFFLINE=1).")] = False,
) -> None:
    if offline:
        os.environ["RAPGNN_OFFLINE"] = "1"


app.add_typer(data_app, name="data")


# The options of a user's own folder, declared once for every command that reads one, and the table of its columns.

FOLDER_OPTIONS: dict[str, tuple[Any, str]] = {
    "nodes": (Path, "The table of nodes, instead of a folder."),
    "edges": (Path, "The table of edges, instead of a folder."),
    "label": (str, "The label's column."),
    "id": (str, "The column of ids."),
    "source": (str, "The column where edges begin."),
    "target": (str, "The column where edges end."),
    "ignore": (list[str], "Leave out columns a,b."),
    "group": (str, "Split: rows of one value here stay together."),
    "time": (str, "Split: what is earlier here trains."),
    "table": (str, "Of tables with keys: whose rows are predicted."),
    "impute": (bool, "Fill missing values."),
    "directed": (bool, "Edges count one way."),
    "drop_unknown_edges": (bool, "Drop edges of unknown nodes."),
    "task": (str, "classification or regression."),
    "sep": (str, "CSV: between cells, e.g. ; or tab."),
    "decimal": (str, "CSV: decimal point or comma."),
    "encoding": (str, "CSV: utf-8, cp1252, utf-16, ..."),
}
"""Every option of a user's own tables: its type, and its help."""
FILE_OPTIONS = ("nodes", "edges", "drop_unknown_edges", "sep", "decimal", "encoding")  # what a model cannot remember
DISK_OPTIONS = tuple(name for name in FOLDER_OPTIONS if name not in ("nodes", "edges", "group", "time", "table"))


def collected(place: str, options: dict[str, Any], make: Callable[[dict[str, Any], dict[str, Any]], Any]) -> Any:
    """A decorator: a command's parameter ``place`` is made of options of its own.

    Args:
        options: name -> annotation.
        make: (the values of these options, those of the command's others) -> what the parameter holds.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def wrapped(**values: Any) -> None:
            own = {name: values.pop(name) for name in options}
            command(**{place: make(own, values)}, **values)

        parameters: list[inspect.Parameter] = []
        for one in inspect.signature(command).parameters.values():
            if one.name != place:
                parameters.append(one.replace(kind=inspect.Parameter.KEYWORD_ONLY))
                continue
            for name, annotation in options.items():
                default = False if get_args(annotation)[0] is bool else None
                kind = inspect.Parameter.KEYWORD_ONLY
                parameters.append(inspect.Parameter(name, kind, default=default, annotation=annotation))
        wrapped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        wrapped.__annotations__ = {one.name: one.annotation for one in parameters}
        return wrapped

    return decorate


def folder_options(taken: tuple[str, ...] = tuple(FOLDER_OPTIONS)) -> Any:
    """Gives a command options of a user's tables; they arrive as one ``Reading``, in its parameter ``reading``."""
    options = {}
    for name in taken:
        kind, text = FOLDER_OPTIONS[name]
        option = typer.Option(f"--{name.replace('_', '-')}", help=text, rich_help_panel=FILES)
        options[name] = Annotated[kind if kind is bool else kind | None, option]
    return collected("reading", options, _reading)


def _network_settings(options: dict[str, Any], others: dict[str, Any]) -> dict[str, Any]:
    names = {"layers": "num_layers", "hidden": "hidden_channels"}
    pairs = options.pop("settings")
    return read_settings(pairs, **{names.get(name, name): value for name, value in options.items()})


network_options = collected("overrides", NETWORK_OPTIONS, _network_settings)
"""Gives a command the options of a network; they arrive as one dictionary, in its parameter ``overrides``."""


def _reading(options: dict[str, Any], others: dict[str, Any]) -> Any:
    from rapgnn.datasets.columns import Reading

    return Reading(seed=others.get("seed", 0)).with_options(options)


WIDTH = 80
SAME = 4  # columns in a row that are read alike, from which on they share a line
MOST_ROWS = 40  # lines of the table of columns


def show_columns(graph: Any) -> None:
    """What became of every column of a user's files; nothing where there are no files of the user's."""
    uses = () if graph.encoding is None else graph.encoding.uses
    if not uses or _quiet:
        return
    rows: list[tuple[str, str, str, int]] = []
    for (file, read_as), alike in groupby(uses, key=lambda use: (use.file, with_flags(use.read_as))):
        run = list(alike)
        if len(run) < SAME:
            rows += [(file, use.column, read_as, use.features) for use in run]
        else:
            title, features = f"{run[0].column} ... {run[-1].column}", sum(use.features for use in run)
            rows.append((file, title, f"{len(run)} columns, each: {read_as}", features))
    wide = min(34, max(len(text) for file, column, *_ in rows for text in (column, file)))
    room = WIDTH - wide - 12
    for file, lines in groupby(rows[:MOST_ROWS], key=lambda row: row[0]):
        typer.echo(f"{_cut(file, wide):<{wide}}  {'read as':<{room}}  features")
        for _, column, read_as, features in lines:
            typer.echo(f"{_cut(column, wide):<{wide}}  {_cut(read_as, room):<{room}}  {features or '-':>8}")
    if rest := rows[MOST_ROWS:]:
        typer.echo(f"and {len(rest)} more lines with {sum(features for *_, features in rest)} features")


def _cut(text: str, most: int) -> str:
    text = "".join(c if c.isprintable() else " " for c in text)
    return text if len(text) <= most else f"{text[: most - 3]}..."
