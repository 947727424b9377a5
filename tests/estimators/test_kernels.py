"""Heads that compare graphs: which are tried, what comes of them, and that nothing is lost by saving."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from rapgnn import RAPGraphClassifier, RAPGraphRegressor
from rapgnn.errors import InputError
from rapgnn.estimators.kernels import CLASSES, NUMBERS, REACHES, first_kernels, further_kernels
from rapgnn.estimators.net_costs import net_cost
from rapgnn.graph.batch import make_graphs
from rapgnn.models.net_config import NetConfig

FILTER = NetConfig(backbone="gin", pooling="log")
LAYERS = replace(FILTER, width=16)
COLOURS = NetConfig(colours=32, pooling="log", whiten=False)


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


def test_the_same_seed_gives_the_same_model():
    graphs = rings()
    one, other = (RAPGraphClassifier(seed=3).fit(graphs) for _ in range(2))
    np.testing.assert_array_equal(one.predict_proba(graphs), other.predict_proba(graphs))


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
        NetConfig(**settings)


def test_landmarks_are_drawn_by_the_seed_and_leave_the_global_state_alone():
    graphs = rings()
    before = torch.get_rng_state()
    models = [RAPGraphClassifier(seed=seed).fit(graphs) for seed in (0, 1)]
    assert torch.equal(torch.get_rng_state(), before)
    assert all(model.score(graphs, split="test") > 0.5 for model in models)


def test_labels_with_other_gaps_are_solved_apart_and_cost_as_much():
    graphs = rings()
    whole = np.random.default_rng(0).integers(0, 2, (420, 3)).astype(float)
    gaps = whole.copy()
    gaps[:200, 1], gaps[100:300, 2] = np.nan, np.nan
    net = replace(FILTER, kernel="gauss", landmarks=252)
    costs = [net_cost(replace(graphs, y=torch.from_numpy(y), num_outputs=3), net) for y in (whole, gaps)]
    assert costs[0] < costs[1] < 3 * costs[0]
