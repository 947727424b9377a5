"""scikit-learn's contract, kept on graphs."""

import copy
import io

import joblib
import numpy as np
import pytest
import torch
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.model_selection import GridSearchCV, cross_val_score

from rapgnn import InputError, RAPGraphClassifier, RAPGraphRegressor, RAPNodeClassifier, RAPNodeRegressor
from samples import graph_list, node_data

ESTIMATORS = (RAPNodeClassifier, RAPNodeRegressor, RAPGraphClassifier, RAPGraphRegressor)
NODES = (RAPNodeClassifier, RAPNodeRegressor)


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_params_round_trip_clone_and_joblib(cls):
    estimator = cls(num_layers=3, dropout=0.1, settings={"factors": 2}, seed=7)
    params = estimator.get_params()
    assert set(params) == set(vars(estimator))  # __init__ stores its arguments and does nothing else
    twin = clone(estimator)
    assert twin.get_params() == params
    assert twin is not estimator
    assert cls().set_params(**params).get_params() == params
    with pytest.raises(ValueError, match="Invalid parameter"):
        estimator.set_params(nonsense=1)
    buffer = io.BytesIO()
    joblib.dump(estimator, buffer)
    buffer.seek(0)
    assert joblib.load(buffer).get_params() == params
    assert "num_layers=3" in repr(estimator)


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_a_setting_is_refused_at_fit_and_not_before(cls):
    data = node_data() if cls in NODES else graph_list(20, regression=cls is RAPGraphRegressor)
    for wrong in ({"num_layers": 0}, {"backbone": "nonsense"}, {"settings": {"nonsense": 1}}, {"device": "tpu"}):
        estimator = cls(**wrong)
        with pytest.raises(InputError):
            estimator.fit(data)
        assert not hasattr(estimator, "model_")


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_unfitted_estimators_say_so(cls, tmp_path):
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    data = node_data() if cls in NODES else graph_list(4)
    estimator = cls()
    for use in (estimator.predict, estimator.transform, estimator.score):
        with pytest.raises(NotFittedError, match="call fit first"):
            use(data)
    with pytest.raises(InputError, match="call fit first"):
        estimator.save(tmp_path / "model")
    with pytest.raises(NotFittedError):
        check_is_fitted(estimator)


def test_fit_returns_self_leaves_params_and_data_alone_and_repeats(fresh_random_state):
    data = node_data()
    before = {key: copy.deepcopy(value) for key, value in data.to_dict().items()}
    estimator = RAPNodeClassifier(seed=3)
    params = estimator.get_params()
    assert estimator.fit(data) is estimator
    assert estimator.get_params() == params
    for key, value in data.to_dict().items():
        assert torch.equal(value, before[key])
    again = clone(estimator).fit(data)
    np.testing.assert_array_equal(estimator.predict_proba(data), again.predict_proba(data))
    assert [t.settings for t in estimator.trials_] == [t.settings for t in again.trials_]
    refitted = estimator.fit(node_data(seed=1))  # a second fit forgets the first
    np.testing.assert_array_equal(
        refitted.predict_proba(node_data(seed=1)),
        RAPNodeClassifier(seed=3).fit(node_data(seed=1)).predict_proba(node_data(seed=1)),
    )


def test_kinds():
    assert is_classifier(RAPNodeClassifier())
    assert is_classifier(RAPGraphClassifier())
    assert is_regressor(RAPNodeRegressor())
    assert is_regressor(RAPGraphRegressor())


def test_node_classifier_end_to_end(tmp_path):
    data = node_data()
    model = RAPNodeClassifier(backbone="gcn", num_layers=4, hidden_channels=32, seed=0).fit(data)
    labels = model.predict(data)
    assert labels.shape == (300,)
    assert set(labels) <= set(model.classes_.tolist()) == {0, 1, 2}
    probabilities = model.predict_proba(data)
    assert probabilities.shape == (300, 3)
    np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-5)
    np.testing.assert_array_equal(model.classes_[probabilities.argmax(1)], labels)
    test = data.test_mask.numpy()
    assert model.score(data, split="test") == pytest.approx((labels[test] == data.y.numpy()[test]).mean())
    assert model.score(data, split="test") > 0.85
    assert model.score(data) == pytest.approx((labels == data.y.numpy()).mean())
    assert model.n_features_in_ == 12
    assert model.config_.num_layers == 4
    assert model.validation_score_ > 0.8
    assert model.transform(data).shape == (300, model.model_.embedding.out_channels * len(model.model_.spec.outputs))
    model.save(tmp_path / "model")
    loaded = RAPNodeClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(data), probabilities)
    np.testing.assert_array_equal(loaded.predict(data), labels)
    assert loaded.classes_.tolist() == [0, 1, 2]
    assert loaded.fit(data).score(data, split="test") > 0.85  # it can be trained again
    with pytest.raises(InputError, match="is for node-classification, not for graph-classification"):
        RAPGraphClassifier.load(tmp_path / "model")


def test_grid_search_and_cross_validation_over_graph_lists():
    graphs = graph_list(48)
    y = [int(g.y) for g in graphs]
    grid = {"num_layers": [1, 2], "pooling": ["sum", "mean"]}
    base = RAPGraphClassifier(embedding="identity", head="ridge", search=False, settings={"batch_size": None})
    search = GridSearchCV(base, grid, cv=3).fit(graphs, y)
    assert search.best_score_ > 0.75
    assert search.best_params_["num_layers"] in (1, 2)
    assert (search.predict(graphs) == y).mean() > 0.75
    scores = cross_val_score(base, graphs, y, cv=3, n_jobs=2)
    assert scores.shape == (3,)
    assert scores.mean() > 0.75
    fitted = base.fit(graphs, y)
    assert fitted.split_["train"].size == 48  # a fifth chose the penalty, then all were used
    assert fitted.split_["val"].size == 0
    with pytest.raises(InputError, match="validation_score_"):
        fitted.score(graphs, y, split="val")
    numbers = [float(len(g.x)) for g in graphs]
    assert cross_val_score(RAPGraphRegressor(head="ridge", embedding="identity"), graphs, numbers, cv=3).mean() > 0.8
