"""P-RGNN: node decimation keeps resistances and parts; every level is smaller and keeps the states as they are."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from scipy.sparse.csgraph import connected_components

from hostile_graphs import renumbered
from rapgnn_lab.baselines.prgnn import (
    PRGNN,
    cut_share,
    decimate,
    greedy_cut,
    kron_reduction,
    staying_side,
)
from rapgnn_lab.baselines.reservoir import choices
from rapgnn_lab.baselines.systems import SYSTEMS
from samples import collection


def connected(n: int, seed: int, density: float = 0.2) -> np.ndarray:
    """A tree with further edges, and weights of its own for each."""
    rng = np.random.default_rng(seed)
    A = np.triu(rng.random((n, n)) * (rng.random((n, n)) < density), 1)
    for v in range(1, n):
        A[rng.integers(v), v] = 0.5 + rng.random()
    return A + A.T


def resistances(A: np.ndarray) -> np.ndarray:
    inverse = np.linalg.pinv(np.diag(A.sum(1)) - A)
    d = inverse.diagonal()
    return d[:, None] + d - 2 * inverse


@pytest.mark.parametrize(("n", "seed"), [(2, 0), (3, 1), (8, 2), (30, 3)])
def test_nodes_go_and_resistances_stay(n, seed):
    A = connected(n, seed)
    stays = staying_side(A)
    assert 0 < stays.sum() < n
    assert min(cut_share(A, greedy_cut(A)), cut_share(A, stays)) >= 0.5
    reduced = kron_reduction(A, stays)
    np.testing.assert_allclose(reduced, reduced.T)
    assert (reduced >= 0).all()
    np.testing.assert_allclose(resistances(reduced), resistances(A)[np.ix_(stays, stays)], atol=1e-8)


def test_parts_stay_apart_and_lone_nodes_stay():
    blocks = [connected(7, 1), np.zeros((1, 1)), connected(4, 2), np.zeros((2, 2))]
    A = sp.csr_matrix(sp.block_diag(blocks).toarray())
    kept, smaller = decimate(A)
    assert (np.diff(kept) > 0).all()
    assert {7, 12, 13} <= set(kept.tolist())  # the lone ones
    assert connected_components(smaller, directed=False)[0] == connected_components(A, directed=False)[0]
    for (a, b), block in zip(((0, 7), (8, 12)), (blocks[0], blocks[2]), strict=True):
        mine = (kept >= a) & (kept < b)
        expected = kron_reduction(block, np.isin(np.arange(b - a), kept[mine] - a))
        np.testing.assert_allclose(smaller[mine][:, mine].toarray(), expected, atol=1e-12)


SETTINGS = choices(SYSTEMS["p-rgnn"].settings)[0] | {"units": 10, "input_scaling": 0.5}


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


def test_pooling_keeps_states_and_the_reservoir_goes_on_from_them():
    graph = weighted()
    encoder = PRGNN(graph, 0, SETTINGS)
    pyramid = encoder.context(graph)
    h = graph.x
    for number, found in enumerate(encoder.states(graph.x, pyramid)):
        reservoir, S = encoder.later if number else encoder.first, pyramid.levels[number].matrix
        states = reservoir(h, S)
        expected = torch.tanh(reservoir.input(h) + (S @ states) @ reservoir.recurrent)
        torch.testing.assert_close(states, expected, atol=1e-3, rtol=0)
        assert torch.equal(found, states[pyramid.staying[number]])
        h = found
    assert number == 2


def test_the_numbering_of_nodes_does_not_matter_where_sides_differ():
    """Edges have weights of their own. What is left to the numbering is which end of a single edge stays."""
    graph = weighted(60)
    found = []
    for same in (graph, renumbered(graph, 3)):
        encoder = PRGNN(same, 0, SETTINGS)
        pyramid = encoder.context(same)
        found.append(encoder.encode(same.x, pyramid, torch.arange(graph.num_rows)))
    decided = torch.ones(graph.num_rows, dtype=torch.bool)
    for one, other, level in zip(*found, pyramid.levels[:-1], strict=True):
        part = connected_components(level.matrix.scipy(), directed=False)[1]
        pairs = torch.from_numpy(np.bincount(part)[part] == 2)
        decided[level.graph_of_node[pairs]] = False
        assert int(decided.sum()) >= 5
        torch.testing.assert_close(one[decided], other[decided], atol=1e-3, rtol=1e-3)
