"""scikit-learn's contract, kept on graphs; it divides the nodes of one graph, and searches over arguments."""

import copy
import inspect
import io
import pickle
import warnings
from contextlib import contextmanager
from dataclasses import replace

import joblib
import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch
from sklearn import config_context
from sklearn.base import clone, is_classifier, is_regressor
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
from sklearn.utils import estimator_checks

from rapgnn import (
    InputError,
    InputNotice,
    NodeRows,
    RAPGraphClassifier,
    RAPGraphRegressor,
    RAPNodeClassifier,
    RAPNodeRegressor,
    from_pyg,
    make_graph,
)
from rapgnn.datasets.catalog import BlockModel
from rapgnn.sparse import dense
from samples import graph_list, node_data

ESTIMATORS = (RAPNodeClassifier, RAPNodeRegressor, RAPGraphClassifier, RAPGraphRegressor)
NODES = (RAPNodeClassifier, RAPNodeRegressor)
# Of scikit-learn's own checks, those that an estimator of a graph fails, and why.
OTHER_GRAPH = "rows that go, or are there twice, make another graph"
OWN_WORDS = "refused, in a sentence of its own"
EXPECTED = {
    "check_do_not_raise_errors_in_init_or_set_params": "any setting of Config is an argument, and no other name is",
    "check_n_features_in_after_fitting": OWN_WORDS,
    "check_sample_weight_equivalence_on_dense_data": OTHER_GRAPH,
    "check_sample_weight_equivalence_on_sparse_data": OTHER_GRAPH,
    "check_methods_sample_order_invariance": OTHER_GRAPH,
    "check_methods_subset_invariance": OTHER_GRAPH,
    "check_complex_data": OWN_WORDS,
    "check_dtype_object": OWN_WORDS,
    "check_estimators_empty_data_messages": OWN_WORDS,
    "check_supervised_y_2d": "a column of labels is a list of labels, and nothing need be said",
    "check_fit1d": "one number per node is one feature",
    "check_fit2d_predict1d": OWN_WORDS,
    "check_requires_y_none": OWN_WORDS,
}
CLASSES = {
    "check_classifiers_one_label": OWN_WORDS,
    "check_classifiers_classes": "-1 is an unknown label",
    "check_classifiers_regression_target": OWN_WORDS,
    "check_fit2d_1sample": OWN_WORDS,
}


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_params_round_trip_clone_and_joblib(cls):
    """Any setting of ``Config`` is an argument like those that ``__init__`` names."""
    assert is_classifier(cls()) == (cls in (RAPNodeClassifier, RAPGraphClassifier)) != is_regressor(cls())
    estimator = cls(num_layers=3, dropout=0.1, units=0, settings={"factors": 2}, seed=7)
    params = estimator.get_params()
    assert set(params) == set(vars(estimator))  # __init__ stores its arguments and does nothing else
    assert {"dropout": 0.1, "units": 0, "num_layers": 3}.items() <= params.items()
    twin = clone(estimator)
    assert twin.get_params() == params
    assert twin is not estimator
    assert cls().set_params(**params).get_params() == params
    assert twin.set_params(lr=0.5, dropout=0.2).get_params() == params | {"lr": 0.5, "dropout": 0.2}
    assert "lr" not in estimator.get_params()
    buffer = io.BytesIO()
    joblib.dump(estimator, buffer)
    buffer.seek(0)
    assert joblib.load(buffer).get_params() == params
    for shown in ("num_layers=3", "dropout=0.1", "seed=7"):
        assert shown in repr(estimator)
    assert repr(cls()) == f"{cls.__name__}()"


def ring(x):
    """Every row beside the next."""
    nodes = np.arange(table(x).shape[0])
    after = (nodes + 1) % max(1, len(nodes))
    return {"edge_index": np.stack([np.r_[nodes, after], np.r_[after, nodes]])}


class OnRing:
    """Rows of a table, as scikit-learn's checks have them, on a graph."""

    def fit(self, X, y=None, sample_weight=None):
        return super().fit(table(X), table(y), sample_weight, **ring(X))

    def predict(self, X):
        return super().predict(table(X), **ring(X))

    def transform(self, X):
        return super().transform(table(X), **ring(X))

    def score(self, X, y=None, sample_weight=None):
        return super().score(table(X), y, sample_weight, **ring(X))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.no_validation, tags.input_tags.two_d_array, tags.input_tags.sparse = False, True, True
        return tags


def table(X):
    return X if X is None or hasattr(X, "shape") else np.asarray(X)


class ClassifierOnRing(OnRing, RAPNodeClassifier):
    __init__ = RAPNodeClassifier.__init__

    def predict_proba(self, X):
        return super().predict_proba(table(X), **ring(X))


class RegressorOnRing(OnRing, RAPNodeRegressor):
    __init__ = RAPNodeRegressor.__init__


