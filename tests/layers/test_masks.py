"""Masks that are drawn before the work runs are those that a generator would give while it runs."""

import torch

from rapgnn.layers.dropout import MOST_ENTRIES, Masks, dropout_dense, dropout_generator, words_for
from rapgnn.layers.mlp import MLP
from rapgnn.prng import Stream, seeded


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


def test_words_that_are_needed() -> None:
    assert words_for(17, 0.5) == 3
    assert words_for(17, 0.0) == words_for(17, 1e-4) == 0
    assert MLP([13, 7, 5], seeded(0, 0)).mask_words(9) == 0


def test_no_dropout_takes_no_words() -> None:
    masks, x = Masks(seeded(0, 0), 1, torch.device("cpu")), torch.ones(3, 100)
    assert dropout_dense(x, 0.0, masks) is x


def test_large_steps_draw_where_they_run() -> None:
    meta = torch.device("cpu")
    assert dropout_generator(1, Stream.DROPOUT, meta, 1).device.type == "cpu"
    assert dropout_generator(1, Stream.DROPOUT, meta, MOST_ENTRIES + 1).device.type == "cpu"
    if torch.cuda.is_available():
        gpu = torch.device("cuda")
        assert dropout_generator(1, Stream.DROPOUT, gpu, MOST_ENTRIES).device.type == "cpu"
        assert dropout_generator(1, Stream.DROPOUT, gpu, MOST_ENTRIES + 1).device.type == "cuda"
