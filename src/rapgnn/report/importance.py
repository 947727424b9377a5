"""Which input columns matter, and which hops: the importances of the model, drawn."""

from rapgnn.report import parts as plots
from rapgnn.report.parts import Figure, Panel, Part, Prose, Table, percent
from rapgnn.report.subject import AbsentError, Subject


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
