"""The options of a user's own folder, said once for every command that reads one, and the table of its columns."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import replace
from itertools import groupby
from typing import Annotated, Any

import typer

from rapgnn.cli.progress import is_quiet

WIDTH = 80
SAME = 4  # columns in a row that are read alike, from which on they share a line
MOST_ROWS = 40  # lines of the table of columns


FOLDER_OPTIONS: dict[str, tuple[Any, str]] = {
    "label": (str, "Your folder: the label's column."),
    "id": (str, "Your folder: the column of ids."),
    "source": (str, "Your folder: where edges begin."),
    "target": (str, "Your folder: where edges end."),
    "ignore": (list[str], "Your folder: leave out columns a,b."),
    "impute": (bool, "Your folder: fill missing values."),
    "directed": (bool, "Your folder: edges count one way."),
    "drop_unknown_edges": (bool, "Drop edges of unknown nodes."),
    "task": (str, "Your folder: classification or regression."),
    "sep": (str, "CSV: between cells, e.g. ; or tab."),
    "decimal": (str, "CSV: decimal point or comma."),
    "encoding": (str, "CSV: utf-8, cp1252, utf-16, ..."),
}
"""Every option of a folder: its type, and its help."""
USUAL_OPTIONS = ("label", "ignore")  # the help of other commands is full already
FILE_OPTIONS = ("drop_unknown_edges", "sep", "decimal", "encoding")  # what a trained model cannot remember


def folder_options(
    command: Callable[..., None] | None = None,
    *,
    taken: tuple[str, ...] = tuple(FOLDER_OPTIONS),
    shown: tuple[str, ...] | None = None,
) -> Any:
    """A command with the options of a folder; they arrive as one ``Reading``, in its parameter ``reading``.

    Args:
        taken: the options that it takes.
        shown: those that its help shows, which is one screen; None: all. ``rapgnn data info --help`` shows all.
    """
    if command is None:
        return functools.partial(folder_options, taken=taken, shown=shown)

    @functools.wraps(command)
    def wrapped(**given: Any) -> None:
        options = {name: given.pop(name) for name in taken}
        reading = _reading(options)
        command(reading=replace(reading, seed=given["seed"]) if "seed" in given else reading, **given)

    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        if parameter.name == "reading":
            parameters += [
                inspect.Parameter(
                    name,
                    keyword,
                    default=False if FOLDER_OPTIONS[name][0] is bool else None,
                    annotation=_annotation(name, shown is None or name in shown),
                )
                for name in taken
            ]
        else:
            parameters.append(parameter.replace(kind=keyword))
    wrapped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapped.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return wrapped


def _annotation(name: str, shown: bool) -> Any:
    kind, text = FOLDER_OPTIONS[name]
    option = typer.Option(f"--{name.replace('_', '-')}", help=text, hidden=not shown)
    return Annotated[kind if kind is bool else kind | None, option]


def _reading(options: dict[str, Any]) -> Any:
    """How a folder is to be read, by the options given."""
    from rapgnn.datasets.folder import Reading
    from rapgnn.errors import check_choice

    if options.get("task") is not None:
        check_choice("task", options["task"], ("classification", "regression"))
    named: dict[str, Any] = {"text_encoding" if name == "encoding" else name: v for name, v in options.items()}
    named["ignore"] = tuple(options.get("ignore") or ())
    return Reading(**named)


def show_columns(graph: Any) -> None:
    """What became of every column of a user's files; nothing where there are no files of the user's."""
    uses = () if graph.encoding is None else graph.encoding.uses
    if not uses or is_quiet():
        return
    alike = groupby(uses, key=lambda use: (use.file, use.read_as))
    rows = [row for key, run in alike for row in _rows(*key, list(run))]
    wide = min(34, max(len(text) for file, column, *_ in rows for text in (column, file)))
    room = WIDTH - wide - 12
    shown_file = ""
    for file, column, read_as, features in rows[:MOST_ROWS]:
        if file != shown_file:
            typer.echo(f"{_cut(file, wide):<{wide}}  {'read as':<{room}}  features")
            shown_file = file
        typer.echo(f"{_cut(column, wide):<{wide}}  {_cut(read_as, room):<{room}}  {features or '-':>8}")
    rest = rows[MOST_ROWS:]
    if rest:
        typer.echo(f"and {len(rest)} more lines with {sum(features for *_, features in rest)} features")


def _rows(file: str, read_as: str, run: list[Any]) -> list[tuple[str, str, str, int]]:
    """Columns in a row that are read alike share a line where there are many."""
    if len(run) < SAME:
        return [(file, use.column, read_as, use.features) for use in run]
    title = f"{run[0].column} ... {run[-1].column}"
    return [(file, title, f"{len(run)} columns, each: {read_as}", sum(use.features for use in run))]


def _cut(text: str, most: int) -> str:
    text = "".join(c if c.isprintable() else " " for c in text)
    return text if len(text) <= most else f"{text[: most - 3]}..."
