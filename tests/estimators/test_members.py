"""Candidates for an average: what they share changes nothing."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from rapgnn.estimators import members
from rapgnn.estimators.members import NetCandidate, RapCandidate
from rapgnn.graph.batch import make_graphs
from rapgnn.models.config import Config
from rapgnn.models.net_config import NetConfig
from rapgnn.models.random_net import RandomNet
from rapgnn.models.treated import TreatedConfig

SHAPES = {
    "hops": NetConfig(backbone="gin", places=True),
    "layers": NetConfig(backbone="gin", width=12, num_layers=3, activation="tanh"),
    "lift": NetConfig(backbone="gin", lift=20, logarithm=True, lift_hops=1),
}
LINEAR = {"backbone": "gin", "num_layers": 2, "embedding": "identity", "head": "ridge", "activation": "identity"}


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
    graph, kept, passes, once = sets(), {}, [], RandomNet.pooled
    monkeypatch.setattr(RandomNet, "pooled", lambda *args, **how: passes.append(1) or once(*args, **how))
    configs = [replace(SHAPES[name], pooling=pooling) for pooling in ("log", "sum", "mean")]
    candidates = [NetCandidate(graph, config, 3, kept) for config in configs]
    assert len(passes) == 2  # of training and of validation rows
    for config, shared in zip(configs, candidates, strict=True):
        alone = NetCandidate(graph, config, 3, {})
        assert torch.equal(shared.scores(0.1, True), alone.scores(0.1, True))
        found, expected = (one.finished(0.1, 2.0).state_dict() for one in (shared, alone))
        assert found.keys() == expected.keys()
        assert all(torch.equal(found[name], expected[name]) for name in expected)
        assert torch.equal(shared.net.represent(graph, graph.val), shared.val)


@pytest.mark.parametrize(("most", "left"), [(256 << 20, 3), (0, 1)])
def test_other_settings_are_another_pass_and_much_is_not_kept(most, left, monkeypatch):
    monkeypatch.setattr(members, "POOLED_BYTES", most)
    graph, kept, start = sets(), {}, SHAPES["layers"]
    for config in (start, replace(start, width=13), replace(start, activation="relu")):
        assert torch.equal(NetCandidate(graph, config, 3, kept).val, NetCandidate(graph, config, 3, {}).val)
    assert sum(key[0] == "pooled" for key in kept) == left


@pytest.mark.parametrize("config", [SHAPES["hops"], TreatedConfig(network=Config(**LINEAR))])
def test_heads_that_were_solved_outlive_the_rows(config):
    graph, kind = sets(), NetCandidate if isinstance(config, NetConfig) else RapCandidate
    candidate, other = (kind(graph, config, 3, {}) for _ in range(2))
    candidate.scores(0.1, False)
    candidate.scores(1.0, False)
    candidate.forget_rows()
    found, expected = (one.finished(0.1, 2.0).state_dict() for one in (candidate, other))
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    with pytest.raises(AssertionError, match="forgotten"):
        candidate.finished(0.01, 2.0)
    held = [value for value in vars(candidate).values() if isinstance(value, torch.Tensor)]
    assert not any(len(value) for value in held)
