"""The estimator with nothing set on a wide bag-of-words graph, with many labels and with few."""

import statistics
import warnings
from functools import partial

import numpy as np
import scipy.sparse as sp
import torch

from rapgnn.compare import Record
from rapgnn.errors import InputNotice
from rapgnn.estimators.estimators import RAPNodeClassifier
from rapgnn.graph.graph import Graph, make_graph
from rapgnn.graph.nodes import split_per_class
from rapgnn.memory import PeakMemory
from rapgnn.sparse import SparseMatrix
from rapgnn_lab.bench.timing import seconds_of
from rapgnn_lab.store import Row, machine

LABELS: dict[str, float | int] = {"60 % labelled": 0.6, "20 labels per class": 20}
NODES, FEATURES, SEEDS = 34_493, 8_415, 3
TOPICS, FIELDS = 5, 6  # classes, of unequal sizes; parts of a topic, each with words of its own
WORDS, OWN = 38.0, 0.55  # drawn per document; the share of its field's, the others are the language's
LOYAL, BETWEEN = 0.99, 0.03  # the share of links inside the sender's topic; of labels of a document's second topic


def plan() -> list[Row]:
    """A row per number of labels."""
    common = {"dataset": "wide-words", "method": "RAPNodeClassifier()", "nodes": NODES, "features": FEATURES}
    common |= {"seeds": list(range(SEEDS))} | machine("cpu")
    return [Row(common | {"labels": n}, partial(measure, NODES, FEATURES, LABELS[n], SEEDS)) for n in LABELS]


def measure(nodes: int, features: int, train: float | int, seeds: int) -> Record:
    """Fits, and predictions of all nodes: medians of the seeds' seconds, the mean of their test accuracies."""
    graph = wide_words(nodes, features, edges=round(14.4 * nodes), train=train)
    fits, predictions, values, peaks, candidates = [], [], [], [], 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputNotice)
        for seed in range(seeds):
            model = RAPNodeClassifier(seed=seed)
            with PeakMemory() as peak:
                fits.append(seconds_of(lambda model=model: model.fit(graph), "cpu"))
            peaks.append(peak.megabytes)
            predictions.append(seconds_of(lambda model=model: model.predict(graph), "cpu"))
            values.append(float(model.score(graph, split="test")))
            candidates = len(model.trials_)
    return {
        "edges": graph.edge_index.shape[1],
        "nonzeros": graph.x.nnz if isinstance(graph.x, SparseMatrix) else int(torch.count_nonzero(graph.x)),
        "labelled": len(graph.train),
        "fit_seconds": statistics.median(fits),
        "all_seconds": fits,
        "predict_seconds": statistics.median(predictions),
        "mean": statistics.fmean(values),
        "values": values,
        "candidates": candidates,
        "peak_memory_mb": None if None in peaks else max(peaks),
    }


def wide_words(nodes: int, features: int, edges: int, train: float | int, seed: int = 0) -> Graph:
    """Documents as 0/1 bags of words about one of some topics, with links; a few documents get most of the links.

    Some lie between two topics: words, links and in the end the label are of either one. An edge counts both ways.
    """
    rng = np.random.default_rng(seed)
    first = rng.choice(TOPICS, size=nodes, p=_normal(1.0 / (1.0 + np.arange(TOPICS))))
    second = (first + rng.integers(1, TOPICS, size=nodes)) % TOPICS
    doubt = 0.5 * rng.random(nodes) ** (0.5 / BETWEEN - 1)  # its mean is the share of second topics
    y = np.where(rng.random(nodes) < doubt, second, first)
    language = _normal(1.0 / (10.0 + rng.permutation(features)))  # Zipf's law
    about_topic = [_own(rng, language) for _ in range(TOPICS)]
    about_field = [_own(rng, about_topic[f // FIELDS]) for f in range(TOPICS * FIELDS)]
    part = rng.integers(FIELDS, size=nodes)
    length = rng.poisson(WORDS * rng.gamma(4.0, 0.25, size=nodes))
    document = np.repeat(np.arange(nodes), length)
    word = rng.choice(features, size=len(document), p=language)
    topic = np.where(rng.random(len(document)) < doubt[document], second[document], first[document])
    field = np.where(rng.random(len(document)) < OWN, topic * FIELDS + part[document], -1)
    for f, chances in enumerate(about_field):
        mine = field == f
        word[mine] = rng.choice(features, size=int(mine.sum()), p=chances)
    x = sp.csr_matrix((np.ones(len(word), dtype=np.float32), (document, word)), shape=(nodes, features))
    x.sum_duplicates()
    x.data[:] = 1.0  # a word counts once
    links = _links(rng, first, second, doubt, edges // 2)
    return make_graph(x, links, y, *split_per_class(y, train), name="wide-words")


def _normal(chances: np.ndarray) -> np.ndarray:
    return chances / chances.sum()


def _own(rng: np.random.Generator, wider: np.ndarray) -> np.ndarray:
    """How often each word is used about one topic or field: each more, or less, than in the wider one."""
    return _normal(wider * rng.lognormal(0.0, 1.4, size=len(wider)))


def _links(
    rng: np.random.Generator, first: np.ndarray, second: np.ndarray, doubt: np.ndarray, count: int
) -> np.ndarray:
    """Pairs of different documents, each listed both ways; fame decides who is linked to."""
    nodes = len(first)
    fame = rng.pareto(1.8, size=nodes) + 0.3
    links = np.zeros(0, dtype=np.int64)
    while len(links) < count:
        source = rng.integers(nodes, size=count)
        topic = np.where(rng.random(count) < doubt[source], second[source], first[source])
        other = (topic + rng.integers(1, TOPICS, size=count)) % TOPICS
        wanted = np.where(rng.random(count) < LOYAL, topic, other)
        target = np.empty_like(source)
        for t in range(TOPICS):
            chances = fame * np.where(first == t, 1 - doubt, np.where(second == t, doubt, 0.0))
            mine = wanted == t
            target[mine] = rng.choice(nodes, size=int(mine.sum()), p=_normal(chances))
        low, high = np.minimum(source, target), np.maximum(source, target)
        links = np.unique(np.concatenate([links, (low * nodes + high)[low < high]]))
    pairs = np.stack(np.divmod(rng.permutation(links)[:count], nodes))
    return np.concatenate([pairs, pairs[::-1]], axis=1)
