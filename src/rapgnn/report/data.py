"""The data in numbers: sizes, degrees, labels, homophily, what is missing; and a map of the representations."""

from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import torch

from rapgnn.datasets.keyed import drawn
from rapgnn.estimators.card import describe_graph
from rapgnn.graph.graph import Graph
from rapgnn.graph.validate import SPLITS
from rapgnn.report import parts as plots
from rapgnn.report.parts import Facts, Figure, Notice, Panel, Part, Prose, Table, percent
from rapgnn.report.subject import Subject, quiet

MOST_CLASSES = 40
HETEROPHILOUS = 0.5


def data_parts(subject: Subject) -> list[Part]:
    """Facts, notices and the distribution of degrees."""
    graph, degree = subject.graph, degrees(subject.graph)
    isolated, same = int((degree == 0).sum()), homophily(graph)
    row = describe_graph(graph)
    facts = [("task", graph.task.replace("-", " ")), *((k, f"{v:,}") for k, v in row.items() if isinstance(v, int))]
    facts = [(f"{name} rows" if name in SPLITS else name, value) for name, value in facts]
    facts += [(f"{name} nodes", f"{count:,}") for name, count in row.get("types", {}).items()]
    facts += [("mean degree", f"{degree.mean():.1f}" if len(degree) else "–"), ("isolated nodes", f"{isolated:,}")]
    facts += [] if same is None else [(same[0], f"{same[1]:.2f}" if "correlation" in same[0] else percent(same[1]))]
    facts.append(("rows without a label", f"{graph.num_rows - len(graph.labelled):,} of {graph.num_rows:,}"))
    parts: list[Part] = [Facts(facts)]
    if same is not None and subject.classes and same[1] < HETEROPHILOUS:
        parts.append(Notice("Most edges join nodes of different classes: an average over neighbours would mix them."))
    if isolated:
        parts.append(Notice(f"{isolated:,} nodes have no edge: for them the graph tells nothing.", "quiet"))
    if graph.typed is not None and graph.typed.tables is not None:
        parts.append(Prose("\n".join(f"    {line}" for line in drawn(graph).splitlines())))
    parts += [Prose("\n".join(f"- {note}" for note in graph.notes))] if graph.notes else []
    figures = [_histogram(degree, "Degrees", "neighbours", "nodes")]
    if graph.ptr is not None:
        figures.append(_histogram(graph.ptr.diff().cpu().numpy(), "Sizes of the graphs", "nodes", "graphs"))
    return [*parts, Figure("degrees", figures), *([] if subject.numbers else [_labels(subject)])]


def degrees(graph: Graph) -> np.ndarray:
    """Edges that arrive at each node; where edges are listed one way, those that leave count too."""
    if graph.typed is not None:
        received = (one.edge_index[1] for one in graph.typed.relations if one.target == graph.typed.target)
        return sum((np.bincount(ends, minlength=graph.num_nodes) for ends in received), np.zeros(graph.num_nodes, int))
    ends = (torch.bincount(end, minlength=graph.num_nodes) for end in graph.edge_index.cpu())
    return torch.maximum(*ends).numpy()


def homophily(graph: Graph) -> tuple[str, float] | None:
    """How alike neighbours are, by the labels of both ends of an edge; None where nothing can be said."""
    if graph.ptr is not None:
        return None
    (u, v), y = graph.edge_index.cpu(), graph.y.cpu()
    known = y >= 0 if y.dim() == 1 else ~y.isnan().any(1)
    both = known[u] & known[v] & (u != v)
    if not bool(both.any()):
        return None
    a, b = y[u[both]], y[v[both]]
    if graph.objective.metric == "rmse":
        return "correlation of neighbours", float(np.corrcoef(a.flatten().numpy(), b.flatten().numpy())[0, 1])
    name = "edges inside a class" if y.dim() == 1 else "labels that both ends share"
    return name, float((a == b).double().mean())


def _histogram(values: np.ndarray, title: str, x: str, y: str) -> Panel:
    top = int(values.max(initial=0))
    doubled = 2 ** np.arange(2, int(np.log2(max(4, top))) + 1) + 1
    edges = np.arange(top + 2) if top <= 30 else np.unique(np.r_[0:5, doubled, top + 1])
    counts, _ = np.histogram(values, edges)
    names = [str(a) if b - a == 1 else f"{a}–{b - 1}" for a, b in pairwise(edges)]
    trace = {"type": "bar", "x": names, "y": counts.tolist(), "marker": {"color": plots.colour(0)}}
    trace |= {"hovertemplate": f"%{{x}} {x}: %{{y:,}} {y}<extra></extra>", "showlegend": False}
    drawn = plots.figure([trace], x, y, xaxis={"type": "category"}, height=302)
    middle = f"median {np.median(values):.0f}, largest {top:,}" if len(values) else "none"
    return Panel(drawn, title, f"{x}: {middle}.")


