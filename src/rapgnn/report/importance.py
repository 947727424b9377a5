"""Which input columns matter: how much worse the model is on held-out rows when a column's values are shuffled."""

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from scipy.optimize import nnls

from rapgnn.estimators.evaluation import shown
from rapgnn.graph.graph import Graph
from rapgnn.graph.table import NAMES
from rapgnn.report import parts as plots
from rapgnn.report.parts import Figure, Panel, Part, Prose, table
from rapgnn.report.subject import MANY_ROWS, AbsentError, Subject
from rapgnn.sparse import Features, SparseMatrix

MOST_GROUPS, LEAST_GROUPS = 20, 3
WORK = 2e9  # multiply-adds of all predictions together
MOST_LABELS = 8


@dataclass(frozen=True)
class Group:
    """Features that are shuffled together: those of one column of a user's table."""

    name: str
    columns: np.ndarray


def groups_of(graph: Graph) -> list[Group]:
    """A group per column of the user's table, or else per feature."""
    encoding, c = graph.encoding, graph.num_features
    if encoding is not None and encoding.kind == "structural" and len(NAMES) == c:
        return [Group(name, np.array([j])) for j, name in enumerate(NAMES)]
    if encoding is not None and encoding.kind == "table" and encoding.width == c:
        ends = np.cumsum([column.width for column in encoding.columns])
        return [
            Group(column.name, np.arange(end - column.width, end))
            for column, end in zip(encoding.columns, ends, strict=True)
        ]
    return [Group(f"feature {j}", np.array([j])) for j in range(c)]


def allowed(subject: Subject) -> int:
    """How many predictions are made: fewer on large graphs."""
    graph = subject.graph
    entries = graph.x.nnz if isinstance(graph.x, SparseMatrix) else graph.num_nodes * graph.num_features
    work = entries + (graph.edge_index.shape[1] + graph.num_nodes) * min(graph.num_features, 256) * (subject.depth + 1)
    return int(np.clip(WORK / max(1, work), LEAST_GROUPS, MOST_GROUPS))


def ranked(subject: Subject, groups: list[Group]) -> list[Group]:
    """The groups by how strongly their features differ between the labels of training rows (an F test)."""
    from sklearn.feature_selection import f_classif, f_regression

    graph = subject.graph
    x, y = _rows_of(graph), graph.y.cpu().numpy()
    rows = subject.sample(graph.train.cpu().numpy(), 20_000)
    strength = np.zeros(graph.num_features)
    targets = [y] if y.ndim == 1 else [y[:, j] for j in range(min(y.shape[1], MOST_LABELS))]
    for target in targets:
        mine = rows[np.isfinite(target[rows].astype(float))]
        if len(mine) < 3 or len(np.unique(target[mine])) < 2:
            continue
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # columns without any difference
            found, _ = (f_regression if subject.numbers else f_classif)(x[mine], target[mine])
        strength = np.fmax(strength, np.nan_to_num(found, posinf=1e12))
    return sorted(groups, key=lambda group: -strength[group.columns].max(initial=0.0))


def _rows_of(graph: Graph):
    """Features of the rows: of nodes, or the mean over a graph's nodes."""
    x = graph.x.to("cpu").scipy() if isinstance(graph.x, SparseMatrix) else graph.x.cpu().numpy()
    if graph.ptr is None:
        return x
    import scipy.sparse as sp

    sizes = graph.ptr.diff().cpu().numpy()
    pool = sp.csr_matrix(
        (np.repeat(1 / np.maximum(sizes, 1), sizes), np.arange(sizes.sum()), graph.ptr.cpu().numpy()),
        shape=(len(sizes), int(sizes.sum())),
    )
    return pool @ x


