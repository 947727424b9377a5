"""Node decimation pooling: half of a graph's nodes go, and the others are joined by what went through them.

Bianchi, Grattarola, Livi and Alippi, Hierarchical representation learning in graph neural networks with node decimation
pooling, IEEE TNNLS 2022: the sign of the last eigenvector of the Laplacian cuts the graph so that neighbours are on
different sides; one side stays, and Kron reduction makes its new edges.
"""

import numpy as np
import scipy.sparse as sp
from scipy.linalg import solve
from scipy.sparse.csgraph import connected_components

from rapgnn.errors import InputError

LARGEST = 4096  # nodes of a graph: all its eigenvectors are computed
SAME = 1e-8  # numbers that differ by less are the same


def decimate(A: sp.csr_matrix, threshold: float = 0.0) -> tuple[np.ndarray, sp.csr_matrix]:
    """The nodes that stay, in order, and the weights between them.

    Every connected part is cut by itself, so many graphs side by side go through at once. A node without neighbours
    stays; a part with an edge loses at least one node and keeps at least one.

    Args:
        A: symmetric, non-negative, without loops.
        threshold: edges of less weight are left out of the result.
    """
    if not A.shape[0]:
        return np.zeros(0, dtype=np.int64), A
    _, part = connected_components(A, directed=False)
    order = np.argsort(part, kind="stable")
    bounds = np.concatenate([[0], np.cumsum(np.bincount(part))])
    A = sp.csr_matrix(A[order][:, order])
    stays = np.ones(A.shape[0], dtype=bool)
    rows, columns, weights = [], [], []
    for start, stop in zip(bounds[:-1], bounds[1:], strict=True):
        if stop - start == 1:
            continue
        block = _dense_block(A, start, stop)
        stays[start:stop] = kept_side(block)
        nodes = start + np.flatnonzero(stays[start:stop])
        reduced = kron_reduction(block, stays[start:stop])
        row, column = np.nonzero(reduced > threshold)
        rows.append(nodes[row])
        columns.append(nodes[column])
        weights.append(reduced[row, column])
    kept = np.sort(order[stays])
    number = np.full(len(order), -1)
    number[kept] = np.arange(len(kept))
    ends = [number[order[np.concatenate([np.zeros(0, dtype=np.int64), *side])]] for side in (rows, columns)]
    joined = sp.csr_matrix((np.concatenate([np.zeros(0), *weights]), tuple(ends)), shape=(len(kept), len(kept)))
    return kept, joined


def _dense_block(A: sp.csr_matrix, start: int, stop: int) -> np.ndarray:
    """A block on the diagonal, outside of which its rows have no entry."""
    size = stop - start
    if size > LARGEST:
        raise InputError(f"node decimation is for graphs of up to {LARGEST} nodes that hang together, not {size}.")
    first, last = A.indptr[start], A.indptr[stop]
    block = np.zeros((size, size))
    row = np.repeat(np.arange(size), np.diff(A.indptr[start : stop + 1]))
    block[row, A.indices[first:last] - start] = A.data[first:last]
    return block


def kept_side(A: np.ndarray) -> np.ndarray:
    """Which nodes of a connected graph stay, as a mask: one side of the spectral cut.

    Where the last eigenvalue is not simple, or the cut goes through less than half of the weight, it is a greedy cut,
    which goes through at least half. The side that stays has the larger degrees in sum; that depends on the numbering
    of the nodes only where both have the same, or in a greedy cut.
    """
    degree = A.sum(axis=1)
    root = 1.0 / np.sqrt(degree)
    values, vectors = np.linalg.eigh(np.eye(len(A)) - root[:, None] * A * root)
    last = vectors[:, -1]
    simple = len(A) == 2 or values[-1] - values[-2] > SAME
    side = last > SAME if last[np.abs(last) > SAME][0] > 0 else last < -SAME
    if not simple or cut_share(A, side) < 0.5 or side.all() or not side.any():
        side = greedy_cut(A)
    here, there = degree[side].sum(), degree[~side].sum()
    return side if here >= there - SAME * (here + there) else ~side


def greedy_cut(A: np.ndarray) -> np.ndarray:
    """Nodes one after another, the largest degrees first, each away from most of its neighbours: a mask."""
    side = np.zeros(len(A))
    for node in np.argsort(-A.sum(axis=1), kind="stable"):
        side[node] = -1.0 if A[node] @ side > 0 else 1.0
    return side > 0


def cut_share(A: np.ndarray, side: np.ndarray) -> float:
    """The share of the edges' weight that goes from one side to the other."""
    return float(2 * A[side][:, ~side].sum() / A.sum())


def kron_reduction(A: np.ndarray, stays: np.ndarray) -> np.ndarray:
    """The weights between the nodes that stay: the Schur complement of the Laplacian.

    Resistances between these nodes, if edges are wires that conduct by their weight, are those of the whole graph.
    """
    L = np.diag(A.sum(axis=1)) - A
    goes = ~stays
    between = L[np.ix_(stays, goes)]
    reduced = L[np.ix_(stays, stays)] - between @ solve(L[np.ix_(goes, goes)], between.T, assume_a="pos")
    found = -(reduced + reduced.T) / 2
    np.fill_diagonal(found, 0.0)
    return np.clip(found, 0.0, None)
