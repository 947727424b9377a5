"""Reservoir systems as methods: layers never change, the choice is made on validation, any graph goes through."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from hostile_graphs import WEIGHTS, hostile_graphs, shapes
from rapgnn import METHODS, Config, InputError, fit, make_graph
from rapgnn.layers.ridge import RidgeHead
from rapgnn.models.reservoirs.encoder import choices
from rapgnn.models.reservoirs.fdgnn import FDGNNSettings
from rapgnn.models.reservoirs.multiresolution import MRGNNSettings
from rapgnn.models.reservoirs.pyramid import PRGNNSettings
from rapgnn.models.reservoirs.untrained import UGCNSettings
from rapgnn.training.methods import RESERVOIRS, STRATEGIES
from rapgnn.training.reservoirs import SYSTEMS, fit_reservoir
from samples import collection, on_test

SMALL = {
    "fdgnn": FDGNNSettings(units=20, num_layers=2, radius=(0.5, 0.9), input_scaling=1.0, projection=60),
    "u-gcn": UGCNSettings(units=30, num_layers=2, gain=(0.5, 1.0)),
    "mrgnn": MRGNNSettings(units=8, resolutions=3, epochs=15),
    "p-rgnn": PRGNNSettings(units=20, radius=(0.3, 0.7), input_scaling=0.5),
}
NODES = [name for name in RESERVOIRS if SYSTEMS[name].nodes]


def small(name, graph, seed=0, **changes):
    return fit_reservoir(name, graph, Config(), seed, settings=replace(SMALL[name], **changes))


def test_they_are_methods_beside_the_strategies():
    assert set(RESERVOIRS) == {"fdgnn", "u-gcn", "mrgnn", "p-rgnn"} == set(SYSTEMS)
    assert set(RESERVOIRS) | set(STRATEGIES) == set(METHODS)
    assert not set(RESERVOIRS) & set(STRATEGIES)


@pytest.mark.parametrize("task", ["classification", "multilabel", "regression"])
@pytest.mark.parametrize("name", RESERVOIRS)
def test_every_task_of_graphs_is_learned(name, task, fresh_random_state):
    graph = shapes(task)
    a, b = (small(name, graph, 3) for _ in range(2))
    scores = a.predict(graph.test).scores
    assert torch.equal(scores, b.predict(graph.test).scores)  # same seed, bitwise the same
    assert torch.isfinite(scores).all()
    found = on_test(graph, a)
    if task == "regression":
        assert found < 0.6 * float((graph.y[graph.test] - graph.y[graph.train].mean()).square().mean().sqrt())
    else:
        assert found > 0.85
    other = small(name, graph, 4)
    assert not torch.allclose(other.predict(graph.test).scores, scores)
    assert a.predict(graph.test[:0]).scores.shape[0] == 0


@pytest.mark.parametrize("name", RESERVOIRS)
def test_layers_are_not_touched_by_training(name):
    """What is drawn is a function of the seed and the features alone: other labels, the same network."""
    graph = collection()
    other = replace(graph, y=1 - graph.y)
    point = choices(SMALL[name])[0]
    one = fit_reservoir(name, graph, Config(), 0, settings=point).model.encoder
    two = fit_reservoir(name, other, Config(), 0, settings=point).model.encoder
    fresh = SYSTEMS[name].build(graph, point, 0)
    fresh.fit(graph.x, fresh.context(graph), graph.train)
    assert not any(parameter.requires_grad for parameter in one.parameters())
    for buffer, again, new in zip(one.buffers(), two.buffers(), fresh.buffers(), strict=True):
        assert torch.equal(buffer, again)
        assert torch.equal(buffer, new)


@pytest.mark.parametrize("name", NODES)
def test_nodes(name, small_graph):
    fitted = small(name, small_graph)
    assert on_test(small_graph, fitted) > 0.4  # three classes
    rows = small_graph.test
    every = fitted.predict(torch.arange(small_graph.num_rows)).scores
    torch.testing.assert_close(fitted.predict(rows).scores, every[rows])


@pytest.mark.parametrize("name", sorted(set(RESERVOIRS) - set(NODES)))
def test_systems_for_graphs_refuse_nodes(name, small_graph):
    with pytest.raises(InputError, match="classifies graphs, not nodes"):
        fit(name, small_graph, Config(), 0)


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("name", RESERVOIRS)
def test_hostile_graphs_go_through(name, weights):
    graph = hostile_graphs(weights)
    fitted = small(name, graph)
    assert torch.isfinite(fitted.predict(torch.arange(graph.num_rows)).probabilities).all()


@pytest.mark.parametrize("name", NODES)
@pytest.mark.parametrize("edges", [np.zeros((2, 0), dtype=int), np.array([[0, 1, 1], [0, 2, 2]])])
def test_few_edges_or_none(name, edges):
    x = np.random.default_rng(0).random((12, 3))
    graph = make_graph(x, edges, np.arange(12) % 2, range(6), range(6, 9), range(9, 12))
    assert torch.isfinite(small(name, graph).predict(graph.test).scores).all()


@pytest.mark.parametrize("name", RESERVOIRS)
def test_the_best_on_validation_is_taken(name):
    graph = collection()
    fitted = small(name, graph)
    loop, rule = fitted.loop, graph.objective
    assert loop.history[loop.best_epoch] == max(loop.history)
    found = fitted.predict(graph.val)
    assert rule.score(found.scores, graph.y[graph.val]) == pytest.approx(max(loop.history))
    assert loop.epochs == len(loop.history)
    chosen = fitted.chosen
    assert chosen["depth"] in fitted.model.encoder.depths
    assert {k: v for k, v in chosen.items() if not isinstance(getattr(SMALL[name], k, None), tuple)}.items() >= {
        k: v for k, v in SMALL[name].__dict__.items() if not isinstance(v, tuple)
    }.items()


@pytest.mark.parametrize("name", RESERVOIRS)
def test_test_rows_have_no_part_in_the_choice(name):
    graph = collection()
    y = graph.y.clone()
    y[graph.test] = 1 - y[graph.test]
    one, other = (small(name, g) for g in (graph, replace(graph, y=y)))
    assert one.chosen == other.chosen
    assert torch.equal(one.predict(graph.test).scores, other.predict(graph.test).scores)


@pytest.mark.parametrize("name", RESERVOIRS)
def test_without_validation_rows_the_first_settings_and_the_deepest_network(name):
    graph = replace(collection(), val=torch.zeros(0, dtype=torch.int64))
    fitted = small(name, graph)
    assert fitted.loop.history == []
    assert isinstance(fitted.model.head, RidgeHead)
    assert fitted.chosen["depth"] == max(fitted.model.encoder.depths)
    first = choices(SMALL[name])[0].__dict__
    assert {k: fitted.chosen[k] for k in first} == first
    assert torch.isfinite(fitted.predict(graph.test).scores).all()


def test_every_epoch_of_a_trained_readout_is_tried():
    """MRGNN's network readout."""
    graph = collection()
    without = small("mrgnn", graph, epochs=0)
    with_network = small("mrgnn", graph, epochs=15)
    assert len(with_network.loop.history) - len(without.loop.history) == 2 * 15  # for both matrices
    assert with_network.loop.best >= without.loop.best


def test_the_readout_of_fdgnn_is_ridge_on_random_units_or_on_the_pooled_states_themselves():
    graph = collection("classification")
    projected, plain = small("fdgnn", graph), small("fdgnn", graph, projection=0)
    assert projected.model.projection.out_channels == 60
    assert plain.model.projection is None
    assert isinstance(plain.model.head, RidgeHead)
    assert plain.model.head.weight.shape[0] != projected.model.head.weight.shape[0] == 60
    encoder = plain.model.encoder
    pooled = encoder.columns(encoder.encode(graph.x, encoder.context(graph), graph.test), plain.model.depth)
    assert torch.allclose(plain.predict(graph.test).scores, plain.model.head(pooled), atol=1e-4)
