"""Sets of graphs without features: circles of people around one, and random graphs with their cycles."""

import numpy as np
import scipy.sparse as sp

from rapgnn.experiments.bench.suite.edges import both_ways, by_shares
from rapgnn.graph.batch import make_graphs
from rapgnn.graph.graph import Graph
from rapgnn.graph.structural import structural_features

MOST_DEGREE = 12  # higher degrees share its column


def circles(graphs: int = 1500, seed: int = 0) -> Graph:
    """One person and everybody who worked with them, in three fields with different habits.

    Field 0: a few large teams; field 1: many small teams, people in several of them; field 2: pairs around the
    person, with some triangles. Sizes and densities overlap.
    """
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(graphs) % 3)
    size = rng.integers(12, 40, size=graphs)
    return _set(rng, [_circle(rng, int(n), int(field)) for n, field in zip(size, y, strict=True)], size, y, "circles")


def _circle(rng: np.random.Generator, n: int, field: int) -> np.ndarray:
    ego = np.stack([np.zeros(n - 1, dtype=np.int64), np.arange(1, n)])
    parts = [ego]
    budget = rng.uniform(1.5, 4.0) * n
    while budget > 0:
        low, high = ((6, 10), (3, 6), (2, 4))[field]
        team = rng.choice(np.arange(1, n), size=min(n - 1, int(rng.integers(low, high))), replace=False)
        first, second = np.triu_indices(len(team), 1)
        parts.append(np.stack([team[first], team[second]]))
        budget -= len(first)
    stray = rng.integers(1, n, size=(2, n // 3))
    return both_ways(*np.concatenate([*parts, stray], axis=1))


def _set(rng: np.random.Generator, lists: list[np.ndarray], size: np.ndarray, y: np.ndarray, name: str) -> Graph:
    start = np.concatenate([[0], np.cumsum(size)])
    edges = np.concatenate([part + at for part, at in zip(lists, start[:-1], strict=True)], axis=1)
    x = structural_features(edges, int(start[-1]))
    wrong = rng.random(len(y)) < 0.05
    labels = np.where(wrong, rng.integers(y.max() + 1, size=len(y)), y)
    return make_graphs(x, edges, size, labels, *by_shares(labels, 0.15, 0.25), name=name)


def cycles(graphs: int = 2000, seed: int = 0) -> Graph:
    """Random graphs of different laws; the number to be told is the logarithm of 1 + triangles + squares.

    Only the degrees are given, as one-hot columns.
    """
    rng = np.random.default_rng(seed)
    size = rng.integers(10, 31, size=graphs)
    parts, y = [], []
    for n in size:
        degree = rng.uniform(2.0, 5.0)
        source, target = rng.integers(n, size=(2, round(n * degree / 2)))
        close = rng.random(len(source)) < rng.choice([0.0, 0.4, 0.8])  # ends that lie near each other on a ring
        target = np.where(close, (source + rng.integers(1, 4, size=len(source))) % n, target)
        edges = both_ways(source, target)
        A = sp.csr_matrix((np.ones(edges.shape[1]), (edges[0], edges[1])), shape=(n, n)).toarray()
        walks = A @ A
        triangles = np.trace(walks @ A) / 6
        pairs = walks[np.triu_indices(n, 1)]
        y.append(np.log1p(triangles + (pairs * (pairs - 1) / 2).sum() / 2))
        parts.append(edges)
    start = np.concatenate([[0], np.cumsum(size)])
    edges = np.concatenate([part + at for part, at in zip(parts, start[:-1], strict=True)], axis=1)
    degree = np.minimum(np.bincount(edges[0], minlength=int(start[-1])), MOST_DEGREE)
    x = np.eye(MOST_DEGREE + 1, dtype=np.float32)[degree]
    rows = by_shares(np.zeros(graphs, dtype=np.int64), 0.15, 0.25, seed)
    return make_graphs(x, edges, size, np.array(y), *rows, task="regression", name="cycles")
