"""The data in numbers: sizes, degrees, labels, homophily, and what is missing."""

from itertools import pairwise

import numpy as np
import torch

from rapgnn.graph.graph import Graph
from rapgnn.graph.validate import SPLITS
from rapgnn.report import parts as plots
from rapgnn.report.parts import Facts, Figure, Notice, Panel, Part, Prose, table
from rapgnn.report.subject import Subject
from rapgnn.sparse import SparseMatrix

MOST_CLASSES = 40
HETEROPHILOUS = 0.5


def data_parts(subject: Subject) -> list[Part]:
    """Facts, notices and the distribution of degrees."""
    graph = subject.graph
    degree = degrees(graph)
    isolated = int((degree == 0).sum())
    many = graph.ptr is not None
    facts = [("graphs", f"{graph.num_rows:,}")] if many else []
    facts += [("nodes", f"{graph.num_nodes:,}"), ("edges", f"{graph.edge_index.shape[1]:,}")]
    facts += [("features", f"{graph.num_features:,}{' (sparse)' if isinstance(graph.x, SparseMatrix) else ''}")]
    facts += [("edge features", f"{graph.num_edge_features:,}")] if graph.num_edge_features else []
    facts += [("task", graph.task.replace("-", " "))]
    if not subject.numbers:
        facts.append(("classes" if subject.classes else "labels", f"{graph.num_outputs:,}"))
    facts += [("mean degree", f"{degree.mean():.1f}" if len(degree) else "–"), ("isolated nodes", f"{isolated:,}")]
    same = homophily(graph)
    if same is not None:
        facts.append(same)
    missing = graph.num_rows - len(graph.labelled)
    facts.append(("rows without a label", f"{missing:,} of {graph.num_rows:,}"))
    facts += [(f"{split} rows", f"{len(graph.rows(split)):,}") for split in SPLITS]
    parts: list[Part] = [Facts(facts)]
    if same is not None and subject.classes and float(same[1].rstrip(" %")) < 100 * HETEROPHILOUS:
        parts.append(
            Notice(
                "Most edges join nodes of different classes. A model that only averages over neighbours would suffer "
                "from it."
            )
        )
    if isolated:
        parts.append(Notice(f"{isolated:,} nodes have no edge: for them the graph tells nothing.", "quiet"))
    parts += [Prose("\n".join(f"- {note}" for note in graph.notes))] if graph.notes else []
    figures = [_histogram(degree, "Degrees", "neighbours", "nodes")]
    if many and graph.ptr is not None:
        figures.append(_histogram(graph.ptr.diff().cpu().numpy(), "Sizes of the graphs", "nodes", "graphs"))
    parts.append(Figure("degrees", figures))
    if not subject.numbers:
        parts.append(_labels(subject))
    return parts


def degrees(graph: Graph) -> np.ndarray:
    """Edges that arrive at each node; where edges are listed one way, those that leave count too."""
    ends = graph.edge_index[1].cpu()
    found = torch.bincount(ends, minlength=graph.num_nodes)
    away = torch.bincount(graph.edge_index[0].cpu(), minlength=graph.num_nodes)
    return torch.maximum(found, away).numpy()


def homophily(graph: Graph) -> tuple[str, str] | None:
    """How alike neighbours are, by the labels of both ends of an edge; None where nothing can be said."""
    if graph.ptr is not None:
        return None
    u, v = graph.edge_index.cpu()
    y = graph.y.cpu()
    known = y >= 0 if y.dim() == 1 else ~y.isnan().any(1)
    both = known[u] & known[v] & (u != v)
    if not bool(both.any()):
        return None
    a, b = y[u[both]], y[v[both]]
    if y.dim() == 1:
        return "edges inside a class", f"{100 * float((a == b).double().mean()):.1f} %"
    if graph.objective.metric == "rocauc":
        return "labels that both ends share", f"{100 * float((a == b).double().mean()):.1f} %"
    alike = np.corrcoef(a.flatten().numpy(), b.flatten().numpy())[0, 1]
    return "correlation of neighbours", f"{alike:.2f}"