@pytest.mark.parametrize(("cls", "expected"), [(ClassifierOnRing, EXPECTED | CLASSES), (RegressorOnRing, EXPECTED)])
def test_scikit_learns_own_checks(cls, expected):
    """Each check that is expected to fail does."""
    done = estimator_checks.check_estimator(cls(search=False), expected_failed_checks=expected, on_skip=None)
    assert {one["check_name"] for one in done if one["status"] == "xfail"} == set(expected)
    assert sum(one["status"] == "passed" for one in done) > 40


@pytest.mark.parametrize("cls", [RAPGraphClassifier, RAPGraphRegressor])
def test_scikit_learns_checks_of_arguments(cls):
    for check in ("get_params_invariance", "set_params", "estimator_cloneable", "estimator_repr", "mixin_order"):
        getattr(estimator_checks, f"check_{check}")(cls.__name__, cls(units=16, head="ridge"))
    estimator_checks.check_no_attributes_set_in_init(cls.__name__, cls())


@pytest.mark.parametrize("settings", [{"search": False}, {}], ids=str)
def test_a_row_of_weight_zero_does_not_train_and_equal_weights_change_nothing(settings):
    data, n = node_data(), 300
    train, no = data.train_mask.numpy(), np.arange(n) % 3 == 0
    model = RAPNodeClassifier(**settings)
    plain = model.fit(data).predict_proba(data)
    np.testing.assert_array_equal(model.fit(data, sample_weight=np.full(n, 2.5)).predict_proba(data), plain)
    without = model.fit(data, sample_weight=~no).predict_proba(data)
    data.train_mask = torch.from_numpy(train & ~no)
    np.testing.assert_array_equal(model.fit(data).predict_proba(data), without)
    assert np.abs(without - plain).max() > 1e-3


def test_a_row_of_weight_two_is_a_row_that_is_there_twice():
    """On graphs, of which one may be there twice."""
    graphs = graph_list(24)
    y, heavy = [int(graph.y) for graph in graphs], [0, 3, 7]
    how = {"search": False, "ridge": 1.0, "components": 0}
    splits = {"val": range(16, 20), "test": range(20, 24)}
    weights = np.where(np.isin(np.arange(24), heavy), 2.0, 1.0)
    one = RAPGraphClassifier(**how).fit(graphs, y, weights, train=range(16), **splits)
    more = [graphs[i] for i in heavy]
    other = RAPGraphClassifier(**how).fit(
        graphs + more, y + [y[i] for i in heavy], train=[*range(16), 24, 25, 26], **splits
    )
    np.testing.assert_allclose(one.predict_proba(graphs), other.predict_proba(graphs), atol=1e-5)


def test_weights_of_rows_go_where_scikit_learn_sends_them():
    data = node_data()
    rows = NodeRows(data.x.numpy(), data.y.numpy(), edge_index=data.edge_index)
    weights = np.where(rows.y == rows.y[0], 5.0, 1.0)
    with config_context(enable_metadata_routing=True):
        model = (
            RAPNodeClassifier(search=False).set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        )
        found = cross_validate(model, rows, rows.y, cv=3, params={"sample_weight": weights})["test_score"]
    for value, (train, test) in zip(found, StratifiedKFold(3).split(rows.y, rows.y), strict=True):
        model.fit(rows[train], rows.y[train], weights[train])
        hit = model.predict(rows[test]) == rows.y[test]
        assert value == pytest.approx(np.average(hit, weights=weights[test]))
    for wrong in (weights[:-1], -weights, weights * np.nan, 0 * weights):
        with pytest.raises(InputError, match="sample_weight"):
            RAPNodeClassifier(search=False).fit(rows, rows.y, wrong)
    with pytest.raises(InputError, match="heads that are solved"):
        RAPNodeClassifier(search=False, head="linear").fit(data, sample_weight=np.ones(300))


def test_columns_have_names(tmp_path):
    """Those that come in, where a table has them, and those that go out."""
    data, rng = node_data(), np.random.default_rng(0)
    nodes = pd.DataFrame({"height": rng.normal(size=300), "soil": rng.choice(["sand", "clay"], 300), "y": data.y})
    edges = pd.DataFrame(data.edge_index.T.numpy(), columns=["source", "target"])
    model = RAPNodeClassifier(search=False).fit(nodes, "y", edges=edges)
    model.save(tmp_path)
    for one in (model, RAPNodeClassifier.load(tmp_path)):
        assert (one.n_features_in_, one.feature_names_in_.tolist()) == (2, ["height", "soil"])
    assert not hasattr(RAPNodeClassifier(search=False).fit(data), "feature_names_in_")
    out = model.set_output(transform="pandas").transform(nodes, edges=edges)
    assert out.columns.tolist() == model.get_feature_names_out().tolist()
    assert len(out) == 300


