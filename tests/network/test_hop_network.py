"""Random networks with a solved head: what they see, on hostile graphs, alone and in an average."""

import numpy as np
import pytest
import torch

from rapgnn import Config
from rapgnn.errors import InputError
from rapgnn.graph.graph import make_graph, make_graphs
from rapgnn.network.hops import Hops
from rapgnn.network.known_labels import KnownLabels, SeenNodes
from rapgnn.network.network import Average, HopNetwork
from rapgnn.search.start import HOPS
from rapgnn.sparse import dense
from rapgnn.training.predict import model_on

POINTS = {
    "last": HOPS.update(jumping="last", num_layers=3),
    "ppr": HOPS.update(jumping="ppr", num_layers=4, backbone="sage"),
    "cat": HOPS.update(scaling="standard", degree_columns=True),
    "units": HOPS.update(scaling="standard", units=30, unit_inputs=2),
    "units and hops": HOPS.update(scaling="length", units=16, unit_hops=2, degree_columns=True),
}


def graph(seed=0, nodes=40, edges=120, features=5):
    rng = np.random.default_rng(seed)
    e = rng.integers(0, nodes - 3, (2, edges))  # the last three nodes have no edges
    e[:, :3] = 7  # a self-loop, three times
    order = rng.permutation(nodes)
    y = rng.integers(0, 3, nodes)
    y[order[:3]] = [0, 1, 2]
    return make_graph(rng.random((nodes, features)), e, y, order[:20], order[20:30], order[30:])


def fitted(config, g):
    net = HopNetwork(g.num_features, g.num_outputs, edge_channels=g.num_edge_features, seed=3, config=config)
    net.scaling.fit(g.x)
    if config.node_columns:
        net.nodes = SeenNodes.of(g, torch.arange(g.num_nodes))
    net.standard.fit(net.representation(g, g.train, learn=True))
    return net


