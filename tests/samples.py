"""Small graphs that tests train on, and settings that train fast on them."""

import numpy as np
import scipy.sparse as sp
import torch
from torch_geometric.data import Data

from rapgnn import Config, make_graph, make_graphs
from rapgnn.datasets.catalog import BlockModel
from rapgnn.datasets.published import one_hot
from rapgnn.graph.graph import Graph
from rapgnn.graph.labels import split_rows
from rapgnn.graph.rows import split_per_class
from rapgnn.sparse import dense

# Of an estimator: one closed-form fit, no search.
FAST = {"search": False, "settings": {"embedding": "identity", "head": "ridge", "activation": "identity"}}
NODE_CONFIG = Config(
    num_layers=4, hidden_channels=16, epochs=80, pretrain_epochs=40, normalize_features=False, patience=None, lr=0.05
)
GRAPH_CONFIG = Config(
    backbone="gine",
    num_layers=2,
    hidden_channels=16,
    epochs=40,
    pretrain_epochs=20,
    normalize_features=False,
    dropout=0.0,
    pretrain_dropout=0.0,
    weight_decay=0.0,
    batch_size=32,
    lr=0.02,
    standardize=True,
)


def node_data(seed: int = 0, masks: bool = True, **changes) -> Data:
    model = BlockModel(nodes=300, classes=3, features=12, signal=3.0, train=10, val=60, test=100, seed=seed)
    graph = model.generate()
    given = {}
    if masks:
        for split in ("train", "val", "test"):
            mask = torch.zeros(300, dtype=torch.bool)
            mask[graph.rows(split)] = True
            given[f"{split}_mask"] = mask
    data = Data(x=dense(graph.x), edge_index=graph.edge_index, y=graph.y, **given)
    for key, value in changes.items():
        setattr(data, key, value)
    return data


def graph_list(count: int = 60, seed: int = 0, regression: bool = False) -> list[Data]:
    """Rings and stars: what they are can be told from the degrees, the target is their size."""
    rng = np.random.default_rng(seed)
    graphs = []
    for i in range(count):
        n = int(rng.integers(4, 12))
        pairs = [(0, v) for v in range(1, n)] if i % 2 else [(v, (v + 1) % n) for v in range(n)]
        edges = torch.tensor(pairs + [(v, u) for u, v in pairs]).T
        x = torch.tensor(1 + 0.1 * rng.random((n, 3)), dtype=torch.float32)
        y = torch.tensor([float(n)]) if regression else torch.tensor([i % 2])
        graphs.append(Data(x=x, edge_index=edges, y=y))
    return graphs


