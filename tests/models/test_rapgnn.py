"""The module: draws, replays, drops out, takes batches as PyTorch Geometric does."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rapgnn import RAPGNN, InputError
from rapgnn.graph.tasks import TASKS
from rapgnn.propagation.stepwise import pooled
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


def test_the_module_drops_out_in_training_only(small_graph):
    model = RAPGNN(12, 16, 3, 3, embedding="fixed-random", dropout=0.9, schedule="fixed")
    x, edges = small_graph.x, small_graph.edge_index
    assert not torch.equal(model(x, edges), model(x, edges))
    model.eval()
    assert torch.equal(model(x, edges), model(x, edges))


def test_the_module_trains_its_embedding_through_the_layers(small_graph):
    model = RAPGNN(12, 8, 2, 3, embedding="learnable", seed=1)
    TASKS["node-classification"].loss(
        model(small_graph.x, small_graph.edge_index, rows=small_graph.train), small_graph.y[small_graph.train]
    ).backward()
    assert all(p.grad is not None and float(p.grad.abs().sum()) > 0 for p in model.embedding.parameters())


def test_the_module_takes_a_batch_as_pyg_does(molecules):
    model = RAPGNN(4, out_channels=3, edge_channels=3, **CONFIG.update(embedding="fixed-random").to_dict()).eval()
    batch = torch.repeat_interleave(torch.arange(120), molecules.ptr.diff())
    out = model(molecules.x, molecules.edge_index, edge_attr=molecules.edge_attr, batch=batch)
    assert out.shape == (120, 3)


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
