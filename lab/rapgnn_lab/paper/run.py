"""A run: cells become records, found in the store or measured now; an item's files are written once all its cells are
there, and with them the page of all items."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rapgnn.compare import OnEpoch, Record
from rapgnn.errors import InputError, OutputError
from rapgnn.files import is_regular, write_atomic
from rapgnn_lab.paper.cells import KINDS, PARTS, Cell, Graphs, Item, Scale, cell_key, unlabelled
from rapgnn_lab.paper.claims.judged import NOTES, format_claims, judge_claims
from rapgnn_lab.paper.plots import save_image
from rapgnn_lab.paper.rows import note
from rapgnn_lab.store import Store, machine, measure_or_say, plain, read_records, stamp, write_json

INDEX, CLAIMS = "README.md", "claims.json"
AtWork = Callable[[int, int, str], None]  # (cells done, all cells, what is measured now)


class CellError(Exception):
    """A cell that could not be measured, in one sentence."""


@dataclass
class Reproduced:
    """What a run gives: records of the items that are complete, a sentence for each that is not, how many cells there
    were, and how many of them an earlier run had measured."""

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
    assert store.path is not None
    run, done, index, plans, out = Reproduced(), 0, [], [], store.path.parent
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
            run.written += write_item(store, out, item, records)
            index = write_index(out, known or items)
    run.written += index
    return run


def measured(cell: Cell, graphs: Graphs, store: Store, on_epoch: OnEpoch = None) -> Record:
    """The record of a cell, with its labels.

    A kind with parts is joined of their records and not stored itself: they are.
    """
    key = cell_key(cell, graphs.checksum(cell.dataset))
    named = {"kind": cell.kind, "dataset": cell.dataset, "key": key}
    record = store.find({"key": key})
    if record is None and cell.kind in PARTS:
        parts = [measured(part, graphs, store, on_epoch) for part in PARTS[cell.kind].split(cell, graphs)]
        origin = {name: parts[-1][name] for name in ("device", "date", "versions", "source") if name in parts[-1]}
        origin["hardware"] = " and ".join(dict.fromkeys(part["hardware"] for part in parts))
        record = plain(origin | PARTS[cell.kind].join(cell, parts) | named)
    elif record is None:
        record = store.add(_measure(cell, graphs, on_epoch) | named, {"key": key})
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
    return machine(graphs.device) | stamp() | record


def is_there(cell: Cell, graphs: Graphs, store: Store) -> bool:
    """Whether nothing of a cell is left to measure."""
    if store.find({"key": cell_key(cell, graphs.checksum(cell.dataset))}) is not None:
        return True
    parts = PARTS[cell.kind].split(cell, graphs) if cell.kind in PARTS else []
    return bool(parts) and all(is_there(part, graphs, store) for part in parts)


# The folder of results: a table, a plot and the records of every item, and a page of all of them.


def command(item: str, quick: bool) -> str:
    return f"rapgnn reproduce {item}{' --quick' if quick else ''}"


def write_item(store: Store, out: Path, item: Item, records: Sequence[Record]) -> list[Path]:
    """Write the files of an item whose cells are all there; what was written. What its file held before and is not
    among the records goes to the cells."""
    json_file, page, plot = (out / f"{item.name}.{suffix}" for suffix in ("json", "md", "png"))
    keys = {record["key"] for record in records}
    for record in read_records(json_file) if is_regular(json_file) else []:
        if record["key"] not in keys:
            store.keep(unlabelled(record), {"key": record["key"]})
    write_json(json_file, records)
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


def write_index(out: Path, items: Sequence[Item]) -> list[Path]:
    """Write the page of all items that are there, headed by what they say of the paper's claims."""
    files = {item.name: out / f"{item.name}.json" for item in items}
    records = {name: read_records(path) for name, path in files.items() if is_regular(path)}
    judged = judge_claims(records)
    write_json(out / CLAIMS, judged)
    parts = ["# The paper's tables and figures, measured again", format_claims(judged).strip()]
    for page in (out / f"{name}.md" for name in records):
        if is_regular(page):
            parts.append(re.sub(r"^#", "##", page.read_text(encoding="utf-8").strip(), flags=re.MULTILINE))
    quick = any(r.get("quick") for rows in records.values() for r in rows)
    again = f"rapgnn reproduce{' --quick' if quick else ''}"
    parts.append(note("again-index", again=again))
    _write_text(out / INDEX, "\n\n".join(parts) + "\n")
    return [out / INDEX, out / CLAIMS]


def _write_text(path: Path, text: str) -> None:
    write_atomic(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))
