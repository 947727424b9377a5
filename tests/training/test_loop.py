"""Batches."""

import torch

from rapgnn import fit
from rapgnn.prng import seeded
from rapgnn.training.loop import shuffled
from samples import GRAPH_CONFIG as CONFIG


def test_batches_cover_every_row_once():
    parts = shuffled(10, 4, seeded(0, 0), torch.device("cpu"))
    assert [len(p) for p in parts] == [4, 4, 2]
    assert sorted(torch.cat(parts).tolist()) == list(range(10))
    assert len(shuffled(10, None, seeded(0, 0), torch.device("cpu"))) == 1


def test_every_batch_of_training_has_a_draw_of_its_own(molecules, monkeypatch):
    from rapgnn.propagation.polynomial import PolynomialFilter

    seen = []
    genuine = PolynomialFilter.coefficients
    monkeypatch.setattr(PolynomialFilter, "coefficients", lambda s, c: (seen.append(list(c)), genuine(s, c))[1])
    config = CONFIG.update(epochs=2, batch_size=40, embedding="fixed-random")
    fit("rap", molecules, config, 0)
    assert len(molecules.train) == 96
    assert seen[-1] == [0, 1, 2, 3, 4, 5]
    seen.clear()
    fit("rap", molecules, config.update(schedule="epoch"), 0)
    assert seen[-1] == [0, 0, 0, 1, 1, 1]
