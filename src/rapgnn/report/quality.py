"""How good the model is: against simple answers, class by class, and where it confuses what."""

import math

import numpy as np
import torch
from scipy import special

from rapgnn.estimators.evaluation import shown
from rapgnn.graph.scores import metrics_for
from rapgnn.graph.validate import SPLITS
from rapgnn.report import parts as plots
from rapgnn.report.parts import Cell, Facts, Figure, Notice, Panel, Part, Prose, Table, table
from rapgnn.report.subject import AbsentError, Subject

MOST_CLASSES = 25
MOST_POINTS = 2000
NONE = "–"


def verdict_parts(subject: Subject) -> list[Part]:
    """The score beside what needs no graph, and warnings."""
    record, metric = subject.record, subject.metric
    rows = f"{record['scored_split']}, {record['scored_rows']:,} rows"
    facts = [(f"{metric.title}, {rows}", shown(metric, record["score"]))]
    facts.append(("always the same answer", shown(metric, record["majority"])))
    if record["without_edges"] is not None:
        facts.append(("without edges", shown(metric, record["without_edges"])))
    others = [key for key in ("balanced_accuracy", "rocauc", "average_precision", "mae", "r2") if key in record]
    facts += [
        (m.title, shown(m, record[k]))
        for k in others
        if k != subject.metric_name
        for m in [metrics_for(subject.graph.task)[k]]
    ]
    if "calibration_error" in record:
        facts.append(("calibration error", f"{100 * record['calibration_error']:.2f} %"))
    parts: list[Part] = [Facts(facts)]
    for sentence in record["verdict"]:
        tone = "bad" if sentence.startswith(("no better", "the graph does not")) else "mixed"
        parts.append(Notice(sentence[0].upper() + sentence[1:], tone))
    bare = record["without_edges"]
    if bare is not None and bare == bare and not any("without edges" in s for s in record["verdict"]):
        gain = record["score"] - bare if metric.higher else bare - record["score"]
        by = f"{100 * gain:.2f} points" if metric.percent else f"{gain:.3f}"
        value, rows = record["score"], max(1, record["scored_rows"])
        sure = not metric.percent or gain > 2 * math.sqrt(max(0.0, value * (1 - value)) / rows)
        parts.append(
            Notice(f"The graph helps: {metric.title} is better by {by} than that of a model without edges.", "good")
            if sure
            else Notice(f"The graph may help: {by} better than a model without edges, which chance could explain.")
        )
    if record.get("missing"):
        parts.append(Notice(record["missing"], "quiet"))
    if subject.split != "test":
        said = (
            "validation rows, by which the model was chosen"
            if subject.split == "val"
            else "rows that the model was trained on"
        )
        parts.append(Notice(f"There are no test rows: this page judges by {said}, which is optimistic."))
    return parts


def quality_parts(subject: Subject) -> list[Part]:
    """The metric of every split, and by kind of label what goes wrong."""
    parts: list[Part] = [_by_split(subject)]
    if subject.numbers:
        return [*parts, _scatter(subject)]
    if subject.classes:
        parts.append(_confusion(subject))
    return [*parts, _per_class(subject)]


def _by_split(subject: Subject) -> Table:
    graph, rows = subject.graph, []
    for split in (s for s in SPLITS if len(graph.rows(s))):
        index = graph.rows(split).cpu()
        values = [
            m.measure(torch.from_numpy(subject.p)[index], graph.y.cpu()[index])
            for m in metrics_for(graph.task).values()
        ]
        found = [shown(m, v) for m, v in zip(metrics_for(graph.task).values(), values, strict=True)]
        rows.append([split, f"{len(index):,}", *found])
    header = ["", "rows", *(m.title for m in metrics_for(graph.task).values())]
    return table(header, rows, "Every metric on every split")


