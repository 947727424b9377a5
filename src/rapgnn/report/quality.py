"""How good the model is: against simple answers, class by class, where it confuses what, and how sure it may be."""

from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy import special, stats

from rapgnn.estimators.conformal import coverage_table, half_widths, least_probabilities
from rapgnn.estimators.evaluation import LEAST_ROWS, facts, shown
from rapgnn.graph.scores import metrics_for
from rapgnn.graph.validate import SPLITS
from rapgnn.report import parts as plots
from rapgnn.report.parts import Cell, Facts, Figure, Notice, Panel, Part, Prose, Table, percent
from rapgnn.report.subject import AbsentError, Subject

MOST_CLASSES = 25
MOST_POINTS = 2000
NO_SPREAD = "error bars were left out: there are too many rows."


def score_parts(subject: Subject) -> list[Part]:
    """The score beside what needs no graph, and warnings."""
    record, metric = subject.record, subject.metric
    value, bare = record["score"], record["without_edges"]
    rows = f"{metric.title}, {subject.split}, {len(subject.rows):,} rows"
    parts: list[Part] = [Facts([(rows, subject.shown(value)), *facts(subject.graph.task, record)])]
    for sentence in record["verdict"]:
        tone = "bad" if sentence.startswith(("no better", "the graph does not")) else "mixed"
        parts.append(Notice(sentence[0].upper() + sentence[1:], tone))
    judged = len(subject.rows) < LEAST_ROWS or any("without edges" in sentence for sentence in record["verdict"])
    if not judged and bare is not None and bare == bare:
        gain = f"{100 * abs(value - bare):.2f} points" if metric.percent else f"{abs(value - bare):.3f}"
        helps = f"The graph helps: {metric.title} is better by {gain} than that of a model without edges."
        parts.append(Notice(helps, "good"))
    if record["without_edges_missing"]:
        parts.append(Notice(record["without_edges_missing"], "quiet"))
    if subject.split != "test":
        chosen = subject.split == "val"
        rows = "validation rows, by which the model was chosen" if chosen else "rows that the model was trained on"
        parts.append(Notice(f"There are no test rows: this page judges by {rows}, which is optimistic."))
    return parts


def quality_parts(subject: Subject) -> list[Part]:
    """The metric of every split, and by kind of label what goes wrong."""
    graph = subject.graph
    splits = {split: graph.rows(split).cpu().numpy() for split in SPLITS if len(graph.rows(split))}
    pairs = [(torch.from_numpy(subject.p[rows]), torch.from_numpy(subject.y[rows])) for rows in splits.values()]
    lines = [[m.title, *(shown(m, m.measure(*pair)) for pair in pairs)] for m in metrics_for(graph.task).values()]
    lines.append(["rows", *(f"{len(rows):,}" for rows in splits.values())])
    table = Table(["", *splits], lines, "Every metric on every split")
    if subject.numbers:
        return [table, _scatter(subject)]
    return [table, *([_confusion(subject)] if subject.classes else []), _per_class(subject)]


def _confusion(subject: Subject) -> Figure:
    from sklearn.metrics import confusion_matrix

    y, answer = subject.y[subject.rows], subject.p[subject.rows].argmax(1)
    names, k = list(subject.names), len(subject.names)
    place = np.arange(k)
    if k > MOST_CLASSES:
        order = np.argsort(-np.bincount(y, minlength=k), kind="stable")
        place[order] = np.minimum(np.arange(k), MOST_CLASSES - 1)
        names = [*(names[j] for j in order[: MOST_CLASSES - 1]), f"{k - MOST_CLASSES + 1} others"]
    counts = confusion_matrix(place[y], place[answer], labels=range(len(names)))
    share = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    hover = "true %{y}, answered %{x}: %{text} rows, %{z:.1%} of them<extra></extra>"
    look = {"hover": hover, "height": max(362, 82 + 26 * len(names))}
    drawn = plots.heat(share.round(4).tolist(), names, "answer", "truth", texts=counts.tolist(), **look)
    wrong = counts - np.diag(np.diag(counts))
    truth, answered = np.unravel_index(wrong.argmax(), wrong.shape)
    says = f"{int(np.trace(counts)):,} of {int(counts.sum()):,} rows are right."
    if wrong.any():
        most = f"{names[truth]} answered as {names[answered]}, {wrong[truth, answered]:,} rows"
        says += f" The most frequent mistake: {most}."
    cells = [[name, *(f"{c:,}" for c in row)] for name, row in zip(names, counts, strict=True)]
    panel = Panel(drawn, f"Confusion matrix on {subject.split} rows", says)
    return Figure("confusion", [panel], table=Table(["truth \\ answer", *names], cells, "Confusion matrix"))


