"""Which hops matter: how far away the nodes are whose features an answer rests on."""

from dataclasses import replace

import numpy as np
import scipy.sparse as sp
from scipy.optimize import nnls

from rapgnn.estimators.report.importance import shuffled
from rapgnn.estimators.report.subject import MANY_ROWS, AbsentError, Subject
from rapgnn.report import plots
from rapgnn.report.parts import Figure, Panel, Part, Prose, table

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
