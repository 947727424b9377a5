"""Random matrices with signs: shapes, connections, sizes, and draws that are pure functions."""

import pytest
import torch

from rapgnn.errors import InputError
from rapgnn.layers.matrices import MATRICES, MEASURES, RandomMatrix, spectral_norm, spectral_radius


@pytest.mark.parametrize("distribution", MATRICES)
def test_a_draw_is_a_pure_function_of_seed_counter_layer_and_slot(distribution):
    a = RandomMatrix(distribution, seed=3)
    one = a.draw(5, 2, 7, 4, slot=1)
    torch.manual_seed(0)
    assert torch.equal(one, RandomMatrix(distribution, seed=3).draw(5, 2, 7, 4, slot=1))
    for other in (a.draw(6, 2, 7, 4, 1), a.draw(5, 3, 7, 4, 1), a.draw(5, 2, 7, 4, 2)):
        assert not torch.allclose(one, other)
    assert not torch.allclose(one, RandomMatrix(distribution, seed=4).draw(5, 2, 7, 4, 1))
    assert (one > 0).any()
    assert (one < 0).any()


@pytest.mark.parametrize(("distribution", "deviation"), [("gaussian", 0.1), ("glorot", (2 / 300) ** 0.5)])
def test_entries_have_the_deviation_of_their_distribution(distribution, deviation):
    matrix = RandomMatrix(distribution).draw(0, 0, 100, 200)
    assert float(matrix.std()) == pytest.approx(deviation, rel=0.03)
    assert abs(float(matrix.mean())) < 0.1 * deviation


@pytest.mark.parametrize(("rows", "columns"), [(6, 6), (9, 4), (4, 9)])
def test_orthogonal_matrices_keep_lengths(rows, columns):
    matrix = RandomMatrix("orthogonal").draw(0, 0, rows, columns)
    small = matrix.T @ matrix if rows >= columns else matrix @ matrix.T
    torch.testing.assert_close(small, torch.eye(min(rows, columns)), atol=1e-5, rtol=0)


@pytest.mark.parametrize("connections", [1, 3, 20, 50])
def test_every_unit_has_its_number_of_connections(connections):
    matrix = RandomMatrix("uniform", connections).draw(0, 0, 20, 30)
    assert set((matrix != 0).sum(0).tolist()) == {min(connections, 20)}
    if connections < 20:
        assert len({tuple(c.nonzero()[:, 0].tolist()) for c in matrix.T}) > 5  # not the same inputs for all


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("connections", [None, 1, 4])
def test_the_size_is_the_measures_value(measure, connections):
    matrix = RandomMatrix("gaussian", connections, 0.7, measure).draw(0, 0, 30, 30).double()
    assert MEASURES[measure](matrix) == pytest.approx(0.7, rel=1e-5)
    assert spectral_radius(matrix) <= spectral_radius(matrix.abs()) + 1e-6
    assert spectral_radius(matrix) <= spectral_norm(matrix) + 1e-6


def test_one_connection_per_unit_has_one_radius():
    """The cycles of the units decide it, whatever the signs: ρ(W) = ρ(|W|)."""
    for seed in range(5):
        matrix = RandomMatrix("uniform", 1, seed=seed).draw(0, 0, 40, 40).double()
        assert spectral_radius(matrix) == pytest.approx(spectral_radius(matrix.abs()), rel=1e-6)
        assert spectral_norm(matrix) > 1.05 * spectral_radius(matrix)


def test_nothing_to_scale_stays_as_it_is():
    assert RandomMatrix("uniform", size=2.0, measure="norm").draw(0, 0, 0, 4).shape == (0, 4)
    assert float(RandomMatrix("uniform", size=0.0).draw(0, 0, 3, 3).abs().max()) == 0


def test_schedules_say_which_draw():
    fixed, anew = RandomMatrix(), RandomMatrix(schedule="forward")
    assert [fixed.counter(s) for s in (0, 7)] == [0, 0]
    assert [anew.counter(s) for s in (0, 7)] == [0, 7]
    assert fixed.evaluation_counter(3) == 0
    assert anew.evaluation_counter(3) > 1 << 39


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"distribution": "cauchy"}, "matrix distribution 'cauchy' is unknown"),
        ({"measure": "rank"}, "matrix measure 'rank' is unknown"),
        ({"schedule": "epoch"}, "matrix schedule 'epoch' is unknown"),
        ({"size": -1.0}, "from 0 on, got -1.0"),
        ({"size": float("nan")}, "finite number"),
        ({"connections": 0}, "at least 1 connection"),
        ({"distribution": "orthogonal", "connections": 2}, "orthogonal matrix is full"),
    ],
)
def test_bad_settings_are_refused(settings, said):
    with pytest.raises(InputError, match=said):
        RandomMatrix(**settings)


def test_only_square_matrices_have_a_radius():
    with pytest.raises(InputError, match="only a square matrix"):
        RandomMatrix(measure="radius").draw(0, 0, 3, 4)