def shuffled(x: Features, columns: np.ndarray, order: np.ndarray) -> Features:
    """The features with the values of these columns taken from other nodes, all from the same one."""
    if not isinstance(x, SparseMatrix):
        changed = x.clone()
        at = torch.from_numpy(columns).to(x.device)
        changed[:, at] = x[torch.from_numpy(order).to(x.device)][:, at]
        return changed
    import scipy.sparse as sp

    whole: Any = sp.csr_matrix(x.to("cpu").scipy())
    kept = np.ones(whole.shape[1])
    kept[columns] = 0
    mixed = whole @ sp.diags(kept) + whole[order, :] @ sp.diags(1 - kept)
    mixed = sp.csr_matrix(mixed)
    mixed.eliminate_zeros()
    return SparseMatrix(mixed, dtype=x.values.dtype, device=x.values.device)


def column_losses(subject: Subject) -> tuple[list[tuple[str, float]], int]:
    """(column, how much worse the metric is), the worst first, and how many columns were tried together.

    These stand last.
    """
    graph = subject.graph
    groups, most = groups_of(graph), allowed(subject)
    if not groups:
        raise AbsentError("there are no columns.")
    left = 0
    if len(groups) > most:
        order = ranked(subject, groups)
        rest = order[most - 1 :]
        left = len(rest)
        groups = [
            *order[: most - 1],
            Group(f"the {left:,} other columns together", np.concatenate([g.columns for g in rest])),
        ]
    base, found = subject.score(subject.p), []
    shuffle = np.random.default_rng(subject.seed)
    for group in groups:
        changed = replace(graph, x=shuffled(graph.x, group.columns, shuffle.permutation(graph.num_nodes)))
        value = subject.score(subject.predict(changed))
        found.append((group.name, base - value if subject.metric.higher else value - base))
    tried, rest = (found[:-1], found[-1:]) if left else (found, [])
    return [*sorted(tried, key=lambda pair: -pair[1]), *rest], left


def importance_parts(subject: Subject) -> list[Part]:
    """Bars, the most important on top."""
    found, left = column_losses(subject)
    factor, unit = (100, "points") if subject.metric.percent else (1, subject.metric.title)
    values = [round(factor * loss, 6) for _, loss in found]
    change = "loss" if subject.metric.higher else "rise"
    drawn = plots.bars(
        [name for name, _ in found],
        values,
        f"{change} of {subject.metric.title}{' (points)' if subject.metric.percent else ''}",
        texts=[f"{v:.2f}" for v in values],
    )
    best = ", ".join(name for name, loss in found[: min(3, len(found) - bool(left))] if loss > 0) or "none"
    cells = [[name, f"{value:+.3f}"] for (name, _), value in zip(found, values, strict=True)]
    before = shown(subject.metric, subject.score(subject.p))
    note = (
        f"Shuffled over all nodes, so neighbours lose their values too; {len(found)} predictions on {subject.split} "
        f"rows, {before} before. A column that others can stand in for loses little."
    )
    if left:
        note += f" Tried one by one: the {len(found) - 1} columns that differ most between the labels of training rows."
    return [
        Figure(
            "columns",
            [Panel(drawn, "Loss when a column is shuffled", f"The columns that matter most: {best}.")],
            table=table(["", unit], cells, "Loss by column"),
        ),
        Prose(note),
    ]


# Which hops matter: how far away the nodes are whose features an answer rests on.


ROWS, REPEATS, SHARE = 600, 4, 0.5
FARTHEST = 3  # steps; farther nodes are one group
MOST_ENTRIES = 20_000_000


def rings(subject: Subject, rows: np.ndarray) -> list[sp.csr_matrix]:
    """For every distance a matrix [rows, nodes] with a 1 where a node is so many steps away against the messages."""
    graph = subject.graph
    u, v = graph.edge_index.cpu().numpy()
    n = graph.num_nodes
    A = sp.csr_matrix((np.ones(len(u), dtype=np.int32), (v, u)), shape=(n, n))
    A.data[:] = 1
    ring = sp.csr_matrix((np.ones(len(rows), dtype=np.int32), (np.arange(len(rows)), rows)), shape=(len(rows), n))
    seen, found = ring.copy(), [ring]
    for _ in range(min(FARTHEST, subject.depth)):
        reached = sp.csr_matrix(ring @ A)
        if reached.nnz > MOST_ENTRIES:
            break
        reached.data[:] = 1
        ring = sp.csr_matrix(reached - reached.multiply(seen))
        ring.eliminate_zeros()
        seen = sp.csr_matrix(seen + ring)
        found.append(ring)
    return found


