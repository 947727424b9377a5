"""scikit-learn divides the nodes of one graph, and searches over arguments of all four estimators."""

import pickle
from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    PredefinedSplit,
    StratifiedKFold,
    cross_val_predict,
    cross_val_score,
    cross_validate,
    train_test_split,
)

from rapgnn import (
    InputError,
    NodeRows,
    RAPGraphClassifier,
    RAPGraphRegressor,
    RAPNodeClassifier,
    RAPNodeRegressor,
    from_pyg,
    make_graph,
)
from rapgnn.datasets.synthetic import BlockModel
from rapgnn.sparse import dense
from samples import graph_list, node_data

ONCE = {"embedding": "identity", "head": "ridge", "search": False}
WORDS = np.array(["ant", "bee", "cat"])


def of(kind):
    """(X, y, estimator) as scikit-learn takes them."""
    data = node_data()
    if kind is RAPNodeClassifier:
        rows = NodeRows(data)
        return rows, rows.y, kind(**ONCE)
    if kind is RAPNodeRegressor:
        near = (from_pyg(data).operator("gcn").matrix @ data.x)[:, 0].numpy()
        rows = NodeRows(data.x.numpy(), 10 * near, edge_index=data.edge_index)
        return rows, rows.y, kind(**ONCE)
    graphs = graph_list(36, regression=kind is RAPGraphRegressor)
    return graphs, [float(g.y) if kind is RAPGraphRegressor else int(g.y) for g in graphs], kind(**ONCE)


KINDS = [RAPNodeClassifier, RAPNodeRegressor, RAPGraphClassifier, RAPGraphRegressor]


@pytest.mark.parametrize("kind", KINDS)
def test_grid_search_over_arguments(kind):
    X, y, base = of(kind)
    numbers = kind in (RAPNodeRegressor, RAPGraphRegressor)
    grid = {
        "backbone": ["gin", "gcn"] if kind in (RAPGraphClassifier, RAPGraphRegressor) else ["gcn", "sage"],
        "num_layers": [1, 2],
        "settings": [None, {"rescale": False}],
    }
    search = GridSearchCV(base, grid, cv=3, error_score="raise").fit(X, y)
    assert len(search.cv_results_["mean_test_score"]) == 8
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_score_ > 0.6
    assert len(search.predict(X)) == len(y)
    assert search.score(X, y) > 0.6
    assert search.best_estimator_.config_.num_layers == search.best_params_["num_layers"]
    names = ["rmse", "mae", "r2"] if numbers else ["accuracy", "log_loss", "rocauc", "calibration_error"]
    search = GridSearchCV(base, {"scoring": names}, cv=3, error_score="raise").fit(X, y)
    found = dict(zip(names, search.cv_results_["mean_test_score"], strict=True))
    lower = {"rmse", "mae", "log_loss", "calibration_error"}
    assert {name for name, value in found.items() if value < 0} == lower & set(names)
    own = ["r2", "neg_mean_absolute_error"] if numbers else ["accuracy", "neg_log_loss", "f1_macro"]
    other = cross_validate(base, X, y, cv=3, scoring=own, error_score="raise")
    np.testing.assert_allclose(other[f"test_{own[0]}"].mean(), found[own[0]], atol=1e-5)
    mine, theirs = ("mae", "neg_mean_absolute_error") if numbers else ("rocauc", "roc_auc_ovr")
    other = cross_val_score(clone(base).set_params(scoring=mine), X, y, cv=3, scoring=theirs, error_score="raise")
    np.testing.assert_allclose(other.mean(), found[mine], atol=1e-4)


def test_a_fold_learns_from_its_own_labels_alone():
    data = node_data()
    rows = NodeRows(data)
    part, held = rows[np.arange(150)], rows[np.arange(150, 300)]
    model = RAPNodeClassifier(**ONCE).fit(part, part.y)
    spoiled = data.clone()
    spoiled.y[150:] = (spoiled.y[150:] + 1) % 3
    other = NodeRows(spoiled)[np.arange(150)]
    np.testing.assert_array_equal(RAPNodeClassifier(**ONCE).fit(other).predict(data), model.predict(data))
    np.testing.assert_array_equal(model.split_["train"], np.arange(150))
    wanted = RAPNodeClassifier(**ONCE).fit(data.x.numpy(), data.y, edge_index=data.edge_index, train=np.arange(150))
    np.testing.assert_array_equal(model.predict_proba(held), wanted.predict_proba(data)[150:])
    np.testing.assert_array_equal(model.predict(held), wanted.predict(data)[150:])
    np.testing.assert_array_equal(model.transform(held), wanted.transform(data)[150:])
    assert model.score(held, held.y) == pytest.approx((model.predict(held) == data.y[150:].numpy()).mean())
    probability, spread = model.predict_proba(held, return_std=True)
    assert probability.shape == spread.shape == (150, 3)
    np.testing.assert_allclose(model.predict_proba(held, n_samples=4), model.predict_proba(rows, n_samples=4)[150:])