def _per_class(subject: Subject) -> Table:
    rows = []
    for row in subject.record["per_class"]:
        precision, recall = ("–" if row[k] is None else percent(row[k]) for k in ("precision", "recall"))
        low = row["recall"] is not None and row["recall"] < 0.5
        rows.append([row["class"], f"{row['rows']:,}", precision, Cell(recall, "mixed" if low else "")])
    caption = f"Precision and recall of every {'class' if subject.classes else 'label'} on {subject.split} rows"
    return Table(["", "rows", "precision", "recall"], rows, caption)


def _scatter(subject: Subject) -> Figure:
    rows, panels = subject.sample(subject.rows, MOST_POINTS), []
    for j in range(min(4, subject.p.shape[1])):
        known = rows[np.isfinite(subject.y[rows, j])]
        y, p = subject.y[known, j], subject.p[known, j]
        hover = "true %{x:.4~g}, predicted %{y:.4~g}<extra></extra>"
        series = {"rows": (y.round(6).tolist(), p.round(6).tolist())}
        look = {"mode": "markers", "marker": {"size": 6, "opacity": 0.7}, "each": {"showlegend": False}}
        drawn = plots.lines(series, "true", "predicted", hover=hover, **look)
        if len(known):
            plots.diagonal(drawn, float(min(y.min(), p.min())), float(max(y.max(), p.max())))
        name = "" if subject.p.shape[1] == 1 else f": {subject.names[j]}"
        error = np.sqrt(np.mean((y - p) ** 2)) if len(known) else float("nan")
        panels.append(Panel(drawn, f"True and predicted{name}", f"{len(known):,} rows, RMSE {error:.4g}."))
    return Figure("predicted", panels)


# Whether stated probabilities come true, and whether error bars are as wide as errors.

GROUPS = 10
LEVELS = (0.5, 0.68, 0.8, 0.9, 0.95)


def calibration_parts(subject: Subject) -> list[Part]:
    """By kind of label; and how often sets, or intervals, hold the truth."""
    return [*(_coverage_parts(subject) if subject.numbers else _reliability_parts(subject)), *_set_parts(subject)]


PROMISED = 0.9  # coverage of the sets and intervals that the page measures


def _set_parts(subject: Subject) -> list[Part]:
    rows = subject.estimator.model_.fit_rows
    if rows is None or not len(rows.labels):
        return []
    p, y = subject.p[subject.rows], subject.y[subject.rows]
    inside = (
        np.abs(y - p) <= half_widths(rows, PROMISED) if subject.numbers else p >= least_probabilities(rows, PROMISED)
    )
    table: Any = coverage_table(inside, y, subject.names)
    lines: Any = table if len(table) > 2 else table[:1]
    cells = [
        [str(g[1]), "–" if np.isnan(g.covered) else percent(g.covered), f"{g.rows:,}"]
        + ([] if subject.numbers else ["–" if np.isnan(g.size) else f"{g.size:.2f}"])
        for g in lines[: 1 + MOST_CLASSES].itertuples()
    ]
    what = "Intervals" if subject.numbers else "Sets of classes"
    note = (
        f"**{what} that promise {percent(PROMISED, 0)}:** {percent(table['covered'][0])} of {table['rows'][0]:,} hold "
        f"the truth. {len(rows.labels):,} rows that judged the model say how wide they are, class by class where there "
        "are enough of them."
    )
    header = ["", "hold the truth", "rows", *([] if subject.numbers else ["classes in a set"])]
    return [Prose(note), Table(header, cells, f"Coverage on {subject.split} rows")]


