"""The data in numbers: sizes, degrees, labels, homophily, and what is missing."""

from itertools import pairwise

import numpy as np
import torch

from rapgnn.estimators.report.subject import Subject
from rapgnn.graph.graph import Graph
from rapgnn.graph.validate import SPLITS
from rapgnn.report import plots
from rapgnn.report.parts import Facts, Figure, Notice, Panel, Part, Prose, table
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