@pytest.mark.parametrize(
    "around",
    [
        lambda: torch.autocast("cpu", dtype=torch.bfloat16),
        torch.inference_mode,
        torch.no_grad,
        lambda: torch.device("meta"),
        lambda: default_dtype(torch.float64),
    ],
    ids=["autocast", "inference mode", "no grad", "default device", "default precision"],
)
def test_nothing_set_around_a_fit_or_a_prediction_changes_it(around):
    data = node_data()
    plain = RAPNodeClassifier().fit(data)
    with around():
        inside = RAPNodeClassifier().fit(data)
        p, (named,) = plain.predict_proba(data), plain.explain(data, rows=[0])
    np.testing.assert_array_equal(p, plain.predict_proba(data))
    np.testing.assert_array_equal(inside.predict_proba(data), p)
    assert named.score == plain.explain(data, rows=[0])[0].score


@contextmanager
def default_dtype(dtype):
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def test_names_that_are_no_arguments_are_refused_with_a_near_one():
    for name, near in (("unitz", "units"), ("num_layer", "num_layers"), ("random_stat", "random_state")):
        with pytest.raises(InputError, match=f"unknown setting '{name}': like it are .*{near}"):
            RAPNodeClassifier(**{name: 3})
        with pytest.raises(ValueError, match="Invalid parameter"):
            RAPNodeClassifier().set_params(**{name: 3})
    named = inspect.signature(RAPNodeClassifier.__init__).parameters.values()
    assert sum(one.kind is not one.VAR_KEYWORD for one in named) - 1 <= 16


def test_an_argument_counts_more_than_the_same_name_in_settings():
    data = node_data()
    model = RAPNodeClassifier(search=False, settings={"num_layers": 3, "ridge": 1.0}).set_params(num_layers=2)
    assert (model.fit(data).config_.num_layers, model.config_.ridge) == (2, 1.0)
    assert model.set_params(num_layers=None).fit(data).config_.num_layers == 3


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_random_state_is_the_seed(cls):
    data = node_data(masks=False) if cls in NODES else graph_list(20, regression=cls is RAPGraphRegressor)
    if cls is RAPNodeRegressor:
        data.y = data.x[:, 0]
    how = {"search": False, "coefficients": "layers", "width": 8}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputNotice)
        one, same, both, other = (
            cls(**how, **seeds).fit(data)
            for seeds in ({"seed": 5}, {"random_state": 5}, {"random_state": 5, "seed": 1}, {"random_state": 6})
        )
    for model in (same, both):
        assert np.array_equal(model.transform(data), one.transform(data))
        assert all(np.array_equal(model.split_[split], rows) for split, rows in one.split_.items())
    assert not np.array_equal(other.transform(data), one.transform(data))
    with pytest.raises(InputError, match="random_state"):
        cls(random_state=-1).fit(data)


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


def test_node_classifier_end_to_end(tmp_path):
    data = node_data()
    model = RAPNodeClassifier(backbone="gcn", num_layers=4, hidden_channels=32, seed=0).fit(data)
    labels, probabilities = model.predict(data), model.predict_proba(data)
    assert set(labels) <= set(model.classes_.tolist()) == {0, 1, 2}
    np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-5)
    np.testing.assert_array_equal(model.classes_[probabilities.argmax(1)], labels)
    test = data.test_mask.numpy()
    assert model.score(data, split="test") == pytest.approx((labels[test] == data.y.numpy()[test]).mean())
    assert model.score(data) == pytest.approx((labels == data.y.numpy()).mean())
    assert model.validation_score_ > 0.8
    assert (model.n_features_in_, model.config_.num_layers, len(model.transform(data))) == (12, 4, 300)
    model.save(tmp_path / "model")
    loaded = RAPNodeClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(data), probabilities)
    assert loaded.classes_.tolist() == [0, 1, 2]
    assert loaded.fit(data).score(data, split="test") > 0.85  # it can be trained again
    with pytest.raises(InputError, match="is for node-classification, not for graph-classification"):
        RAPGraphClassifier.load(tmp_path / "model")


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
        "num_layers": np.arange(1, 3),
        "ridge": [None, 0.1],
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


def test_rows_that_make_no_sense_are_refused():
    data = node_data()
    rows, model = NodeRows(data), RAPNodeClassifier(**ONCE).fit(data)
    for call, words in {
        lambda: model.fit(rows, data.y[:7]): "300 rows but labels",
        lambda: model.fit(rows, rows.y, edge_index=data.edge_index): "own edges",
        lambda: NodeRows(data.x.numpy(), edge_index=data.edge_index): "no labels",
        lambda: NodeRows(data, rows=[300]): "nodes 0 to 299",
        lambda: NodeRows(data, torch.full((300,), -1)): "no node has a label",
        lambda: NodeRows(data.x.numpy(), data.y): "no edges",
        lambda: NodeRows(from_pyg(data), data.y): "nothing beside it",
        lambda: RAPNodeRegressor(**ONCE).fit(rows, WORDS[data.y]): "numbers",
        lambda: RAPGraphClassifier(**ONCE).fit(rows, rows.y): "graph",
    }.items():
        with pytest.raises(InputError, match=words):
            call()
