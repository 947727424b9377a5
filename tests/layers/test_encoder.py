"""The encoder of categories."""

import numpy as np
import torch

from rapgnn.datasets.categories import one_hot
from rapgnn.layers.encoder import Encoder
from rapgnn.prng import seeded


def test_the_encoder_is_a_sum_of_lookups():
    codes = np.array([[1, 0], [2, 1]])
    encoder = Encoder(5, 3, seeded(0, 0))
    table = encoder.table.weight
    by_hand = torch.stack([table[1] + table[3], table[2] + table[4]])
    torch.testing.assert_close(encoder(one_hot(codes, (3, 2), "atom")), by_hand)
