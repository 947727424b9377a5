"""The generated graphs: the same for the same seed, and with the properties that their kind is named after."""

from functools import partial

import numpy as np
import pytest
import torch

from rapgnn.sparse import dense
from rapgnn_lab.bench.suite import graphs
from rapgnn_lab.bench.suite.graphs import FOLDS, GRAPHS

SMALL = {
    "minesweeper": partial(graphs.minesweeper, 20),
    "crowd": partial(graphs.crowd, 1200, 20.0),
    "documents": partial(graphs.documents, 600, 300, 6),
    "documents-few": partial(graphs.documents, 600, 300, 4, counts=False, per_class=10),
    "roles": partial(graphs.roles, 20),
    "communities": partial(graphs.communities, 500, 5),
    "rare": partial(graphs.rare, 1500),
    "many-classes": partial(graphs.many_classes, 1500, 20),
    "compatible": partial(graphs.compatible, 1000),
    "noisy": graphs.noisy,
    "useless": partial(graphs.useless, 800),
    "directed": partial(graphs.directed, 1000),
    "molecules": partial(graphs.molecules, 120),
    "circles": partial(graphs.circles, 60),
    "cycles": partial(graphs.cycles, 60),
}


def same_class(graph) -> float:
    source, target = graph.edge_index
    return float((graph.y[source] == graph.y[target]).double().mean())


@pytest.mark.parametrize("name", SMALL)
def test_a_seed_decides_everything_and_no_row_serves_twice(name, fresh_random_state):
    graph, again, other = SMALL[name](seed=3), SMALL[name](seed=3), SMALL[name](seed=4)
    assert graph.fingerprint() == again.fingerprint() != other.fingerprint()
    assert torch.equal(graph.test, again.test)
    rows = torch.cat([graph.train, graph.val, graph.test])
    assert len(rows.unique()) == len(rows)
    assert min(map(len, (graph.train, graph.val, graph.test))) > 0
    source, target = graph.edge_index
    assert not bool((source == target).any()) or name == "noisy"  # which may draw a node twice


def test_the_number_of_mines_around_a_cell_is_what_is_shown():
    graph = graphs.minesweeper(30)
    x, y = dense(graph.x), graph.y
    assert x.shape == (900, 7)
    assert bool((x.sum(1) == 1).all())
    assert (int(x[:, 6].sum()), int(y.sum())) == (450, 180)
    source, target = graph.edge_index
    assert (int((source == 0).sum()), int((source == 31).sum())) == (3, 8)  # a corner, and a cell inside
    around = torch.zeros(900).index_add(0, target, y[source].float())
    known = x[:, 6] == 0
    assert torch.equal(x[known, :6].argmax(1), around[known].clamp(max=5).long())


def test_the_kinds_of_links():
    assert same_class(graphs.compatible(2000)) < 0.1
    assert same_class(graphs.useless(2000)) < 0.45
    rare = graphs.rare(4000)
    assert float(rare.y.double().mean()) == pytest.approx(0.05, abs=0.005)
    source, target = rare.edge_index
    assert float(rare.y[target][rare.y[source] == 1].double().mean()) > 3 * 0.05
    listed = {tuple(pair) for pair in graphs.directed(1000).edge_index.T.tolist()}
    assert sum((b, a) in listed for a, b in listed) < 0.05 * len(listed)
    assert same_class(graphs.communities(1500, 6)) > 0.5
    assert len(graphs.many_classes(3000, 30).y.unique()) == 30


def test_the_number_of_cycles_is_counted():
    graph = graphs.cycles(20)
    assert graph.ptr is not None
    for g in range(20):
        low, high = graph.ptr[g], graph.ptr[g + 1]
        source, target = graph.edge_index[:, (graph.edge_index[0] >= low) & (graph.edge_index[0] < high)] - low
        n = int(high - low)
        near = [set(target[source == v].tolist()) for v in range(n)]
        shared = [len(near[u] & near[v]) for u in range(n) for v in range(u + 1, n)]
        triangles = sum(len(near[u] & near[v]) for u in range(n) for v in near[u]) / 6
        squares = sum(count * (count - 1) / 2 for count in shared) / 2
        assert float(graph.y[g]) == pytest.approx(np.log1p(triangles + squares), rel=1e-5)
        assert dense(graph.x)[low:high].argmax(1).tolist() == [min(len(part), 12) for part in near]


def test_strict_folds_of_real_graphs(data_dir, monkeypatch):
    monkeypatch.setenv("RAPGNN_DATA", str(data_dir))
    folds = [make() for make in GRAPHS["mutag"].makes]
    times = [folds[at : at + FOLDS] for at in range(0, len(folds), FOLDS)]
    for parts in times:
        assert sorted(torch.cat([graph.test for graph in parts]).tolist()) == list(range(188))
    assert len({tuple(parts[0].test.tolist()) for parts in times}) == len(times) == 4
    for graph in folds:
        assert len(torch.cat([graph.train, graph.val, graph.test]).unique()) == 188
