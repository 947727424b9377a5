"""What a page is made of: sections of prose, tables, figures and notices."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

# Figures of plotly in one look, as the dictionaries that its script draws. Colours are those of a light page;
# ``page.js`` replaces them on a dark one.


PALETTE = {
    "#0b62a4": "#6db3f2",
    "#b5460f": "#f59e5b",
    "#00785a": "#4cc9a0",
    "#8a2f7d": "#e08fd3",
    "#6b5900": "#d9c24a",
    "#4b4fa8": "#a5a9ff",
    "#9c2335": "#ff8f9c",
    "#3f5a66": "#a3bfcc",
}
"""A colour on a light page -> the same line on a dark one. Each has a contrast of 3 and more to its background."""
COLOURS = tuple(PALETTE)
INK, FAINT = "#1b1f24", "#d5dae0"
THEME = PALETTE | {INK: "#e8ebef", FAINT: "#3a424c", "#ffffff": "#14181d"}
DOTTED = {"color": INK, "dash": "dot", "width": 1}  # what would be ideal
ERROR_BARS = {"type": "data", "thickness": 1, "width": 3}
MOST_WRITTEN = 12  # rows of a matrix whose cells hold their numbers
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "cross", "star", "hexagon")
HEIGHT = 340
TOOLBAR = 34  # pixels above a plot, so that its toolbar covers nothing
BLUES = ((0.0, "#ffffff"), (1.0, "#0b62a4"))
Drawn = dict[str, Any]  # a figure of plotly: its ``data`` and its ``layout``


def colour(at: int) -> str:
    return COLOURS[at % len(COLOURS)]


def figure(traces: Sequence[Drawn], x: str, y: str, *, height: int = HEIGHT, **axes: Drawn) -> Drawn:
    """Traces in the common look.

    Args:
        axes: ``xaxis`` and ``yaxis``, what they have of their own.
    """
    axis = {"gridcolor": FAINT, "zerolinecolor": FAINT, "linecolor": FAINT}
    # Each axis makes room on its own side alone: otherwise both may push each other to and fro.
    across = axis | {"title": {"text": x, "standoff": 8}, "automargin": "bottom"}
    up = axis | {"title": {"text": y, "standoff": 8}, "automargin": "left"}
    layout = {
        "height": height,
        "margin": {"l": 12, "r": 12, "t": TOOLBAR, "b": 12},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"color": INK, "size": 13, "family": "system-ui, sans-serif"},
        "showlegend": False,
        "hovermode": "closest",
        "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": "#8a94a0", "activecolor": INK},
        "xaxis": across | axes.get("xaxis", {}),
        "yaxis": up | axes.get("yaxis", {}),
    }
    return {"data": list(traces), "layout": layout}


def lines(
    series: Mapping[str, tuple[Any, Any]],
    x: str,
    y: str,
    *,
    hover: str,
    mode: str = "lines+markers",
    marker: Drawn | None = None,
    each: Drawn | None = None,
    **layout: Any,
) -> Drawn:
    """A line with markers for each name, or, with ``mode="markers"``, points."""
    traces = []
    for at, (name, (xs, ys)) in enumerate(series.items()):
        look = {"color": colour(at), "size": 8, "symbol": SYMBOLS[at % len(SYMBOLS)]} | (marker or {})
        trace = {"type": "scatter", "x": list(xs), "y": list(ys), "name": name, "mode": mode, "hovertemplate": hover}
        traces.append(trace | {"line": {"color": colour(at), "width": 2}, "marker": look} | (each or {}))
    return figure(traces, x, y, **layout)


def diagonal(drawn: Drawn, low: float = 0.0, high: float = 1.0) -> Drawn:
    """The figure with the dotted line of what would be ideal: both axes agree."""
    ends = {"x": [low, high], "y": [low, high], "line": DOTTED}
    drawn["data"].append(ends | {"type": "scatter", "mode": "lines", "showlegend": False, "hoverinfo": "skip"})
    return drawn


def bars(
    names: Sequence[str], values: Sequence[Any], x: str, *, texts: Sequence[str], kinds: Sequence[int] | None = None
) -> Drawn:
    """Horizontal bars, the first on top; ``kinds`` number their colours."""
    colours = [colour(kind) for kind in (kinds or [0] * len(names))]
    trace = {"type": "bar", "x": list(values), "y": list(names), "orientation": "h", "marker": {"color": colours}}
    trace |= {"text": texts, "textposition": "auto", "showlegend": False, "hovertemplate": "%{y}: %{x}<extra></extra>"}
    height, low, high = 112 + 28 * max(4, len(names)), min(values, default=0), max(values, default=0)
    room = 0.18 * (max(0, high) - low)  # for the texts of bars to both sides
    span = {"range": [low - room, max(0, high) + room]} if low < 0 else {}
    return figure([trace], x, "", height=height, xaxis=span, yaxis={"autorange": "reversed", "title": None})


def heat(z: Any, names: Sequence[str], x: str, y: str, *, texts: Any = None, hover: str, height: int = 420) -> Drawn:
    """Shares as the colours of a matrix, the first row on top.

    Args:
        texts: what each cell says; where they are many, to those who point at it.
    """
    trace = {"type": "heatmap", "z": z, "x": list(names), "y": list(names), "hovertemplate": hover, "text": texts}
    trace |= {"colorscale": [list(c) for c in BLUES], "showscale": False, "zmin": 0, "zmax": 1}
    trace |= {"texttemplate": "%{text}"} if len(names) <= MOST_WRITTEN else {}
    side = {"type": "category", "showgrid": False}
    return figure([trace], x, y, height=height, xaxis=side, yaxis=side | {"autorange": "reversed"})


TONES = ("", "good", "mixed", "bad", "quiet")
"""How a cell or a notice is coloured. Every tone stands beside a word or a sign that says the same."""
SIGNS = {"good": "✓", "mixed": "~", "bad": "✗"}


@dataclass(frozen=True)
class Cell:
    """A cell of a table.

    Args:
        tone: one of ``TONES``; a sign stands before the text.
        bold: for the row that matters.
        folded: what to click for the text, where it is long.
        title: more about it, for those who point at it.
        name: of the place, for links to it.
    """

    text: str
    tone: str = ""
    bold: bool = False
    code: bool = False
    name: str = ""
    title: str = ""
    folded: str = ""

    @property
    def sign(self) -> str:
        """What says the tone to those who do not see colours."""
        return SIGNS.get(self.tone, "")


@dataclass
class Table:
    """A table with a header.

    Args:
        rows: of cells, or of plain values that become cells; the first of each is the row's name.
        left: how many columns are words; the others are aligned to the right, as numbers are.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[Any]]
    caption: str = ""
    left: int = 1

    def __post_init__(self) -> None:
        self.rows = [[cell if isinstance(cell, Cell) else Cell(str(cell)) for cell in row] for row in self.rows]


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
class Panel:
    """One plot.

    Args:
        says: what is to be seen, in one or two sentences, for those who do not see it.
    """

    figure: Drawn
    title: str
    says: str


