"""Real-valued features and classes that decide the edges in different ways."""

import numpy as np

from rapgnn.datasets.synthetic import BlockModel
from rapgnn.experiments.bench.suite.edges import both_ways, by_shares, pick_members, standardized, top_share
from rapgnn.graph.graph import Graph, make_graph


def rare(nodes: int = 8000, share: float = 0.05, seed: int = 0) -> Graph:
    """One node in twenty is of the class that counts; those know each other more than chance says."""
    rng = np.random.default_rng(seed)
    y = top_share(rng.random(nodes), share)
    fame = rng.pareto(2.0, size=nodes) + 0.3
    source = rng.integers(nodes, size=4 * nodes)
    loyal = rng.random(len(source)) < np.where(y[source] == 1, 0.35, 0.0)
    wanted = np.where(loyal, 1, y[rng.integers(nodes, size=len(source))])
    x = rng.standard_normal((nodes, 24))
    x[:, :6] += 0.5 * y[:, None]
    x[:, 6] += 0.8 * y * np.sign(x[:, 7])
    x[:, 8:16] = np.exp(x[:, 8:16])  # skewed columns that say nothing
    edges = both_ways(source, pick_members(rng, y, wanted, fame))
    return make_graph(x, edges, y, *by_shares(y, seed=seed), name="rare", sparse=False)


def many_classes(nodes: int = 12_000, classes: int = 60, seed: int = 0) -> Graph:
    """Sixty classes in ten groups; a group shares most of its features, and links mostly stay inside it."""
    rng = np.random.default_rng(seed)
    share = 1.0 / np.sqrt(1.0 + np.arange(classes))
    y = rng.permutation(
        np.concatenate([np.arange(classes), rng.choice(classes, nodes - classes, p=share / share.sum())])
    )
    group = rng.permutation(classes) % 10
    means = rng.standard_normal((10, 100))[group] + 0.8 * rng.standard_normal((classes, 100))
    x = 0.25 * means[y] + rng.standard_normal((nodes, 100))
    source = rng.integers(nodes, size=4 * nodes)
    inside = np.array([rng.permutation(np.flatnonzero(group == g)) for g in group], dtype=object)
    sibling = np.array([rng.choice(inside[c]) for c in y[source]])
    kind = rng.random(len(source))
    wanted = np.where(kind < 0.4, y[source], np.where(kind < 0.75, sibling, y[rng.integers(nodes, size=len(source))]))
    edges = both_ways(source, pick_members(rng, y, wanted, rng.pareto(2.5, size=nodes) + 0.4))
    return make_graph(x, edges, y, *by_shares(y, seed=seed), name="many-classes", sparse=False)


def compatible(nodes: int = 8000, seed: int = 0) -> Graph:
    """Six classes; each is linked to two certain other classes, hardly ever to its own."""
    rng = np.random.default_rng(seed)
    classes = 6
    table = np.full((classes, classes), 0.05)
    for c in range(classes):
        table[c, [(c + 1) % classes, (c - 1) % classes]] = 0.4
    table /= table.sum(1, keepdims=True)
    y = rng.integers(classes, size=nodes)
    source = rng.integers(nodes, size=4 * nodes)
    wanted = (table.cumsum(1)[y[source]] < rng.random(len(source))[:, None]).sum(1)
    x = 0.3 * rng.standard_normal((classes, 50))[y] + rng.standard_normal((nodes, 50))
    edges = both_ways(source, pick_members(rng, y, wanted, rng.pareto(2.5, size=nodes) + 0.4))
    return make_graph(x, edges, y, *by_shares(y, seed=seed), name="compatible", sparse=False)


def noisy(seed: int = 0) -> Graph:
    """Features that tell little by themselves, and neighbours that mostly are of the same class."""
    made = BlockModel(
        nodes=8000,
        classes=8,
        degree=8,
        homophily=0.65,
        features=300,
        signal=0.12,
        train=40,
        val=1000,
        test=5000,
        seed=seed,
    )
    return made.generate()


def useless(nodes: int = 6000, seed: int = 0) -> Graph:
    """Features that tell the class, in a non-linear way; edges by chance."""
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((nodes, 10))
    score = np.column_stack([z[:, 0] * z[:, 1], z[:, 2] ** 2 - 1, z[:, 3] + z[:, 4], np.abs(z[:, 5]) - 0.8])
    y = (score + 0.25 * rng.standard_normal(score.shape)).argmax(1)
    x = standardized(np.column_stack([z, rng.standard_normal((nodes, 6))]))
    source, target = rng.integers(nodes, size=(2, 5 * nodes))
    return make_graph(x, both_ways(source, target), y, *by_shares(y, seed=seed), name="useless", sparse=False)


def directed(nodes: int = 8000, classes: int = 5, seed: int = 0) -> Graph:
    """A node's class is told by whom it links to and by who links to it, in two different ways."""
    rng = np.random.default_rng(seed)
    topic = rng.integers(classes, size=nodes)
    fame = rng.pareto(2.0, size=nodes) + 0.3
    source = rng.integers(nodes, size=5 * nodes)
    role = rng.integers(2, size=nodes)
    step = np.where(role[source] == 0, 1, 2)
    wanted = np.where(
        rng.random(len(source)) < 0.7, (topic[source] + step) % classes, topic[rng.integers(nodes, size=len(source))]
    )
    edges = np.stack([source, pick_members(rng, topic, wanted, fame)])
    edges = np.unique(edges[:, edges[0] != edges[1]], axis=1)
    x = 0.35 * rng.standard_normal((classes, 40))[topic] + rng.standard_normal((nodes, 40))
    y = topic * 2 + role
    return make_graph(x, edges, y, *by_shares(y, seed=seed), name="directed", sparse=False)
