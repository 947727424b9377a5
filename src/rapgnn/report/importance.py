"""Which input columns matter, and which hops: how much worse the model is when features are shuffled."""

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from scipy.optimize import nnls

from rapgnn.graph.graph import Graph
from rapgnn.graph.table import NAMES
from rapgnn.report import parts as plots
from rapgnn.report.parts import Figure, Panel, Part, Prose, Table, percent
from rapgnn.report.subject import MANY_ROWS, AbsentError, Subject
from rapgnn.sparse import Features, SparseMatrix

MOST_GROUPS, LEAST_GROUPS = 20, 3
WORK = 2e9  # multiply-adds of all predictions together
MOST_LABELS = 8


def groups_of(graph: Graph) -> dict[str, np.ndarray]:
    """Features that are shuffled together: those of each column of the user's table, or else each alone."""
    encoding, c = graph.encoding, graph.num_features
    if encoding is not None and encoding.kind == "structural" and len(NAMES) == c:
        return {name: np.array([j]) for j, name in enumerate(NAMES)}
    if encoding is not None and encoding.kind == "table" and encoding.width == c:
        ends = np.cumsum([column.width for column in encoding.columns])
        columns = zip(encoding.columns, ends, strict=True)
        return {column.name: np.arange(end - column.width, end) for column, end in columns}
    return {f"feature {j}": np.array([j]) for j in range(c)}


def allowed(subject: Subject) -> int:
    """How many predictions are made: fewer on large graphs."""
    graph = subject.graph
    entries = graph.x.nnz if isinstance(graph.x, SparseMatrix) else graph.num_nodes * graph.num_features
    work = entries + (graph.edge_index.shape[1] + graph.num_nodes) * min(graph.num_features, 256) * (subject.depth + 1)
    return int(np.clip(WORK / max(1, work), LEAST_GROUPS, MOST_GROUPS))


def ranked(subject: Subject, groups: Mapping[str, np.ndarray]) -> list[str]:
    """The groups by how strongly their features differ between the labels of training rows (an F test)."""
    from sklearn.feature_selection import f_classif, f_regression

    graph, test = subject.graph, f_regression if subject.numbers else f_classif
    x, y = _features_of_rows(graph), subject.y if subject.y.ndim == 2 else subject.y[:, None]
    rows = subject.sample(graph.train.cpu().numpy(), 20_000)
    strength = np.zeros(graph.num_features)
    for target in y[rows, :MOST_LABELS].T.astype(float):
        known = np.isfinite(target)
        if known.sum() < 3 or len(np.unique(target[known])) < 2:
            continue
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # columns without any difference
            statistic, _ = test(x[rows[known]], target[known])
        strength = np.fmax(strength, np.nan_to_num(statistic, posinf=1e12))
    return sorted(groups, key=lambda name: -strength[groups[name]].max(initial=0.0))


def _features_of_rows(graph: Graph) -> Any:
    """Features of the rows: of nodes, or the mean over a graph's nodes."""
    x = graph.x.to("cpu").scipy() if isinstance(graph.x, SparseMatrix) else graph.x.cpu().numpy()
    if graph.ptr is None:
        return x
    ptr = graph.ptr.cpu().numpy()
    shares = np.repeat(1 / np.maximum(np.diff(ptr), 1), np.diff(ptr))
    return sp.csr_matrix((shares, np.arange(ptr[-1]), ptr), shape=(len(ptr) - 1, ptr[-1])) @ x


def shuffled(x: Features, columns: np.ndarray, order: np.ndarray) -> Features:
    """The features with the values of these columns taken from other nodes, all from the same one."""
    if not isinstance(x, SparseMatrix):
        changed, at = x.clone(), torch.from_numpy(columns).to(x.device)
        changed[:, at] = x[torch.from_numpy(order).to(x.device)][:, at]
        return changed
    whole: Any = sp.csr_matrix(x.to("cpu").scipy())
    moved = sp.diags(np.isin(np.arange(whole.shape[1]), columns).astype(float))
    mixed = sp.csr_matrix(whole - whole @ moved + whole[order, :] @ moved)
    mixed.eliminate_zeros()
    return SparseMatrix(mixed, dtype=x.values.dtype, device=x.values.device)


def column_losses(subject: Subject) -> tuple[dict[str, float], int]:
    """Column -> how much worse the metric is, the worst first, and how many columns were tried together.

    These stand last.
    """
    graph = subject.graph
    groups, most = groups_of(graph), allowed(subject)
    if not groups:
        raise AbsentError("there are no columns.")
    together, names = 0, list(groups)
    if len(groups) > most:
        names = ranked(subject, groups)
        rest, names = names[most - 1 :], names[: most - 1]
        together = len(rest)
        groups |= {f"the {together:,} other columns together": np.concatenate([groups[name] for name in rest])}
        names.append(list(groups)[-1])
    base, losses, shuffle = subject.score(subject.p), {}, np.random.default_rng(subject.seed)
    for name in names:
        changed = replace(graph, x=shuffled(graph.x, groups[name], shuffle.permutation(graph.num_nodes)))
        value = subject.score(subject.predict(changed))
        losses[name] = base - value if subject.metric.higher else value - base
    order = sorted(names[:-1] if together else names, key=lambda name: -losses[name])
    return {name: losses[name] for name in [*order, *(names[-1:] if together else [])]}, together


