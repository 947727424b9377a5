"""A run: cells become records, found in the store or measured now; an item's files are written once all its cells are
there, and with them the page of all items."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from rapgnn.compare import OnEpoch, Record
from rapgnn.device import hardware, versions
from rapgnn.errors import InputError, OutputError
from rapgnn.files import is_regular, write_atomic
from rapgnn_lab.bench.rows import measure_or_say, source_code
from rapgnn_lab.paper.cells import KINDS, PARTS, Cell, Graphs, Item, Scale, Store, cell_key
from rapgnn_lab.paper.claims.judged import NOTES, format_claims, judge_claims
from rapgnn_lab.paper.plots import save_image

INDEX, CLAIMS = "README.md", "claims.json"
AtWork = Callable[[int, int, str], None]  # (cells done, all cells, what is measured now)


class CellError(Exception):
    """A cell that could not be measured, in one sentence."""


@dataclass
class Reproduced:
    """What a run gives.

    Args:
        records: of the items that are complete, by name.
        failed: a sentence for each item that is not.
        written: the files.
        cells, earlier: how many cells there were, and how many of them an earlier run had measured.
    """

    records: dict[str, list[Record]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    written: list[Path] = field(default_factory=list)
    cells: int = 0
    earlier: int = 0


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
        at_work: called often with how far it is.
    """
    run, done, index, plans = Reproduced(), 0, [], []
    for item in items:
        at_work(0, 0, f"{item.name}: data")
        try:
            plans.append((item, item.cells(scale, graphs)))
        except InputError as error:
            run.failed[item.name] = str(error)
    run.cells = sum(len(cells) for _, cells in plans)
    run.earlier = sum(is_there(cell, graphs, store) for _, cells in plans for cell in cells)
    for item, cells in plans:
        records, shown = [], {"quick": scale.quick, "command": command(item.name, scale.quick)}
        if not cells:
            run.failed[item.name] = "no settings were searched for it."
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


def measured(cell: Cell, graphs: Graphs, store: Store, on_epoch: OnEpoch = None) -> Record:
    """The record of a cell, with its labels.

    A kind with parts is joined of their records and not stored itself: they are.
    """
    key = cell_key(cell, graphs.checksum(cell.dataset))
    named = {"kind": cell.kind, "dataset": cell.dataset, "key": key}
    record = store.find(key)
    if record is None and cell.kind in PARTS:
        parts = [measured(part, graphs, store, on_epoch) for part in PARTS[cell.kind].split(cell, graphs)]
        origin = {name: parts[-1][name] for name in ("device", "date", "versions", "source") if name in parts[-1]}
        origin["hardware"] = " and ".join(dict.fromkeys(part["hardware"] for part in parts))
        record = store.add(origin | PARTS[cell.kind].join(cell, parts) | named, file=False)
    elif record is None:
        record = store.add(_measure(cell, graphs, on_epoch) | named)
    return record | cell.labels | ({"labels": sorted(cell.labels)} if cell.labels else {})


def _measure(cell: Cell, graphs: Graphs, on_epoch: OnEpoch) -> Record:
    """What a cell's kind measures, and how it came about; ``CellError`` for want of memory or by its settings."""
    try:
        record = measure_or_say(lambda: KINDS[cell.kind](cell, graphs, on_epoch))
    except OutputError:
        raise
    except InputError as error:
        raise CellError(str(error)) from error
    if set(record) == {"note"}:
        raise CellError(f"{record['note']}.")
    origin = {"device": graphs.device, "hardware": hardware(graphs.device), "date": date.today().isoformat()}
    return origin | {"versions": versions(), "source": source_code()} | record


def is_there(cell: Cell, graphs: Graphs, store: Store) -> bool:
    """Whether nothing of a cell is left to measure."""
    if store.find(cell_key(cell, graphs.checksum(cell.dataset))) is not None:
        return True
    parts = PARTS[cell.kind].split(cell, graphs) if cell.kind in PARTS else []
    return bool(parts) and all(is_there(part, graphs, store) for part in parts)


# The folder of results: a table, a plot and the records of every item, and a page of all of them.


def command(item: str, quick: bool) -> str:
    """What measures an item again."""
    return f"rapgnn reproduce {item}{' --quick' if quick else ''}"


def write_item(store: Store, item: Item, records: Sequence[Record]) -> list[Path]:
    """Write the files of an item whose cells are all there; what was written."""
    json_file, page, plot = (store.out / f"{item.name}.{suffix}" for suffix in ("json", "md", "png"))
    store.write_item(json_file, records)
    text = f"# {item.title}\n\n{describe(item, records)}\n"
    if item.figures is not None:
        figures, title = item.figures(list(records)), f"{item.title}; {records[0]['hardware']}"
        write_atomic(plot, lambda temporary: save_image(figures, title, temporary))
        text += f"\n![{item.title}]({plot.name})\n"
    _write_text(page, text)
    return [json_file, page, *([plot] if item.figures else [])]


def describe(item: Item, records: Sequence[Record]) -> str:
    """An item's tables, what the paper says of them against itself, and how they were measured."""
    parts = [item.show(list(records)).strip()]
    if NOTES.get(item.name):
        parts.append("In the paper itself:\n\n" + "\n".join(f"- {note}" for note in NOTES[item.name]))
    if records:
        machines = dict.fromkeys(r["hardware"] for r in records)
        dates, torch = sorted({r["date"] for r in records}), sorted({r["versions"]["torch"] for r in records})
        when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
        parts.append(
            f"Measured by `{records[0]['command']}` on {', '.join(machines)}, {when}; torch {', '.join(torch)}. "
            "Records of the same code, data and settings were not measured again."
        )
    return "\n\n".join(parts)


def write_index(store: Store, items: Sequence[Item]) -> list[Path]:
    """Write the page of all items that are there, headed by what they say of the paper's claims."""
    files = {item: store.out / f"{item.name}.json" for item in items}
    records = {item.name: store.read(path) for item, path in files.items() if is_regular(path)}
    judged = judge_claims(records)
    store.write(store.out / CLAIMS, judged)
    parts = ["# The paper's tables and figures, measured again", format_claims(judged).strip()]
    for page in (store.out / f"{name}.md" for name in records):
        if is_regular(page):
            parts.append(re.sub(r"^#", "##", page.read_text(encoding="utf-8").strip(), flags=re.MULTILINE))
    quick = any(r.get("quick") for rows in records.values() for r in rows)
    again = f"rapgnn reproduce{' --quick' if quick else ''}"
    parts.append(
        f"## How to measure it again\n\n`{again}` measures what is not here yet, `{again} --again` everything; "
        "names of items after `reproduce` choose some. A run can be stopped at any moment: the next one goes on "
        "where it was. `rapgnn reproduce --list` says what there is."
    )
    _write_text(store.out / INDEX, "\n\n".join(parts) + "\n")
    return [store.out / INDEX, store.out / CLAIMS]


def _write_text(path: Path, text: str) -> None:
    write_atomic(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))