def _labels(subject: Subject) -> Part:
    graph, y, k = subject.graph, subject.y, subject.graph.num_outputs
    has = y == 1 if y.ndim == 2 else y[:, None] == np.arange(k)
    parts = {split: graph.rows(split) for split in SPLITS} | {"all": graph.labelled}
    counts = {name: has[rows.cpu().numpy()].sum(0) for name, rows in parts.items()}
    order = np.argsort(-counts["all"], kind="stable")[:MOST_CLASSES]
    rows = [[subject.names[j], *(f"{count[j]:,}" for count in counts.values())] for j in order]
    caption = "Rows of every class" if y.ndim == 1 else "Rows with every label"
    return Table(["", *counts], rows, caption + (f", the {MOST_CLASSES} most frequent" if k > len(order) else ""))


# The map: the representations in two dimensions.

MOST_POINTS = 1500
MOST_BYTES = 1 << 30  # of all representations, beyond which the predictions are mapped
MOST_NAMES = 7


def representation(subject: Subject, rows: np.ndarray) -> tuple[np.ndarray, str]:
    """What is mapped ``[points, d]``, and what it is in words."""
    graph = subject.graph
    width = max(graph.num_features, subject.config.hidden_channels) * (subject.depth + 1)
    if 4 * graph.num_rows * width <= MOST_BYTES:
        with quiet():
            return subject.estimator.transform(graph)[rows], "the propagated representations"
    p = subject.p[rows]
    return (p if subject.numbers else np.log(np.clip(p, 1e-6, 1))), "the predictions"


def map_parts(subject: Subject) -> list[Part]:
    """Two plots of the principal components: by label, and by error."""
    from sklearn.decomposition import PCA

    labelled = subject.graph.labelled.cpu().numpy()
    rows = subject.sample(labelled, MOST_POINTS)
    h, what = representation(subject, rows)
    h = np.pad(h, ((0, 0), (0, max(0, 2 - h.shape[1]))))  # a plane needs two columns
    solver = PCA(min(2, len(h)), svd_solver="randomized", random_state=subject.seed)
    at = np.pad(solver.fit_transform(h), ((0, 0), (0, 2 - solver.n_components_)))
    share = np.nan_to_num(solver.explained_variance_ratio_.sum())
    groups = {"By label": _labels_of(subject, rows), "By error": _errors_of(subject, rows)}
    panels = [_panel(subject.row_names(rows), at, group, title) for title, group in groups.items()]
    note = f"Principal components of {what}; the two axes show {percent(share, 0)} of the variance."
    if len(rows) < len(labelled):
        note += f" {len(rows):,} of {len(labelled):,} labelled rows are shown, drawn by chance."
    return [Figure("map", panels, apart=True), Prose(note)]


def _labels_of(subject: Subject, rows: np.ndarray) -> pd.Categorical:
    """The label of every row: fifths of numbers, frequent classes by name, the others as one."""
    y = subject.y[rows]
    if subject.numbers:
        fifths: Any = pd.qcut(y[:, 0], 5, duplicates="drop")
        return fifths.rename_categories([f"{part.left:.3g} to {part.right:.3g}" for part in fifths.categories])
    names = [*subject.names, "no label"]
    if not subject.classes:
        y = np.where((y == 1).any(1), np.nan_to_num(y).argmax(1), -1)
    label = pd.Series([names[i] for i in y])
    order = label.value_counts().index.tolist()
    if len(order) > MOST_NAMES + 1:
        order = [*order[:MOST_NAMES], "other"]
        label = label.where(label.isin(order), "other")
    return pd.Categorical(label, order)


def _errors_of(subject: Subject, rows: np.ndarray) -> pd.Categorical:
    y, p = subject.y[rows], subject.p[rows]
    if subject.numbers:
        error = np.nanmean(np.abs(p - y), axis=1)
        wrong, right, bad = error > np.nanmedian(error), "error below the median", "error above the median"
    elif subject.classes:
        wrong, right, bad = p.argmax(1) != y, "right", "wrong"
    else:
        wrong, right, bad = (((p > 0.5) != (y == 1)) & ~np.isnan(y)).any(1), "all labels right", "a label wrong"
    trained = np.isin(rows, subject.graph.train.cpu().numpy())
    names = np.where(trained, "trained on", np.where(wrong, bad, right))
    return pd.Categorical(names, [right, bad, "trained on"])


def _panel(ids: list[str], at: np.ndarray, group: pd.Categorical, title: str) -> Panel:
    frame: Any = pd.DataFrame({"x": at[:, 0].round(3), "y": at[:, 1].round(3), "id": ids})
    points = frame.groupby(group, observed=True)
    series = {str(name): (mine["x"], mine["y"]) for name, mine in points}
    hover = "%{text}<br>%{fullData.name}<extra></extra>"
    titles = ("first component", "second component")
    look = {"mode": "markers", "marker": {"size": 6, "opacity": 0.75}, "height": 422}
    drawn = plots.lines(series, *titles, hover=hover, **look)
    for trace, (_, mine) in zip(drawn["data"], points, strict=True):
        trace["text"] = mine["id"].tolist()
    counts = ", ".join(f"{name}: {len(xs):,}" for name, (xs, _) in series.items())
    return Panel(drawn, title, f"Points: {counts}.")
