"""Whether stated probabilities come true, and whether error bars are as wide as errors."""

import numpy as np
from scipy import special

from rapgnn.estimators.report.subject import AbsentError, Subject
from rapgnn.report import plots
from rapgnn.report.parts import Figure, Panel, Part, Prose, table

BINS = 10
LEVELS = (0.5, 0.68, 0.8, 0.9, 0.95)
Z = 1.96


def calibration_parts(subject: Subject) -> list[Part]:
    """By kind of label."""
    return _numbers(subject) if subject.numbers else _shares(subject)


def stated(subject: Subject) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What was stated, whether it came true, and the spread: of the answer, or of every known label."""
    rows, y = subject.rows.numpy(), subject.graph.y.cpu()[subject.rows].numpy()
    p = subject.p[rows]
    spread = np.zeros_like(p) if subject.spread is None else subject.spread[rows]
    if subject.classes:
        answer = p.argmax(1)
        at = np.arange(len(p)), answer
        return p[at], (answer == y).astype(float), spread[at]
    known = ~np.isnan(y)
    return p[known], y[known], spread[known]


def bins_of(subject: Subject) -> list[dict[str, float]]:
    """Bins of equal numbers of rows: mean stated, share that came true with its interval, mean spread, rows."""
    said, true, spread = stated(subject)
    found = []
    for part in np.array_split(np.argsort(said, kind="stable"), min(BINS, max(1, len(said) // 5))):
        if not len(part):
            continue
        low, high = _wilson(float(true[part].sum()), len(part))
        found.append(
            {
                "stated": float(said[part].mean()),
                "true": float(true[part].mean()),
                "low": low,
                "high": high,
                "spread": float(spread[part].mean()),
                "rows": len(part),
            }
        )
    return found


def _wilson(hits: float, n: int) -> tuple[float, float]:
    """The 95 % interval of a share."""
    share, z2 = hits / n, Z * Z
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    reach = Z * np.sqrt(share * (1 - share) / n + z2 / (4 * n * n)) / (1 + z2 / n)
    return max(0.0, middle - reach), min(1.0, middle + reach)


def covered(one: dict[str, float]) -> bool:
    """Whether what came true lies within two spreads of what was stated, or chance explains the rest."""
    reach = 2 * one["spread"]
    return one["low"] <= one["stated"] + reach and one["high"] >= one["stated"] - reach


def _shares(subject: Subject) -> list[Part]:
    import plotly.graph_objects as go

    found = bins_of(subject)
    if not found:
        raise AbsentError("there are no labelled rows to compare with.")
    xs, ys = [b["stated"] for b in found], [b["true"] for b in found]
    up, down = [b["high"] - b["true"] for b in found], [b["true"] - b["low"] for b in found]
    wide = [2 * b["spread"] for b in found]
    bars = {"thickness": 1, "width": 3, "color": plots.colour(0), "type": "data"}
    points = go.Scatter(
        x=xs,
        y=ys,
        mode="lines+markers",
        name="model",
        showlegend=False,
        line={"color": plots.colour(0)},
        marker={"color": plots.colour(0), "size": 9},
        error_y=bars | {"array": up, "arrayminus": down, "symmetric": False},
        error_x=bars | {"array": wide},
        customdata=[b["rows"] for b in found],
        hovertemplate="stated %{x:.1%}, came true %{y:.1%}, %{customdata} rows<extra></extra>",
    )
    line = go.Scatter(
        x=[0, 1], y=[0, 1], mode="lines", name="equal", showlegend=False, line=plots.DOTTED, hoverinfo="skip"
    )
    axis = {"range": [0, 1.02], "tickformat": ".0%"}
    drawn = plots.figure([line, points], "stated probability", "share that came true", xaxis=axis, yaxis=axis)
    inside = sum(b["rows"] for b in found if covered(b))
    total, hits = sum(b["rows"] for b in found), sum(covered(b) for b in found)
    gap = sum(b["rows"] * abs(b["stated"] - b["true"]) for b in found) / total
    cells = [
        [
            f"{100 * b['stated']:.1f} %",
            f"{100 * b['true']:.1f} %",
            f"{100 * b['low']:.1f} to {100 * b['high']:.1f} %",
            f"± {100 * b['spread']:.2f} points",
            f"{b['rows']:,}",
            "yes" if covered(b) else "no",
        ]
        for b in found
    ]
    header = ["stated", "came true", "95 % interval", "spread", "rows", "within the error bars"]
    what = "answer" if subject.classes else "label"
    says = (
        f"Each point is a tenth of the {what}s; on the dotted line what is stated comes true. Mean distance "
        f"{100 * gap:.1f} points."
    )
    said = (
        f"**Coverage of the error bars:** in {hits} of {len(found)} groups ({100 * inside / total:.0f} % of the "
        f"{what}s) the share that came true lies within two spreads of what was stated, or chance explains the rest."
    )
    if subject.spread is None:
        said = "The error bars were left out: there are too many rows. Chance alone decides which groups are within."
    more = (
        "Horizontal bars: two spreads, the standard deviation over draws of the random weights. Vertical bars: 95 % "
        "intervals of the share."
    )
    return [
        Figure(
            "calibration",
            [Panel(drawn, f"Calibration on {subject.split} rows", says)],
            table=table(header, cells, "Calibration"),
        ),
        Prose(f"{said} {more}"),
    ]


def coverage(subject: Subject) -> list[tuple[float, float]]:
    """(level, share of the errors that lie inside the error bar of that level), for numbers."""
    if subject.spread is None:
        raise AbsentError("error bars were left out: there are too many rows.")
    rows = subject.rows.numpy()
    error = np.abs(subject.graph.y.cpu().numpy()[rows] - subject.p[rows])
    known, spread = ~np.isnan(error), subject.spread[rows]
    return [(level, float((error[known] <= special.ndtri(0.5 + level / 2) * spread[known]).mean())) for level in LEVELS]


def _numbers(subject: Subject) -> list[Part]:
    found = coverage(subject)
    drawn = plots.lines(
        {"errors inside": ([a for a, _ in found], [b for _, b in found])},
        "level of the error bar",
        "share of errors inside",
        hover="%{x:.0%}: %{y:.1%}<extra></extra>",
        xaxis={"range": [0, 1.02], "tickformat": ".0%"},
        yaxis={"range": [0, 1.02], "tickformat": ".0%"},
    )
    drawn.add_scatter(x=[0, 1], y=[0, 1], mode="lines", showlegend=False, line=plots.DOTTED, hoverinfo="skip")
    cells = [[f"{100 * a:.0f} %", f"{100 * b:.1f} %"] for a, b in found]
    says = ", ".join(f"{100 * b:.0f} % inside the {100 * a:.0f} % bar" for a, b in found) + "."
    note = (
        "The spread is the standard deviation over draws of the random weights. It does not hold the noise of the "
        "targets: where that is large, the shares lie below the dotted line."
    )
    return [
        Figure(
            "calibration",
            [Panel(drawn, f"Coverage of the error bars on {subject.split} rows", says)],
            table=table(["level", "inside"], cells, "Coverage"),
        ),
        Prose(note),
    ]
