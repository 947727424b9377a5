"""The suite: its generated graphs, single ones and sets, each with the property that its kind is named after; and every
graph by name, what kind it is, the metric it is judged by, and its rivals.

A seed decides everything.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from rapgnn import Graph, load_dataset, make_graph, make_graphs
from rapgnn.datasets.catalog import BlockModel
from rapgnn.graph.labels import split_rows
from rapgnn.graph.rows import make_folds, split_per_class
from rapgnn.graph.table import structural_features
from rapgnn_lab.store import Record, packaged

MOST_SHOWN, MOST_DEGREE = 5, 12  # larger numbers share the last column
PAIR = 2  # main topics of a class
MOTIFS: dict[str, tuple[list[int], list[tuple[int, int]]]] = {
    "nitro": ([1, 2, 2], [(0, 1), (0, 2)]),
    "ring": ([0, 0, 0, 0, 0, 0], [(i, (i + 1) % 6) for i in range(6)]),
    "hetero-ring": ([0, 1, 0, 0, 3], [(i, (i + 1) % 5) for i in range(5)]),
    "chain": ([4, 0, 5], [(0, 1), (1, 2)]),
    "cage": ([0, 0, 3, 0], [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)]),
}
CHANCES = np.array([0.35, 0.5, 0.3, 0.3, 0.25])


def both_ways(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Every pair once in each direction, ``[2, m]``; self-loops and repeated pairs are left out."""
    low, high = np.minimum(source, target), np.maximum(source, target)
    pairs = np.unique(np.stack([low, high])[:, low != high], axis=1)
    return np.concatenate([pairs, pairs[::-1]], axis=1).astype(np.int64)


def pick_members(rng: np.random.Generator, group: np.ndarray, wanted: np.ndarray, fame: np.ndarray) -> np.ndarray:
    """For every wanted group one of its members, by chance in proportion to fame."""
    order = np.argsort(group, kind="stable")
    share = np.cumsum(fame[order])
    first = np.searchsorted(group[order], wanted)
    last = np.searchsorted(group[order], wanted, side="right")
    low = np.where(first > 0, share[first - 1], 0.0)
    at = low + rng.random(len(wanted)) * (share[last - 1] - low)
    return order[np.clip(np.searchsorted(share, at, side="right"), first, last - 1)]


def by_shares(y: np.ndarray, val: float, test: float, seed: int) -> Any:
    """Training, validation and test rows by chance, every class in proportion."""
    return split_rows(torch.from_numpy(y), seed, (val, test))


def _graph(
    name: str, x: Any, edges: np.ndarray, y: np.ndarray, seed: int, val: float = 0.2, test: float = 0.2
) -> Graph:
    return make_graph(x, edges, y, *by_shares(y, val, test, seed), name=name, sparse=False)


def _bare(name: str, edges: np.ndarray, y: np.ndarray, seed: int, val: float = 0.2, test: float = 0.2) -> Graph:
    """Nodes without features: x is made of the edges."""
    return make_graph(structural_features(edges, len(y)), edges, y, *by_shares(y, val, test, seed), name=name)


def _classes(rng: np.random.Generator, nodes: int, share: np.ndarray) -> np.ndarray:
    """Classes of unequal size, none empty."""
    drawn = rng.choice(len(share), nodes - len(share), p=share / share.sum())
    return rng.permutation(np.concatenate([np.arange(len(share)), drawn]))


def _top_share(score: np.ndarray, share: float) -> np.ndarray:
    """1 for the rows with the highest scores, 0 for the others."""
    return (score > np.quantile(score, 1.0 - share)).astype(np.int64)


def _standardized(x: np.ndarray) -> np.ndarray:
    return (x - x.mean(0)) / np.maximum(x.std(0), 1e-12)


