"""Candidates of one search share what they can, bitwise as if they were alone, and let go of what is not needed."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from rapgnn import Config
from rapgnn.graph.graph import make_graphs
from rapgnn.graph.scores import BALANCED, with_goal
from rapgnn.network.hop_network import HopNetwork
from rapgnn.search.candidate import Candidate
from rapgnn.search.start import HOPS
from samples import collection

GIN = HOPS.update(backbone="gin", self_loops=False)
SHAPES = {
    "hops": GIN.update(degree_columns=True),
    "layers": GIN.update(coefficients="layers", width=12, num_layers=3, activation="tanh"),
    "units": GIN.update(units=20, log_hops=True, unit_hops=1),
}
RANDOM = Config(backbone="gin", num_layers=2, embedding="identity", head="ridge", activation="identity", ridge=None)


def sets(count=40):
    rng = np.random.default_rng(0)
    sizes = rng.integers(0, 7, count)  # some graphs have no nodes
    starts = np.cumsum(sizes) - sizes
    edges = [rng.integers(0, n, (2, 2 * n)) + s for n, s in zip(sizes, starts, strict=True) if n]
    split = {"train": np.arange(25), "val": np.arange(25, 33), "test": np.arange(33, count)}
    return make_graphs(
        rng.random((int(sizes.sum()), 4)), np.concatenate(edges, 1), sizes, np.arange(count) % 2, **split
    )


@pytest.mark.parametrize("name", SHAPES)
def test_networks_that_differ_in_the_pooling_share_one_pass_bitwise(name, monkeypatch):
    graph, shared, passes, once = sets(), {}, [], HopNetwork.pooled
    monkeypatch.setattr(HopNetwork, "pooled", lambda *args, **how: passes.append(1) or once(*args, **how))
    configs = [SHAPES[name].update(pooling=pooling) for pooling in ("log", "sum", "mean")]
    candidates = [Candidate(graph, config, 3, shared) for config in configs]
    assert len(passes) == 2  # of training and of validation rows
    for config, one in zip(configs, candidates, strict=True):
        alone = Candidate(graph, config, 3, {})
        assert torch.equal(one.scores(0.1, True), alone.scores(0.1, True))
        state, expected = (each.finished(0.1, 2.0).state_dict() for each in (one, alone))
        assert state.keys() == expected.keys()
        assert all(torch.equal(state[name], expected[name]) for name in expected)
        assert torch.equal(one.network.represent(graph, graph.val), one._held_out)


@pytest.mark.parametrize("config", [SHAPES["hops"], RANDOM])
def test_heads_that_were_solved_outlive_the_rows(config):
    graph = sets()
    candidate, other = (Candidate(graph, config, 3, {}) for _ in range(2))
    candidate.scores(0.1, False)
    candidate.scores(1.0, False)
    candidate.forget_rows(0.1)
    state, expected = (one.finished(0.1, 2.0).state_dict() for one in (candidate, other))
    assert all(torch.equal(state[name], expected[name]) for name in expected)
    with pytest.raises(AssertionError, match="forgotten"):
        candidate.finished(0.01, 2.0)
    held = [value for value in vars(candidate).values() if isinstance(value, torch.Tensor)]
    assert not any(len(value) for value in held)


def test_the_classes_weigh_the_same_when_heads_are_solved_again_with_all_rows():
    rows = torch.arange(120)
    graph = replace(collection(), train=rows[:60], val=rows[60:80], test=rows[80:])
    graph.y[graph.train[:20]] = 0
    everything = replace(graph, train=torch.cat([graph.train, graph.val]), val=graph.val[:0])
    balanced = with_goal(graph, "balanced_accuracy", BALANCED)
    again = Candidate(balanced, GIN, 0, {}).on(everything, {})
    expected = Candidate(with_goal(everything, "balanced_accuracy", BALANCED), GIN, 0, {})
    assert torch.equal(again.scores(0.1, True), expected.scores(0.1, True))
    assert not torch.equal(again.scores(0.1, True), Candidate(everything, GIN, 0, {}).scores(0.1, True))
