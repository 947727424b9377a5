"""What a page is made of: sections of prose, tables, figures and notices."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

TONES = ("", "good", "mixed", "bad", "quiet")
"""How a cell, a chip or a notice is coloured. Every tone stands beside a word or a sign that says the same."""
SIGNS = {"good": "✓", "mixed": "~", "bad": "✗"}


@dataclass(frozen=True)
class Chip:
    """A word with a tone; a link where it has a target."""

    text: str
    tone: str = ""
    href: str = ""
    title: str = ""


@dataclass(frozen=True)
class Cell:
    """A cell of a table.

    Args:
        text: what it says.
        tone: one of ``TONES``; a sign stands before the text.
        bold: for the row that matters.
        code: a command.
        chips: words after the text.
        folded: what to click for the text, where it is long.
        title: more about it, for those who point at it.
        name: of the place, for links to it.
    """

    text: str
    tone: str = ""
    bold: bool = False
    code: bool = False
    name: str = ""
    chips: tuple[Chip, ...] = ()
    title: str = ""
    folded: str = ""

    @property
    def sign(self) -> str:
        """What says the tone to those who do not see colours."""
        return SIGNS.get(self.tone, "")


@dataclass(frozen=True)
class Table:
    """A table with a header.

    Args:
        rows: of cells; the first of each is the row's name.
        caption: what it shows, in a few words.
        left: how many columns are words; the others are aligned to the right, as numbers are.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    caption: str = ""
    left: int = 1
    chips: bool = False  # whether the last column holds chips


def table(header: Sequence[str], rows: Sequence[Sequence[Any]], caption: str = "", left: int = 1) -> Table:
    """A table of plain values; cells that are ``Cell`` already stay as they are."""
    cells = [[c if isinstance(c, Cell) else Cell(str(c)) for c in row] for row in rows]
    return Table(header, cells, caption, left)


@dataclass(frozen=True)
class Prose:
    """Paragraphs and lists in Markdown."""

    text: str


@dataclass(frozen=True)
class Notice:
    """A sentence that must not be overlooked."""

    text: str
    tone: str = "mixed"


@dataclass(frozen=True)
class Facts:
    """Names with their values."""

    pairs: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Chips:
    """Words with tones after a few words that say what they are."""

    title: str
    chips: Sequence[Chip]


@dataclass(frozen=True)
class Panel:
    """One plot.

    Args:
        figure: of plotly.
        title: above it.
        says: what is to be seen, in one or two sentences, for those who do not see it.
    """

    figure: Any
    title: str
    says: str

    @property
    def legend(self) -> list[tuple[str, str]]:
        """(name, colour) of every line that can be switched off."""
        found: dict[str, str] = {}
        for trace in self.figure.data:
            if trace.showlegend is not False and trace.name:
                found.setdefault(trace.name, _colour(trace))
        return list(found.items())


@dataclass(frozen=True)
class Figure:
    """Plots side by side that share their legend.

    Args:
        panels: a line or bar that has the same name in several of them is switched on and off in all.
        apart: whether every panel has a legend of its own.
        log: whether a switch between a linear and a logarithmic vertical axis is offered; it starts logarithmic.
        table: the same values, for those who read numbers; None where there are thousands of points.
        name: short and unique on the page.
    """

    name: str
    panels: Sequence[Panel]
    log: bool = False
    table: Table | None = None
    apart: bool = False

    @property
    def legend(self) -> list[tuple[str, str]]:
        """Of all panels."""
        found: dict[str, str] = {}
        for panel in self.panels:
            for name, colour in panel.legend:
                found.setdefault(name, colour)
        return list(found.items())


def _colour(trace: Any) -> str:
    for place in ("line", "marker"):
        colour = getattr(getattr(trace, place, None), "color", None)
        if isinstance(colour, str):
            return colour
    return ""


@dataclass(frozen=True)
class More:
    """Parts that are folded until a reader opens them."""

    title: str
    parts: Sequence["Part"]


Part = Prose | Notice | Facts | Chips | Table | Figure | More


@dataclass
class Section:
    """A part of the page with a heading and a place in its list of contents."""

    title: str
    parts: list[Part] = field(default_factory=list)
    name: str = ""
    short: str = ""  # in the list of contents

    def __post_init__(self) -> None:
        self.name = self.name or slug(self.title)


def slug(text: str) -> str:
    """A text as the name of a place on the page."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "part"


def figures_in(parts: Sequence[Part]) -> list[Figure]:
    """All figures, those in folded parts too."""
    found = []
    for part in parts:
        if isinstance(part, Figure):
            found.append(part)
        elif isinstance(part, More):
            found += figures_in(part.parts)
    return found