def rare(nodes: int = 8000, share: float = 0.05, seed: int = 0) -> Graph:
    """One node in twenty is of the class that counts; those know each other more than chance says."""
    rng = np.random.default_rng(seed)
    y = _top_share(rng.random(nodes), share)
    fame = rng.pareto(2.0, size=nodes) + 0.3
    source = rng.integers(nodes, size=4 * nodes)
    loyal = rng.random(len(source)) < np.where(y[source] == 1, 0.35, 0.0)
    wanted = np.where(loyal, 1, y[rng.integers(nodes, size=len(source))])
    x = rng.standard_normal((nodes, 24))
    x[:, :6] += 0.5 * y[:, None]
    x[:, 6] += 0.8 * y * np.sign(x[:, 7])
    x[:, 8:16] = np.exp(x[:, 8:16])  # skewed columns that say nothing
    return _graph("rare", x, both_ways(source, pick_members(rng, y, wanted, fame)), y, seed)


def many_classes(nodes: int = 12_000, classes: int = 60, seed: int = 0) -> Graph:
    """Sixty classes in ten groups; a group shares most of its features, and links mostly stay inside it."""
    rng = np.random.default_rng(seed)
    y = _classes(rng, nodes, 1.0 / np.sqrt(1.0 + np.arange(classes)))
    group = rng.permutation(classes) % 10
    means = rng.standard_normal((10, 100))[group] + 0.8 * rng.standard_normal((classes, 100))
    x = 0.25 * means[y] + rng.standard_normal((nodes, 100))
    source = rng.integers(nodes, size=4 * nodes)
    inside = np.array([rng.permutation(np.flatnonzero(group == g)) for g in group], dtype=object)
    sibling = np.array([rng.choice(inside[c]) for c in y[source]])
    kind = rng.random(len(source))
    wanted = np.where(kind < 0.4, y[source], np.where(kind < 0.75, sibling, y[rng.integers(nodes, size=len(source))]))
    target = pick_members(rng, y, wanted, rng.pareto(2.5, size=nodes) + 0.4)
    return _graph("many-classes", x, both_ways(source, target), y, seed)


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
    target = pick_members(rng, y, wanted, rng.pareto(2.5, size=nodes) + 0.4)
    return _graph("compatible", x, both_ways(source, target), y, seed)


def noisy(seed: int = 0) -> Graph:
    """Features that tell little by themselves, and neighbours that mostly are of the same class."""
    kind: dict[str, Any] = {"nodes": 8000, "classes": 8, "degree": 8, "homophily": 0.65, "features": 300}
    return BlockModel(**kind, signal=0.12, train=40, val=1000, test=5000, seed=seed).generate()


def useless(nodes: int = 6000, seed: int = 0) -> Graph:
    """Features that tell the class, in a non-linear way; edges by chance."""
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((nodes, 10))
    score = np.column_stack([z[:, 0] * z[:, 1], z[:, 2] ** 2 - 1, z[:, 3] + z[:, 4], np.abs(z[:, 5]) - 0.8])
    y = (score + 0.25 * rng.standard_normal(score.shape)).argmax(1)
    x = _standardized(np.column_stack([z, rng.standard_normal((nodes, 6))]))
    return _graph("useless", x, both_ways(*rng.integers(nodes, size=(2, 5 * nodes))), y, seed)


def directed(nodes: int = 8000, classes: int = 5, seed: int = 0) -> Graph:
    """A node's class is told by whom it links to and by who links to it, in two different ways."""
    rng = np.random.default_rng(seed)
    topic = rng.integers(classes, size=nodes)
    fame = rng.pareto(2.0, size=nodes) + 0.3
    source = rng.integers(nodes, size=5 * nodes)
    role = rng.integers(2, size=nodes)
    regular = rng.random(len(source)) < 0.7
    step = np.where(role[source] == 0, 1, 2)
    wanted = np.where(regular, (topic[source] + step) % classes, topic[rng.integers(nodes, size=len(source))])
    edges = np.stack([source, pick_members(rng, topic, wanted, fame)])
    edges = np.unique(edges[:, edges[0] != edges[1]], axis=1)
    x = 0.35 * rng.standard_normal((classes, 40))[topic] + rng.standard_normal((nodes, 40))
    return _graph("directed", x, edges, topic * 2 + role, seed)