def confusion(subject: Subject) -> tuple[np.ndarray, list[str]]:
    """Counts [true, answered], and the classes; the rarest share one place where there are many."""
    y, said = subject.graph.y.cpu()[subject.rows].numpy(), subject.p[subject.rows.numpy()].argmax(1)
    k = subject.graph.num_outputs
    counts = np.zeros((k, k), dtype=np.int64)
    np.add.at(counts, (y, said), 1)
    if k <= MOST_CLASSES:
        return counts, subject.names
    order = np.argsort(-counts.sum(1), kind="stable")
    kept, rest = order[: MOST_CLASSES - 1], order[MOST_CLASSES - 1 :]
    place = np.full(k, MOST_CLASSES - 1)
    place[kept] = np.arange(len(kept))
    small = np.zeros((MOST_CLASSES, MOST_CLASSES), dtype=np.int64)
    np.add.at(small, (place[:, None].repeat(k, 1), place[None, :].repeat(k, 0)), counts)
    return small, [*(subject.names[j] for j in kept), f"{len(rest)} others"]


def _confusion(subject: Subject) -> Figure:
    counts, names = confusion(subject)
    share = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    size = max(340, 60 + 26 * len(names))
    drawn = plots.heat(
        share.round(4),
        names,
        "answer",
        "truth",
        hover="true %{y}, answered %{x}: %{text} rows, %{z:.1%} of them<extra></extra>",
        height=size,
    )
    drawn.update_traces(text=counts.tolist(), zmin=0, zmax=1)
    if len(names) <= 12:
        drawn.update_traces(texttemplate="%{text}")
    wrong = counts.copy()
    np.fill_diagonal(wrong, 0)
    worst = np.unravel_index(wrong.argmax(), wrong.shape)
    says = f"{int(np.trace(counts)):,} of {int(counts.sum()):,} rows are right."
    if wrong.any():
        says += f" The most frequent mistake: {names[worst[0]]} answered as {names[worst[1]]}, {wrong[worst]:,} rows."
    cells = [[name, *(f"{c:,}" for c in row)] for name, row in zip(names, counts.tolist(), strict=True)]
    return Figure(
        "confusion",
        [Panel(drawn, f"Confusion matrix on {subject.split} rows", says)],
        table=table(["truth \\ answer", *names], cells, "Confusion matrix"),
    )


def _per_class(subject: Subject) -> Table:
    rows = []
    for row in subject.record["per_class"]:
        values = ["–" if row[k] is None else f"{100 * row[k]:.1f} %" for k in ("precision", "recall")]
        low = row["recall"] is not None and row["recall"] < 0.5
        rows.append(
            [
                Cell(str(row["class"])),
                Cell(f"{row['rows']:,}"),
                Cell(values[0]),
                Cell(values[1], "mixed" if low else ""),
            ]
        )
    return Table(
        ["", "rows", "precision", "recall"],
        rows,
        f"Precision and recall of every {'class' if subject.classes else 'label'} on {subject.split} rows",
    )


def _scatter(subject: Subject) -> Figure:
    import plotly.graph_objects as go

    rows = subject.sample(subject.rows.numpy(), MOST_POINTS)
    panels = []
    for j in range(min(4, subject.p.shape[1])):
        y, p = subject.graph.y.cpu().numpy()[rows, j], subject.p[rows, j]
        known = np.isfinite(y)
        points = go.Scatter(
            x=y[known].round(6),
            y=p[known].round(6),
            mode="markers",
            name="rows",
            showlegend=False,
            marker={"color": plots.colour(0), "size": 6, "opacity": 0.7},
            hovertemplate="true %{x:.4~g}, predicted %{y:.4~g}<extra></extra>",
        )
        both = np.concatenate([y[known], p])
        ends = [float(both.min()), float(both.max())]
        line = go.Scatter(
            x=ends, y=ends, mode="lines", name="equal", showlegend=False, line=plots.DOTTED, hoverinfo="skip"
        )
        title = (
            "True and predicted"
            if subject.p.shape[1] == 1
            else f"True and predicted: {subject.names[j] if j < len(subject.names) else j}"
        )
        error = np.sqrt(np.mean((y[known] - p[known]) ** 2)) if known.any() else float("nan")
        panels.append(
            Panel(
                plots.figure([line, points], "true", "predicted"),
                title,
                f"{int(known.sum()):,} rows, RMSE {error:.4g}.",
            )
        )
    return Figure("predicted", panels)


