"""Random features by hand; rows beside landmarks, on which ridge regression is kernel ridge regression."""

import numpy as np
import pytest
import torch

from rapgnn.network.expand import KERNELS, KernelMap, RandomUnits
from rapgnn.network.heads import RidgeRegression

SHAPES = {"gauss": lambda d2: np.exp(-d2), "laplace": lambda d2: np.exp(-np.sqrt(d2))}


def rows(count, seed=0, columns=4):
    z = np.random.default_rng(seed).standard_normal((count, columns))
    return torch.from_numpy(z - z.mean(0)).float()


def fitted(z, landmarks, **how):
    found = KernelMap(z.shape[1], landmarks, **how)
    found.fit(z, torch.Generator().manual_seed(0))
    return found


def kernel(kind, one, other, unit, bandwidth=1.0, trend=False):
    """By its definition, one pair at a time."""
    d = np.linalg.norm(one[:, None] - other[None], axis=2) / unit
    return SHAPES[kind]((d / bandwidth) ** 2) + (2 * one @ other.T / unit**2 if trend else 0)


def unit_of(z):
    """The root of the mean squared distance of two rows, a row and itself included."""
    d = np.linalg.norm(z[:, None] - z[None], axis=2)
    return np.sqrt((d**2).mean())


@pytest.mark.parametrize("kind", sorted({*KERNELS, *SHAPES}))
@pytest.mark.parametrize(("bandwidth", "trend"), [(1.0, False), (0.7, False), (1.4, True)])
def test_inner_products_are_the_kernel(kind, bandwidth, trend):
    z = rows(30)
    seen = fitted(z, 30, kind=kind, bandwidth=bandwidth, trend=trend)(z).double()
    expected = kernel(kind, z.numpy(), z.numpy(), unit_of(z.numpy()), bandwidth, trend)
    # In single precision a row is 1e-7 away from itself, squared, of which exp(-d) has the root.
    np.testing.assert_allclose((seen @ seen.T / 30).numpy(), expected, atol=2e-4 if kind == "gauss" else 2e-3)


@pytest.mark.parametrize("kind", KERNELS)
def test_ridge_on_it_is_kernel_ridge(kind):
    z, new = rows(40), rows(25, seed=1)
    y = torch.sin(2 * z[:, :1]).double()
    found, penalty = fitted(z, 40, kind=kind), 1e-2
    seen = found(z).double()
    size = float((seen - seen.mean(0)).square().sum(0).mean())
    solution = RidgeRegression(seen, y).solve(penalty * 40 / size)  # λ is relative to the size of the columns
    unit = unit_of(z.numpy())
    own, other = (kernel(kind, part.numpy(), z.numpy(), unit) for part in (z, new))
    middle = np.eye(40) - 1 / 40
    # With a free level: (K, 1) with the rows less their means.
    alpha = np.linalg.solve(middle @ own @ middle + penalty * np.eye(40), (y - y.mean()).numpy())
    centred = (other - own.mean(0)) @ middle
    expected = centred @ alpha + float(y.mean())
    np.testing.assert_allclose((found(new).double() @ solution.weight + solution.bias).numpy(), expected, atol=2e-3)


def test_some_landmarks_are_nystroms_approximation():
    z = rows(50)
    found = fitted(z, 20)
    marks = found.landmarks.float().numpy()
    assert all((z.half().float().numpy() == mark).all(1).any() for mark in marks)
    assert len(np.unique(marks, axis=0)) == 20
    unit = unit_of(z.numpy())
    across, among = kernel("gauss", z.numpy(), marks, unit), kernel("gauss", marks, marks, unit)
    expected = across @ np.linalg.solve(among + 1e-6 * np.eye(20), across.T)
    seen = found(z).double()
    np.testing.assert_allclose((seen @ seen.T / 20).numpy(), expected, atol=5e-4)


@pytest.mark.parametrize("z", [torch.zeros(12, 3), rows(4).repeat(5, 1), torch.zeros(12, 0)])
def test_rows_that_are_the_same_stay_finite(z):
    found = fitted(z, 10)
    assert torch.isfinite(found(z)).all()
    assert found(z[:0]).shape == (0, 10)


def test_rows_in_blocks_are_the_same():
    z = rows(30)
    found = fitted(z, 8)
    whole = found(z)
    torch.testing.assert_close(found(z, at_once=7), whole, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("inputs", [0, 2, 99])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_random_features_by_hand(inputs, activation):
    z = 5 + 3 * torch.randn(200, 6, generator=torch.Generator().manual_seed(0))
    units = RandomUnits(6, 300, torch.Generator().manual_seed(1), inputs, activation)
    units.fit(z)
    found = units(z)
    standard = (z - z.mean(0)) / z.std(0, correction=0)
    by_hand = getattr(torch, activation)(standard @ units.weight + units.bias)
    torch.testing.assert_close(found, by_hand, rtol=1e-4, atol=1e-4)
    assert ((units.weight != 0).sum(0) == (6 if inputs in (0, 99) else inputs)).all()
    assert torch.linalg.matrix_rank(found - found.mean(0)) > 20  # no linear map of six columns
    torch.testing.assert_close(units.units(standard, slice(7, 40)), found[:, 7:40], rtol=1e-4, atol=1e-4)
    same = RandomUnits(6, 300, torch.Generator().manual_seed(1), inputs, activation)
    assert torch.equal(same.weight, units.weight)


def test_features_of_few_inputs_look_at_one_part():
    units = RandomUnits(12, 90, torch.Generator().manual_seed(0), inputs=3, groups=3)
    parts = (units.weight != 0).view(3, 4, 90).any(1)
    assert (parts.sum(0) == 1).all()
    assert (parts.sum(1) == 30).all()