def minesweeper(side: int = 100, mines: float = 0.2, hidden: float = 0.5, seed: int = 0) -> Graph:
    """The game's field as in Platonov et al. (2023): which cells of a grid hold a mine.

    Seven features: the number of neighbouring mines, 0 to 5, as one-hot columns, and whether that number is hidden.
    """
    rng = np.random.default_rng(seed)
    nodes = side * side
    cell = np.arange(nodes).reshape(side, side)
    right, down = (cell[:, :-1], cell[:, 1:]), (cell[:-1], cell[1:])
    diagonals = (cell[:-1, :-1], cell[1:, 1:]), (cell[:-1, 1:], cell[1:, :-1])
    pairs = [right, down, *diagonals]
    edges = both_ways(*(np.concatenate([pair[end].ravel() for pair in pairs]) for end in (0, 1)))
    y = np.zeros(nodes, dtype=np.int64)
    y[rng.permutation(nodes)[: round(mines * nodes)]] = 1
    around = np.bincount(edges[1], weights=y[edges[0]], minlength=nodes).astype(np.int64)
    unknown = np.zeros(nodes, dtype=bool)
    unknown[rng.permutation(nodes)[: round(hidden * nodes)]] = True
    x = np.zeros((nodes, MOST_SHOWN + 2), dtype=np.float32)
    x[np.arange(nodes), np.where(unknown, MOST_SHOWN + 1, np.minimum(around, MOST_SHOWN))] = 1.0
    return _graph("minesweeper", x, edges, y, seed, 0.25, 0.25)


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
    score = _standardized(own) + 1.2 * _standardized(-mean * (1 + (speed > 0.5))) + 0.8 * _standardized(spread)
    y = _top_share(score + 0.6 * rng.standard_normal(nodes), banned)
    rate = 1 / (1 + np.exp(-(care + 0.8 * rng.standard_normal(nodes))))
    done = np.exp(1.2 * rng.standard_normal(nodes) + 0.4 * np.log(activity) + 2)
    school = rng.integers(4, size=nodes)
    pace = np.exp(speed + 0.5 * rng.standard_normal(nodes))
    mood = np.tanh(speed * care + 0.7 * rng.standard_normal(nodes))
    flag = (rng.random(nodes) < 0.3).astype(float)
    columns = [np.round(done), rate, np.round(done * (1 - rate)), pace, mood, flag, *(school == s for s in range(4))]
    return _graph("crowd", np.column_stack(columns).astype(np.float32), edges, y, seed, 0.25, 0.25)


def documents(
    nodes: int = 12_000,
    words: int = 4000,
    classes: int = 40,
    length: float = 45.0,
    own: float = 0.5,
    counts: bool = True,
    per_class: int = 0,
    name: str = "documents",
    seed: int = 0,
) -> Graph:
    """Wide bags of words by Zipf's law; documents of unequal length mix several topics, and cite each other.

    ``own`` is the share of words on the document's topics; with ``per_class`` 0 the rows are split 60, 20, 20.
    """
    rng = np.random.default_rng(seed)
    y = _classes(rng, nodes, 1.0 / np.sqrt(1.0 + np.arange(classes)))
    topics = classes * PAIR
    language = 1.0 / (5.0 + rng.permutation(words))
    language /= language.sum()
    mixture = rng.dirichlet(np.full(topics, 0.02), size=nodes)
    main = rng.dirichlet(np.full(PAIR, 0.7), size=nodes)
    size = rng.poisson(length * rng.lognormal(-0.3, 0.8, size=nodes)) + 3
    document = np.repeat(np.arange(nodes), size)
    drawn, kind = rng.random(len(document)), rng.random(len(document))
    topic = y[document] * PAIR + (rng.random(len(document)) < main[document, 0])
    strayed = kind < 0.3  # of the topical words, those on a topic that has nothing to do with the class
    topic[strayed] = mixture.argmax(1)[document[strayed]]
    word = rng.choice(words, size=len(document), p=language)
    for t in range(topics):
        mine = (topic == t) & (drawn < own)
        chances = language * rng.gamma(0.08, size=words)
        word[mine] = rng.choice(words, size=int(mine.sum()), p=chances / chances.sum())
    x = sp.csr_matrix((np.ones(len(word), dtype=np.float32), (document, word)), shape=(nodes, words))
    x.sum_duplicates()
    if not counts:
        x.data[:] = 1.0
    source = rng.integers(nodes, size=4 * nodes)
    astray = rng.integers(classes, size=len(source))
    wanted = np.where(rng.random(len(source)) < 0.55, y[source], astray)
    target = pick_members(rng, y, wanted, rng.pareto(2.0, size=nodes) + 0.3)
    rows: Any = split_per_class(y, per_class, seed) if per_class else by_shares(y, 0.2, 0.2, seed)
    return make_graph(x, both_ways(source, target), y, *rows, name=name, sparse=True)


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
    return _bare("roles", both_ways(*np.concatenate(pairs).T), np.concatenate(classes), seed)


