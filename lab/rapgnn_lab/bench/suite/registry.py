"""The suite: every graph by name, what kind it is, the metric it is judged by, and its rivals."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from rapgnn.datasets import load_dataset
from rapgnn.datasets.catalog import BlockModel
from rapgnn.graph.graph import Graph
from rapgnn.graph.nodes import make_folds, split_rows
from rapgnn_lab.bench.suite import graphs

FOLDS = 5
PUBLISHED = ("cora", "citeseer", "pubmed")
Make = Callable[[], Graph]


@dataclass(frozen=True)
class Entry:
    """A graph, or a set of graphs, of the suite.

    Args:
        about: what kind it is.
        metric: what it is judged by, a name from ``rapgnn.graph.scores``.
        makes: one function per split; a dataset that is judged by folds has one per fold.
        sets: whether it is a set of graphs.
        features: False: the nodes have none; x then holds what ``structural_features`` finds.
        directed: whether edges are listed one way on purpose.
        rivals: the networks it is measured against.
    """

    about: str
    metric: str
    makes: tuple[Make, ...]
    sets: bool = False
    features: bool = True
    directed: bool = False
    rivals: tuple[str, ...] = ("gcn", "appnp", "sage")


def _one(about: str, *makes: Make, metric: str = "accuracy", **more: Any) -> Entry:
    return Entry(about, metric, makes, **more)


_set = partial(_one, sets=True, rivals=("gin",))
_unseen = partial(_one, rivals=("gcn",))


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


def _folds(name: str, times: int = 1) -> tuple[Make, ...]:
    return tuple(partial(_fold, name, k, seed) for seed in range(times) for k in range(FOLDS))


def _splits(name: str, times: int) -> Entry:
    about = "citations, 60 % labelled" + (f", {times} splits" if times > 1 else "")
    return _one(about, *(partial(_divided, name, seed) for seed in range(times)))


FEW = partial(graphs.documents, 15_000, 6000, 15, counts=False, per_class=20, name="documents-few", seed=1)
NODES = {
    "minesweeper": _one("grid, 7 features, half of them hidden", graphs.minesweeper, metric="rocauc"),
    "crowd": _one("dense, 10 features, 22 % positive", graphs.crowd, metric="rocauc"),
    "documents": _one("word counts, 40 classes, 60 % labelled", partial(graphs.documents, length=30.0, own=0.4)),
    "documents-few": _one("0/1 words, 15 classes, 20 labels per class", FEW),
    "roles": _one("no features, place in a shape decides", graphs.roles, features=False),
    "communities": _one("no features, community decides, 20 % labelled", graphs.communities, features=False),
    "rare": _one("5 % positive", graphs.rare, metric="rocauc"),
    "many-classes": _one("60 classes in 10 groups", graphs.many_classes),
    "compatible": _one("heterophilous, each class linked to two others", graphs.compatible),
    "noisy": _one("weak features, homophilous, 40 labels per class", graphs.noisy),
    "useless": _one("features decide, edges by chance", graphs.useless),
    "directed": _one("directed, both directions tell", graphs.directed, directed=True),
    **{name: _one("citations, public split", partial(load_dataset, name)) for name in PUBLISHED},
    # Where one split tests few rows, chance decides by more than what counts as level.
    **{f"{name}-60": _splits(name, times) for name, times in zip(PUBLISHED, (5, 5, 1), strict=True)},
}
"""Single graphs whose nodes are labelled."""

SETS = {
    "molecules": _set("2,000 labelled graphs, motifs decide", graphs.molecules),
    "circles": _set("1,500 graphs without features, teams decide", graphs.circles, features=False),
    "cycles": _set("2,000 graphs with degrees only, number of cycles", graphs.cycles, metric="rmse"),
    "mutag": _set("188 compounds, 4 times 5 strict folds", *_folds("mutag", 4)),
    "ptc": _set("344 compounds, 5 strict folds", *_folds("ptc")),
    "proteins": _set("1,113 proteins, 5 strict folds", *_folds("proteins")),
    "molbace": _set("1,513 molecules, scaffold split", partial(load_dataset, "molbace"), metric="rocauc"),
    "molesol": _set("1,128 molecules, scaffold split", partial(load_dataset, "molesol"), metric="rmse"),
}
"""Sets of graphs, each labelled as a whole."""

BLOCKS = BlockModel(nodes=5000, classes=5, homophily=0.6, seed=11, val=500, test=3000)
OTHERS = BlockModel(5000, 5, homophily=0.02, degree=6, signal=1.5, train=500, val=500, test=2000, seed=12)
UNSEEN = {
    "digits": _unseen("real-valued, homophilous, 10 labels per class", graphs.digits),
    "tumours": _unseen("real-valued with signs, homophilous, half labelled", graphs.tumours),
    "blocks": _unseen("real-valued with signs, homophilous, 20 labels per class", BLOCKS.generate),
    "blocks-hetero": _unseen("real-valued with signs, heterophilous, half labelled", OTHERS.generate),
    "words": _unseen("binary, homophilous, 20 labels per class", partial(graphs.topics, 0.7, 20, "words")),
    "words-hetero": _unseen("binary, heterophilous, half labelled", partial(graphs.topics, 0.1, 0.5, "words-hetero")),
    "atoms": _unseen("no features (degrees and structure instead), 40 % labelled", graphs.atoms),
}
"""Seven small graphs with a GCN as the only rival."""

SUITES = {"unseen": UNSEEN, "nodes": NODES, "sets": SETS, "all": NODES | SETS}
GRAPHS = SUITES["all"] | UNSEEN
