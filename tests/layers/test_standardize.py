"""Standardised channels: the same by blocks as at once, and kept for other rows."""

import pytest
import torch

from rapgnn.layers.standardize import Standard, Standardize


@pytest.mark.parametrize("sizes", [[200], [1, 199], [50, 0, 150], [3] * 66 + [2]])
def test_blocks_give_what_all_rows_give(sizes):
    generator = torch.Generator().manual_seed(0)
    rows = 5 * torch.rand(200, 4, generator=generator) + torch.tensor([0.0, 100.0, -3.0, 1e4])
    found = Standardize(4).fit(rows.split(sizes))
    expected = (rows.double() - rows.double().mean(0)) / rows.double().std(0, correction=0)
    torch.testing.assert_close(found(rows).double(), expected, atol=2e-3, rtol=0)
    other = torch.zeros(1, 4)
    torch.testing.assert_close(found(other), -found.mean * found.scale[None])


def test_a_constant_channel_becomes_zero_and_no_rows_change_nothing():
    rows = torch.stack([torch.full((10,), 0.1), torch.arange(10.0)], dim=1)
    assert float(Standardize(2).fit([rows])(rows)[:, 0].abs().max()) == 0
    assert torch.equal(Standardize(2).fit([rows[:0]])(rows), rows)


def test_it_is_saved_with_the_model():
    rows = torch.rand(20, 3, generator=torch.Generator().manual_seed(1))
    one, other = Standardize(3).fit([rows]), Standardize(3)
    other.load_state_dict(one.state_dict())
    assert torch.equal(one(rows), other(rows))


def test_columns_together_keep_their_sizes():
    z = torch.randn(100, 2, generator=torch.Generator().manual_seed(0)) * torch.tensor([1.0, 10.0])
    each, together = Standard(2), Standard(2, together=True)
    each.fit(z)
    together.fit(z)
    torch.testing.assert_close(each(z).std(0, correction=0), torch.ones(2))
    ratio = together(z).std(0)
    assert float(ratio[1] / ratio[0]) == pytest.approx(float(z[:, 1].std() / z[:, 0].std()))


def test_a_column_that_hardly_varies_beside_the_others_is_constant_for_one_and_not_for_the_other():
    rows = torch.randn(100, 2, generator=torch.Generator().manual_seed(2)) * torch.tensor([1.0, 1e-8])
    beside = Standard(2)
    beside.fit(rows)
    assert not beside(rows)[:, 1].any()
    torch.testing.assert_close(Standardize(2).fit([rows])(rows).std(0, correction=0), torch.ones(2))