def hop_losses(subject: Subject) -> list[tuple[str, float]]:
    """(distance, how much less sure of its answer the model is when all nodes there get the features of others).

    Half of the nodes, by chance, get the features of other nodes, some times over. The loss of a row is then explained
    by the shares of changed nodes at every distance from it, by least squares without negative parts.
    """
    graph = subject.graph
    if graph.ptr is not None:
        raise AbsentError(
            "rows are whole graphs, which have no distance to their nodes; see how accuracy grows with depth."
        )
    if not graph.edge_index.shape[1]:
        raise AbsentError("there are no edges.")
    rows = subject.sample(subject.rows.numpy(), ROWS if graph.num_nodes <= MANY_ROWS else ROWS // 2)
    found = rings(subject, rows)
    sizes = [np.asarray(ring.sum(1)).ravel() for ring in found]
    farther = subject.depth > len(found) - 1
    rng, shares, losses = np.random.default_rng(subject.seed), [], []
    before = subject.p[rows]
    repeats = REPEATS if graph.num_nodes <= MANY_ROWS else 2
    for _ in range(repeats):
        changed = np.flatnonzero(rng.random(graph.num_nodes) < SHARE)
        order = np.arange(graph.num_nodes)
        order[changed] = rng.permutation(changed)
        x = shuffled(graph.x, np.arange(graph.num_features), order)
        losses.append(_loss(subject, before, subject.predict(replace(graph, x=x))[rows]))
        mark = (order != np.arange(graph.num_nodes)).astype(np.float64)
        parts = [ring @ mark / np.maximum(size, 1) for ring, size in zip(found, sizes, strict=True)]
        shares.append(np.column_stack([*parts, *([np.full(len(rows), SHARE)] if farther else [])]))
    weights, _ = nnls(np.concatenate(shares), np.concatenate(losses))
    names = ["the node itself", *(f"{k} step{'s' if k > 1 else ''} away" for k in range(1, len(found)))]
    return list(zip([*names, *(["farther"] if farther else [])], weights.tolist(), strict=True))


def _loss(subject: Subject, before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Of the probability of the answer; for labels and numbers, how far they move."""
    if subject.classes:
        at = np.arange(len(before)), before.argmax(1)
        return before[at] - after[at]
    return np.abs(after - before).mean(1)


def hop_parts(subject: Subject) -> list[Part]:
    """Bars, the nearest on top."""
    found = hop_losses(subject)
    total = sum(value for _, value in found)
    if total <= 0:
        raise AbsentError("the answers do not change when features do.")
    shares = [100 * value / total for _, value in found]
    drawn = plots.bars(
        [name for name, _ in found],
        [round(s, 3) for s in shares],
        "share of the effect (%)",
        texts=[f"{s:.0f} %" for s in shares],
    )
    unit = "points of the answer's probability" if subject.classes else "change"
    factor = 1 if subject.numbers else 100
    cells = [
        [name, f"{share:.1f} %", f"{factor * value:.2f}"] for (name, value), share in zip(found, shares, strict=True)
    ]
    says = ", ".join(f"{name} {share:.0f} %" for (name, _), share in zip(found, shares, strict=True)) + "."
    note = (
        "Half of the nodes, by chance, get the features of other nodes; how much less sure of its answer the model "
        "then is, is divided among the distances by least squares."
    )
    return [
        Figure(
            "hops",
            [Panel(drawn, "How far away the features lie that an answer rests on", says)],
            table=table(["", "share", f"loss, {unit}"], cells, "Share of each hop"),
        ),
        Prose(note),
    ]