def _histogram(values: np.ndarray, title: str, x: str, y: str) -> Panel:
    """Counts of whole numbers, in bins that double where the numbers spread far."""
    import plotly.graph_objects as go

    top = int(values.max(initial=0))
    if top <= 30:
        edges = np.arange(top + 2)
    else:
        edges = np.unique(np.concatenate([[0, 1, 2, 3, 4], 2 ** np.arange(2, int(np.log2(top)) + 2) + 1, [top + 1]]))
        edges = edges[edges <= top + 1]
    counts, _ = np.histogram(values, edges)
    names = [str(a) if b - a == 1 else f"{a}–{b - 1}" for a, b in pairwise(edges)]
    trace = go.Bar(
        x=names,
        y=counts.tolist(),
        marker={"color": plots.colour(0)},
        hovertemplate="%{x} " + x + ": %{y:,} " + y + "<extra></extra>",
        showlegend=False,
    )
    drawn = plots.figure([trace], x, y, xaxis={"type": "category"}, height=280)
    middle = f"median {np.median(values):.0f}, largest {top:,}" if len(values) else "none"
    return Panel(drawn, title, f"{x}: {middle}.")


def _labels(subject: Subject) -> Part:
    """How often every class, or label, occurs in every split."""
    graph, y = subject.graph, subject.graph.y.cpu()
    columns = [*SPLITS, "all"]
    parts = [graph.rows(s).cpu() for s in SPLITS] + [graph.labelled.cpu()]
    if y.dim() == 1:
        counts = [torch.bincount(y[rows][y[rows] >= 0], minlength=graph.num_outputs).tolist() for rows in parts]
    else:
        counts = [(y[rows] == 1).sum(0).tolist() for rows in parts]
    order = sorted(range(graph.num_outputs), key=lambda j: -counts[-1][j])[:MOST_CLASSES]
    rows = [[subject.names[j], *(f"{found[j]:,}" for found in counts)] for j in order]
    left = graph.num_outputs - len(order)
    caption = "Rows of every class" if y.dim() == 1 else "Rows with every label"
    return table(["", *columns], rows, f"{caption}{f', the {MOST_CLASSES} most frequent' if left else ''}")


MOST_POINTS = 1500
MOST_BYTES = 1 << 30  # of all representations, beyond which the predictions are mapped
MOST_NAMES = 7


def representation(subject: Subject, rows: np.ndarray) -> tuple[np.ndarray, str]:
    """What is mapped ``[points, d]``, and what it is in words."""
    config, graph = subject.config, subject.graph
    width = max(graph.num_features, int(getattr(config, "hidden_channels", 0) or 0)) * (subject.depth + 1)
    if 4 * graph.num_rows * width <= MOST_BYTES:
        try:
            from rapgnn.report.subject import quiet

            with quiet():
                found = np.asarray(subject.estimator.transform(graph))[rows]
            if found.ndim == 2 and np.isfinite(found).all():
                return found, "the propagated representations"
        except (AttributeError, NotImplementedError, ValueError):
            pass
    p = subject.p[rows]
    return (p if subject.numbers else np.log(np.clip(p, 1e-6, 1))), "the predictions"


def positions(subject: Subject, rows: np.ndarray) -> tuple[np.ndarray, str, float]:
    """Two coordinates per row, what was mapped, and the share of its variance that they show."""
    from sklearn.decomposition import PCA

    h, what = representation(subject, rows)
    if min(h.shape) < 2:
        return np.column_stack([h[:, 0] if h.size else np.zeros(len(rows)), np.zeros(len(rows))]), what, 1.0
    solver = PCA(2, svd_solver="randomized", random_state=subject.seed)
    found = solver.fit_transform(h)
    return found, what, float(np.nan_to_num(solver.explained_variance_ratio_.sum()))


