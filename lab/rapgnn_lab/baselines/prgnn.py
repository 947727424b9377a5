"""P-RGNN (Bianchi, Gallicchio and Micheli, Pyramidal Reservoir Graph Neural Network, Neurocomputing 2022).

Its pooling is node decimation (Bianchi, Grattarola, Livi and Alippi, IEEE TNNLS 2022): the sign of the last eigenvector
of the Laplacian cuts the graph so that neighbours are on different sides; one side stays, and Kron reduction makes its
new edges.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import numpy as np
import scipy.sparse as sp
import torch
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from rapgnn import Graph, InputError
from rapgnn.compare import Record
from rapgnn.graph.backbones import symmetric
from rapgnn.graph.operator import GraphOperator
from rapgnn.sparse import Features, SparseMatrix, matrix_shape
from rapgnn_lab.baselines.reservoir import RandomMatrix, Reservoir, ReservoirEncoder, graph_operator

SAME = 1e-8  # numbers that differ by less are the same


def decimate(A: sp.csr_matrix, threshold: float = 0.0, largest: int = 2048) -> tuple[np.ndarray, sp.csr_matrix]:
    """The nodes that stay, in order, and the weights between them.

    Every connected part is cut by itself, so many graphs side by side go through at once. A node without neighbours
    stays; a part with an edge loses at least one node and keeps at least one.

    Args:
        A: symmetric, non-negative, without loops.
        threshold: edges of less weight are left out of the result.
        largest: nodes of a part, all of whose eigenvectors are computed.
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
    ends, weights = [np.zeros((2, 0), dtype=np.int64)], [np.zeros(0)]
    for start, stop in itertools.pairwise(bounds):
        size = stop - start
        if size == 1:
            continue
        if size > largest:
            raise InputError(f"node decimation is for graphs of up to {largest} nodes that hang together, not {size}.")
        block = A[start:stop, start:stop].toarray()
        stays[start:stop] = staying_side(block)
        reduced = kron_reduction(block, stays[start:stop])
        edges = np.nonzero(reduced > threshold)
        ends.append((start + np.flatnonzero(stays[start:stop]))[np.stack(edges)])
        weights.append(reduced[edges])
    staying = np.sort(order[stays])
    number = np.full(nodes, -1)
    number[staying] = np.arange(len(staying))
    row, column = number[order[np.concatenate(ends, axis=1)]]
    return staying, sp.csr_matrix((np.concatenate(weights), (row, column)), shape=(len(staying), len(staying)))


def staying_side(A: np.ndarray) -> np.ndarray:
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
    A = A.copy()
    for node in np.flatnonzero(~stays):
        to = A[node].copy()
        A += np.outer(to / to.sum(), to)
        A[node] = A[:, node] = 0.0
        np.fill_diagonal(A, 0.0)
    A = A[np.ix_(stays, stays)]
    return (A + A.T) / 2


@dataclass(frozen=True)
class Pyramid:
    """Graphs, and after every pooling the smaller ones.

    Args:
        levels: the graphs of each level, the given ones first; one more than there are poolings.
        staying: of each pooling, the nodes that stay, by their numbers on the level before.
    """

    levels: tuple[GraphOperator, ...]
    staying: tuple[Tensor, ...]

    @property
    def ptr(self) -> Tensor | None:
        return self.levels[0].ptr

    def select(self, graphs: Tensor) -> "tuple[Pyramid, Tensor]":
        chosen = [level.select(graphs) for level in self.levels]
        staying = []
        for stays, level, (some, _), (pooled, nodes) in zip(
            self.staying, self.levels, chosen, chosen[1:], strict=False
        ):
            moved = cast(Tensor, some.ptr)[:-1] - cast(Tensor, level.ptr)[graphs]
            staying.append(stays[nodes] + moved[pooled.graph_of_node])
        return Pyramid(tuple(level for level, _ in chosen), tuple(staying)), chosen[0][1]


def build_pyramid(graph: Graph, poolings: int, threshold: float = 0.0) -> Pyramid:
    """The graphs pooled so many times by node decimation, on x's device.

    Pooling sees undirected graphs: (\\|A\\| + \\|Aᵀ\\|) / 2, without loops.
    """
    assert graph.ptr is not None
    device, given = graph.x.device, graph_operator(graph, "normalised")
    magnitude = abs(graph_operator(graph, "adjacency").matrix.scipy().astype(np.float64))
    A = sp.csr_matrix((magnitude + magnitude.T) / 2)
    A.setdiag(0.0)
    A.eliminate_zeros()
    home = np.repeat(np.arange(graph.num_rows), graph.ptr.diff().cpu().numpy())
    levels, staying = [given], []
    for _ in range(poolings):
        stays, A = decimate(A, threshold)
        home = home[stays]
        bounds = np.concatenate([[0], np.cumsum(np.bincount(home, minlength=graph.num_rows))])
        matrix = SparseMatrix(symmetric(A), dtype=given.matrix.dtype, device=device)
        levels.append(GraphOperator(matrix, torch.from_numpy(bounds.astype(np.int64)).to(device)))
        staying.append(torch.from_numpy(stays.astype(np.int64)).to(device))
    return Pyramid(tuple(levels), tuple(staying))


class PRGNN(ReservoirEncoder):
    r"""Reservoirs and poolings in turn, up to a small graph whose states are summed.

    .. math:: x_v = \tanh\Bigl(u_v W_I + \sum_u s_{vu}\, x_u W_H\Bigr), \quad S = D^{-½} A D^{-½}

    Each reservoir is iterated to its fixed point, then node decimation keeps about half of the nodes with their states,
    which are the input of the next. The readout sees the last level alone. Levels after the first share their weights.
    """

    cumulative = False

    def __init__(self, graph: Graph, seed: int, settings: Record):
        super().__init__()
        s, units = settings, settings["units"]
        self.levels, self.threshold = s["levels"], s["threshold"]
        self.depths, self.width = (self.levels,), 3 * units
        recurrent = RandomMatrix("uniform", size=s["radius"], measure="radius", seed=seed)
        above, between = (RandomMatrix("uniform", size=s[f"{of}_scaling"], seed=seed) for of in ("input", "hidden"))
        self.first = Reservoir(graph.num_features, s, above, recurrent, 0)
        self.later = Reservoir(units, s, between, recurrent, 1)

    def context(self, graph: Graph) -> Pyramid:
        return build_pyramid(graph, self.levels, self.threshold)

    def states(self, x: Features, pyramid: Pyramid) -> Iterator[Tensor]:
        h = x
        for number, stays in enumerate(pyramid.staying):
            reservoir = self.later if number else self.first
            yield (h := reservoir(h, pyramid.levels[number].matrix)[stays])

    def parts(self, x: Features, context: Pyramid) -> Iterator[Tensor]:
        for level, h in zip(context.levels[1:], self.states(x, context), strict=True):
            yield level.pool(h, "sum")
