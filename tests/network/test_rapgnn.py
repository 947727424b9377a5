"""The module: draws, replays, batches; symmetry as in the paper; a graph prepared once, and what can be exported."""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

from rapgnn import RAPGNN, InputError, make_graphs
from rapgnn.network.stepwise import pooled
from samples import GRAPH_CONFIG as CONFIG
from samples import collection


def test_the_module_draws_anew_and_can_replay(small_graph, fresh_random_state):
    model = RAPGNN(12, 16, 3, 3, embedding="fixed-random", seed=5).eval()
    first, second = (model(small_graph.x, small_graph.edge_index) for _ in range(2))
    assert first.shape == (300, 3)
    assert not torch.equal(first, second)
    model.draw_counter.fill_(0)
    assert torch.equal(model(small_graph.x, small_graph.edge_index), first)
    other = RAPGNN(12, 16, 3, 3, embedding="fixed-random", seed=6)
    other.load_state_dict(model.state_dict())
    assert int(other.draw_counter) == 1
    fixed = RAPGNN(12, 16, 3, 3, embedding="fixed-random", schedule="fixed").eval()
    assert torch.equal(*(fixed(small_graph.x, small_graph.edge_index) for _ in range(2)))


def test_an_unsorted_batch_is_refused():
    model = RAPGNN(2, out_channels=2, **CONFIG.update(backbone="gin", embedding="fixed-random").to_dict())
    with pytest.raises(InputError, match="graph by graph"):
        model(torch.rand(4, 2), torch.zeros(2, 0, dtype=torch.int64), batch=torch.tensor([0, 1, 0, 1]))
    with pytest.raises(InputError, match="no edge may join"):
        model(torch.rand(4, 2), torch.tensor([[0], [3]]), batch=torch.tensor([0, 0, 1, 1]))


@settings(max_examples=25, deadline=None, derandomize=True)
@given(seed=st.integers(0, 500))
def test_permuting_the_nodes_of_graphs_changes_nothing(seed):
    graph = collection(graphs=6, seed=seed)
    rng = np.random.default_rng(seed)
    bounds = graph.ptr.numpy()
    order = np.concatenate([rng.permutation(np.arange(a, b)) for a, b in pairwise(bounds)])
    place = torch.from_numpy(np.argsort(order))
    moved = replace(graph, x=graph.x.rows(torch.from_numpy(order)), edge_index=place[graph.edge_index])
    model = RAPGNN(4, out_channels=2, edge_channels=3, **CONFIG.update(embedding="pretrained-gnn").to_dict())
    rows = []
    for g in (graph, moved):
        operator = g.operator("gine")
        h, e = model.embedding.embed(model.embedding.inputs(g.x, operator)), model.embedding.edges(operator)
        rows.append(pooled(model.spec, operator, h, 4, e=e))
    torch.testing.assert_close(rows[0], rows[1], rtol=1e-4, atol=1e-5)


def outputs(**settings) -> list[torch.Tensor]:
    """The rows of two isomorphic graphs: in one batch, in two batches of one epoch, in one batch of the next epoch."""
    edges, order = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]]), torch.tensor([2, 0, 3, 1])
    x = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.5, 0.0]])
    both = torch.cat([edges, order[edges] + 4], dim=1)
    graph = make_graphs(torch.cat([x, x[order.argsort()]]), both, [4, 4], [0, 1], [0, 1], [], [])
    config = CONFIG.update(**({"backbone": "gin", "embedding": "fixed-random"} | settings))
    model = RAPGNN(2, out_channels=2, **config.to_dict())
    rows = model.embed(graph.x, graph.operator("gin")).rows(torch.tensor([0, 1]))
    counters = [model.spec.weights.counter(*at) for at in ((0, 0), (1, 1), (2, 1), (3, 2))]
    batches = [torch.tensor(batch) for batch in ([0, 1], [0], [1], [0, 1])]
    drawn = list(rows.draws(counters, steps=range(4), batches=batches))
    return [drawn[0], torch.cat(drawn[1:3]), drawn[3]]


@pytest.mark.parametrize("engine", ["polynomial", "stepwise"])
@pytest.mark.parametrize("schedule", ["forward", "epoch", "fixed"])
def test_isomorphic_graphs_are_equal_where_they_share_a_draw(schedule, engine):
    """In one batch always, in two batches of an epoch where draws are of an epoch, in any where weights are fixed."""
    together, apart, later = outputs(schedule=schedule, engine=engine)
    for batch in (together, later):
        torch.testing.assert_close(batch[0], batch[1])
    assert torch.allclose(apart[0], apart[1]) == (schedule != "forward")
    assert torch.allclose(together[0], later[0]) == (schedule == "fixed")