def reliability(subject: Subject) -> pd.DataFrame:
    """Answers (or known labels) in groups of equal size, by the probability that was stated for them.

    Columns: the mean ``stated``, the share that came ``true`` with its interval from ``low`` to ``high``, the mean
    ``spread``, the number of ``rows``, and ``covered``: whether what came true lies within two spreads of what was
    stated, or chance explains the rest.
    """
    y, p = subject.y[subject.rows], subject.p[subject.rows]
    spread = np.zeros_like(p) if subject.spread is None else subject.spread[subject.rows]
    if subject.classes:
        at = np.arange(len(p)), p.argmax(1)
        columns = p[at], at[1] == y, spread[at]
    else:
        known = ~np.isnan(y)
        columns = p[known], y[known], spread[known]
    frame: Any = pd.DataFrame(dict(zip(("stated", "true", "spread"), columns, strict=True)), dtype=float)
    frame = frame.sort_values("stated", kind="stable")
    number = min(GROUPS, max(1, len(frame) // 5))
    groups = frame.groupby(np.arange(len(frame)) * number // max(1, len(frame)))
    table: Any = groups.mean().assign(rows=groups.size())
    tests = [stats.binomtest(round(n * share), n) for n, share in zip(table["rows"], table["true"], strict=True)]
    intervals = [test.proportion_ci(method="wilson") for test in tests]
    table["low"], table["high"] = [i.low for i in intervals], [i.high for i in intervals]
    reach = 2 * table["spread"]
    return table.assign(covered=(table["low"] <= table["stated"] + reach) & (table["high"] >= table["stated"] - reach))


def _reliability_parts(subject: Subject) -> list[Part]:
    table: Any = reliability(subject)
    if not len(table):
        raise AbsentError("there are no labelled rows to compare with.")
    axis, what = {"range": [0, 1.02], "tickformat": ".0%"}, "answer" if subject.classes else "label"
    bars = plots.ERROR_BARS | {"color": plots.colour(0)}
    above, below = (table["high"] - table["true"]).tolist(), (table["true"] - table["low"]).tolist()
    each = {"error_y": bars | {"array": above, "arrayminus": below, "symmetric": False}, "showlegend": False}
    each |= {"error_x": bars | {"array": (2 * table["spread"]).tolist()}, "customdata": table["rows"].tolist()}
    drawn = plots.lines(
        {"model": (table["stated"], table["true"])},
        "stated probability",
        "share that came true",
        hover="stated %{x:.1%}, came true %{y:.1%}, %{customdata} rows<extra></extra>",
        each=each,
        xaxis=axis,
        yaxis=axis,
    )
    cells = [
        [
            *(percent(g.stated), percent(g.true), f"{100 * g.low:.1f} to {percent(g.high)}"),
            *(f"± {100 * g.spread:.2f} points", f"{g.rows:,}", "yes" if g.covered else "no"),
        ]
        for g in table.itertuples()
    ]
    header = ["stated", "came true", "95 % interval", "spread", "rows", "within the error bars"]
    share, weights = table["rows"] @ table["covered"] / table["rows"].sum(), table["rows"] / table["rows"].sum()
    distance = weights @ (table["stated"] - table["true"]).abs()
    says = (
        f"Each point is a tenth of the {what}s; on the dotted line what is stated comes true. Mean distance "
        f"{100 * distance:.1f} points."
    )
    note = (
        f"**Coverage of the error bars:** in {table['covered'].sum()} of {len(table)} groups ({percent(share, 0)} of "
        f"the {what}s) the share that came true lies within two spreads of what was stated, or chance explains it."
    )
    if subject.spread is None:
        note = f"{NO_SPREAD.capitalize()} Chance alone decides which groups are within."
    note += (
        " Horizontal bars: two spreads, over draws of the random weights, the head's posterior and the members. "
        "Vertical bars: 95 % intervals of the share."
    )
    panel = Panel(plots.diagonal(drawn), f"Calibration on {subject.split} rows", says)
    return [Figure("calibration", [panel], table=Table(header, cells, "Calibration")), Prose(note)]


def coverage(subject: Subject) -> dict[float, float]:
    """Level -> share of the errors that lie inside the error bar of that level, for numbers."""
    if subject.spread is None:
        raise AbsentError(NO_SPREAD)
    error = np.abs(subject.y - subject.p)[subject.rows]
    known, spread = ~np.isnan(error), subject.spread[subject.rows]
    return {level: float((error <= special.ndtri(0.5 + level / 2) * spread)[known].mean()) for level in LEVELS}


def _coverage_parts(subject: Subject) -> list[Part]:
    inside = coverage(subject)
    axis = {"range": [0, 1.02], "tickformat": ".0%"}
    drawn = plots.lines(
        {"errors inside": (list(inside), list(inside.values()))},
        "level of the error bar",
        "share of errors inside",
        hover="%{x:.0%}: %{y:.1%}<extra></extra>",
        xaxis=axis,
        yaxis=axis,
    )
    says = ", ".join(f"{percent(share, 0)} inside the {percent(level, 0)} bar" for level, share in inside.items()) + "."
    panel = Panel(plots.diagonal(drawn), f"Coverage of the error bars on {subject.split} rows", says)
    cells = [[percent(level, 0), percent(share)] for level, share in inside.items()]
    note = (
        "The spread is over draws of the random weights, the head's posterior and the members. It does not hold the "
        "noise of the targets: where that is large, the shares lie below the dotted line, and intervals tell more."
    )
    return [Figure("calibration", [panel], table=Table(["level", "inside"], cells, "Coverage")), Prose(note)]


# The rows that the model is least sure of.

SHOWN = 20


def uncertain_parts(subject: Subject) -> list[Part]:
    """A table of rows that were not trained on: by the probability of the answer, or by the spread of numbers."""
    p, split = subject.p, np.full(len(subject.p), "–", dtype=object)
    for name in SPLITS:
        split[subject.graph.rows(name).cpu().numpy()] = name
    if subject.numbers:
        if subject.spread is None:
            raise AbsentError(NO_SPREAD)
        doubt, header = subject.spread.mean(1), ["row", "prediction", "spread", "truth", "split"]
        note = "Rows that were not trained on, the widest error bars first."
    else:
        doubt = 1 - p.max(1) if subject.classes else (0.5 - np.abs(p - 0.5)).mean(1)
        labels = ["row", "labels answered", "mean distance from sure", "truth", "split"]
        header = ["row", "answer", "probability", "spread", "next", "truth", "split"] if subject.classes else labels
        note = "Rows that were not trained on, the least sure first. To be labelled next, these teach the model most."
    order = np.argsort(-doubt, kind="stable")
    rows = order[split[order] != "train"][:SHOWN]
    if not len(rows):
        raise AbsentError("every row was trained on.")
    cells = [[name, *_cells(subject, row), split[row]] for name, row in zip(subject.row_names(rows), rows, strict=True)]
    return [Prose(note), Table(header, cells, f"The {len(rows)} least sure rows", 2)]


def _cells(subject: Subject, row: int) -> list[str | Cell]:
    p, y, names = subject.p[row], subject.y[row], subject.names
    spread = None if subject.spread is None else subject.spread[row]
    if subject.numbers:
        truth = ", ".join("–" if np.isnan(v) else f"{v:.4g}" for v in y[:4])
        return [", ".join(f"{v:.4g}" for v in p[:4]), "–" if spread is None else f"{spread.mean():.3g}", truth]
    if subject.classes:
        first, second = np.argsort(-p, kind="stable")[:2]
        truth = Cell("–") if y < 0 else Cell(names[y], "good" if y == first else "bad")
        wide = "–" if spread is None else f"± {100 * spread[first]:.1f}"
        return [names[first], percent(p[first]), wide, f"{names[second]}, {percent(p[second])}", truth]
    answered, true = (", ".join(names[j] for j in np.flatnonzero(has)[:6]) or "none" for has in (p > 0.5, y == 1))
    distance = f"{100 * (0.5 - np.abs(p - 0.5)).mean():.1f} points"
    return [answered, distance, "–" if np.isnan(y).all() else true]
