"""A row with weight k in the ridge head is k copies of the row, its variance included."""

import torch

from rapgnn.layers.ridge import RidgeRegression


def test_a_weight_is_a_number_of_copies():
    generator = torch.Generator().manual_seed(0)
    mean = torch.randn(12, 5, generator=generator)
    targets = torch.randn(12, 2, generator=generator)
    variance = torch.rand(12, 5, generator=generator)
    weights = torch.tensor([1.0, 3, 2] * 4)
    copies = torch.arange(12).repeat_interleave(weights.long())
    scatter = (weights @ variance)[:, None, None]
    weighed = RidgeRegression(mean, targets, [scatter], weights).solve(0.1)
    copied = RidgeRegression(mean[copies], targets[copies], [variance[copies].sum(0)[:, None, None]]).solve(0.1)
    torch.testing.assert_close(weighed.weight, copied.weight)
    torch.testing.assert_close(weighed.bias, copied.bias)


def test_equal_weights_change_nothing():
    generator = torch.Generator().manual_seed(1)
    mean, targets = torch.randn(20, 6, generator=generator), torch.randn(20, 3, generator=generator)
    targets[3, 1] = float("nan")  # a gap: this label has rows of its own
    scatter = [torch.rand(6, 1, 1, generator=generator) for _ in range(2)]
    plain = RidgeRegression(mean, targets, scatter).solve(1.0)
    weighed = RidgeRegression(mean, targets, scatter, torch.ones(20)).solve(1.0)
    torch.testing.assert_close(weighed.weight, plain.weight)
    torch.testing.assert_close(weighed.bias, plain.bias)