@dataclass(frozen=True)
class Figure:
    """Plots side by side that share their legend.

    Args:
        name: short and unique on the page.
        panels: a line or bar that has the same name in several of them is switched on and off in all.
        table: the same values, for those who read numbers; None where there are thousands of points.
        apart: whether every panel has a legend of its own.
    """

    name: str
    panels: Sequence[Panel]
    table: Table | None = None
    apart: bool = False


def legend(panels: Sequence[Panel]) -> dict[str, str]:
    """Name -> colour of every line that can be switched off."""
    traces = [trace for panel in panels for trace in panel.figure["data"] if trace.get("showlegend") is not False]
    return {trace["name"]: trace["marker"]["color"] for trace in traces if "name" in trace}


@dataclass(frozen=True)
class More:
    """Parts that are folded until a reader opens them."""

    title: str
    parts: Sequence["Part"]


Part = Prose | Notice | Facts | Table | Figure | More


@dataclass
class Section:
    """A part of the page with a heading and a place in its list of contents."""

    title: str
    parts: list[Part] = field(default_factory=list)
    name: str = ""
    short: str = ""  # in the list of contents

    def __post_init__(self) -> None:
        self.name = self.name or slug(self.title)


def percent(share: float, digits: int = 1) -> str:
    return f"{100 * share:.{digits}f} %"


def slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "part"


def figures_in(parts: Sequence[Part]) -> list[Figure]:
    figures = []
    for part in parts:
        if isinstance(part, Figure):
            figures.append(part)
        elif isinstance(part, More):
            figures += figures_in(part.parts)
    return figures
