"""What the benchmarks have in common: options, lists of numbers, and rows that are stored one by one."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from rapgnn.cli.progress import show_progress
from rapgnn.cli.shared import PLOTS, say
from rapgnn.errors import InputError

Plot = Annotated[Path | None, typer.Option(help="Save a plot (png, svg, pdf).")]
Again = Annotated[bool, typer.Option("--again", help="Measure rows that the JSON file has, too.")]
Hidden = Annotated[int, typer.Option(help="Channels per layer.")]
Methods = Annotated[str, typer.Option(help="Which methods, separated by commas.")]
BenchDevice = Annotated[str, typer.Option(help="cpu, cuda or auto.")]
BenchJson = Annotated[
    Path | None, typer.Option("--json", help="Store every row here as soon as it is measured; a rerun goes on.")
]


def read_numbers(option: str, text: str) -> list[int]:
    """Whole numbers of at least 1, separated by commas."""
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"{option} takes whole numbers separated by commas, got {text!r}.") from None
    if min(numbers) < 1:
        raise InputError(f"{option} must be at least 1, got {text!r}.")
    return list(dict.fromkeys(numbers))


def read_names(what: str, text: str, known: Sequence[str]) -> list[str]:
    """Some of the known names, separated by commas, or ``all``."""
    from rapgnn.errors import check_choice

    if text == "all":
        return list(known)
    names = list(dict.fromkeys(text.split(",")))
    for name in names:
        check_choice(what, name, known)
    return names


def check_outputs(json_file: Path | None, plot: Path | None = None, **at_least_one: float) -> None:
    """Refuse what no measurement makes right, before anything is loaded."""
    from rapgnn.files import check_writable

    check_writable(json_file)
    check_writable(plot, PLOTS)
    for name, value in at_least_one.items():
        if value < 1:
            raise InputError(f"--{name.replace('_', '-')} must be at least 1, got {value}.")


def measure_all(
    title: str,
    rows: Sequence[Any],
    json_file: Path | None,
    again: bool = False,
    finish: Callable[[Sequence[Any]], list[Any]] = list,
) -> list[dict[str, Any]]:
    """Measure the rows that the JSON file does not have yet, each stored at once, and give all of them back."""
    from rapgnn.experiments.bench.rows import RowStore, measure_rows, source_code

    store = RowStore(json_file, " ".join(["rapgnn", *sys.argv[1:]]), again)
    with show_progress() as track:
        track.start(title, len(rows))
        records = finish(measure_rows(rows, store, track.advance))
    store.finish(records)
    if store.found:
        other = sum(record.get("source") != source_code() for record in store.found)
        older = f", {other} of them by other source code" if other else ""
        say(f"{len(store.found)} rows were there from an earlier run{older}; --again measures them anew.")
    return records
