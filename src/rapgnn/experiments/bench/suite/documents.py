"""Wide bags of words: documents of unequal length that mix several topics, and cite each other."""

import numpy as np
import scipy.sparse as sp

from rapgnn.experiments.bench.suite.edges import Rows, both_ways, by_shares, pick_members
from rapgnn.graph.graph import Graph, make_graph
from rapgnn.graph.splits import split_per_class

PAIR = 2  # main topics of a class


def documents(
    nodes: int = 12_000,
    words: int = 4000,
    classes: int = 40,
    length: float = 45.0,
    own: float = 0.5,
    loyal: float = 0.55,
    links: float = 4.0,
    counts: bool = True,
    per_class: int = 0,
    name: str = "documents",
    seed: int = 0,
) -> Graph:
    """Documents with words by Zipf's law.

    Args:
        length: words of a document on average; it varies by a factor of several.
        own: the share of words that come from the document's topics, the others from the language.
        loyal: the share of links that go to a document of the same class.
        links: drawn per document.
        counts: how often a word occurs; False: whether it occurs.
        per_class: training rows of every class; 0: 60, 20 and 20 percent.
        seed: decides everything.
    """
    rng = np.random.default_rng(seed)
    share = 1.0 / np.sqrt(1.0 + np.arange(classes))
    y = rng.permutation(
        np.concatenate([np.arange(classes), rng.choice(classes, nodes - classes, p=share / share.sum())])
    )
    topics = classes * PAIR
    language = 1.0 / (5.0 + rng.permutation(words))
    language /= language.sum()
    mixture = rng.dirichlet(np.full(topics, 0.02), size=nodes)
    main = rng.dirichlet(np.full(PAIR, 0.7), size=nodes)
    size = rng.poisson(length * rng.lognormal(-0.3, 0.8, size=nodes)) + 3
    document = np.repeat(np.arange(nodes), size)
    drawn = rng.random(len(document))
    kind = rng.random(len(document))
    topic = y[document] * PAIR + (rng.random(len(document)) < main[document, 0])
    strayed = kind < 0.3  # of the topical words, those on a topic that has nothing to do with the class
    other = mixture.argmax(1)
    topic[strayed] = other[document[strayed]]
    word = rng.choice(words, size=len(document), p=language)
    for t in range(topics):
        mine = (topic == t) & (drawn < own)
        chances = language * rng.gamma(0.08, size=words)
        word[mine] = rng.choice(words, size=int(mine.sum()), p=chances / chances.sum())
    x = sp.csr_matrix((np.ones(len(word), dtype=np.float32), (document, word)), shape=(nodes, words))
    x.sum_duplicates()
    if not counts:
        x.data[:] = 1.0
    source = rng.integers(nodes, size=round(nodes * links))
    astray = rng.integers(classes, size=len(source))
    wanted = np.where(rng.random(len(source)) < loyal, y[source], astray)
    target = pick_members(rng, y, wanted, rng.pareto(2.0, size=nodes) + 0.3)
    rows: Rows = split_per_class(y, per_class, seed) if per_class else by_shares(y, seed=seed)
    return make_graph(x, both_ways(source, target), y, *rows, name=name, sparse=True)
