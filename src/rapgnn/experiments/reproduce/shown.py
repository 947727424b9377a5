"""What a person reads in the terminal."""

from collections.abc import Sequence

from rich.markdown import Markdown
from rich.table import Table

from rapgnn.errors import InputError
from rapgnn.experiments.reproduce.item import Graphs, Item, Scale
from rapgnn.experiments.reproduce.outputs import describe
from rapgnn.experiments.reproduce.store import Store
from rapgnn.experiments.reproduce.whole import count_cells
from rapgnn.experiments.run import Record
from rapgnn.experiments.tables import wide_console


def show_tables(items: Sequence[Item], records: dict[str, list[Record]]) -> None:
    """Print the tables of these items."""
    console = wide_console()
    for item in items:
        console.print(Markdown(f"# {item.title}\n\n{describe(item, records[item.name])}"))
        console.print()


def show_list(items: Sequence[Item], scale: Scale, graphs: Graphs, store: Store) -> list[Record]:
    """Print the items with how many of their cells are there; the same as records."""
    table, records = Table("item", "what it is"), []
    table.add_column("cells there", justify="right")
    for item in items:
        record: Record = {"item": item.name, "title": item.title}
        try:
            there, cells = count_cells(item, scale, graphs, store)
            record |= {"there": there, "cells": cells}
            state = f"{there} of {cells}"
        except InputError as error:
            record["failed"] = state = str(error)
        table.add_row(item.name, item.title, state)
        records.append(record)
    wide_console().print(table)
    return records
