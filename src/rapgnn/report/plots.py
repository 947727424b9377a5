"""Figures of plotly in one look. Colours are those of a light page; ``page.js`` replaces them on a dark one."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

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
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "cross", "star", "hexagon")
HEIGHT = 340
BLUES = ((0.0, "#ffffff"), (1.0, "#0b62a4"))
SIGNED = ((0.0, "#0b62a4"), (0.5, "#ffffff"), (1.0, "#b5460f"))


def log_axis(values: Sequence[float]) -> dict[str, Any]:
    """A logarithmic axis with few ticks."""
    found = [value for value in values if value and value > 0]
    decades = math.log10(max(found) / min(found)) if found else 0.0
    return {"type": "log", "dtick": 1 if decades > 1.3 else "D2"}


def colour(at: int) -> str:
    """The colour of line number ``at``."""
    return COLOURS[at % len(COLOURS)]


def figure(traces: Sequence[Any], x: str, y: str, **layout: Any) -> Any:
    """Traces in the common look.

    Args:
        x, y: titles of the axes.
        layout: of plotly, beside it.
    """
    import plotly.graph_objects as go

    axis = {"gridcolor": FAINT, "zerolinecolor": FAINT, "linecolor": FAINT}
    base: dict[str, Any] = {
        "template": go.layout.Template(),
        "height": HEIGHT,
        "margin": {"l": 12, "r": 12, "t": 8, "b": 12},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"color": INK, "size": 13, "family": "system-ui, sans-serif"},
        "showlegend": False,
        "hovermode": "closest",
        # Each axis makes room on its own side alone: otherwise both may push each other to and fro.
        "xaxis": axis | {"title": {"text": x, "standoff": 8}, "automargin": "bottom"},
        "yaxis": axis | {"title": {"text": y, "standoff": 8}, "automargin": "left"},
    }
    made = go.Figure(data=list(traces), layout=base)
    made.update_layout(**layout)
    return made


def lines(
    series: Mapping[str, tuple[Sequence[Any], Sequence[Any]]],
    x: str,
    y: str,
    *,
    errors: Mapping[str, Sequence[float]] | None = None,
    places: Mapping[str, int] | None = None,
    hover: str = "%{fullData.name}<br>%{x}: %{y}<extra></extra>",
    **layout: Any,
) -> Any:
    """A line with markers for each name.

    Args:
        series: name -> x and y.
        errors: name -> half the height of its error bars.
        places: name -> the number of its colour, so that it is the same in several plots.
    """
    import plotly.graph_objects as go

    traces = []
    for at, (name, (xs, ys)) in enumerate(series.items()):
        at = at if places is None else places[name]
        bars = None
        if errors is not None and name in errors:
            bars = {"type": "data", "array": list(errors[name]), "thickness": 1, "width": 3, "color": colour(at)}
        traces.append(
            go.Scatter(
                x=list(xs),
                y=list(ys),
                name=name,
                mode="lines+markers",
                line={"color": colour(at), "width": 2},
                marker={"color": colour(at), "size": 8, "symbol": SYMBOLS[at % len(SYMBOLS)]},
                error_y=bars,
                hovertemplate=hover,
            )
        )
    return figure(traces, x, y, **layout)


def bars(
    names: Sequence[str], values: Sequence[Any], x: str, *, at: int = 0, texts: Sequence[str] | None = None
) -> Any:
    """Horizontal bars, the first on top."""
    import plotly.graph_objects as go

    trace = go.Bar(
        x=list(values),
        y=list(names),
        orientation="h",
        marker={"color": colour(at)},
        text=None if texts is None else list(texts),
        textposition="auto",
        showlegend=False,
        hovertemplate="%{y}: %{x}<extra></extra>",
    )
    height, low, high = 90 + 28 * max(4, len(names)), min(values, default=0), max(values, default=0)
    room = {"range": [low - 0.12 * (high - low), high + 0.05 * (high - low)]} if low < 0 else {}  # for the texts
    return figure([trace], x, "", height=height, xaxis=room, yaxis={"autorange": "reversed", "title": None})


def heat(z: Any, names: Sequence[str], x: str, y: str, *, scale: Any = BLUES, hover: str, **layout: Any) -> Any:
    """A matrix as colours, the first row on top."""
    import plotly.graph_objects as go

    trace = go.Heatmap(
        z=z, x=list(names), y=list(names), colorscale=[list(c) for c in scale], hovertemplate=hover, showscale=False
    )
    side = {"autorange": "reversed", "type": "category", "showgrid": False}
    return figure(
        [trace],
        x,
        y,
        height=layout.pop("height", 420),
        xaxis={"type": "category", "showgrid": False},
        yaxis=side,
        **layout,
    )
