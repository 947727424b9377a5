"""Encoders by hand; dropout keeps the mean; masks that are drawn before the work runs are those of a generator."""

import numpy as np
import pytest
import torch

from rapgnn.datasets.tu import one_hot
from rapgnn.network.mlp import MLP, Encoder, Masks, dropout_dense
from rapgnn.prng import Stream, seeded


@pytest.mark.parametrize("p", [0.0, 1e-4, 0.1, 0.5, 0.999])
def test_dropout_keeps_the_mean(p):
    x = torch.ones(400, 1000)
    out = dropout_dense(x, p, torch.Generator().manual_seed(0))
    assert float(out.mean()) == pytest.approx(1, abs=0.05)
    assert float((out == 0).double().mean()) == pytest.approx(p, abs=0.005)


def test_masks_are_the_generators() -> None:
    mlp = MLP([13, 7, 5], seeded(0, 0), dropout=0.4)
    h, generator = torch.randn(9, 13), seeded(3, Stream.DROPOUT)
    words = 2 * mlp.mask_words(9)
    masks = Masks(seeded(3, Stream.DROPOUT), words, torch.device("cpu"))
    for _ in range(2):
        masks.refill(words)
        masks.restart()
        for _ in range(2):
            assert torch.equal(mlp(h, masks), mlp(h, generator))


def test_the_encoder_is_a_sum_of_lookups():
    codes = np.array([[1, 0], [2, 1]])
    encoder = Encoder(5, 3, seeded(0, 0))
    table = encoder.table.weight
    by_hand = torch.stack([table[1] + table[3], table[2] + table[4]])
    torch.testing.assert_close(encoder(one_hot(codes, (3, 2), "atom")), by_hand)
