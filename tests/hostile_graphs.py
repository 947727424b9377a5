"""Sets of graphs that are hard for a reservoir: no edges, one node, no node, loops, duplicates, directions, weights."""

import itertools
from dataclasses import replace

import numpy as np
import torch

from rapgnn import make_graphs
from rapgnn.graph.graph import Graph


def hostile_graphs(weights: str = "none", copies: int = 6, seed: int = 0) -> Graph:
    """Each kind of graph so many times, with features at random; ``weights``: none, signed or huge."""
    rng = np.random.default_rng(seed)
    ring = [(v, (v + 1) % 6) for v in range(6)]
    kinds: list[tuple[int, list[tuple[int, int]]]] = [
        (5, []),  # no edges
        (1, []),
        (1, [(0, 0)]),  # a loop
        (0, []),  # no node
        (2, [(0, 1)]),  # one way
        (6, ring + [(v, u) for u, v in ring]),
        (6, ring),  # round one way
        (5, [(0, 1), (0, 1), (1, 0), (3, 3)]),  # duplicates, a loop, nodes apart
        (30, [(0, v) for v in range(1, 30)] + [(v, 0) for v in range(1, 30)]),  # a hub
        (7, [(u, v) for u in range(7) for v in range(7) if u != v]),  # complete
    ] * copies
    sizes = np.array([n for n, _ in kinds])
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    edges = np.array([(u + s, v + s) for (_, pairs), s in zip(kinds, starts, strict=True) for u, v in pairs]).T
    graph = make_graphs(rng.standard_normal((int(sizes.sum()), 3)), edges, sizes, np.arange(len(kinds)) % 2)
    count = edges.shape[1]
    given = {"none": None, "signed": rng.standard_normal(count), "huge": 10.0 ** rng.uniform(-20, 20, count)}[weights]
    return graph if given is None else replace(graph, edge_weight=torch.from_numpy(given).float())


WEIGHTS = ("none", "signed", "huge")


def renumbered(graph: Graph, seed: int = 0) -> Graph:
    """The same graphs with the nodes of each in another order."""
    assert graph.ptr is not None
    rng, bounds = np.random.default_rng(seed), graph.ptr.numpy()
    order = np.concatenate([a + rng.permutation(b - a) for a, b in itertools.pairwise(bounds)])
    place = torch.from_numpy(np.argsort(order))
    x = graph.x if isinstance(graph.x, torch.Tensor) else torch.from_numpy(graph.x.scipy().toarray())
    return replace(graph, x=x[torch.from_numpy(order)], edge_index=place[graph.edge_index])


def shapes(task: str = "classification", graphs: int = 120, seed: int = 0) -> Graph:
    """Rings and stars; the label says which, or the number how many nodes."""
    rng = np.random.default_rng(seed)
    sizes, edges, start = rng.integers(4, 12, graphs), [], 0
    for i, n in enumerate(sizes):
        pairs = [(0, v) for v in range(1, n)] if i % 2 else [(v, (v + 1) % n) for v in range(n)]
        edges += [(u + start, v + start) for u, v in pairs + [(v, u) for u, v in pairs]]
        start += n
    kind, large = np.arange(graphs) % 2, sizes > 7
    y = {"classification": kind, "multilabel": np.stack([kind, large], 1).astype(float), "regression": sizes + 100.0}
    if task == "multilabel":
        y[task][::5, 1] = np.nan
    return make_graphs(1 + 0.1 * rng.random((start, 3)), np.array(edges).T, sizes, y[task], task=task)
