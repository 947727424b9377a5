"""Work on a large graph tells how far it is."""

import pytest
import torch

from rapgnn import RAPNodeClassifier
from rapgnn.training.predict import predictor_on


@pytest.mark.parametrize("error_bars", [False, True])
def test_every_hop_of_a_prediction_is_told(small_graph, error_bars):
    settings = {"backbone": "gcn", "jumping": "last", "head": "ridge", "embedding": "identity"}
    model = RAPNodeClassifier(num_layers=5, **settings).fit(small_graph)
    calls = []
    predict = predictor_on(model.model_, small_graph, error_bars=error_bars, on_hop=lambda: calls.append(1))
    predict(torch.arange(10))
    assert len(calls) == 6  # h⁰ and five hops, one block of columns