def communities(nodes: int = 4000, groups: int = 12, degree: float = 9.0, seed: int = 0) -> Graph:
    """Communities of unequal size with the same law of degrees, so that only who is linked to whom tells them."""
    rng = np.random.default_rng(seed)
    y = _classes(rng, nodes, np.linspace(1.0, 3.0, groups))
    fame = rng.pareto(2.5, size=nodes) + 0.4
    source = rng.choice(nodes, size=round(nodes * degree / 2), p=fame / fame.sum())
    wanted = np.where(rng.random(len(source)) < 0.6, y[source], y[rng.integers(nodes, size=len(source))])
    return _bare("communities", both_ways(source, pick_members(rng, y, wanted, fame)), y, seed, 0.2, 0.6)


def circles(graphs: int = 1500, seed: int = 0) -> Graph:
    """A set: one person and everybody who worked with them, in three fields with different habits.

    Field 0: a few large teams; field 1: many small teams, people in several of them; field 2: pairs around the
    person, with some triangles. Sizes and densities overlap.
    """
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(graphs) % 3)
    size = rng.integers(12, 40, size=graphs)
    edges = _joined([_circle(rng, int(n), int(field)) for n, field in zip(size, y, strict=True)], size)
    wrong = rng.random(len(y)) < 0.05
    labels = np.where(wrong, rng.integers(y.max() + 1, size=len(y)), y)
    x = structural_features(edges, int(size.sum()))
    return make_graphs(x, edges, size, labels, *by_shares(labels, 0.15, 0.25, 0), name="circles")


