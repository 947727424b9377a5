"""What all systems share: blocks change nothing, choices are all combinations, nothing can be trained."""

import pytest
import torch

from hostile_graphs import WEIGHTS, hostile_graphs
from rapgnn.datasets.synthetic import BlockModel
from rapgnn.models import graph_blocks as module
from rapgnn.models.graph_blocks import graph_blocks
from rapgnn.models.reservoirs.encoder import choices
from rapgnn.models.reservoirs.fdgnn import FDGNNSettings
from rapgnn.models.reservoirs.multiresolution import MRGNNSettings
from rapgnn.training.reservoirs import SYSTEMS


def made(name, graph):
    encoder = SYSTEMS[name].build(graph, choices(SYSTEMS[name].settings)[0], 0)
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
    monkeypatch.setattr(module, "BLOCK_BYTES", 4 * encoder.width * 8)  # 8 nodes
    assert len(list(graph_blocks(context.ptr, rows, encoder.width))) > 4
    for one, other in zip(whole, encoder.encode(graph.x, context, rows), strict=True):
        torch.testing.assert_close(other, one, atol=5e-3, rtol=1e-3)  # the iteration stops block by block
    assert all(bool(torch.isfinite(part).all()) for part in whole)
    every = encoder.encode(graph.x, context, torch.arange(graph.num_rows))
    for one, other in zip(whole, every, strict=True):
        torch.testing.assert_close(other[rows], one, atol=5e-3, rtol=1e-3)


@pytest.mark.parametrize("name", [name for name, system in SYSTEMS.items() if system.nodes])
def test_of_nodes_the_rows_asked_for_come_back(name):
    graph = BlockModel(nodes=80, classes=2, features=6, train=10, val=10, test=10).generate()
    encoder, context = made(name, graph)
    rows = torch.tensor([7, 3, 79])
    parts, every = (encoder.encode(graph.x, context, r) for r in (rows, torch.arange(80)))
    for part, whole in zip(parts, every, strict=True):
        assert torch.equal(part, whole[rows])
    assert len(encoder.encode(graph.x, context, rows, deepest=2)) == 2


@pytest.mark.parametrize("name", SYSTEMS)
def test_nothing_can_be_trained_and_another_seed_is_another_network(name):
    graph = hostile_graphs()
    encoder, context = made(name, graph)
    assert list(encoder.parameters()) == []
    other = SYSTEMS[name].build(graph, choices(SYSTEMS[name].settings)[0], 1)
    other.fit(graph.x, context, graph.train)
    rows = torch.arange(graph.num_rows)
    a, b = (e.encode(graph.x, context, rows)[-1] for e in (encoder, other))
    assert not torch.allclose(a, b)


def test_choices_are_all_combinations_of_what_is_a_tuple():
    points = choices(FDGNNSettings(radius=(0.1, 0.2), input_scaling=1.0, projection_scaling=(1.0, 2.0, 3.0)))
    assert len(points) == 6
    assert {(p.radius, p.projection_scaling) for p in points} == {(r, s) for r in (0.1, 0.2) for s in (1.0, 2.0, 3.0)}
    assert [p.projection_scaling for p in points[:3]] == [1.0, 2.0, 3.0]  # the readout's varies first
    assert choices(MRGNNSettings(matrix="adjacency")) == [MRGNNSettings(matrix="adjacency")]
