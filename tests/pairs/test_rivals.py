"""Rivals are products of two matrices, and how far walks go follows from the graph."""

import networkx as nx
import numpy as np
import pytest
import torch

from rapgnn.pairs import model
from rapgnn.pairs.features import PairFeatures
from rapgnn.pairs.links import Links
from rapgnn.pairs.model import LinkSettings, _start
from rapgnn.pairs.rivals import RIVALS, autoencoder, compared


def links_of(graph: nx.Graph) -> Links:
    ends = torch.tensor(list(nx.convert_node_labels_to_integers(graph).edges))
    return Links.of(graph.number_of_nodes(), ends, None, False)


def test_scores_of_pairs_and_of_rows_agree():
    links = links_of(nx.gnm_random_graph(40, 120, seed=0))
    A = links.both.toarray()
    allocation = A / np.maximum(A.sum(1), 1) @ A
    wanted = {"common neighbours": A @ A, "resource allocation": allocation, "popularity": np.outer(A.sum(1), A.sum(1))}
    pairs = torch.cartesian_prod(torch.arange(40), torch.arange(40))
    for name, matrix in wanted.items():
        product = RIVALS[name](links, None, 0)
        np.testing.assert_allclose(product.scores(pairs).view(40, 40), matrix, rtol=1e-6)
        node, neighbour, score = product.best(links, torch.tensor([3, 7]), 5)
        free = np.where(A[3] + np.eye(40)[3] > 0, -np.inf, matrix[3])
        assert node.tolist() == [3] * 5 + [7] * 5
        np.testing.assert_allclose(score[:5], np.sort(free)[::-1][:5], rtol=1e-6)
        assert not A[node, neighbour].any()


def test_rivals_of_hidden_links():
    graph = links_of(nx.planted_partition_graph(3, 20, 0.6, 0.02, seed=0))
    hidden = graph.ends[::5]
    rivals = RIVALS | {"GCN autoencoder": lambda *given: autoencoder(*given, channels=8, epochs=20)}
    records = {record["method"]: record for record in compared(rivals, graph.without(hidden), None, hidden, 5, 0)}
    assert set(records) == set(RIVALS)
    assert records["common neighbours"]["rocauc"] > 0.8
    assert {"hits@100", "hard_rocauc", "mrr", "ndcg@5", "recall@5"} <= set(records["popularity"])


def test_walks_are_longer_where_few_nodes_are_near():
    far = _start(links_of(nx.cycle_graph(400)), None, LinkSettings(), 0)
    near = _start(links_of(nx.gnm_random_graph(400, 8000, seed=0)), None, LinkSettings(), 0)
    assert far.described.hops == LinkSettings().far
    assert near.described.hops == LinkSettings().described.hops
    assert PairFeatures(links_of(nx.cycle_graph(400)), None, far.described).exact == far.described.hops


@pytest.mark.parametrize(("most", "parts"), [(10**6, 10), (450, 5), (10, 2)])
def test_pairs_that_teach_are_seen_by_nearly_the_whole_graph(most, parts, monkeypatch):
    links, seen = links_of(nx.gnm_random_graph(100, 900, seed=0)), []
    monkeypatch.setattr(model, "PairFeatures", lambda part, *given: seen.append(part) or PairFeatures(part, *given))
    how = LinkSettings(links=most)
    start = _start(links, None, how, 0)
    examples = model._examples(start, links, links, None, how, 0)
    assert len(seen) == parts
    assert min(len(part.ends) for part in seen) >= 810
    assert int(examples.y.sum()) == min(most, 900)


def test_users_and_items_keep_their_places():
    links = Links.of(6, torch.tensor([[0, 3], [0, 4], [0, 5], [1, 3], [2, 3]]), None, False)
    columns = PairFeatures(links).columns(torch.tensor([[1, 4], [4, 1], [0, 3]]))
    degrees = torch.tensor([[1.0, 1.0], [1.0, 1.0], [3.0, 3.0]]).log1p()
    torch.testing.assert_close(columns[:, :2], degrees)
    torch.testing.assert_close(
        PairFeatures(links).columns(torch.tensor([[0, 4]]))[0, :2].exp(), torch.tensor([4.0, 2.0])
    )
