"""The graphs that no setting was chosen on: what they say of themselves, the same every time."""

import pytest

from rapgnn.experiments.bench.unseen import UNSEEN, words
from rapgnn.sparse import dense, nonnegative


@pytest.mark.parametrize("name", ["digits", "tumours"])
def test_graphs_of_tables_that_scikit_learn_brings_along(name):
    graph = UNSEEN[name].make()
    assert graph.name == name
    assert graph.task == "node-classification"
    assert nonnegative(graph.x) == (name == "digits")
    pairs = set(map(tuple, graph.edge_index.T.tolist()))
    assert {(v, u) for u, v in pairs} == pairs  # both directions
    assert min(len(graph.rows(split)) for split in ("train", "val", "test")) > 50
    assert graph.fingerprint() == UNSEEN[name].make().fingerprint()


def test_documents_link_to_their_own_topic_or_to_another():
    graphs = [words(homophily, 5, "w", nodes=600) for homophily in (0.9, 0.1)]
    same = [float((g.y[g.edge_index[0]] == g.y[g.edge_index[1]]).double().mean()) for g in graphs]
    assert same[0] > 0.8
    assert same[1] < 0.25
    assert set(dense(graphs[0].x).unique().tolist()) == {0.0, 1.0}


def test_every_unseen_graph_says_what_kind_it_is():
    assert list(UNSEEN) == ["digits", "tumours", "blocks", "blocks-hetero", "words", "words-hetero", "atoms"]
    assert all(unseen.about for unseen in UNSEEN.values())
