"""The suite: every graph by name, what kind it is, and the metric it is judged by."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from rapgnn.experiments.bench.suite.blocks import compatible, directed, many_classes, noisy, rare, useless
from rapgnn.experiments.bench.suite.documents import documents
from rapgnn.experiments.bench.suite.ego import circles, cycles
from rapgnn.experiments.bench.suite.few_features import crowd, minesweeper
from rapgnn.experiments.bench.suite.molecules import molecules
from rapgnn.experiments.bench.suite.real import FOLDS, divided, fold, published
from rapgnn.experiments.bench.suite.structure import communities, roles
from rapgnn.graph.graph import Graph


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
    """

    about: str
    metric: str
    makes: tuple[Callable[[], Graph], ...]
    sets: bool = False
    features: bool = True
    directed: bool = False

    def make(self) -> Graph:
        """The graph with its only, or first, split."""
        return self.makes[0]()


def _one(about: str, make: Callable[[], Graph], metric: str = "accuracy", features: bool = True) -> Entry:
    return Entry(about, metric, (make,), features=features)


def _set(about: str, *makes: Callable[[], Graph], metric: str = "accuracy", features: bool = True) -> Entry:
    return Entry(about, metric, makes, True, features)


def _folds(name: str, times: int = 1) -> tuple[Callable[[], Graph], ...]:
    return tuple(partial(fold, name, k, seed) for seed in range(times) for k in range(FOLDS))


def _divided(name: str, times: int) -> Entry:
    about = "citations, 60 % labelled" + (f", {times} splits" if times > 1 else "")
    return Entry(about, "accuracy", tuple(partial(divided, name, seed) for seed in range(times)))


NODES = {
    "minesweeper": _one("grid, 7 features, half of them hidden", minesweeper, "rocauc"),
    "crowd": _one("dense, 10 features, 22 % positive", crowd, "rocauc"),
    "documents": _one("word counts, 40 classes, 60 % labelled", partial(documents, length=30.0, own=0.4)),
    "documents-few": _one(
        "0/1 words, 15 classes, 20 labels per class",
        partial(documents, 15_000, 6000, 15, counts=False, per_class=20, name="documents-few", seed=1),
    ),
    "roles": _one("no features, place in a shape decides", roles, features=False),
    "communities": _one("no features, community decides, 20 % labelled", communities, features=False),
    "rare": _one("5 % positive", rare, "rocauc"),
    "many-classes": _one("60 classes in 10 groups", many_classes),
    "compatible": _one("heterophilous, each class linked to two others", compatible),
    "noisy": _one("weak features, homophilous, 40 labels per class", noisy),
    "useless": _one("features decide, edges by chance", useless),
    "directed": Entry("directed, both directions tell", "accuracy", (directed,), directed=True),
    **{name: _one("citations, public split", partial(published, name)) for name in ("cora", "citeseer", "pubmed")},
    # Where one split tests few rows, chance decides by more than what counts as level.
    **{f"{name}-60": _divided(name, times) for name, times in (("cora", 5), ("citeseer", 5), ("pubmed", 1))},
}
"""Single graphs whose nodes are labelled."""

SETS = {
    "molecules": _set("2,000 labelled graphs, motifs decide", molecules),
    "circles": _set("1,500 graphs without features, teams decide", circles, features=False),
    "cycles": _set("2,000 graphs with degrees only, number of cycles", cycles, metric="rmse"),
    "mutag": _set("188 compounds, 4 times 5 strict folds", *_folds("mutag", 4)),
    "ptc": _set("344 compounds, 5 strict folds", *_folds("ptc")),
    "proteins": _set("1,113 proteins, 5 strict folds", *_folds("proteins")),
    "molbace": _set("1,513 molecules, scaffold split", partial(published, "molbace"), metric="rocauc"),
    "molesol": _set("1,128 molecules, scaffold split", partial(published, "molesol"), metric="rmse"),
}
"""Sets of graphs, each labelled as a whole."""

SUITE = NODES | SETS
