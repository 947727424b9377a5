"""Dropout keeps the mean."""

import pytest
import torch


@pytest.mark.parametrize("p", [1e-4, 1e-3, 0.002, 0.1, 0.5, 0.9, 0.999])
def test_dropout_keeps_the_mean(p):
    from rapgnn.layers.dropout import dropout_dense

    x = torch.ones(400, 1000)
    out = dropout_dense(x, p, torch.Generator().manual_seed(0))
    assert float(out.mean()) == pytest.approx(1, abs=0.05)
    assert float((out == 0).double().mean()) == pytest.approx(p, abs=0.005)
