"""Graphs that no setting of this project was chosen on, of different kinds; generated, or made from tables that
scikit-learn brings along."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rapgnn.datasets.synthetic import BlockModel
from rapgnn.graph.graph import Graph, make_graph
from rapgnn.graph.splits import split_per_class
from rapgnn.graph.structural import structural_features
from rapgnn.sparse import dense


@dataclass(frozen=True)
class Unseen:
    """A graph to be met without preparation, and what kind it is."""

    about: str
    make: Callable[[], Graph]


def _neighbours(x: np.ndarray, k: int) -> np.ndarray:
    from sklearn.neighbors import kneighbors_graph

    found = kneighbors_graph(x, k).tocoo()
    both = np.concatenate([np.stack([found.row, found.col]), np.stack([found.col, found.row])], axis=1)
    return np.unique(both, axis=1).astype(np.int64)


def digits() -> Graph:
    """Handwritten digits: pixels as features, edges between images that look alike in their left halves."""
    from sklearn.datasets import load_digits

    x, y = map(np.asarray, load_digits(return_X_y=True))
    halves = x.reshape(-1, 8, 8)[:, :, :4].reshape(len(x), -1)
    return make_graph(x / 16.0, _neighbours(halves, 8), y, *split_per_class(y, 10), name="digits")


def tumours() -> Graph:
    """Breast tumours: measurements as features, edges between tumours with similar first ten measurements."""
    from sklearn.datasets import load_breast_cancer

    x, y = map(np.asarray, load_breast_cancer(return_X_y=True))
    x = (x - x.mean(0)) / x.std(0)
    return make_graph(x, _neighbours(x[:, :10], 6), y, *split_per_class(y, 0.5), name="tumours")


def words(homophily: float, train: float | int, name: str, nodes: int = 4000, seed: int = 1) -> Graph:
    """Documents: 0/1 bags of 800 words about one of six topics, with links; a few documents get most of the links."""
    rng = np.random.default_rng(seed)
    topics = 6
    y = rng.integers(topics, size=nodes)
    common = rng.dirichlet(np.full(800, 0.3))
    own = rng.dirichlet(np.full(800, 0.05), size=topics)
    x = rng.random((nodes, 800)) < 1 - np.exp(-(30 * common + 7 * own[y]))
    fame = rng.pareto(2.0, size=nodes) + 0.2
    source = rng.integers(nodes, size=4 * nodes)
    wanted = np.where(rng.random(len(source)) < homophily, y[source], (y[source] + 1 + (y[source] % 2)) % topics)
    target = np.empty_like(source)
    for topic in range(topics):
        members = np.flatnonzero(y == topic)
        mine = wanted == topic
        target[mine] = rng.choice(members, size=int(mine.sum()), p=fame[members] / fame[members].sum())
    edges = np.concatenate([np.stack([source, target]), np.stack([target, source])], axis=1)
    return make_graph(x.astype(np.float32), edges, y, *split_per_class(y, train), name=name)


def atoms() -> Graph:
    """Molecules as one graph without features: which atoms are carbon, nitrogen, oxygen or anything else."""
    from rapgnn.datasets import load_dataset

    molecules = load_dataset("mutag")
    kind = dense(molecules.x).argmax(1).numpy()
    y = np.minimum(kind, 3)
    edges = molecules.edge_index.numpy()
    return make_graph(structural_features(edges, len(y)), edges, y, *split_per_class(y, 0.4), name="atoms")


UNSEEN = {
    "digits": Unseen("real-valued, homophilous, 10 labels per class", digits),
    "tumours": Unseen("real-valued with signs, homophilous, half labelled", tumours),
    "blocks": Unseen(
        "real-valued with signs, homophilous, 20 labels per class",
        lambda: BlockModel(nodes=5000, classes=5, homophily=0.6, seed=11, val=500, test=3000).generate(),
    ),
    "blocks-hetero": Unseen(
        "real-valued with signs, heterophilous, half labelled",
        lambda: BlockModel(
            nodes=5000, classes=5, homophily=0.02, degree=6, signal=1.5, train=500, val=500, test=2000, seed=12
        ).generate(),
    ),
    "words": Unseen("binary, homophilous, 20 labels per class", lambda: words(0.7, 20, "words")),
    "words-hetero": Unseen("binary, heterophilous, half labelled", lambda: words(0.1, 0.5, "words-hetero")),
    "atoms": Unseen("no features (degrees and structure instead), 40 % labelled", atoms),
}
