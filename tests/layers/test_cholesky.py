"""A factorisation adds what it takes, and no more."""

import pytest
import torch

from rapgnn.layers.cholesky import factored


def product(rank: int) -> torch.Tensor:
    a = torch.randn(6, rank, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return a @ a.T


@pytest.mark.parametrize(("shift", "added"), [(0.0, 1e-9), (-0.5, 1.0)])
def test_the_first_that_gives_one_is_added(shift, added):
    matrix = product(3) + shift * torch.eye(6, dtype=torch.float64)
    before = matrix.clone()
    factor = factored(matrix, 1e-9)
    expected = before + added * torch.eye(6, dtype=torch.float64)
    assert torch.allclose(factor @ factor.T, expected, atol=1e-8)
    assert torch.equal(matrix, before)


def test_it_ends_where_nothing_helps():
    matrix = torch.full((3, 3), float("nan"), dtype=torch.float64)
    assert factored(matrix, 1e-6, 1.0).shape == (3, 3)
    assert factored(matrix, 1e-6).shape == (3, 3)
    assert factored(torch.zeros(0, 0, dtype=torch.float64), 1e-6).shape == (0, 0)
