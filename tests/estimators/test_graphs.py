"""Estimators of many graphs, and heads that compare graphs."""

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from rapgnn import InputError, InputNotice, RAPGraphClassifier, RAPGraphRegressor
from rapgnn.graph.lists import make_graphs
from rapgnn.network.config import Config
from rapgnn.search.costs import net_cost
from rapgnn.search.portfolio import CLASSES, NUMBERS, REACHES, first_kernels, further_kernels
from samples import FAST, graph_list, node_data


def test_graph_classifier():
    graphs = graph_list()
    model = RAPGraphClassifier().fit(graphs[:40])
    assert model.score(graphs[40:]) >= 0.9
    assert model.predict_proba(graphs[40:]).shape == (20, 2)
    words = np.array(["ring", "star"])[np.arange(60) % 2]
    named = RAPGraphClassifier().fit(graphs[:40], words[:40])
    assert (named.predict(graphs[40:]) == words[40:]).mean() >= 0.9
    assert named.predict([Data(x=graphs[41].x, edge_index=graphs[41].edge_index)]).tolist() == [
        "star"
    ]  # no label needed
    mean, spread = named.predict_proba(graphs[40:], return_std=True)
    assert mean.shape == spread.shape == (20, 2)


def test_graphs_without_features_and_as_networkx_or_pairs():
    graphs = graph_list()
    bare = [Data(edge_index=g.edge_index, num_nodes=g.num_nodes, y=g.y) for g in graphs]
    with pytest.warns(InputNotice, match="no node features"):
        assert RAPGraphClassifier().fit(bare[:40]).score(bare[40:]) == 1.0
    pairs = [(g.x.numpy(), g.edge_index.numpy()) for g in graphs]
    y = [int(g.y) for g in graphs]
    assert RAPGraphClassifier().fit(pairs[:40], y[:40]).score(pairs[40:], y[40:]) >= 0.9
    nets = [nx.cycle_graph(5) if i % 2 else nx.star_graph(6) for i in range(30)]
    with pytest.warns(InputNotice):
        assert RAPGraphClassifier().fit(nets, ["ring" if i % 2 else "star" for i in range(30)]).predict(
            nets[:2]
        ).tolist() == [
            "star",
            "ring",
        ]


def test_graph_regressor(tmp_path):
    graphs = graph_list(80, regression=True)
    model = RAPGraphRegressor().fit(graphs[:60])
    assert model.score(graphs[60:]) > 0.95
    values, spread = model.predict(graphs[60:], return_std=True)
    assert values.shape == spread.shape == (20,)
    drawn, drawn_spread = model.predict(graphs[60:], n_samples=400, return_std=True)
    np.testing.assert_allclose(values, drawn, atol=4 * spread.max() / 20 + 1e-4)
    np.testing.assert_allclose(spread, drawn_spread, rtol=0.3, atol=1e-3)
    model.save(tmp_path)
    np.testing.assert_array_equal(RAPGraphRegressor.load(tmp_path).predict(graphs), model.predict(graphs))


@pytest.mark.parametrize(
    ("graphs", "sentence"),
    [
        ([], "is empty"),
        (node_data(), "must be a list of graphs"),
        ("folder", "unknown"),
        (
            [Data(x=torch.rand(2, 3), edge_index=torch.tensor([[0], [5]]), y=torch.tensor([0]))],
            "graph 0: edge_index names",
        ),
        (
            [*graph_list(3), Data(edge_index=torch.zeros(2, 0, dtype=torch.long), num_nodes=2, y=torch.tensor([0]))],
            "has none",
        ),
        (
            [
                *graph_list(3),
                Data(x=torch.rand(2, 9), edge_index=torch.zeros(2, 0, dtype=torch.long), y=torch.tensor([0])),
            ],
            "graph 3",
        ),
        ([Data(x=torch.rand(2, 3), edge_index=torch.zeros(2, 0, dtype=torch.long))], "graph 0 has no label"),
        ([(np.ones((2, 2)),)], "graph 0 must be"),
        ([7], "graph 0"),
    ],
)
def test_bad_lists_are_refused(graphs, sentence):
    with pytest.raises(InputError, match=sentence):
        RAPGraphClassifier(**FAST).fit(graphs)


FILTER = Config(backbone="gin", pooling="log")
LAYERS = replace(FILTER, width=16)
COLOURS = Config(colours=32, pooling="log", whiten=False)


