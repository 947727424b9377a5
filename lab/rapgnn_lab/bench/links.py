"""Links that are hidden from a graph: the model of links with nothing set beside its rivals, on the same splits.

Of every graph 70 % of the links are known, 10 % judge (the model's choice, the settings of rivals), and 20 % are
hidden; neither of these is in the graph that anything is computed on. Hits@100 is against as many random pairs as there
are hidden links, the published protocol of the citation graphs; ``hard_`` measures are against near pairs (HeaRT).
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
from torch import Tensor

from rapgnn import Graph, load_dataset
from rapgnn.datasets.sources import FileSet, Package, locate
from rapgnn.estimators.links import links_of, node_features
from rapgnn.pairs.links import Links
from rapgnn.pairs.measures import against_others, held_out_measures
from rapgnn.pairs.model import fit_links
from rapgnn.pairs.ranking import ranked
from rapgnn.pairs.rivals import RIVALS, Product, autoencoder
from rapgnn.sparse import dense
from rapgnn_lab.store import Record, Row, machine, packaged

K = 20
OURS = "RAPLinkPredictor()"
SHARES = (0.7, 0.8)
PENALTIES, NEIGHBOURS = (20.0, 100.0, 500.0), (50, 200)  # of EASE and item-kNN, tuned on the links that judge
AUTOENCODERS = [{"channels": channels, "lr": lr} for channels in (32, 64) for lr in (0.01, 0.003)]


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


GENERATED: dict[str, Callable[[int], Any]] = {
    "blocks": lambda seed: nx.planted_partition_graph(20, 50, 0.2, 0.004, seed=seed).edges,
    "power-law": lambda seed: nx.powerlaw_cluster_graph(2000, 5, 0.5, seed=seed).edges,
    "geometric": lambda seed: nx.random_geometric_graph(2000, 0.04, seed=seed).edges,
    "bipartite": bipartite,
}
"""Graphs without features: seed -> edges."""


PACKAGED = packaged("bench/packages.toml")
"""Real graphs without features: what to fetch, and the columns of the ends."""
OF_ITEMS = ("bipartite", "listens", "films")  # links from users to items
LISTENERS = 5  # of an artist, at least: a matrix of all artists, as EASE has, would take gigabytes
GRAPHS = ("cora", "citeseer", "pubmed", *GENERATED, *PACKAGED)


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
    if name in GENERATED:
        ends = torch.from_numpy(np.asarray(list(GENERATED[name](0)), dtype=np.int64))
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


def plan(names: Sequence[str], methods: Sequence[str], splits: int) -> list[Row]:
    """A row per graph and method; those of items are for links from one side to another."""
    rows = []
    for name in names:
        for method in methods:
            if method in ITEM_METHODS and name not in OF_ITEMS:
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


def _ours(known: Links, x: Any, judging: Tensor, hidden: Tensor, seed: int) -> Record:
    begun = time.perf_counter()
    model = fit_links(known, x, None, None, judging, seed)
    seconds = time.perf_counter() - begun
    on = model.on(known, x)
    return {"fit_seconds": seconds} | held_out_measures(on.probabilities, partial(ranked, on), known, hidden, K, seed)


def _rival(method: str, known: Links, x: Any, judging: Tensor, hidden: Tensor, seed: int, metric: str) -> Record:
    """The best of its settings on the links that judge; the seconds are those of one setting."""
    inputs, tried = None if x is None else dense(x), list[tuple[float, float, Product]]()
    tuned = {"GCN autoencoder": [partial(autoencoder, **how) for how in AUTOENCODERS]} | ITEM_METHODS
    for make in tuned.get(method) or [RIVALS[method]]:
        begun = time.perf_counter()
        product = make(known, inputs, seed)
        seconds, best = time.perf_counter() - begun, partial(product.best, known)
        if metric == "hits@100":
            value = against_others(product.scores, known, judging, seed)["rocauc"]
        else:
            value = held_out_measures(product.scores, best, known, judging, K, seed)[metric]
        tried.append((value, seconds, product))
    _, seconds, product = max(tried, key=lambda one: one[0])
    found = held_out_measures(product.scores, partial(product.best, known), known, hidden, K, seed)
    return {"fit_seconds": seconds} | found
