"""All reservoir systems: blocks change nothing, layers never change, validation chooses, any graph goes through."""

from dataclasses import replace

import pytest
import torch

from hostile_graphs import WEIGHTS, hostile_graphs, renumbered, shapes
from rapgnn import Config
from rapgnn.network import network as module
from rapgnn.network.network import graph_blocks
from rapgnn_lab.baselines.reservoir import choices
from rapgnn_lab.baselines.systems import RESERVOIRS, SYSTEMS, fit_reservoir
from samples import collection, on_test


def made(name, graph):
    encoder = SYSTEMS[name].build(graph, 0, choices(SYSTEMS[name].settings)[0])
    context = encoder.context(graph)
    if graph.ptr is not None:
        encoder.fit(graph.x, context, graph.train)
    return encoder, context


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("weights", WEIGHTS)
def test_blocks_of_graphs_change_nothing(name, weights, monkeypatch):
    graph = hostile_graphs(weights)
    encoder, context = made(name, graph)
    rows = torch.tensor([8, 3, 0, 1, 59, 40, 41, 42, 43, 9])
    whole = encoder.encode(graph.x, context, rows)
    monkeypatch.setattr(module, "ROW_BLOCK_BYTES", 4 * encoder.width * 8)  # 8 nodes
    assert len(list(graph_blocks(context.ptr, rows, encoder.width))) > 4
    for one, other in zip(whole, encoder.encode(graph.x, context, rows), strict=True):
        torch.testing.assert_close(other, one, atol=5e-3, rtol=1e-3)  # the iteration stops block by block
    assert all(bool(torch.isfinite(part).all()) for part in whole)
    every = encoder.encode(graph.x, context, torch.arange(graph.num_rows))
    for one, other in zip(whole, every, strict=True):
        torch.testing.assert_close(other[rows], one, atol=5e-3, rtol=1e-3)


@pytest.mark.parametrize("name", ["fdgnn", "u-gcn", "mrgnn"])
def test_the_numbering_of_nodes_does_not_matter(name):
    graph, found = hostile_graphs("signed"), []
    for same in (graph, renumbered(graph)):
        encoder, context = made(name, same)
        found.append(encoder.encode(same.x, context, torch.arange(graph.num_rows)))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, atol=5e-3, rtol=1e-3)


SMALL = {
    "fdgnn": {"units": 20, "num_layers": 2, "radius": (0.5, 0.9), "input_scaling": 1.0, "projection": 60},
    "u-gcn": {"units": 30, "num_layers": 2, "gain": (0.5, 1.0)},
    "mrgnn": {"units": 8, "resolutions": 3, "epochs": 15},
    "p-rgnn": {"units": 20, "radius": (0.3, 0.7), "input_scaling": 0.5},
}


def small(name, graph, seed=0):
    return fit_reservoir(name, graph, Config(), seed, **SMALL[name])


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
    assert a.predict(graph.test[:0]).scores.shape[0] == 0


@pytest.mark.parametrize("name", RESERVOIRS)
def test_the_best_on_validation_is_taken_and_test_rows_have_no_part_in_it(name):
    graph = collection()
    y = graph.y.clone()
    y[graph.test] = 1 - y[graph.test]
    fitted, other = (small(name, g) for g in (graph, replace(graph, y=y)))
    assert fitted.chosen == other.chosen
    assert torch.equal(fitted.predict(graph.test).scores, other.predict(graph.test).scores)
    loop = fitted.loop
    assert loop.history[loop.best_epoch] == max(loop.history)
    found = fitted.predict(graph.val)
    assert graph.objective.score(found.scores, graph.y[graph.val]) == pytest.approx(max(loop.history))
    assert fitted.chosen["depth"] in fitted.model.encoder.depths
    assert any(fitted.chosen.items() >= point.items() for point in choices(SMALL[name]))


@pytest.mark.parametrize("name", RESERVOIRS)
def test_without_validation_rows_the_first_settings_and_the_deepest_network(name):
    graph = replace(collection(), val=torch.zeros(0, dtype=torch.int64))
    fitted = small(name, graph)
    assert fitted.loop.history == []
    assert fitted.chosen["depth"] == max(fitted.model.encoder.depths)
    first = choices(SMALL[name])[0]
    assert {k: fitted.chosen[k] for k in first} == first
    assert torch.isfinite(fitted.predict(graph.test).scores).all()
