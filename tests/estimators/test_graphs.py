"""Estimators of many graphs."""

from dataclasses import replace

import numpy as np
import pytest

from rapgnn import RAPGraphClassifier, RAPGraphRegressor
from samples import graph_list, rings


def test_graph_regressor(tmp_path):
    graphs = graph_list(80, regression=True)
    model = RAPGraphRegressor().fit(graphs[:60])
    assert model.score(graphs[60:]) > 0.95
    values, spread = model.predict(graphs[60:], return_std=True)
    assert values.shape == spread.shape == (20,)
    drawn, drawn_spread = model.predict(graphs[60:], n_samples=400, return_std=True)
    np.testing.assert_allclose(values, drawn, atol=4 * spread.max() / 20 + 1e-4)
    np.testing.assert_allclose(spread, drawn_spread, rtol=0.3, atol=1e-3)
    model.save(tmp_path)
    np.testing.assert_array_equal(RAPGraphRegressor.load(tmp_path).predict(graphs), model.predict(graphs))


@pytest.mark.parametrize("numbers", [False, True])
def test_a_model_with_kernels_is_saved_as_it_is(tmp_path, numbers):
    graphs = rings(numbers=numbers)
    model = (RAPGraphRegressor if numbers else RAPGraphClassifier)(seed=1).fit(graphs)
    assert any(trial.settings["landmarks"] for trial in model.trials_)
    assert any(member.config.landmarks for member in model.model_.members)
    model.save(tmp_path / "model")
    again = type(model).load(tmp_path / "model")
    one, other = ((m.predict if numbers else m.predict_proba)(graphs) for m in (model, again))
    np.testing.assert_array_equal(one, other)
    some = replace(graphs, train=graphs.train[:5], val=graphs.val[:0], test=graphs.test[:0])
    np.testing.assert_array_equal((again.predict if numbers else again.predict_proba)(some), one)
