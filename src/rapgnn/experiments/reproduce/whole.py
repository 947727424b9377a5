"""The whole run: the cells of the items one after another, an item's files as soon as all its cells are there."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rapgnn.errors import InputError
from rapgnn.experiments.reproduce.cells import Cell
from rapgnn.experiments.reproduce.item import Graphs, Item, Scale
from rapgnn.experiments.reproduce.measure import CellError, is_there, measured
from rapgnn.experiments.reproduce.outputs import command, write_index, write_item
from rapgnn.experiments.reproduce.store import Store
from rapgnn.experiments.run import Record

AtWork = Callable[[int, int, str], None]  # (cells done, all cells, what is measured now)


@dataclass
class Reproduced:
    """What a run gives.

    Args:
        records: of the items that are complete, by name.
        failed: a sentence for each item that is not.
        written: the files.
        cells, found: how many cells there were, and how many of them an earlier run had measured.
    """

    records: dict[str, list[Record]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    written: list[Path] = field(default_factory=list)
    cells: int = 0
    found: int = 0


def reproduce(
    items: Sequence[Item],
    scale: Scale,
    graphs: Graphs,
    store: Store,
    known: Sequence[Item] | None = None,
    at_work: AtWork = lambda done, total, title: None,
) -> Reproduced:
    """Measure what is not there yet of these items, and write their files and the page of all.

    Args:
        known: the items that the page shows where their files are there; None: these.
        at_work: told often how far it is.
    """
    run, done, index = Reproduced(), 0, []
    plans = _plan(items, scale, graphs, run.failed, at_work)
    run.cells = sum(len(cells) for _, cells in plans)
    run.found = sum(is_there(cell, graphs, store) for _, cells in plans for cell in cells)
    for item, cells in plans:
        records, shown = [], {"quick": scale.quick, "command": command(item.name, scale.quick)}
        for cell in cells:
            now = (done, run.cells, f"{item.name}: {cell.dataset} {cell.labels.get('title', cell.kind)}")
            at_work(*now)
            try:
                record = measured(cell, graphs, store, lambda now=now: at_work(*now))
                records.append({"item": item.name} | record | shown)
            except CellError as error:
                run.failed[item.name] = f"{now[-1]}: {error}"
            done += 1
        if item.name not in run.failed:
            run.records[item.name] = records
            run.written += write_item(store, item, records)
            index = write_index(store, known or items)
    run.written += index
    return run


def _plan(
    items: Sequence[Item], scale: Scale, graphs: Graphs, failed: dict[str, str], at_work: AtWork
) -> list[tuple[Item, list[Cell]]]:
    """The cells of every item; why an item has none goes into ``failed``."""
    plans = []
    for item in items:
        at_work(0, 0, f"{item.name}: data")
        try:
            cells = item.cells(scale, graphs)
        except InputError as error:
            failed[item.name] = str(error)
            continue
        if cells:
            plans.append((item, cells))
        else:
            failed[item.name] = "no settings were searched for it."
    return plans


def count_cells(item: Item, scale: Scale, graphs: Graphs, store: Store) -> tuple[int, int]:
    """How many cells of an item are there, and how many there will be."""
    cells: list[Cell] = item.cells(scale, graphs)
    return sum(is_there(cell, graphs, store) for cell in cells), len(cells)
