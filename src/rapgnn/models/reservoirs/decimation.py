"""Node decimation pooling: half of a graph's nodes go, and the others are joined by what went through them.

Bianchi, Grattarola, Livi and Alippi, Hierarchical representation learning in graph neural networks with node decimation
pooling, IEEE TNNLS 2022: the sign of the last eigenvector of the Laplacian cuts the graph so that neighbours are on
different sides; one side stays, and Kron reduction makes its new edges.
"""

import itertools

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from rapgnn.errors import InputError
from rapgnn.sparse import matrix_shape

LARGEST = 2048  # nodes of a graph: all its eigenvectors are computed
SAME = 1e-8  # numbers that differ by less are the same


def decimate(A: sp.csr_matrix, threshold: float = 0.0) -> tuple[np.ndarray, sp.csr_matrix]:
    """The nodes that stay, in order, and the weights between them.

    Every connected part is cut by itself, so many graphs side by side go through at once. A node without neighbours
    stays; a part with an edge loses at least one node and keeps at least one.

    Args:
        A: symmetric, non-negative, without loops.
        threshold: edges of less weight are left out of the result.
    """
    nodes = matrix_shape(A)[0]
    if not nodes:
        return np.zeros(0, dtype=np.int64), A
    A = A.copy()
    A.eliminate_zeros()  # a stored zero is no edge
    _, part = connected_components(A, directed=False)
    order = np.argsort(part, kind="stable")
    bounds = np.concatenate([[0], np.cumsum(np.bincount(part))])
    A = sp.csr_matrix(A[order][:, order])
    stays = np.ones(nodes, dtype=bool)
    rows, columns, weights = [], [], []
    for start, stop in itertools.pairwise(bounds):
        if stop - start == 1:
            continue
        block = _dense_block(A, start, stop)
        stays[start:stop] = kept_side(block)
        kept = start + np.flatnonzero(stays[start:stop])
        reduced = kron_reduction(block, stays[start:stop])
        row, column = np.nonzero(reduced > threshold)
        rows.append(kept[row])
        columns.append(kept[column])
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
    which goes through at least half. The side that stays has the larger sum of squared degrees. The numbering of the
    nodes decides only where both have the same, as the two ends of a single edge do, and in a greedy cut between nodes
    of the same degree.
    """
    degree = A.sum(axis=1)
    root = 1.0 / np.sqrt(degree)
    values, vectors = np.linalg.eigh(np.eye(len(A)) - root[:, None] * A * root)
    last = vectors[:, -1]
    simple = len(A) == 2 or values[-1] - values[-2] > SAME
    side = last > SAME if last[np.abs(last) > SAME][0] > 0 else last < -SAME
    if not simple or cut_share(A, side) < 0.5 or side.all() or not side.any():
        side = greedy_cut(A)
    size = np.square(degree / degree.max())
    here, there = size[side].sum(), size[~side].sum()
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
    Nodes go one by one, each leaving edges between its neighbours: only positive numbers are added, so that weights of
    very different sizes lose nothing.
    """
    found = A.copy()
    for node in np.flatnonzero(~stays):
        to = found[node].copy()
        found += np.outer(to / to.sum(), to)
        found[node] = found[:, node] = 0.0
        np.fill_diagonal(found, 0.0)
    found = found[np.ix_(stays, stays)]
    return (found + found.T) / 2