def importance_parts(subject: Subject) -> list[Part]:
    """Bars, the most important on top."""
    losses, together = column_losses(subject)
    metric, names = subject.metric, list(losses)
    values = [round(subject.factor * loss, 6) for loss in losses.values()]
    change, unit = "loss" if metric.higher else "rise", "points" if metric.percent else metric.title
    axis = f"{change} of {metric.title}{' (points)' if metric.percent else ''}"
    drawn = plots.bars(names, values, axis, texts=[f"{value:.2f}" for value in values])
    best = ", ".join(name for name in names[: min(3, len(names) - bool(together))] if losses[name] > 0) or "none"
    panel = Panel(drawn, "Loss when a column is shuffled", f"The columns that matter most: {best}.")
    cells = [[name, f"{value:+.3f}"] for name, value in zip(names, values, strict=True)]
    note = (
        f"Shuffled over all nodes, so neighbours lose their values too; {len(names)} predictions on {subject.split} "
        f"rows, {subject.shown(subject.score(subject.p))} before. A column that others can stand in for loses little."
    )
    if together:
        note += f" Tried one by one: the {len(names) - 1} columns that differ most between the labels of training rows."
    return [Figure("columns", [panel], table=Table(["", unit], cells, "Loss by column")), Prose(note)]


# Which hops matter: how far away the nodes are whose features an answer rests on.

ROWS, REPEATS, SHARE = 600, 4, 0.5
FARTHEST = 3  # steps; farther nodes are one group
MOST_ENTRIES = 20_000_000


def rings(subject: Subject, rows: np.ndarray) -> list[sp.csr_matrix]:
    """For every distance a matrix [rows, nodes] with a 1 where a node is so many steps away against the messages."""
    u, v = subject.graph.edge_index.cpu().numpy()
    n = subject.graph.num_nodes
    A = sp.csr_matrix((np.ones(len(u), dtype=np.int32), (v, u)), shape=(n, n))
    ring = sp.csr_matrix((np.ones(len(rows), dtype=np.int32), (np.arange(len(rows)), rows)), shape=(len(rows), n))
    within, all_rings = ring, [ring]
    for _ in range(min(FARTHEST, subject.depth)):
        reached = sp.csr_matrix(ring @ A)
        if reached.nnz > MOST_ENTRIES:
            break
        reached.data[:] = 1
        ring = sp.csr_matrix(reached - reached.multiply(within))
        ring.eliminate_zeros()
        within = sp.csr_matrix(within + ring)
        all_rings.append(ring)
    return all_rings


def hop_losses(subject: Subject) -> dict[str, float]:
    """Distance -> how much less sure of its answer the model is when all nodes there get the features of others.

    Half of the nodes, by chance, get the features of other nodes, some times over. The loss of a row is then explained
    by the shares of changed nodes at every distance from it, by least squares without negative parts.
    """
    graph, n = subject.graph, subject.graph.num_nodes
    if graph.ptr is not None:
        raise AbsentError("rows are whole graphs, which have no distance to their nodes; see how it grows with depth.")
    if not graph.edge_index.shape[1]:
        raise AbsentError("there are no edges.")
    many = n > MANY_ROWS
    rows = subject.sample(subject.rows, ROWS // 2 if many else ROWS)
    distances = rings(subject, rows)
    names = ["the node itself", *(f"{k} step{'s' if k > 1 else ''} away" for k in range(1, len(distances)))]
    names += ["farther"] if subject.depth >= len(distances) else []
    rng, shares, losses = np.random.default_rng(subject.seed), [], []
    for _ in range(2 if many else REPEATS):
        changed, order = np.flatnonzero(rng.random(n) < SHARE), np.arange(n)
        order[changed] = rng.permutation(changed)
        x = shuffled(graph.x, np.arange(graph.num_features), order)
        losses.append(_loss(subject, subject.p[rows], subject.predict(replace(graph, x=x))[rows]))
        moved = (order != np.arange(n)).astype(np.float64)
        parts = [ring @ moved / np.maximum(np.asarray(ring.sum(1)).ravel(), 1) for ring in distances]
        shares.append(np.column_stack([*parts, np.full(len(rows), SHARE)])[:, : len(names)])
    weights, _ = nnls(np.concatenate(shares), np.concatenate(losses))
    return dict(zip(names, weights.tolist(), strict=True))


def _loss(subject: Subject, before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Of the probability of the answer; for labels and numbers, how far they move."""
    if subject.classes:
        at = np.arange(len(before)), before.argmax(1)
        return before[at] - after[at]
    return np.abs(after - before).mean(1)


def hop_parts(subject: Subject) -> list[Part]:
    """Bars, the nearest on top."""
    losses = hop_losses(subject)
    names, total = list(losses), sum(losses.values())
    if total <= 0:
        raise AbsentError("the answers do not change when features do.")
    shares = [loss / total for loss in losses.values()]
    texts = [percent(share, 0) for share in shares]
    drawn = plots.bars(names, [round(100 * share, 3) for share in shares], "share of the effect (%)", texts=texts)
    says = ", ".join(f"{name} {text}" for name, text in zip(names, texts, strict=True)) + "."
    panel = Panel(drawn, "How far away the features lie that an answer rests on", says)
    unit, factor = "points of the answer's probability" if subject.classes else "change", 1 if subject.numbers else 100
    cells = [[n, percent(s), f"{factor * loss:.2f}"] for (n, loss), s in zip(losses.items(), shares, strict=True)]
    note = (
        "Half of the nodes, by chance, get the features of other nodes; how much less sure of its answer the model "
        "then is, is divided among the distances by least squares."
    )
    table = Table(["", "share", f"loss, {unit}"], cells, "Share of each hop")
    return [Figure("hops", [panel], table=table), Prose(note)]
