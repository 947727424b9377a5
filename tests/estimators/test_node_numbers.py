"""Numbers for nodes: one target or several, with gaps; saved, scored, searched, refused as classes are."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.metrics import r2_score

from rapgnn import (
    InputError,
    InputNotice,
    RAPGraphRegressor,
    RAPNodeClassifier,
    RAPNodeRegressor,
    fit,
    from_pyg,
    make_graph,
)
from rapgnn.compare import STRATEGIES
from rapgnn.estimators import estimator_for
from samples import FAST, NODE_CONFIG, node_data, on_test


def numbers(several: bool = False):
    """A feature that was handed on once, on a scale of its own."""
    data = node_data()
    near = (from_pyg(data).operator("gcn").matrix @ data.x)[:, :2]
    data.y = (50 * near + 1000) if several else 50 * near[:, 0] + 1000
    data.train_mask = ~(data.val_mask | data.test_mask)
    return data


@pytest.mark.parametrize(
    ("settings", "least"),
    [
        ({}, 0.8),
        (FAST, 0.8),
        ({"search": False, "head": "mlp", "epochs": 100}, 0.3),  # general settings: the features are normalised
        ({"search": False, "head": "linear", "epochs": 100}, 0.3),
    ],
)
def test_one_target_is_learned_and_saved(settings, least, tmp_path):
    data = numbers()
    model = RAPNodeRegressor(**settings).fit(data)
    values, test = model.predict(data), data.test_mask.numpy()
    assert values.shape == (300,)
    wanted = r2_score(data.y[test], values[test])
    assert model.score(data, split="test") == pytest.approx(wanted, abs=1e-5)
    assert wanted > least
    assert not hasattr(model, "classes_")
    assert model.validation_score_ < 25  # RMSE, as for whole graphs
    found, spread = model.predict(data, return_std=True)
    np.testing.assert_allclose(found, values, rtol=1e-5)
    assert spread.shape == (300,)
    assert spread.min() >= 0
    assert model.transform(data).shape[0] == 300
    model.save(tmp_path)
    loaded = RAPNodeRegressor.load(tmp_path)
    np.testing.assert_array_equal(loaded.predict(data), values)
    assert estimator_for(loaded.schema_.task) is RAPNodeRegressor
    for other in (RAPNodeClassifier, RAPGraphRegressor):
        with pytest.raises(InputError, match="is for node-regression, not for"):
            other.load(tmp_path)


def test_several_targets_with_gaps_are_learned_apart():
    data = numbers(several=True)
    y = data.y.clone()
    y[::3, 1] = float("nan")
    y[1::7] = float("nan")  # nothing known
    model = RAPNodeRegressor(**FAST, ridge=1e-3).fit(data, y)
    values = model.predict(data)
    assert values.shape == (300, 2)
    test = data.test_mask.numpy()
    assert r2_score(data.y[test], values[test]) > 0.8
    second = RAPNodeRegressor(**FAST, ridge=1e-3).fit(data, y[:, 1])
    np.testing.assert_allclose(values[:, 1], second.predict(data), rtol=1e-4)
    parts = [r2_score(y[test][k, j], values[test][k, j]) for j, k in enumerate((~y[test].isnan()).T.numpy())]
    assert model.score(data, y, split="test") == pytest.approx(np.mean(parts), abs=1e-4)


def test_every_way_in_gives_the_same_numbers():
    data = numbers()
    x, edges, y = data.x.numpy(), data.edge_index.numpy(), data.y.numpy().astype(float)
    y[data.test_mask] = np.nan
    del data.test_mask
    masks = {s: data[f"{s}_mask"].numpy() for s in ("train", "val")}
    wanted = RAPNodeRegressor(**FAST).fit(data, y, **masks).predict(data)

    def agree(model, *args, **given):
        np.testing.assert_allclose(model.predict(*args, **given), wanted, rtol=2e-4)

    gaps = [None if v != v else v for v in y]
    forms = [y, y.tolist(), gaps, torch.tensor(y), pd.Series(y), pd.Series(gaps, dtype="Float64"), y[:, None]]
    forms += [pd.DataFrame({"y": y}), pd.DataFrame({"y": pd.Series(gaps, dtype="Float64")}), np.array(gaps, object)]
    for form in forms:
        agree(RAPNodeRegressor(**FAST).fit(x, form, edge_index=edges, **masks), x, edge_index=edges)
    rest = RAPNodeRegressor(**FAST).fit(x, y, edge_index=edges, val=masks["val"])  # all other known rows train
    np.testing.assert_array_equal(rest.split_["train"], np.flatnonzero(masks["train"]))
    with pytest.warns(InputNotice, match="the labelled nodes were divided"):
        RAPNodeRegressor(**FAST).fit(x, y, edge_index=edges)
    with pytest.raises(InputError, match="an estimator for node-regression, but the data are for node-class"):
        RAPNodeRegressor(**FAST).fit(from_pyg(node_data()))
    with pytest.raises(InputError, match="task 'ranking' is unknown"):
        make_graph(x, edges, y, masks["train"], masks["val"], [], task="ranking")


@pytest.mark.parametrize("method", STRATEGIES)
def test_the_baselines_take_numbers_for_nodes(method):
    graph = from_pyg(numbers(), task="regression")
    fitted = fit(method, graph, NODE_CONFIG.update(epochs=10, pretrain_epochs=10), 0)
    spread = float(graph.y[graph.test].std())
    assert 0 < on_test(graph, fitted) < 1.5 * spread
