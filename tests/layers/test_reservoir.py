"""Random layers: the equation, blocks, standardised units, draws that are fixed or new."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from rapgnn.errors import InputError
from rapgnn.layers.matrices import RandomMatrix
from rapgnn.layers.reservoir import NONLINEARITIES, RandomLayer
from rapgnn.sparse import SparseMatrix

X = torch.randn(60, 5, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("activation", NONLINEARITIES)
@pytest.mark.parametrize("bias", [0.0, 0.5])
def test_the_equation(activation, bias):
    layer = RandomLayer(5, 8, RandomMatrix("gaussian", seed=1), activation=activation, bias=bias)
    expected = NONLINEARITIES[activation](X @ layer.weight + layer.bias)
    torch.testing.assert_close(layer(X), expected)
    assert float(layer.bias.abs().max()) <= bias
    assert bool((layer.bias != 0).any()) == (bias > 0)
    assert list(layer.parameters()) == []


def test_sparse_features_give_the_same():
    x = np.random.default_rng(0).random((30, 5)) * (np.random.default_rng(1).random((30, 5)) < 0.3)
    layer = RandomLayer(5, 8)
    dense = torch.from_numpy(x).float()
    torch.testing.assert_close(layer(SparseMatrix(sp.csr_matrix(x))), layer(dense))


@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("block", [1, 7, None])
def test_blocks_of_rows_change_nothing(standardize, block):
    layer = RandomLayer(5, 8, standardize=standardize)
    rows = torch.tensor([3, 59, 0, 17, 18, 19, 20, 21, 22])
    if standardize:
        layer.fit_standardization(X, torch.arange(40), block)
    torch.testing.assert_close(torch.cat(list(layer.in_blocks(X, rows, block=block))), layer(X)[rows])


def test_units_are_standardised_over_the_rows_they_were_fitted_on_alone():
    layer = RandomLayer(5, 8, standardize=True)
    layer.fit_standardization(X, torch.arange(40))
    seen = layer(X[:40])
    torch.testing.assert_close(seen.mean(0), torch.zeros(8), atol=1e-5, rtol=0)
    torch.testing.assert_close(seen.std(0, correction=0), torch.ones(8), atol=1e-4, rtol=0)
    before = layer(X[40:])
    assert torch.equal(before, layer(torch.cat([X[40:], 100 * X]))[:20])  # other rows leave it as it is
    other = RandomLayer(5, 8, RandomMatrix(seed=9), standardize=True)
    other.load_state_dict(layer.state_dict())
    assert torch.equal(other(X), layer(X))


def test_redrawn_weights_are_those_of_the_step_and_fixed_ones_of_none():
    anew = RandomLayer(5, 8, RandomMatrix("gaussian", schedule="forward", seed=2), bias=0.1)
    assert anew.redrawn
    assert torch.equal(anew(X, 3), anew(X, 3))
    assert not torch.allclose(anew(X, 3), anew(X, 4))
    assert dict(anew.named_buffers())["weight"].numel() == 0  # nothing to save: the seed is all
    fixed = RandomLayer(5, 8, RandomMatrix("gaussian", seed=2))
    assert torch.equal(fixed(X, 3), fixed(X, 4))
    assert torch.equal(fixed(X), torch.tanh(X @ RandomMatrix("gaussian", seed=2).draw(0, 0, 5, 8)))


def test_no_features_and_no_rows():
    assert torch.equal(RandomLayer(0, 3)(torch.zeros(4, 0)), torch.zeros(4, 3))
    assert RandomLayer(5, 3)(X[:0]).shape == (0, 3)


def test_bad_layers_are_refused():
    with pytest.raises(InputError, match="activation 'step' is unknown"):
        RandomLayer(5, 8, activation="step")
    with pytest.raises(InputError, match="at least 1 unit"):
        RandomLayer(5, 0)
    with pytest.raises(InputError, match="finite number from 0 on"):
        RandomLayer(5, 8, bias=float("inf"))
    with pytest.raises(InputError, match="does not standardise"):
        RandomLayer(5, 8).fit_standardization(X, torch.arange(3))