def _circle(rng: np.random.Generator, n: int, field: int) -> np.ndarray:
    parts = [np.stack([np.zeros(n - 1, dtype=np.int64), np.arange(1, n)])]
    budget = rng.uniform(1.5, 4.0) * n
    low, high = ((6, 10), (3, 6), (2, 4))[field]
    while budget > 0:
        team = rng.choice(np.arange(1, n), size=min(n - 1, int(rng.integers(low, high))), replace=False)
        first, second = np.triu_indices(len(team), 1)
        parts.append(np.stack([team[first], team[second]]))
        budget -= len(first)
    return both_ways(*np.concatenate([*parts, rng.integers(1, n, size=(2, n // 3))], axis=1))


def _joined(lists: list[np.ndarray], size: np.ndarray) -> np.ndarray:
    """The edges of all graphs, nodes counted through."""
    return np.concatenate([part + at for part, at in zip(lists, np.cumsum(size) - size, strict=True)], axis=1)


def cycles(graphs: int = 2000, seed: int = 0) -> Graph:
    """A set: random graphs of different laws; the number to be told is the logarithm of 1 + triangles + squares.

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
        pairs = walks[np.triu_indices(n, 1)]
        y.append(np.log1p(np.trace(walks @ A) / 6 + (pairs * (pairs - 1) / 2).sum() / 2))
        parts.append(edges)
    edges = _joined(parts, size)
    degree = np.minimum(np.bincount(edges[0], minlength=int(size.sum())), MOST_DEGREE)
    x = np.eye(MOST_DEGREE + 1, dtype=np.float32)[degree]
    rows = by_shares(np.zeros(graphs, dtype=np.int64), 0.15, 0.25, seed)
    return make_graphs(x, edges, size, np.array(y), *rows, task="regression", name="cycles")


def molecules(graphs: int = 2000, nodes: float = 26.0, labels: int = 36, noise: float = 0.1, seed: int = 0) -> Graph:
    """A set: trees of atoms with the motifs hung on; two classes, one label in ten is wrong.

    The class is 1 where two nitro groups occur, or a ring of five together with a chain, or a cage without a ring of
    six. Atoms of the tree have labels by Zipf's law, those of the motifs among them.
    """
    rng = np.random.default_rng(seed)
    zipf = 1.0 / (1.0 + np.arange(labels)) ** 1.2
    kinds, pairs, sizes, y = [], [], [], []
    for _ in range(graphs):
        counts = rng.poisson(CHANCES * 1.6)
        size = max(4, int(rng.normal(nodes - 8, 7)))
        bonds = [(i, int(rng.integers(max(0, i - 4), i))) for i in range(1, size)]  # mostly on where the last one was
        atoms = rng.choice(labels, size=size, p=zipf / zipf.sum()).tolist()
        for motif, count in zip(MOTIFS.values(), counts, strict=True):
            for _ in range(count):
                start = len(atoms)
                atoms += motif[0]
                bonds += [(a + start, b + start) for a, b in motif[1]]
                bonds.append((start, int(rng.integers(start))))
        nitro, ring, five, chain, cage = counts
        y.append(int(nitro >= 2 or (five > 0 and chain > 0) or (cage > 0 and ring == 0)))
        order = rng.permutation(len(atoms))
        kinds.append(np.array(atoms)[np.argsort(order)])
        pairs.append(order[np.array(bonds)].T)
        sizes.append(len(atoms))
    x = np.eye(labels, dtype=np.float32)[np.concatenate(kinds)]
    ends = _joined(pairs, np.array(sizes))
    wrong = rng.random(graphs) < noise
    labelled = np.where(wrong, 1 - np.array(y), y)
    edges = np.concatenate([ends, ends[::-1]], axis=1)
    return make_graphs(x, edges, np.array(sizes), labelled, *by_shares(labelled, 0.15, 0.25, seed), name="molecules")


# Every graph by name.

FOLDS = 5
Make = Callable[[], Graph]


@dataclass(frozen=True)
class Entry:
    """A graph, or a set of graphs, of the suite, as ``graphs.toml`` says it: one function per split, or per fold, and
    the networks it is measured against."""

    about: str
    metric: str
    makes: tuple[Make, ...]
    sets: bool = False
    features: bool = True
    directed: bool = False
    rivals: tuple[str, ...] = ("gcn", "appnp", "sage")


def _divided(name: str, seed: int) -> Graph:
    """60, 20 and 20 percent of the nodes by chance, every class in proportion."""
    graph = load_dataset(name)
    train, val, test = (torch.from_numpy(part) for part in split_rows(graph.y, seed, (0.2, 0.2)))
    return replace(graph, name=f"{name}-60", train=train, val=val, test=test)


def _fold(name: str, k: int, seed: int) -> Graph:
    """One fold is tested, the next one validates, the others train: no graph serves twice."""
    graph = load_dataset(name)
    parts = make_folds(graph, seed, FOLDS)
    val, test = parts[(k + 1) % FOLDS], parts[k]
    train = torch.cat([part for part in parts if part is not val and part is not test]).sort().values
    return replace(graph, train=train, val=val, test=test, name=f"{name}, fold {k}")


def _entry(name: str, row: Record, sets: bool) -> Entry:
    """A row of ``graphs.toml``."""
    how = {key: row[key] for key in ("features", "directed") if key in row} | {"metric": row.get("metric", "accuracy")}
    if "make" in row:
        makes = [partial(globals()[row["make"]], **row.get("settings", {}))]
    elif "divisions" in row:
        makes = [partial(_divided, name.removesuffix("-60"), seed) for seed in range(row["divisions"])]
    elif "folds" in row:
        makes = [partial(_fold, name, k, seed) for seed in range(row["folds"]) for k in range(FOLDS)]
    else:
        makes = [partial(load_dataset, name)]
    rivals = ("gin",) if sets else ("gcn", "appnp", "sage")
    return Entry(row["about"], makes=tuple(makes), sets=sets, rivals=rivals, **how)


NODES, SETS = (
    {name: _entry(name, row, kind == "sets") for name, row in rows.items()}
    for kind, rows in packaged("bench/suite/graphs.toml").items()
)
"""Single graphs whose nodes are labelled, and sets of graphs, each labelled as a whole."""

SUITES = {"nodes": NODES, "sets": SETS, "all": NODES | SETS}
GRAPHS = SUITES["all"]
