"""Markdown -> HTML, and Markdown -> parts of a page, so that tables are tables of cells."""

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from rapgnn.report.parts import Cell, Part, Prose, Table

NewTable = Callable[[str, list[str], list[list[str]], int], Table]
"""(the heading above it, its header, its rows, how many columns are words) -> a table of the page."""


@cache
def _parser() -> Any:
    from markdown_it import MarkdownIt

    return MarkdownIt("js-default", {"linkify": False}).enable("table")  # HTML inside is shown, not obeyed


def to_html(text: str) -> str:
    """Prose as HTML."""
    return _parser().render(text)


def to_parts(text: str, new_table: NewTable | None = None) -> list[Part]:
    """The blocks of a text in their order; a heading goes to the table below it, as its caption."""
    make, found, heading = new_table or _plain_table, [], ""
    for block in re.split(r"\n\s*\n", text.strip()):
        block = block.strip()
        if block.startswith("#"):
            heading = block.lstrip("# ")
        elif block.startswith("|"):
            lines = [_cells(line) for line in block.splitlines()]
            left = sum(not mark.endswith(":") for mark in lines[1])
            found.append(make(heading, lines[0], lines[2:], left))
        elif block and not re.fullmatch(r"!\[.*\]\(.*\)", block):
            found.append(Prose(block))
    return found


def plain_cell(text: str) -> Cell:
    """A cell without its stars."""
    bold = re.fullmatch(r"\*\*(.*)\*\*", text)
    return Cell(bold[1], bold=True) if bold else Cell(text)


def _plain_table(heading: str, header: list[str], rows: Sequence[Sequence[str]], left: int) -> Table:
    return Table(header, [[plain_cell(cell) for cell in row] for row in rows], heading, left)


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split("|")]
