"""``rapgnn reproduce`` and ``rapgnn paper``: the paper's tables and figures, and all of them as one page."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from rapgnn.cli.model import check_report
from rapgnn.cli.shared import DataDir, Device, JsonFile, Quiet, app, say, show_progress, wide_console, write_json
from rapgnn.errors import InputError


@app.command()
def reproduce(
    items: Annotated[list[str] | None, typer.Argument(help="Tables and figures; all where none is named.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer seeds, folds and epochs.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for records, tables and plots.")] = Path("reproduce"),
    device: Device = "auto",
    again: Annotated[bool, typer.Option("--again", help="Measure what is there, too.")] = False,
    listed: Annotated[bool, typer.Option("--list", help="What there is, and how much of it is measured.")] = False,
    data_dir: DataDir = None,
    json_file: JsonFile = None,
    quiet: Quiet = False,
) -> None:
    """Measure the paper's tables and figures, ours beside the published values.

    It can be stopped at any moment: every measurement is stored at once, and the next run goes on after it.

    Example: rapgnn reproduce table1 depth --quick
    """
    from rapgnn.device import pick_device
    from rapgnn.errors import check_choice
    from rapgnn.files import check_writable
    from rapgnn_lab.paper.cells import Graphs, Scale, open_store
    from rapgnn_lab.paper.items import ITEMS
    from rapgnn_lab.paper.run import reproduce as run_items

    for name in items or ():
        check_choice("item", name, ITEMS)
    check_writable(json_file)
    check_writable(out / "README.md")
    chosen = [item for name, item in ITEMS.items() if not items or name in items]
    scale, graphs = Scale(quick), Graphs(pick_device(device), data_dir, say)
    store = open_store(out, again)
    if listed:
        write_json(_show_list(chosen, scale, graphs, store), json_file)
        return
    with show_progress() as track:
        run = run_items(chosen, scale, graphs, store, list(ITEMS.values()), _follow(track))
    records = [record for rows in run.records.values() for record in rows]
    write_json(records, json_file)
    _show_tables([item for item in chosen if item.name in run.records], run.records)
    unfinished = [f"{name} is not complete: {sentence}" for name, sentence in run.failed.items()]
    if unfinished and not run.records:
        raise InputError(" ".join(unfinished))
    for sentence in unfinished:
        say(sentence)
    if run.earlier:
        say(f"{run.earlier} of {run.cells} cells were there from an earlier run; --again measures them anew.")
    typer.echo(f"wrote {len(run.written)} files to {out}, {out / 'README.md'} first")
    if json_file is not None:
        typer.echo(f"wrote {json_file}")
    if run.failed:
        raise typer.Exit(1)


def _follow(track: Any) -> Callable[[int, int, str], None]:
    """Shows (cells done, all cells, what is measured now); there are 0 in all while data are loaded."""
    totals: list[int] = []

    def at_work(done: int, total: int, title: str) -> None:
        if total not in totals:
            totals.append(total)
            track.start(title, total or None)
        track.set(done, title)

    return at_work


def _show_tables(items: Sequence[Any], records: dict[str, list[Any]]) -> None:
    from rich.markdown import Markdown

    from rapgnn_lab.paper.run import describe

    console = wide_console()
    for item in items:
        console.print(Markdown(f"# {item.title}\n\n{describe(item, records[item.name])}"))
        console.print()


def _show_list(items: Sequence[Any], scale: Any, graphs: Any, store: Any) -> list[dict[str, Any]]:
    """Print the items with how many of their cells are there; the same as records."""
    from rich.markdown import Markdown

    from rapgnn_lab.paper.run import is_there
    from rapgnn_lab.results import make_table

    records = []
    for item in items:
        record: dict[str, Any] = {"item": item.name, "title": item.title}
        try:
            cells = item.cells(scale, graphs)
            record |= {"there": sum(is_there(cell, graphs, store) for cell in cells), "cells": len(cells)}
        except InputError as error:
            record["failed"] = str(error)
        records.append(record)
    shown = [r | {"state": r.get("failed") or f"{r['there']} of {r['cells']}"} for r in records]
    wide_console().print(Markdown(make_table(shown, "item: {item} | what it is: {title} | cells there: {state:s}")))
    return records


@app.command()
def paper(
    out: Annotated[Path, typer.Option(help="The page.")] = Path("paper.html"),
    results: Annotated[Path, typer.Option(help="A folder of rapgnn reproduce --out.")] = Path("results/reproduce"),
    quiet: Quiet = False,
) -> None:
    """Write one self-contained HTML page of the paper's tables, figures and claims, ours beside the published values.

    Example: rapgnn paper --results results/reproduce --out paper.html
    """
    from rapgnn_lab.paper.items import ITEMS
    from rapgnn_lab.paper.page import write_report

    check_report(out)
    measured = write_report(results, out)
    missing = [name for name in ITEMS if name not in measured]
    if missing:
        say(f"not measured yet, and said so on the page: {', '.join(missing)}.")
    typer.echo(f"wrote {out} ({len(measured)} of {len(ITEMS)} items, {out.stat().st_size / 1e6:.1f} MB)")
