"""The wide bag-of-words graph: few words of many, links inside topics, a few documents with most links."""

import torch

from rapgnn.experiments.bench.words import wide_words
from rapgnn.sparse import SparseMatrix


def test_it_looks_like_documents_with_links():
    graph = wide_words(nodes=2000, features=3000, edges=20_000, train=20)
    assert isinstance(graph.x, SparseMatrix)
    assert graph.x.shape == (2000, 3000)
    assert 20 < graph.x.nnz / 2000 < 45
    assert set(graph.x.values.tolist()) == {1.0}
    source, target = graph.edge_index
    assert len(source) == 20_000
    assert bool((source != target).all())
    both = set(zip(source.tolist(), target.tolist(), strict=True))
    assert len(both) == 20_000
    assert all((v, u) in both for u, v in both)
    assert 0.85 < float((graph.y[source] == graph.y[target]).float().mean()) < 0.97
    assert int(torch.bincount(source).max()) > 50
    assert len(graph.train) == 100


def test_the_seed_decides():
    one, same, other = (wide_words(nodes=300, features=200, edges=1000, train=5, seed=s) for s in (0, 0, 1))
    assert one.fingerprint() == same.fingerprint() != other.fingerprint()