def test_every_way_in_gives_the_same_folds():
    data = node_data()
    x, edges, words = data.x.numpy(), data.edge_index.numpy(), WORDS[data.y]
    G = nx.MultiDiGraph()
    G.add_nodes_from((i, {"x": x[i], "y": words[i]}) for i in range(300))
    G.add_edges_from(edges.T.tolist())
    graph = replace(from_pyg(data), classes=tuple(WORDS.tolist()))
    ways = [NodeRows(x, words, edge_index=edges), NodeRows(x, words.tolist(), edge_index=edges), NodeRows(G)]
    base, wanted = RAPNodeClassifier(**ONCE), None
    for rows in (*ways, NodeRows(graph)):
        assert rows.y.tolist() == words.tolist()
        scores = cross_val_score(base, rows, rows.y, cv=3, error_score="raise")
        wanted = scores if wanted is None else wanted
        np.testing.assert_allclose(scores, wanted, atol=0.011)  # a row of a hundred
        p = cross_val_predict(base, rows, rows.y, cv=3, method="predict_proba")  # numbers the labels
        assert (WORDS[p.argmax(1)] == words).mean() > 0.8
        assert set(cross_val_predict(base, rows, rows.y, cv=3)) == set(WORDS)
    without = NodeRows(x, rows=data.train_mask, edge_index=edges)
    assert cross_val_score(base, without, words[data.train_mask], cv=2, error_score="raise").mean() > 0.5
    with pytest.raises(InputError, match="came without labels"):
        _ = without.y


def test_masks_rows_and_splitters():
    data = node_data()
    known = data.train_mask | data.val_mask
    rows = NodeRows(data, rows=known)
    assert len(rows) == int(known.sum())
    np.testing.assert_array_equal(NodeRows(data, rows=known.nonzero()[:, 0]).index, rows.index)
    gaps = data.y.clone()
    gaps[~known] = -1
    np.testing.assert_array_equal(NodeRows(data, gaps).index, rows.index)
    fold = np.where(data.train_mask[known], -1, 0)  # the public split, for a search
    search = GridSearchCV(RAPNodeClassifier(**ONCE), {"num_layers": [1, 2, 4]}, cv=PredefinedSplit(fold))
    assert search.fit(rows, rows.y).best_score_ > 0.8
    for splitter in (KFold(3, shuffle=True, random_state=0), StratifiedKFold(3)):
        assert cross_val_score(RAPNodeClassifier(**ONCE), rows, rows.y, cv=splitter).mean() > 0.7
    one, two, y_one, _ = train_test_split(rows, rows.y, random_state=0)
    assert len(one) + len(two) == len(rows)
    assert clone(RAPNodeClassifier(**ONCE)).fit(one, y_one).score(two) > 0.7
    assert pickle.loads(pickle.dumps(one)).y.tolist() == one.y.tolist()
    assert repr(rows) == f"NodeRows({len(rows)} of 300 nodes)"


def test_many_labels_and_several_targets():
    graph = BlockModel(nodes=300, classes=4, labels=3, features=12, signal=3.0, train=20, val=60, test=100).generate()
    rows = NodeRows(dense(graph.x), graph.y, edge_index=graph.edge_index)
    scores = cross_val_score(RAPNodeClassifier(**ONCE), rows, rows.y, cv=KFold(3), error_score="raise")
    assert scores.mean() > 0.7  # ROC-AUC
    np.testing.assert_allclose(cross_val_score(RAPNodeClassifier(**ONCE), NodeRows(graph), rows.y, cv=KFold(3)), scores)
    near = (graph.operator("gcn").matrix @ dense(graph.x))[:, :2].numpy().astype(float)
    near[::4, 1] = np.nan
    none = torch.zeros(0, dtype=torch.int64)
    target = make_graph(graph.x, graph.edge_index, near, range(300), none, none, task="regression")
    for rows in (NodeRows(dense(graph.x), near, edge_index=graph.edge_index), NodeRows(target)):
        found = cross_val_score(RAPNodeRegressor(**ONCE), rows, rows.y, cv=3, error_score="raise")
        assert found.mean() > 0.6


def test_a_class_that_a_fold_does_not_learn():
    """Rows of a rare class are divided like others; the fold without it counts them as errors."""
    data = node_data()
    data.y[7] = 5
    for rows in (NodeRows(data), NodeRows(replace(from_pyg(node_data()), y=data.y, num_outputs=6))):
        base = RAPNodeClassifier(**ONCE)
        scores = cross_val_score(base, rows, rows.y, cv=KFold(3), error_score="raise")
        assert scores.mean() > 0.8
        part = rows[np.arange(100, 300)]
        fitted = base.fit(part, part.y)
        assert 5 in fitted.classes_.tolist()
        assert fitted.predict_proba(rows)[:, fitted.classes_.tolist().index(5)].max() < 0.05


def test_rows_that_make_no_sense_are_refused():
    data = node_data()
    rows, model = NodeRows(data), RAPNodeClassifier(**ONCE).fit(data)
    with pytest.raises(InputError, match="300 rows but labels of shape"):
        model.fit(rows, data.y[:7])
    with pytest.raises(InputError, match="bring their own edges and splits"):
        model.fit(rows, rows.y, edge_index=data.edge_index)
    with pytest.raises(InputError, match="there are no labels"):
        NodeRows(data.x.numpy(), edge_index=data.edge_index)
    with pytest.raises(InputError, match="the rows split must name nodes 0 to 299"):
        NodeRows(data, rows=[300])
    with pytest.raises(InputError, match="no node has a label"):
        NodeRows(data, torch.full((300,), -1))
    with pytest.raises(InputError, match="there are no edges"):
        NodeRows(data.x.numpy(), data.y)
    with pytest.raises(InputError, match="give nothing beside it but rows"):
        NodeRows(from_pyg(data), data.y)
    with pytest.raises(InputError, match="must be numbers"):
        RAPNodeRegressor(**ONCE).fit(rows, WORDS[data.y])
    with pytest.raises(InputError):
        RAPGraphClassifier(**ONCE).fit(rows, rows.y)
