"""The folder of results: a table, a plot and the records of every item, and a page of all of them."""

import re
from collections.abc import Sequence
from pathlib import Path

from rapgnn.experiments.reproduce.claims.notes import NOTES
from rapgnn.experiments.reproduce.claims.verdicts import format_verdicts, verdicts
from rapgnn.experiments.reproduce.item import Item
from rapgnn.experiments.reproduce.store import Store
from rapgnn.experiments.run import Record
from rapgnn.files import is_regular, write_atomic

INDEX, CLAIMS = "README.md", "claims.json"


def command(item: str, quick: bool) -> str:
    """What measures an item again."""
    return f"rapgnn reproduce {item}{' --quick' if quick else ''}"


def write_item(store: Store, item: Item, records: Sequence[Record]) -> list[Path]:
    """Write the files of an item whose cells are all there; what was written."""
    json_file, page, plot = (store.out / f"{item.name}.{suffix}" for suffix in ("json", "md", "png"))
    store.write_item(json_file, records)
    text = f"# {item.title}\n\n{describe(item, records)}\n"
    written = [json_file, page]
    if item.plot is not None:
        draw = item.plot
        write_atomic(plot, lambda temporary: draw(list(records), temporary))
        text += f"\n![{item.title}]({plot.name})\n"
        written.append(plot)
    write_text(page, text)
    return written


def describe(item: Item, records: Sequence[Record]) -> str:
    """An item's tables, what the paper says of them against itself, and how they were measured."""
    parts = [item.show(list(records)).strip()]
    if NOTES.get(item.name):
        parts.append("In the paper itself:\n\n" + "\n".join(f"- {note}" for note in NOTES[item.name]))
    return "\n\n".join([*parts, origin(records)]) if records else parts[0]


def origin(records: Sequence[Record]) -> str:
    """Who measured it, with what, and when."""
    commands, machines = ([r[name] for r in records] for name in ("command", "hardware"))
    dates = sorted({r["date"] for r in records})
    torch = sorted({r["versions"]["torch"] for r in records})
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    return (
        f"Measured by `{commands[0]}` on {', '.join(dict.fromkeys(machines))}, {when}; torch {', '.join(torch)}. "
        "Records of the same code, data and settings were not measured again."
    )


def write_index(store: Store, items: Sequence[Item]) -> list[Path]:
    """Write the page of all items that are there, headed by what they say of the paper's claims."""
    found = {i: store.out / f"{i.name}.json" for i in items if is_regular(store.out / f"{i.name}.json")}
    records = {item.name: store.read_item(path) for item, path in found.items()}
    judged = verdicts(records)
    store.write(store.out / CLAIMS, judged)
    quick = any(r.get("quick") for rows in records.values() for r in rows)
    parts = ["# The paper's tables and figures, measured again", format_verdicts(judged).strip()]
    for item in found:
        page = store.out / f"{item.name}.md"
        if is_regular(page):
            parts.append(re.sub(r"^#", "##", page.read_text(encoding="utf-8").strip(), flags=re.MULTILINE))
    again = f"rapgnn reproduce{' --quick' if quick else ''}"
    parts.append(
        f"## How to measure it again\n\n`{again}` measures what is not here yet, `{again} --again` everything; "
        "names of items after `reproduce` choose some. A run can be stopped at any moment: the next one goes on "
        "where it was. `rapgnn reproduce --list` says what there is."
    )
    write_text(store.out / INDEX, "\n\n".join(parts) + "\n")
    return [store.out / INDEX, store.out / CLAIMS]


def write_text(path: Path, text: str) -> None:
    """Put a text in place."""
    write_atomic(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))