@pytest.mark.parametrize("name", POINTS)
def test_some_rows_are_those_of_all(name):
    g = graph()
    net = fitted(POINTS[name], g)
    whole = net.represent(g)
    assert whole.shape == (40, net.channels)
    assert torch.isfinite(whole).all()
    torch.testing.assert_close(net.represent(g, g.test), whole[g.test], rtol=1e-5, atol=1e-6)
    shared = Hops(net.operator(g), net.inputs(g))
    torch.testing.assert_close(net.represent(g, g.test, shared), whole[g.test], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("rows", [None, [3, 30, 7], []])
def test_hops_of_any_rows_in_any_order(rows):
    """Of distant hops only the rows that are asked for are stored; others, and whole hops, are walked to again."""
    g = graph()
    S, T, x = (dense(part) for part in (g.operator("sage").matrix, g.operator("gcn").matrix, g.x))
    wanted = [torch.linalg.matrix_power(S, k) @ x for k in range(8)]
    against = [torch.linalg.matrix_power(T, k) @ x for k in range(8)]
    rows = None if rows is None else torch.tensor(rows, dtype=torch.int64)
    hops = Hops(g.operator("sage"), g.x, g.operator("gcn"), rows)
    for k in (0, 5, 1, 7, 3, 6, 7, 2):
        for some in (torch.tensor([3, 7, 3]), torch.tensor([30, 9]), torch.arange(0), None):
            for found, expected in ((hops.of(k, some), wanted[k]), (hops.of(k, some, 1), against[k])):
                torch.testing.assert_close(found, expected if some is None else expected[some], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("depth", [1, 3, 12])
def test_personalised_pagerank_by_hand(depth):
    g = graph()
    net = fitted(HOPS.update(jumping="ppr", num_layers=depth, teleport=0.1), g)
    S, h = dense(g.operator("gcn").matrix).double(), dense(g.x).double()
    expected = 0.1 * h
    for k in range(1, depth + 1):
        h = S @ h
        expected += 0.1 * 0.9**k * h
    hops = net.hops(g)
    torch.testing.assert_close(hops.joined(net.config), expected.float(), rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(hops.joined(net.config, g.val), expected[g.val].float(), rtol=1e-4, atol=1e-6)


def sets(seed=0, count=30, features=4, edge_features=0):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 6, count)
    starts = np.cumsum(sizes) - sizes
    edges = [rng.integers(0, n, (2, 2 * n)) + s for n, s in zip(sizes, starts, strict=True)]
    e = np.concatenate(edges, axis=1)
    attr = rng.random((e.shape[1], edge_features)) if edge_features else None
    return make_graphs(rng.random((int(sizes.sum()), features)), e, sizes, np.arange(count) % 2, edge_attr=attr)


@pytest.mark.parametrize("pooling", ["sum", "mean", "log"])
@pytest.mark.parametrize(
    "shape",
    [
        {},
        {"units": 20, "log_hops": True},
        {"coefficients": "layers", "width": 12, "num_layers": 3},
        {"units": 9, "unit_hops": 1},
    ],
    ids=["hops", "units", "layers", "lift and hops"],
)
def test_graphs_one_by_one_are_those_of_a_batch_or_of_blocks(shape, pooling, monkeypatch):
    g = sets(edge_features=2)
    net = fitted(HOPS.update(backbone="gin", degree_columns=True, pooling=pooling, **shape), g)
    whole = net.represent(g)
    assert torch.isfinite(whole).all()
    each = torch.cat([net.represent(g, torch.tensor([row])) for row in range(g.num_rows)])
    torch.testing.assert_close(each, whole, rtol=1e-4, atol=1e-5)
    monkeypatch.setattr("rapgnn.network.network.ROW_BLOCK_BYTES", 4 * net.channels * 10)  # about ten nodes at a time
    torch.testing.assert_close(net.represent(g), whole, rtol=1e-4, atol=1e-5)


def test_random_layers_by_hand():
    g = sets()
    net = fitted(HOPS.update(coefficients="layers", backbone="gin", width=7, num_layers=2, activation="tanh"), g)
    A, h = dense(g.operator("gin").matrix), dense(g.x)
    outputs = [h]
    for layer in net.layers:
        z = (A @ outputs[-1]) @ layer.weight
        outputs.append(torch.tanh((z - layer.standard.shift) * layer.standard.scale + layer.bias))
    pool = g.operator("gin").pooling("sum")
    expected = torch.cat([pool @ h for h in outputs], dim=1)
    torch.testing.assert_close(net.represent(g), net.standard(expected), rtol=1e-4, atol=1e-5)


def test_hops_against_the_edges():
    g = graph(3)
    net = fitted(HOPS.update(backbone="sage", edges="both", num_layers=1), g)
    flipped = make_graph(dense(g.x).numpy(), g.edge_index.flip(0), g.y, g.train, g.val, g.test)
    x, along, against = dense(g.x), dense(g.operator("sage").matrix), dense(flipped.operator("sage").matrix)
    expected = torch.cat([x, along @ x, against @ x], dim=1)
    torch.testing.assert_close(net.represent(g), net.standard(expected), rtol=1e-4, atol=1e-5)
    both = fitted(HOPS.update(backbone="sage", edges="undirected", num_layers=1, jumping="last"), g)
    whole = torch.cat([g.edge_index, g.edge_index.flip(0)], dim=1)
    S = dense(make_graph(x.numpy(), whole, g.y, g.train, g.val, g.test).operator("sage").matrix)
    torch.testing.assert_close(both.represent(g), both.standard(S @ x), rtol=1e-4, atol=1e-5)


def test_columns_that_tell_nodes_apart_are_for_one_graph_alone():
    g, other = graph(4), graph(5)
    net = fitted(HOPS.update(node_columns=12, num_layers=2), g)
    assert net.suits(g)
    assert not net.suits(other)
    with pytest.raises(InputError, match="own graph"):
        model_on(Average([net]), other)
    assert torch.isfinite(model_on(net, g)(g.test).probabilities).all()


def test_a_network_sees_what_another_predicts_for_the_neighbours():
    g = graph(6)
    before = HOPS.update(jumping="last")
    first = fitted(before, g)
    first.head.weight.normal_(generator=torch.Generator().manual_seed(0))
    net = HopNetwork(g.num_features, g.num_outputs, config=HOPS.update(backbone="sage", num_layers=1, previous=before))
    net.previous = first
    net.scaling.fit(g.x)
    h = net.representation(g, torch.arange(g.num_rows), learn=True)
    S, p = dense(g.operator("sage").matrix), model_on(first, g)(torch.arange(g.num_rows)).probabilities
    torch.testing.assert_close(h[:, 10:], torch.cat([S @ p, S @ S @ p], dim=1), rtol=1e-4, atol=1e-5)
    again = HopNetwork(g.num_features, g.num_outputs, config=Config(**net.config.to_dict()))
    again.load_state_dict(net.state_dict())
    torch.testing.assert_close(again.represent(g), net.represent(g))
    with pytest.raises(InputError, match="previous"):
        HOPS.update(previous=net.config)


LINEAR = {
    **{name: POINTS[name] for name in ("last", "ppr", "cat")},
    "both ways": HOPS.update(edges="both"),
    "no hops": HOPS.update(num_layers=0),
    "labels": HOPS.update(known_labels=2, edges="both", standardize=False),
    "previous": HOPS.update(num_layers=1, backbone="sage", known_labels=1, previous=HOPS.update(jumping="ppr")),
}


@pytest.mark.parametrize("name", LINEAR)
def test_a_head_that_goes_before_the_hops_gives_the_same_scores(name, monkeypatch):
    g, config = graph(5), LINEAR[name]
    known = {"known": (len(g.train), 1)} if config.known_labels else {}
    net = HopNetwork(g.num_features, g.num_outputs, **known, seed=3, config=config)
    net.known = KnownLabels.of(g) if known else None
    generator = torch.Generator().manual_seed(1)
    if net.previous is not None:
        net.previous.head.weight.normal_(generator=generator)
    net.scaling.fit(g.x)
    net.fit_seen(net.representation(g, g.train, learn=True))
    net.head.weight.normal_(generator=generator)
    net.head.bias.normal_(generator=generator)
    hops = net.hops(g)
    assert net.goes_first(hops, gain=0)
    torch.testing.assert_close(net.scores_by_products(g, hops), net.scores(net.represent(g)), rtol=1e-4, atol=1e-4)
