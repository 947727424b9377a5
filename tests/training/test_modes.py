"""Whatever default types and gradient modes a user has set, training and loading give the same numbers."""

from contextlib import contextmanager

import numpy as np
import pytest
import torch

from rapgnn import Config, RAPGraphClassifier, RAPNodeClassifier, fit
from rapgnn.training.methods import STRATEGIES

SMALL = {"search": False, "num_layers": 2, "hidden_channels": 8, "epochs": 3}
KINDS = [
    {},
    {"head": "ridge"},
    {"head": "mlp", "batch_norm": True},
    {"embedding": "learnable"},
    {"embedding": "pretrained-gnn"},
    {"random_features": 2},
    {"jumping": "cat"},
]


@contextmanager
def double_by_default():
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


MODES = {"float64": double_by_default, "no_grad": torch.no_grad, "inference_mode": torch.inference_mode}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("settings", KINDS, ids=str)
def test_estimators_train_save_and_load_the_same(mode, settings, small_graph, molecules, tmp_path):
    for estimator, data in ((RAPNodeClassifier, small_graph), (RAPGraphClassifier, molecules)):
        plain = estimator(**SMALL, settings={"pretrain_epochs": 2} | settings).fit(data)
        with MODES[mode]():
            fitted = estimator(**SMALL, settings={"pretrain_epochs": 2} | settings).fit(data)
            plain.save(tmp_path / estimator.__name__)
            loaded = estimator.load(tmp_path / estimator.__name__)
            found = fitted.predict_proba(data), loaded.predict_proba(data)
        assert {t.dtype for t in fitted.model_.parameters()} <= {torch.float32}
        for probabilities in found:
            np.testing.assert_allclose(probabilities, plain.predict_proba(data), atol=1e-6)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("method", STRATEGIES)
def test_methods_train_the_same(mode, method, small_graph):
    config = Config(num_layers=2, hidden_channels=8, epochs=3, pretrain_epochs=2)
    plain = fit(method, small_graph, config, 0).predict(small_graph.test).probabilities
    with MODES[mode]():
        again = fit(method, small_graph, config, 0).predict(small_graph.test).probabilities
    np.testing.assert_allclose(again.numpy(), plain.numpy(), atol=1e-6)
