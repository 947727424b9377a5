"""Graphs with many labels and a handful of features: what decides is non-linear and lies in the neighbourhood."""

import numpy as np
import scipy.sparse as sp

from rapgnn.experiments.bench.suite.edges import both_ways, by_shares, pick_members, standardized, top_share
from rapgnn.graph.graph import Graph, make_graph

MOST_SHOWN = 5  # larger numbers of neighbouring mines share its column


def minesweeper(side: int = 100, mines: float = 0.2, hidden: float = 0.5, seed: int = 0) -> Graph:
    """The game's field as in Platonov et al. (2023): which cells of a grid hold a mine.

    Seven features: the number of neighbouring mines, 0 to 5, as one-hot columns, and whether that number is hidden.
    """
    rng = np.random.default_rng(seed)
    nodes = side * side
    cell = np.arange(nodes).reshape(side, side)
    pairs = [
        (cell[:, :-1], cell[:, 1:]),
        (cell[:-1], cell[1:]),
        (cell[:-1, :-1], cell[1:, 1:]),
        (cell[:-1, 1:], cell[1:, :-1]),
    ]
    edges = both_ways(*(np.concatenate([pair[end].ravel() for pair in pairs]) for end in (0, 1)))
    y = np.zeros(nodes, dtype=np.int64)
    y[rng.permutation(nodes)[: round(mines * nodes)]] = 1
    around = np.bincount(edges[1], weights=y[edges[0]], minlength=nodes).astype(np.int64)
    unknown = np.zeros(nodes, dtype=bool)
    unknown[rng.permutation(nodes)[: round(hidden * nodes)]] = True
    x = np.zeros((nodes, MOST_SHOWN + 2), dtype=np.float32)
    x[np.arange(nodes), np.where(unknown, MOST_SHOWN + 1, np.minimum(around, MOST_SHOWN))] = 1.0
    return make_graph(x, edges, y, *by_shares(y, 0.25, 0.25, seed), name="minesweeper", sparse=False)


def crowd(nodes: int = 12_000, degree: float = 50.0, banned: float = 0.22, seed: int = 0) -> Graph:
    """Workers who are joined where they worked on one task; some were banned.

    Ten features of different kinds: skewed counts, rates, flags. A ban depends on a product of own features, on how the
    neighbours do in the mean, and on how different they are.
    """
    rng = np.random.default_rng(seed)
    care, speed = rng.standard_normal((2, nodes))
    activity = rng.pareto(1.8, size=nodes) + 0.1
    projects = nodes // 40
    demand = rng.standard_normal(projects)  # tasks draw workers of about one degree of care
    wanted = np.clip(0.7 * care + 0.7 * rng.standard_normal(nodes), -3, 3)
    place = np.argsort(np.argsort(wanted)) * projects // nodes
    project = np.argsort(demand)[place]
    count = round(nodes * degree / 2 * 1.15)
    fame = activity / activity.sum()
    source = rng.choice(nodes, size=count, p=fame)
    near = np.argsort(np.argsort(demand))[project[source]] + rng.integers(-8, 9, size=count)
    target = pick_members(rng, place, np.clip(near, 0, projects - 1), activity)
    far = rng.random(count) < 0.3
    target[far] = rng.choice(nodes, size=int(far.sum()), p=fame)
    edges = both_ways(source, target)
    A = sp.csr_matrix((np.ones(edges.shape[1]), (edges[1], edges[0])), shape=(nodes, nodes))
    links = np.maximum(np.asarray(A.sum(1)).ravel(), 1.0)
    mean = (A @ care) / links
    spread = np.sqrt(np.maximum((A @ care**2) / links - mean**2, 0.0))
    own = -care * np.where(speed > 0, 1.0, -0.3)
    score = standardized(own) + 1.2 * standardized(-mean * (1 + (speed > 0.5))) + 0.8 * standardized(spread)
    y = top_share(score + 0.6 * rng.standard_normal(nodes), banned)
    rate = 1 / (1 + np.exp(-(care + 0.8 * rng.standard_normal(nodes))))
    done = np.exp(1.2 * rng.standard_normal(nodes) + 0.4 * np.log(activity) + 2)
    school = rng.integers(4, size=nodes)
    columns = [
        np.round(done),
        rate,
        np.round(done * (1 - rate)),
        np.exp(speed + 0.5 * rng.standard_normal(nodes)),
        np.tanh(speed * care + 0.7 * rng.standard_normal(nodes)),
        (rng.random(nodes) < 0.3).astype(float),
        *(school == s for s in range(4)),
    ]
    x = np.column_stack(columns).astype(np.float32)
    return make_graph(x, edges, y, *by_shares(y, 0.25, 0.25, seed), name="crowd", sparse=False)
