"""How good the model is: against simple answers, class by class, and where it confuses what."""

import math

import numpy as np
import torch

from rapgnn.estimators.evaluation import shown
from rapgnn.estimators.report.subject import Subject
from rapgnn.graph.scores import metrics_for
from rapgnn.graph.validate import SPLITS
from rapgnn.report import plots
from rapgnn.report.parts import Cell, Facts, Figure, Notice, Panel, Part, Table, table

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
