"""``rapgnn reproduce``: the paper's tables and figures."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from rapgnn.cli.app import app
from rapgnn.cli.progress import show_progress
from rapgnn.cli.shared import DataDir, Device, JsonFile, Quiet, say, write_json
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
    from rapgnn.experiments.reproduce.item import Graphs, Scale
    from rapgnn.experiments.reproduce.items import ITEMS
    from rapgnn.experiments.reproduce.shown import show_list, show_tables
    from rapgnn.experiments.reproduce.store import Store
    from rapgnn.experiments.reproduce.whole import reproduce as run_items
    from rapgnn.files import check_writable

    for name in items or ():
        check_choice("item", name, ITEMS)
    check_writable(json_file)
    check_writable(out / "README.md")
    chosen = [item for name, item in ITEMS.items() if not items or name in items]
    scale, graphs = Scale(quick), Graphs(pick_device(device), data_dir, say)
    store = Store(out, again, say)
    if listed:
        write_json(show_list(chosen, scale, graphs, store), json_file)
        return
    with show_progress() as track:
        run = run_items(chosen, scale, graphs, store, list(ITEMS.values()), _follow(track))
    records = [record for found in run.records.values() for record in found]
    write_json(records, json_file)
    show_tables([item for item in chosen if item.name in run.records], run.records)
    unfinished = [f"{name} is not complete: {sentence}" for name, sentence in run.failed.items()]
    if unfinished and not run.records:
        raise InputError(" ".join(unfinished))
    for sentence in unfinished:
        say(sentence)
    if run.found:
        say(f"{run.found} of {run.cells} cells were there from an earlier run; --again measures them anew.")
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