def collection(task: str = "classification", graphs: int = 120, seed: int = 0) -> Graph:
    """Graphs whose label is a matter of how many nodes and edges of each kind they have."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(3, 9, graphs)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    edges = np.concatenate([rng.integers(0, n, (2, 2 * n)) + starts[i] for i, n in enumerate(sizes)], axis=1)
    atoms, bonds = rng.integers(0, 4, starts[-1]), rng.integers(0, 3, edges.shape[1])
    home = np.searchsorted(starts, edges[0], side="right") - 1
    kinds = np.stack([np.bincount(home[bonds == k], minlength=graphs) for k in range(3)], axis=1)
    number = kinds[:, 0] - kinds[:, 1] + sizes
    y: np.ndarray = {
        "classification": (number > np.median(number)).astype(int),
        "multilabel": np.stack([number > np.median(number), kinds[:, 2] > 4], axis=1).astype(float),
        "regression": number + 100.0,
    }[task]
    if task == "multilabel":
        y[::5, 1] = np.nan
    x = one_hot(atoms[:, None], [4], "node")
    return make_graphs(x, edges, sizes, y, edge_attr=one_hot(bonds[:, None], [3], "edge"), task=task)


def rings(count: int = 420, seed: int = 0, numbers: bool = False) -> Graph:
    """Graphs of one or two rings; that there are two, of even sizes, is no sum of what single nodes tell."""
    rng = np.random.default_rng(seed)
    sizes, edges, y, start = [], [], [], 0
    for _ in range(count):
        lengths = rng.integers(3, 9, size=2)
        for n in lengths:
            ring = start + np.arange(n)
            edges += [(ring, np.roll(ring, 1)), (np.roll(ring, 1), ring)]
            start += n
        sizes.append(lengths.sum())
        y.append(abs(lengths[0] - lengths[1]) if numbers else int(lengths[0] % 2 == lengths[1] % 2))
    e = np.concatenate([np.stack(pair) for pair in edges], axis=1)
    x = rng.random((start, 2))
    rows = np.split(rng.permutation(count), [count * 6 // 10, count * 8 // 10])
    how = {"task": "regression"} if numbers else {}
    labels = np.array(y, dtype=np.float32)[:, None] if numbers else np.array(y)
    return make_graphs(x, e, np.array(sizes), labels, *rows, **how)


def pyg(n: int = 3, width: int = 2, y: float = 0, **changes):
    edges = torch.tensor([[0, 1], [1, 2]])
    return Data(**({"x": torch.rand(n, width), "edge_index": edges, "y": torch.tensor([y])} | changes))


def on_test(graph: Graph, fitted) -> float:
    return graph.objective.score(fitted.predict(graph.test).scores, graph.y[graph.test])


def _nodes(x, y=None, weight=None) -> Graph:
    rng = np.random.default_rng(3)
    n = len(x) if isinstance(x, np.ndarray) else x.shape[0]
    y = np.arange(n) % 3 if y is None else y
    return make_graph(x, rng.integers(n, size=(2, 4 * n)), y, *np.split(np.arange(n), [n // 2, 3 * n // 4]), weight)


def _graphs(x, edges: bool = False, **labels) -> Graph:
    rng = np.random.default_rng(4)
    ends = np.concatenate([rng.integers(4 * i, 4 * i + 4, (2, 6)) for i in range(40)], axis=1)
    kinds = np.eye(3)[rng.integers(0, 3, ends.shape[1])] if edges else None
    return make_graphs(x, ends, np.full(40, 4), edge_attr=kinds, **({"y": np.arange(40) % 2} | labels))


def _kinds() -> dict[str, Graph]:
    rng = np.random.default_rng(2)
    real, words = rng.standard_normal((160, 5)), (rng.random((60, 30)) < 0.1).astype(float)
    labels = rng.integers(0, 2, (60, 2)).astype(float)
    return {
        "sparse 0/1": _nodes(words),
        "non-negative": _nodes(rng.random((60, 5))),
        "signed": _nodes(real[:60]),
        "signed, sparse": _nodes(words * rng.choice([-1.0, 1.0], words.shape), labels),
        "negative edges": _nodes(rng.random((60, 5)), weight=rng.standard_normal(240)),
        "graphs": _graphs(np.eye(4)[rng.integers(0, 4, 160)]),
        "graphs with edges": _graphs(np.eye(4)[rng.integers(0, 4, 160)], edges=True, folds=True),
        "signed graphs": _graphs(real),
        "signed graphs with edges": _graphs(real, edges=True, y=rng.standard_normal(40), task="regression"),
    }


# What a search tells apart.
KINDS = _kinds()


def rare(nodes: int = 1500, seed: int = 3, useless: bool = False) -> Graph:
    """Nine of ten rows have one class; features say little, edges a little more."""
    rng = np.random.default_rng(seed)
    y = (rng.random(nodes) < 0.1).astype(int)
    x = rng.normal(size=(nodes, 6))
    x[:, 0] += 0 if useless else 0.7 * y
    source = np.repeat(np.arange(nodes), 3)
    alike = (rng.random(len(source)) < 0.25) & (not useless)
    members = [np.flatnonzero(y == c) for c in (0, 1)]
    near = np.array([rng.choice(members[y[u]]) for u in source])
    target = np.where(alike, near, rng.integers(nodes, size=len(source)))
    edges = np.concatenate([np.stack([source, target]), np.stack([target, source])], axis=1)
    train, val, test = split_rows(torch.from_numpy(y), 0, (0.25, 0.25))
    return make_graph(x, edges, y, train, val, test)


def word_graph(nodes: int, features: int, edges: int, topics: int = 3, words: int = 60, train: float = 0.6) -> Graph:
    """Documents as 0/1 bags of words about a topic, linked mostly inside their topic."""
    rng = np.random.default_rng(0)
    y = rng.integers(topics, size=nodes)
    language = rng.lognormal(0.0, 1.0, features) * rng.lognormal(0.0, 0.8, (topics, features))
    document = np.repeat(np.arange(nodes), words)
    word = np.empty(len(document), dtype=np.int64)
    for topic, chances in enumerate(language / language.sum(1, keepdims=True)):
        mine = y[document] == topic
        word[mine] = rng.choice(features, size=int(mine.sum()), p=chances)
    x = sp.csr_matrix((np.ones(len(word), dtype=np.float32), (document, word)), shape=(nodes, features))
    x.sum_duplicates()
    x.data[:] = 1.0
    pairs = rng.integers(nodes, size=(2, 3 * edges))
    pairs = pairs[:, (y[pairs[0]] == y[pairs[1]]) | (rng.random(3 * edges) < 0.1)][:, : edges // 2]
    return make_graph(x, np.concatenate([pairs, pairs[::-1]], axis=1), y, *split_per_class(y, train), name="words")
