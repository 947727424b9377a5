"""Which input columns matter, and which hops: the importances of the model, drawn; and what moved single rows."""

import numpy as np

from rapgnn.estimators.explain import Explanation, away
from rapgnn.report import parts as plots
from rapgnn.report.parts import Figure, Panel, Part, Prose, Table, percent
from rapgnn.report.subject import AbsentError, Subject, quiet


def importance_parts(subject: Subject) -> list[Part]:
    """Bars, the most important on top."""
    table, together = subject.shuffling.columns(subject.metric)
    metric, names = subject.metric, table["column"].tolist()
    values, noise = ((subject.factor * table[name]).round(6).tolist() for name in ("importance", "noise"))
    change, unit = "loss" if metric.higher else "rise", "points" if metric.percent else metric.title
    axis = f"{change} of {metric.title}{' (points)' if metric.percent else ''}"
    drawn = plots.bars(names, values, axis, texts=[f"{value:.2f}" for value in values])
    alone = list(zip(names, values, noise, strict=True))[: len(names) - bool(together)]
    best = ", ".join([name for name, value, chance in alone if value > chance][:3]) or "none beyond chance"
    panel = Panel(drawn, "Loss when a column is shuffled", f"The columns that matter most: {best}.")
    cells = [[n, f"{value:+.3f}", f"{chance:.3f}"] for n, value, chance in zip(names, values, noise, strict=True)]
    note = (
        f"Shuffled over all nodes some times over, so neighbours lose their values too; on {subject.split} rows, "
        f"{subject.shown(subject.score(subject.p))} before. Up to the noise a loss may be chance: two standard errors "
        "over shufflings and rows. A column that others can stand in for loses little."
    )
    if together:
        note += f" Tried one by one: the {len(names) - 1} columns that differ most between the labels of training rows."
    return [Figure("columns", [panel], table=Table(["", unit, "noise"], cells, "Loss by column")), Prose(note)]


def hop_parts(subject: Subject) -> list[Part]:
    """Bars, the nearest on top."""
    table = subject.shuffling.hops()
    names, moved, noise = (table[name].tolist() for name in ("hop", "importance", "noise"))
    total = sum(moved)
    if total <= 0:
        raise AbsentError("the answers do not change when features do.")
    shares = [one / total for one in moved]
    texts = [percent(share, 0) for share in shares]
    drawn = plots.bars(names, [round(100 * share, 3) for share in shares], "share of the effect (%)", texts=texts)
    says = ", ".join(f"{name} {text}" for name, text in zip(names, texts, strict=True)) + "."
    panel = Panel(drawn, "How far away the features lie that an answer rests on", says)
    unit, factor = "points of probability" if not subject.numbers else "change", 1 if subject.numbers else 100
    rows = zip(names, shares, moved, noise, strict=True)
    cells = [
        [name, percent(share), f"{factor * one:.2f}", f"{factor * chance:.2f}"] for name, share, one, chance in rows
    ]
    note = (
        "Half of the nodes, by chance, get the features of other nodes, some times over; how far the answers then move "
        "is divided among the distances by least squares."
    )
    return [Figure("hops", [panel], table=Table(["", "share", unit, "noise"], cells, "Share of each hop")), Prose(note)]


# What moved the predictions of single rows.

MOST_BARS = 4  # of each kind
EXPLAINED = ("least sure", "most surely wrong", "most surely right")


def reason_parts(subject: Subject) -> list[Part]:
    """A small picture for each of three rows."""
    mask, chosen = np.zeros(subject.graph.num_rows, dtype=bool), chosen_rows(subject)
    mask[list(chosen)] = True
    with quiet():
        explained = subject.estimator.explain(subject.graph, mask)
    panels, cells = [], []
    for row, one in zip(sorted(chosen), explained, strict=True):
        bars = contributions(one)
        value = f"{one.value:.4g}" if subject.numbers else percent(one.value)
        texts = [f"{moved:+.3f}" for _, _, moved in bars]
        names = [f"{kind}: {name}" for kind, name, _ in bars]
        kinds = [KINDS.index(kind) for kind, _, _ in bars]
        drawn = plots.bars(
            names, [round(moved, 6) for *_, moved in bars], "moved the score by", texts=texts, kinds=kinds
        )
        says = f"{chosen[row].capitalize()}; score {one.score:+.3f}, {one.base:+.3f} of it for every row."
        panels.append(Panel(drawn, f"{one.row}: {one.label}, {value}", says))
        cells += [[str(one.row), kind, name, f"{moved:+.4f}"] for kind, name, moved in bars]
    note = (
        "Columns, distances and nodes are three ways to divide the same sum; known labels are a part of each. The "
        f"largest {MOST_BARS} of each kind are drawn. Other rows: `rapgnn predict --explain ID`."
    )
    return [Figure("reasons", panels, table=Table(["row", "kind", "what", "moved"], cells, "Reasons", 3)), Prose(note)]


KINDS = ("column", "distance", "node", "label")


def contributions(one: Explanation) -> list[tuple[str, str, float]]:
    """(kind, name, how much it moved the score) of what moved most."""
    nodes, labels = one.neighbours, one.labels
    tables = {
        "column": zip(one.columns["column"], one.columns["contribution"], strict=True),
        "distance": zip(map(away, one.hops["steps"]), one.hops["contribution"], strict=True),
        "node": zip(nodes["id"], nodes["contribution"], strict=True),
        "label": zip(
            labels["id"].astype(str) + ", " + labels["label"].astype(str), labels["contribution"], strict=True
        ),
    }
    return [(kind, str(name), float(moved)) for kind, table in tables.items() for name, moved in [*table][:MOST_BARS]]


def chosen_rows(subject: Subject) -> dict[int, str]:
    """Row -> why it is shown, among those that count."""
    rows, p, y = subject.rows, subject.p[subject.rows], subject.y[subject.rows]
    if subject.classes:
        sure, right = p.max(1), p.argmax(1) == y
    elif subject.numbers:
        error = np.nan_to_num(np.abs(p - y).mean(1), nan=np.nanmedian(np.abs(p - y)))
        order = rows[np.argsort(error, kind="stable")]
        return {int(order[0]): "smallest error", int(order[-1]): "largest error"}
    else:
        sure, right = np.abs(p - 0.5).mean(1), (((p > 0.5) == (y == 1)) | np.isnan(y)).all(1)
    places = np.argmin(sure), np.argmax(np.where(right, -1.0, sure)), np.argmax(np.where(right, sure, -1.0))
    there = True, not right.all(), right.any()
    return {int(rows[at]): why for at, why, is_there in zip(places, EXPLAINED, there, strict=True) if is_there}
