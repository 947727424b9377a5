"""Random weights: a pure function of seed, counter, layer and slot, with the moments they promise."""

import pytest
import torch

from rapgnn import RandomWeights
from rapgnn.errors import InputError


@pytest.mark.parametrize("structure", ["diagonal", "full", "identity"])
@pytest.mark.parametrize("distribution", ["uniform", "normal"])
def test_a_draw_is_a_pure_function_of_seed_counter_and_layer(structure, distribution, fresh_random_state):
    weights = RandomWeights(structure, distribution=distribution, seed=7)
    batch = weights.draw([3, 9, 3], 5, 6)
    assert torch.equal(batch[0], batch[2])
    for position, counter in enumerate([3, 9]):
        for layer in range(5):
            assert torch.equal(weights.draw(counter, [layer], 6)[0, 0], batch[position, layer])
    assert torch.equal(RandomWeights(structure, distribution=distribution, seed=7).draw([9], 5, 6)[0], batch[1])


@pytest.mark.parametrize("change", [{"counter": 4}, {"layer": 1}, {"slot": 1}, {"seed": 8}])
def test_another_counter_layer_slot_or_seed_gives_other_numbers(change):
    at = {"counter": 3, "layer": 0, "slot": 0, "seed": 7}

    def draw(counter, layer, slot, seed):
        return RandomWeights(seed=seed).draw(counter, [layer], 32, slot)

    assert not torch.isclose(draw(**at), draw(**{**at, **change})).any()


def test_a_wider_layer_keeps_the_first_channels():
    weights = RandomWeights(seed=1)
    assert torch.equal(weights.draw(5, 3, 64)[..., :10], weights.draw(5, 3, 10))


@pytest.mark.parametrize(
    ("distribution", "params"), [("uniform", (0.0, 1.0)), ("uniform", (-1.0, 3.0)), ("normal", (0.5, 2.0))]
)
def test_moments_match_the_samples(distribution, params):
    weights = RandomWeights(distribution=distribution, params=params, seed=3)
    sample = weights.draw(range(200), 10, 100).double()
    assert sample.mean() == pytest.approx(weights.mean, abs=0.02)
    assert sample.square().mean() == pytest.approx(weights.second_moment, rel=0.02)
    assert (float(sample.min()) >= 0) == weights.nonnegative


def test_schedules():
    forward, epoch, fixed = (RandomWeights(schedule=s) for s in ("forward", "epoch", "fixed"))
    assert [forward.counter(step, 0) for step in (0, 1)] == [0, 1]
    assert [epoch.counter(step, 2) for step in (0, 1)] == [2, 2]
    assert fixed.counter(5, 3) == fixed.evaluation_counter(9) == 0
    assert forward.evaluation_counter(0) == epoch.evaluation_counter(0)
    assert forward.evaluation_counter(0) not in range(1 << 32)  # never a draw that training saw


@pytest.mark.parametrize(
    "bad",
    [
        {"structure": "banded"},
        {"schedule": "hourly"},
        {"distribution": "cauchy"},
        {"params": (0.0, float("nan"))},
        {"distribution": "normal", "params": (0.0, -1.0)},
    ],
)
def test_bad_settings_are_refused(bad):
    with pytest.raises(InputError):
        RandomWeights(**bad)


@pytest.mark.parametrize(("name", "bound"), [("glorot", (3 / 64) ** 0.5), ("linear", (1 / 64) ** 0.5)])
def test_full_matrices_may_be_drawn_by_their_width(name, bound):
    weights = RandomWeights("full", "forward", name, seed=3)
    drawn = weights.draw(range(4), 2, 64)
    assert drawn.shape == (4, 2, 64, 64)
    assert -bound <= float(drawn.min()) < -0.99 * bound
    assert 0.99 * bound < float(drawn.max()) <= bound
    assert float(drawn.double().square().mean()) == pytest.approx(weights.at(64).second_moment, rel=0.02)
    assert torch.equal(weights.draw([2], [1], 64)[0, 0], drawn[2, 1])
    assert (weights.mean, weights.nonnegative, weights.on_device) == (0.0, False, True)
    with pytest.raises(InputError, match="depends on the width"):
        _ = weights.second_moment
    with pytest.raises(InputError, match="for full matrices"):
        RandomWeights("diagonal", "forward", name)
