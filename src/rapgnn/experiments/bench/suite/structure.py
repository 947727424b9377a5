"""Graphs without features: what a node's place tells, or which community it lies in."""

import numpy as np

from rapgnn.experiments.bench.suite.edges import both_ways, by_shares, pick_members
from rapgnn.graph.graph import Graph, make_graph
from rapgnn.graph.structural import structural_features


def roles(copies: int = 300, seed: int = 0) -> Graph:
    """Small shapes hung onto a tree with shortcuts; a node's class is its place in its shape.

    House: roof, walls, ground; fan: hub, rim, end of the rim; star: centre, tip; the tree is a class of its own.
    """
    rng = np.random.default_rng(seed)
    house = (np.array([[0, 1], [0, 2], [1, 2], [1, 3], [2, 4], [3, 4]]), [0, 1, 1, 2, 2])
    fan = (np.array([[0, i] for i in range(1, 6)] + [[i, i + 1] for i in range(1, 5)]), [3, 4, 5, 5, 5, 4])
    star = (np.array([[0, i] for i in range(1, 6)]), [6, 7, 7, 7, 7, 7])
    tree = 6 * copies
    pairs = [np.array([[i, rng.integers(max(0, i - 50), i)] for i in range(1, tree)])]
    classes = [np.full(tree, 8)]
    at = tree
    for shape, names in (house, fan, star):
        for _ in range(copies):
            pairs += [shape + at, np.array([[at + rng.integers(len(names)), rng.integers(tree)]])]
            classes.append(np.array(names))
            at += len(names)
    pairs.append(rng.integers(at, size=(at // 12, 2)))
    source, target = np.concatenate(pairs).T
    edges, y = both_ways(source, target), np.concatenate(classes)
    return make_graph(structural_features(edges, at), edges, y, *by_shares(y, seed=seed), name="roles")


def communities(nodes: int = 4000, groups: int = 12, degree: float = 9.0, seed: int = 0) -> Graph:
    """Communities of unequal size with the same law of degrees, so that only who is linked to whom tells them."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.concatenate([np.arange(groups), rng.choice(groups, nodes - groups, p=_sizes(groups))]))
    fame = rng.pareto(2.5, size=nodes) + 0.4
    source = rng.choice(nodes, size=round(nodes * degree / 2), p=fame / fame.sum())
    wanted = np.where(rng.random(len(source)) < 0.6, y[source], y[rng.integers(nodes, size=len(source))])
    edges = both_ways(source, pick_members(rng, y, wanted, fame))
    return make_graph(structural_features(edges, nodes), edges, y, *by_shares(y, 0.2, 0.6, seed), name="communities")


def _sizes(groups: int) -> np.ndarray:
    sizes = np.linspace(1.0, 3.0, groups)
    return sizes / sizes.sum()