def map_parts(subject: Subject) -> list[Part]:
    """Two plots: by label, and by error."""
    labelled = subject.graph.labelled.cpu().numpy()
    rows = subject.sample(labelled, MOST_POINTS)
    at, what, share = positions(subject, rows)
    panels = [
        _panel(subject, rows, at, *_by_label(subject, rows), "By label"),
        _panel(subject, rows, at, *_by_error(subject, rows), "By error"),
    ]
    sampled = (
        f" {len(rows):,} of {len(labelled):,} labelled rows are shown, drawn by chance."
        if len(rows) < len(labelled)
        else ""
    )
    note = f"Principal components of {what}; the two axes show {100 * share:.0f} % of the variance.{sampled}"
    return [Figure("map", panels, apart=True), Prose(note)]


def _by_label(subject: Subject, rows: np.ndarray) -> tuple[list[str], list[str]]:
    y = subject.graph.y.cpu().numpy()[rows]
    if subject.numbers:
        value = y[:, 0]
        cuts = np.unique(np.nanquantile(value, [0, 0.2, 0.4, 0.6, 0.8, 1]))
        if len(cuts) < 2:
            return ["all"] * len(rows), ["all"]
        names = [f"{a:.3g} to {b:.3g}" for a, b in pairwise(cuts)]
        place = np.clip(np.searchsorted(cuts, value, side="right") - 1, 0, len(names) - 1)
        return [names[i] for i in place], names
    if not subject.classes:
        y = np.where((y == 1).any(1), np.nan_to_num(y).argmax(1), -1)
        return _named(y, [*subject.names, "no label"])
    return _named(y, subject.names)


def _named(y: np.ndarray, names: list[str]) -> tuple[list[str], list[str]]:
    """The frequent classes by name, the others as one."""
    order = [names[i] for i in np.argsort(-np.bincount(y % len(names), minlength=len(names)), kind="stable")]
    kept = order if len(order) <= MOST_NAMES + 1 else order[:MOST_NAMES]
    known = set(kept)
    return [names[i] if names[i] in known else "other" for i in y], [
        *kept,
        *(["other"] if len(kept) < len(order) else []),
    ]


def _by_error(subject: Subject, rows: np.ndarray) -> tuple[list[str], list[str]]:
    y, p = subject.graph.y.cpu().numpy()[rows], subject.p[rows]
    trained = np.isin(rows, subject.graph.train.cpu().numpy())
    if subject.numbers:
        error = np.nanmean(np.abs(p - y), axis=1)
        wrong, right, bad = error > np.nanmedian(error), "error below the median", "error above the median"
    elif subject.classes:
        wrong, right, bad = p.argmax(1) != y, "right", "wrong"
    else:
        wrong, right, bad = (((p > 0.5) != (y == 1)) & ~np.isnan(y)).any(1), "all labels right", "a label wrong"
    said = np.where(trained, "trained on", np.where(wrong, bad, right))
    return said.tolist(), [right, bad, "trained on"]


def _panel(subject: Subject, rows: np.ndarray, at: np.ndarray, said: list[str], names: list[str], title: str) -> Panel:
    import plotly.graph_objects as go

    ids, marks = np.array(subject.row_names(rows)), np.array(said)
    traces = []
    for i, name in enumerate(names):
        mine = marks == name
        if mine.any():
            traces.append(
                go.Scatter(
                    x=at[mine, 0].round(3).tolist(),
                    y=at[mine, 1].round(3).tolist(),
                    mode="markers",
                    name=name,
                    text=ids[mine].tolist(),
                    marker={
                        "color": plots.colour(i),
                        "size": 6,
                        "opacity": 0.75,
                        "symbol": plots.SYMBOLS[i % len(plots.SYMBOLS)],
                    },
                    hovertemplate="%{text}<br>%{fullData.name}<extra></extra>",
                )
            )
    counts = ", ".join(f"{name}: {int((marks == name).sum()):,}" for name in names if (marks == name).any())
    drawn = plots.figure(traces, "first component", "second component", height=400)
    return Panel(drawn, title, f"Points: {counts}.")