# Whether stated probabilities come true, and whether error bars are as wide as errors.


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


# The rows that the model is least sure of.


SHOWN = 20


def uncertain_rows(subject: Subject) -> np.ndarray:
    """Row numbers, the least sure first: by the probability of the answer, or by the spread of numbers."""
    p, spread = subject.p, subject.spread
    trained = np.zeros(len(p), dtype=bool)
    trained[subject.graph.train.cpu().numpy()] = True
    if subject.numbers:
        if spread is None:
            raise AbsentError("error bars were left out: there are too many rows.")
        doubt = spread.mean(1)
    elif subject.classes:
        doubt = 1 - p.max(1)
    else:
        doubt = (0.5 - np.abs(p - 0.5)).mean(1)
    order = np.argsort(-doubt, kind="stable")
    return order[~trained[order]][:SHOWN]


def uncertain_parts(subject: Subject) -> list[Part]:
    """A table of them."""
    rows = uncertain_rows(subject)
    if not len(rows):
        raise AbsentError("every row was trained on.")
    split = np.full(subject.graph.num_rows, "–", dtype=object)
    for name in SPLITS:
        split[subject.graph.rows(name).cpu().numpy()] = name
    cells = [
        [Cell(name), *_said(subject, int(row)), Cell(str(split[row]))]
        for name, row in zip(subject.row_names(rows), rows, strict=True)
    ]
    header = {
        True: ["row", "prediction", "spread", "truth", "split"],
        False: ["row", "labels answered", "mean distance from sure", "truth", "split"],
    }[subject.numbers]
    if subject.classes:
        header = ["row", "answer", "probability", "spread", "next", "truth", "split"]
    note = (
        "Rows that were not trained on, the least sure first. To be labelled next, these teach the model most."
        if not subject.numbers
        else "Rows that were not trained on, the widest error bars first."
    )
    return [Prose(note), Table(header, cells, f"The {len(rows)} least sure rows", 2)]


def _said(subject: Subject, row: int) -> list[Cell]:
    p, y = subject.p[row], subject.graph.y.cpu()[row].numpy()
    spread = None if subject.spread is None else subject.spread[row]
    if subject.numbers:
        truth = ", ".join("–" if np.isnan(v) else f"{v:.4g}" for v in np.atleast_1d(y)[:4])
        return [
            Cell(", ".join(f"{v:.4g}" for v in p[:4])),
            Cell("–" if spread is None else f"{spread.mean():.3g}"),
            Cell(truth),
        ]
    if subject.classes:
        first, second = np.argsort(-p, kind="stable")[:2]
        truth = "–" if y < 0 else subject.names[int(y)]
        tone = "" if y < 0 else "good" if int(y) == first else "bad"
        wide = "–" if spread is None else f"± {100 * spread[first]:.1f}"
        return [
            Cell(subject.names[first]),
            Cell(f"{100 * p[first]:.1f} %"),
            Cell(wide),
            Cell(f"{subject.names[second]}, {100 * p[second]:.1f} %"),
            Cell(truth, tone),
        ]
    answered = ", ".join(subject.names[j] for j in np.flatnonzero(p > 0.5)[:6]) or "none"
    truth = "–" if np.isnan(y).all() else ", ".join(subject.names[j] for j in np.flatnonzero(y == 1)[:6]) or "none"
    return [Cell(answered), Cell(f"{100 * (0.5 - np.abs(p - 0.5)).mean():.1f} points"), Cell(truth)]
