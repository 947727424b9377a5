"""Exact error bars are those of many draws."""

import numpy as np
import pytest
import torch

from rapgnn import Config, InputError, RAPNodeClassifier, from_pyg
from rapgnn.estimators.members import NetCandidate, RapCandidate
from rapgnn.models.average import Average
from rapgnn.models.net_config import NetConfig
from rapgnn.models.treated import TreatedConfig
from rapgnn.training.averaged import model_on
from samples import FAST, node_data


@pytest.mark.parametrize("head", ["ridge", "linear", "mlp"])
@pytest.mark.parametrize("jumping", ["last", "cat"])
def test_exact_error_bars_are_those_of_many_draws(head, jumping):
    data = node_data(x=torch.rand(300, 12, generator=torch.Generator().manual_seed(0)))
    settings = {"embedding": "fixed-random", "embedding_output": "split", "rescale": True}
    model = RAPNodeClassifier(
        num_layers=3, hidden_channels=64, head=head, jumping=jumping, epochs=50, settings=settings, search=False
    ).fit(data)
    mean, exact = model.predict_proba(data, method="exact", return_std=True)
    sampled, spread = model.predict_proba(data, n_samples=600, return_std=True)
    assert spread.max() > 1e-3
    large = spread > 0.2 * spread.max()
    ratio = exact[large] / spread[large]
    assert abs(np.median(ratio) - 1) < 0.05
    assert 0.75 < np.quantile(ratio, 0.02) < np.quantile(ratio, 0.98) < 1.3
    np.testing.assert_allclose(mean, sampled, atol=0.02)
    np.testing.assert_array_equal(model.predict_proba(data, method="exact", return_std=True)[1], exact)  # no sampling
    # Calibrated: of the draws of a probability, about 68 and 95 percent lie within one and two error bars.
    draws = np.stack([_draw(model, data, i) for i in range(200)])
    z = (np.abs(draws - mean) / np.maximum(exact, 1e-9))[:, large]
    assert 0.60 < (z < 1).mean() < 0.78
    assert (z < 2).mean() > 0.90


def _draw(model, data, number):
    model.model_.draw_counter.fill_(10_000 + number)
    return model.predict_proba(data, n_samples=1)


def test_exact_error_bars_are_refused_where_they_are_not_exact():
    data = node_data()
    model = RAPNodeClassifier(search=False, head="linear", embedding="identity", epochs=5).fit(
        data
    )  # signed: no shortcut
    assert model.engine_ == "stepwise"
    with pytest.raises(InputError, match="no exact form"):
        model.predict_proba(data, method="exact")
    assert model.predict_proba(data, return_std=True)[1].max() > 0  # by draws instead
    fixed = RAPNodeClassifier(**FAST).set_params(settings=FAST["settings"] | {"schedule": "fixed"}).fit(data)
    assert fixed.predict_proba(data, method="exact", return_std=True)[1].max() == 0


def test_exact_error_bars_of_an_average_are_those_of_many_draws_within_two_percent():
    """RAP networks and a random network that has no spread, with different weights."""
    graph = from_pyg(node_data(x=torch.rand(300, 12, generator=torch.Generator().manual_seed(0))))
    linear = {"embedding": "identity", "head": "ridge", "activation": "identity", "normalize_features": False}
    shapes = [
        TreatedConfig("none", 0, Config(**linear, num_layers=3)),
        TreatedConfig("length", 0, Config(**linear, backbone="sage", num_layers=2, jumping="cat")),
    ]
    members = [RapCandidate(graph, shape, seed, {}).finished(0.1, 3.0) for seed, shape in enumerate(shapes)]
    members.append(NetCandidate(graph, NetConfig(lift=32), 0, {}).finished(0.1, 3.0))
    average = Average(members, weights=[1.0, 0.5, 0.5])
    rows = torch.arange(300)
    exact = model_on(average, graph, inference="expected", error_bars=True)(rows)
    drawn = model_on(average, graph, inference="mean", num_samples=4000)(rows)
    assert exact.spread is not None
    assert drawn.spread is not None
    assert float(drawn.spread.max()) > 1e-3
    large = drawn.spread > 0.2 * drawn.spread.max()
    ratio = (exact.spread / drawn.spread)[large]
    assert abs(float(ratio.median()) - 1) < 0.02
    assert float(ratio.quantile(0.02)) > 0.85
    assert float(ratio.quantile(0.98)) < 1.15
