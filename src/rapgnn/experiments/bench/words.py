"""A wide bag-of-words graph: tens of thousands of documents, thousands of words, few of them in a document."""

import numpy as np
import scipy.sparse as sp

from rapgnn.graph.graph import Graph, make_graph
from rapgnn.graph.splits import split_per_class


def wide_words(
    nodes: int = 34_493,
    features: int = 8_415,
    edges: int = 495_924,
    topics: int = 5,
    fields: int = 6,
    words: float = 38.0,
    own: float = 0.55,
    loyal: float = 0.99,
    between: float = 0.03,
    train: float | int = 0.6,
    seed: int = 0,
) -> Graph:
    """Documents as 0/1 bags of words about one of some topics, with links; a few documents get most of the links.

    Some documents lie between two topics: words, links and in the end the label are of either one.

    Args:
        nodes, features, edges: their numbers; an edge is listed both ways and counts twice.
        topics: classes, of unequal sizes; fields: parts of a topic, each with words of its own.
        words: drawn per document on average; repeated ones count once.
        own: the share of words that come from the document's field, the others from the language.
        loyal: the share of links that stay inside the sender's topic.
        between: the share of labels that are of a document's second topic.
        train: training rows per class, a number or a share, as in ``split_per_class``.
        seed: decides everything but the split.
    """
    rng = np.random.default_rng(seed)
    first = rng.choice(topics, size=nodes, p=_shares(topics))
    second = (first + rng.integers(1, topics, size=nodes)) % topics
    doubt = 0.5 * rng.random(nodes) ** (0.5 / between - 1)  # its mean is the share of second topics
    y = np.where(rng.random(nodes) < doubt, second, first)
    language = _zipf(rng, features)
    about_topic = [_own(rng, language) for _ in range(topics)]
    about_field = [_own(rng, about_topic[f // fields]) for f in range(topics * fields)]
    part = rng.integers(fields, size=nodes)
    length = rng.poisson(words * rng.gamma(4.0, 0.25, size=nodes))
    document = np.repeat(np.arange(nodes), length)
    word = rng.choice(features, size=len(document), p=language)
    topic = np.where(rng.random(len(document)) < doubt[document], second[document], first[document])
    field = np.where(rng.random(len(document)) < own, topic * fields + part[document], -1)
    for f, chances in enumerate(about_field):
        mine = field == f
        word[mine] = rng.choice(features, size=int(mine.sum()), p=chances)
    x = sp.csr_matrix((np.ones(len(word), dtype=np.float32), (document, word)), shape=(nodes, features))
    x.sum_duplicates()
    x.data[:] = 1.0  # a word counts once
    links = _links(rng, first, second, doubt, edges // 2, loyal)
    return make_graph(x, links, y, *split_per_class(y, train), name="wide-words")


def _shares(topics: int) -> np.ndarray:
    shares = 1.0 / (1.0 + np.arange(topics))
    return shares / shares.sum()


def _zipf(rng: np.random.Generator, features: int) -> np.ndarray:
    """How often each word of a language is used."""
    chances = 1.0 / (10.0 + rng.permutation(features))
    return chances / chances.sum()


def _own(rng: np.random.Generator, wider: np.ndarray) -> np.ndarray:
    """How often each word is used about one topic or field: each more, or less, than in the wider one."""
    chances = wider * rng.lognormal(0.0, 1.4, size=len(wider))
    return chances / chances.sum()


def _links(
    rng: np.random.Generator, first: np.ndarray, second: np.ndarray, doubt: np.ndarray, count: int, loyal: float
) -> np.ndarray:
    """Pairs of different documents, each listed both ways; fame decides who is linked to."""
    nodes, topics = len(first), int(first.max()) + 1
    fame = rng.pareto(1.8, size=nodes) + 0.3
    found = np.zeros(0, dtype=np.int64)
    while len(found) < count:
        source = rng.integers(nodes, size=count)
        topic = np.where(rng.random(count) < doubt[source], second[source], first[source])
        other = (topic + rng.integers(1, topics, size=count)) % topics
        wanted = np.where(rng.random(count) < loyal, topic, other)
        target = np.empty_like(source)
        for t in range(topics):
            chances = fame * np.where(first == t, 1 - doubt, np.where(second == t, doubt, 0.0))
            mine = wanted == t
            target[mine] = rng.choice(nodes, size=int(mine.sum()), p=chances / chances.sum())
        low, high = np.minimum(source, target), np.maximum(source, target)
        found = np.unique(np.concatenate([found, (low * nodes + high)[low < high]]))
    pairs = np.stack(np.divmod(rng.permutation(found)[:count], nodes))
    return np.concatenate([pairs, pairs[::-1]], axis=1)