def rings(count=420, seed=0, numbers=False):
    """Graphs of one or two rings; that there are two, of even sizes, is no sum of what single nodes tell."""
    rng = np.random.default_rng(seed)
    sizes, edges, y, start = [], [], [], 0
    for _ in range(count):
        lengths = rng.integers(3, 9, size=2)
        for n in lengths:
            ring = start + np.arange(n)
            edges += [(ring, np.roll(ring, 1)), (np.roll(ring, 1), ring)]
            start += n
        sizes.append(lengths.sum())
        y.append(abs(lengths[0] - lengths[1]) if numbers else int(lengths[0] % 2 == lengths[1] % 2))
    e = np.concatenate([np.stack(pair) for pair in edges], axis=1)
    x = rng.random((start, 2))
    rows = np.split(rng.permutation(count), [count * 6 // 10, count * 8 // 10])
    how = {"task": "regression"} if numbers else {}
    labels = np.array(y, dtype=np.float32)[:, None] if numbers else np.array(y)
    return make_graphs(x, e, np.array(sizes), labels, *rows, **how)


def test_the_best_of_each_kind_and_the_next():
    nets = [LAYERS, replace(LAYERS, pooling="mean"), COLOURS, FILTER, replace(FILTER, num_layers=5)]
    found = list(first_kernels(rings(), nets))
    bare = [replace(net, kernel="none", landmarks=0) for net in found]
    assert bare == 2 * [LAYERS, COLOURS, FILTER, replace(LAYERS, pooling="mean")]
    assert [net.kernel for net in found] == [kind for kind, _ in CLASSES for _ in range(4)]
    assert {net.landmarks for net in found} == {252}  # all training graphs


def test_numbers_may_go_on_beyond_those_of_training():
    found = list(first_kernels(rings(numbers=True), [FILTER]))
    assert [(net.kernel, net.trend) for net in found] == list(NUMBERS)


def test_few_graphs_have_nothing_to_be_compared_with():
    assert not list(first_kernels(rings(300), [FILTER]))  # 180 training graphs


def test_the_best_kernel_is_tried_at_other_distances_and_with_more_landmarks():
    best = replace(FILTER, kernel="gauss", landmarks=100)
    found = list(further_kernels(rings(), [FILTER, best, replace(best, kernel="laplace")]))
    assert found == [*(replace(best, reach=reach) for reach in REACHES), replace(best, landmarks=252)]
    assert not list(further_kernels(rings(), [FILTER]))


@pytest.mark.parametrize("numbers", [False, True])
def test_a_model_with_kernels_is_saved_as_it_is(tmp_path, numbers):
    graphs = rings(numbers=numbers)
    model = (RAPGraphRegressor if numbers else RAPGraphClassifier)(seed=1).fit(graphs)
    assert any(trial.settings.get("landmarks") for trial in model.trials_)
    assert any(getattr(member.config, "landmarks", 0) for member in model.model_.members)
    model.save(tmp_path / "model")
    again = type(model).load(tmp_path / "model")
    one, other = ((m.predict if numbers else m.predict_proba)(graphs) for m in (model, again))
    np.testing.assert_array_equal(one, other)
    some = replace(graphs, train=graphs.train[:5], val=graphs.val[:0], test=graphs.test[:0])
    np.testing.assert_array_equal((again.predict if numbers else again.predict_proba)(some), one)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"kernel": "gauss"}, "a kernel needs landmarks"),
        ({"landmarks": 4}, "a kernel needs landmarks"),
        ({"kernel": "linear", "landmarks": 4}, "linear"),
        ({"kernel": "gauss", "landmarks": 4, "reach": 0.0}, "reach must be a number above 0"),
        ({"kernel": "gauss", "landmarks": 4, "hidden": 8}, "a kernel is for a head that is solved"),
        ({"colours": -1}, "colours must be a whole number"),
        ({"trend": 1}, "trend must be true or false"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, said):
    with pytest.raises(InputError, match=said):
        Config(**settings)


def test_labels_with_other_gaps_are_solved_apart_and_cost_as_much():
    graphs = rings()
    whole = np.random.default_rng(0).integers(0, 2, (420, 3)).astype(float)
    gaps = whole.copy()
    gaps[:200, 1], gaps[100:300, 2] = np.nan, np.nan
    net = replace(FILTER, kernel="gauss", landmarks=252)
    costs = [net_cost(replace(graphs, y=torch.from_numpy(y), num_outputs=3), net) for y in (whole, gaps)]
    assert costs[0] < costs[1] < 3 * costs[0]
