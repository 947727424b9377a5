"""Folds of a cross-validation."""

import numpy as np
import pytest
import torch

from rapgnn import InputError, make_graphs
from rapgnn.graph.splits import make_folds


def test_folds_are_stratified_and_cover_everything(molecules):
    folds = make_folds(molecules, 0)
    assert sorted(torch.cat(folds).tolist()) == list(range(120))
    for fold in folds:
        assert abs(float(molecules.y[fold].double().mean()) - float(molecules.y.double().mean())) < 0.1
    assert not all(torch.equal(a, b) for a, b in zip(folds, make_folds(molecules, 1), strict=True))


def test_too_few_graphs_for_ten_folds_are_refused():
    graph = make_graphs(np.ones((12, 1)), np.zeros((2, 0), dtype=int), np.ones(12, dtype=int), [0] * 9 + [1] * 3)
    with pytest.raises(InputError, match="rarest has 3"):
        make_folds(graph, 0)
