"""Random matrices with signs and the layers made of them: the equation, sizes, pure draws."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from rapgnn.errors import InputError
from rapgnn.network.config import ACTIVATIONS
from rapgnn.sparse import SparseMatrix
from rapgnn_lab.baselines.random_layer import BOUNDS, MEASURES, RandomLayer, RandomMatrix, spectral_radius

X = torch.randn(60, 5, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("distribution", BOUNDS)
def test_a_draw_is_a_pure_function_of_seed_layer_and_slot(distribution):
    a = RandomMatrix(distribution, seed=3)
    one = a.draw(2, 7, 4, slot=1)
    torch.manual_seed(0)
    assert torch.equal(one, RandomMatrix(distribution, seed=3).draw(2, 7, 4, slot=1))
    for other in (a.draw(3, 7, 4, 1), a.draw(2, 7, 4, 2), RandomMatrix(distribution, seed=4).draw(2, 7, 4, 1)):
        assert not torch.allclose(one, other)
    assert float(one.min()) < 0 < float(one.max())


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("connections", [None, 1, 4])
def test_sizes_and_connections(measure, connections):
    matrix = RandomMatrix("uniform", connections, 0.7, measure).draw(0, 30, 30).double()
    assert MEASURES[measure](matrix) == pytest.approx(0.7, rel=1e-5)
    assert set((matrix != 0).sum(0).tolist()) == {connections or 30}
    assert spectral_radius(matrix) <= min(spectral_radius(matrix.abs()), MEASURES["norm"](matrix)) + 1e-6


@pytest.mark.parametrize(
    "settings",
    [{"distribution": "cauchy"}, {"measure": "rank"}, {"size": -1.0}, {"size": float("nan")}, {"connections": 0}],
)
def test_bad_settings_are_refused(settings):
    with pytest.raises(InputError):
        RandomMatrix(**settings)
    with pytest.raises(InputError):
        RandomMatrix(measure="radius").draw(0, 3, 4)
    with pytest.raises(InputError):
        RandomLayer(5, 0)


@pytest.mark.parametrize(("activation", "bias"), [*((name, 0.5) for name in ACTIVATIONS), ("tanh", 0.0)])
def test_the_equation(activation, bias):
    layer = RandomLayer(5, 8, RandomMatrix("uniform", seed=1), activation=activation, bias=bias)
    torch.testing.assert_close(layer(X), ACTIVATIONS[activation](X @ layer.weight + layer.bias))
    assert float(layer.bias.abs().max()) <= bias
    assert bool((layer.bias != 0).any()) == (bias > 0)
    assert list(layer.parameters()) == []
    x = np.random.default_rng(0).random((30, 5)) * (np.random.default_rng(1).random((30, 5)) < 0.3)
    torch.testing.assert_close(layer(SparseMatrix(sp.csr_matrix(x))), layer(torch.from_numpy(x).float()))
    assert RandomLayer(5, 3)(X[:0]).shape == (0, 3)