def test_random_node_features_make_them_differ_even_in_one_batch():
    together, _, _ = outputs(random_features=3)
    assert not torch.allclose(together[0], together[1])


@pytest.fixture
def graph():
    g = torch.Generator().manual_seed(0)
    x, edges = torch.rand(40, 6, generator=g), torch.randint(0, 40, (2, 160), generator=g)
    return x, edges


def build(**settings):
    return RAPGNN(6, 8, 3, 2, **({"embedding": "fixed-random", "dropout": 0.0} | settings), seed=4)


@pytest.mark.parametrize("backbone", ["gcn", "sage", "gin"])
def test_a_prepared_graph_gives_the_draws_of_the_plain_call(graph, backbone):
    x, edges = graph
    plain, model = build(backbone=backbone), build(backbone=backbone)
    prepared = model.prepare(x, edges)
    assert prepared.engine == "polynomial"
    for _ in range(66):  # more than one block of draws
        torch.testing.assert_close(model(prepared), plain(x, edges), rtol=1e-4, atol=1e-5)
    assert int(model.draw_counter) == 66
    model.draw_counter.fill_(3)
    plain.draw_counter.fill_(3)
    torch.testing.assert_close(model(prepared), plain(x, edges), rtol=1e-4, atol=1e-5)  # back to an earlier draw


def test_rows_and_data_objects(graph):
    x, edges = graph
    model, rows = build().eval(), torch.tensor([5, 1, 7])
    whole = model.prepare(Data(x=x, edge_index=edges))
    torch.testing.assert_close(model(whole.rows(rows)), model(whole)[rows])
    torch.testing.assert_close(model(model.prepare(x, edges, rows=rows)), model(whole)[rows])
    for call in (model.prepare, model):
        with pytest.raises(InputError, match="edge_index"):
            call(x)


def test_evaluation_gives_the_expectation_and_training_draws(graph):
    x, edges = graph
    model = build()
    prepared = model.prepare(x, edges)
    with torch.no_grad():
        draws = torch.stack([model(prepared) for _ in range(2000)])
        assert not torch.equal(draws[0], draws[1])
        model.eval()
        expected = model(prepared)
    assert torch.equal(model(prepared), expected)
    error = (draws.mean(0) - expected).abs() / (draws.std(0) / math.sqrt(2000))
    assert float(error.max()) < 5
    sampling = build(inference="sample").eval()
    again = sampling.prepare(x, edges)
    assert not torch.equal(sampling(again), sampling(again))


def test_layers_one_by_one_are_prepared_too(graph):
    x, edges = graph
    model = build(structure="full")
    prepared = model.prepare(x, edges)
    assert prepared.engine == "stepwise"
    other = build(structure="full")
    torch.testing.assert_close(model(prepared), other(x, edges))
    with pytest.raises(InputError, match="no hops"):
        _ = prepared.hops


@pytest.mark.parametrize("settings", [{}, {"head": "mlp", "batch_norm": True}, {"head": "ridge"}, {"jumping": "cat"}])
def test_the_scorer_gives_the_expectation_and_can_be_exported(graph, settings):
    model = build(**settings).eval()
    prepared = model.prepare(*graph)
    scorer = model.scorer()
    with torch.no_grad():
        torch.testing.assert_close(scorer(prepared.hops), model(prepared), rtol=1e-4, atol=1e-5)
        program = torch.export.export(scorer, (prepared.hops,))
        torch.testing.assert_close(program.module()(prepared.hops), model(prepared), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("settings", [{}, {"structure": "full"}, {"backbone": "sage"}])
def test_autocast_on_the_cpu(graph, settings):
    x, edges = graph
    model = build(**settings)
    prepared = model.prepare(x, edges)
    plain = build(**settings)(x, edges)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(model(prepared).float(), plain, rtol=0.05, atol=0.05)
        model.draw_counter.fill_(0)
        torch.testing.assert_close(model(x, edges).float(), plain, rtol=0.05, atol=0.05)
        model.eval()
        assert torch.isfinite(model(model.prepare(x, edges))).all()
