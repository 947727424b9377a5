"""P-RGNN: every level is smaller, keeps states as they are, and sees no numbering where the pooling does not."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.sparse.csgraph import connected_components

from hostile_graphs import WEIGHTS, hostile_graphs, renumbered
from rapgnn.datasets.synthetic import BlockModel
from rapgnn.errors import InputError
from rapgnn.models.reservoirs.fixed_point import fixed_point
from rapgnn.models.reservoirs.pyramid import PRGNN, PRGNNSettings, build_pyramid
from samples import collection

SETTINGS = PRGNNSettings(units=10, radius=0.5, input_scaling=0.5)


def weighted(graphs=25, seed=0):
    """Undirected graphs whose edges have weights of their own."""
    graph = collection(graphs=graphs)
    rng = np.random.default_rng(seed)
    pairs = {}
    for u, v in graph.edge_index.T.tolist():
        if u != v:
            pairs[min(u, v), max(u, v)] = float(rng.random() + 0.1)
    one = torch.tensor(list(pairs)).T
    edges, weight = torch.cat([one, one.flip(0)], dim=1), torch.tensor(list(pairs.values())).repeat(2)
    home = torch.searchsorted(graph.ptr, edges[0], right=True)
    order = home.argsort(stable=True)
    return replace(graph, edge_index=edges[:, order], edge_weight=weight[order], edge_attr=None)


@pytest.mark.parametrize("weights", WEIGHTS)
def test_every_level_has_fewer_nodes_where_there_is_an_edge(weights):
    graph = hostile_graphs(weights)
    pyramid = build_pyramid(graph, 3)
    for number, (before, after) in enumerate(zip(pyramid.levels[:-1], pyramid.levels[1:], strict=True)):
        assert after.matrix.shape[0] < before.matrix.shape[0]
        sizes = before.ptr.diff(), after.ptr.diff()
        assert bool((sizes[1] <= sizes[0]).all())
        assert bool(((sizes[1] > 0) == (sizes[0] > 0)).all())  # no graph disappears
        kept = pyramid.kept[number]
        assert bool((kept.diff() > 0).all())
        home = torch.repeat_interleave(torch.arange(graph.num_rows), sizes[1])
        assert torch.equal(torch.searchsorted(before.ptr, kept, right=True) - 1, home)  # in the graph it was in
        if number == 0:
            linked = torch.zeros(graph.num_nodes, dtype=torch.bool)
            other = graph.edge_index[:, graph.edge_index[0] != graph.edge_index[1]]
            linked[other.flatten()] = True
            assert bool(torch.isin((~linked).nonzero()[:, 0], kept).all())  # lone nodes stay
            some = torch.zeros(graph.num_rows).index_add(0, before.graph_of_node, linked.float()) > 0
            assert torch.equal(sizes[1] < sizes[0], some)


def test_pooling_keeps_states_and_the_reservoir_goes_on_from_them():
    graph = weighted()
    encoder = PRGNN.of(graph, SETTINGS, 0)
    pyramid = encoder.context(graph)
    h = graph.x
    for number, found in enumerate(encoder.states(graph.x, pyramid)):
        layer, W = (encoder.hidden, encoder.hidden_recurrent) if number else (encoder.input, encoder.recurrent)
        states = fixed_point(layer(h), pyramid.levels[number].matrix, W, 1e-5, 50)
        expected = torch.tanh(layer(h) + (pyramid.levels[number].matrix @ states) @ W)
        torch.testing.assert_close(states, expected, atol=1e-3, rtol=0)
        assert torch.equal(found, states[pyramid.kept[number]])
        h = found
    assert number == 2


def test_some_graphs_alone_are_what_they_are_among_all():
    graph = weighted()
    pyramid = build_pyramid(graph, 2)
    chosen, nodes = pyramid.select(torch.tensor([7, 2, 20]))
    assert torch.equal(nodes, torch.cat([torch.arange(*graph.ptr[g : g + 2]) for g in (7, 2, 20)]))
    for number, stays in enumerate(chosen.kept):
        sizes = chosen.levels[number].ptr.diff()
        assert len(stays) == int(chosen.levels[number + 1].ptr[-1])
        assert torch.equal(sizes, pyramid.levels[number].ptr.diff()[[7, 2, 20]])
    last = chosen.levels[-1].matrix.scipy().toarray()
    a, b = pyramid.levels[-1].ptr[7:9].tolist()
    size = b - a
    np.testing.assert_allclose(last[:size, :size], pyramid.levels[-1].matrix.scipy()[a:b, a:b].toarray())


def test_the_numbering_of_nodes_does_not_matter_where_sides_differ():
    """Edges have weights of their own. What is left to the numbering is which end of a single edge stays."""
    graph = weighted(60)
    found = []
    for same in (graph, renumbered(graph, 3)):
        encoder = PRGNN.of(same, SETTINGS, 0)
        pyramid = encoder.context(same)
        found.append(encoder.encode(same.x, pyramid, torch.arange(graph.num_rows)))
    decided = torch.ones(graph.num_rows, dtype=torch.bool)
    for one, other, level in zip(*found, pyramid.levels[:-1], strict=True):
        part = connected_components(level.matrix.scipy(), directed=False)[1]
        pairs = torch.from_numpy(np.bincount(part)[part] == 2)
        decided[level.graph_of_node[pairs]] = False
        assert int(decided.sum()) >= 5
        torch.testing.assert_close(one[decided], other[decided], atol=1e-3, rtol=1e-3)


def test_one_graph_has_no_pyramid():
    graph = BlockModel(nodes=40, classes=2, features=4, train=5, val=5, test=5).generate()
    with pytest.raises(InputError, match="P-RGNN classifies graphs"):
        build_pyramid(graph, 2)
