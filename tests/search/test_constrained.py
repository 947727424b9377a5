"""What a user fixes constrains all that is tried; ``search=False`` is the first point alone; what makes no sense is
refused before any work."""

import logging
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch_geometric.data import Data

from rapgnn import (
    InputError,
    InputNotice,
    RAPGraphClassifier,
    RAPNodeClassifier,
    from_pyg,
)
from rapgnn.datasets.catalog import BlockModel
from rapgnn.network.network import Average
from rapgnn.scale.disk_graph import DiskGraph
from rapgnn.sparse import dense
from samples import collection, graph_list, node_data, word_graph


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputNotice)
        yield


def many_rows():
    """Rows enough for trained heads, and for random features of hops."""
    return BlockModel(nodes=500, classes=3, features=6, signal=2.0, train=70, val=110, test=100).generate()


def as_asked(model, settings) -> bool:
    """Whether all that was tried, and all that came of it, has what was fixed."""
    networks = getattr(model.model_, "members", [model.model_])
    tried = [trial.settings for trial in model.trials_] + [network.config.settings() for network in networks]
    return all(one[name] == value for one in tried for name, value in settings.items())


FREE = [  # settings that leave several candidates, which are averaged
    {"backbone": "sage"},
    {"num_layers": 3},
    {"jumping": "cat"},
    {"embedding": "identity"},
    {"head": "ridge"},
    {"head": "linear", "epochs": 5},
    {"units": 32},
    {"units": 16, "unit_hops": 1, "log_hops": True},
    {"scaling": "standard"},
    {"components": 4},
    {"ridge": 2.0},
    {"coefficients": "fixed", "num_layers": 2},
    {"coefficients": "layers", "width": 12},
    {"kernel": "gauss", "landmarks": 10},
    {"degree_columns": True},
    {"activation": "identity"},
]
OF_NODES = [{"jumping": "ppr", "teleport": 0.3}, {"known_labels": 1}, {"node_columns": 8}, {"edges": "both"}]
OF_SETS = [{"pooling": "mean"}, {"pooling": "log"}, {"coefficients": "colours"}]
ALONE = [  # settings that few candidates have, or one
    {"hidden_channels": 16, "pretrain_epochs": 5},
    {"embedding": "pretrained", "pretrain_epochs": 5},
    {"embedding": "fixed-random"},
    {"epochs": 5},
    {"head": "mlp", "epochs": 3, "dropout": 0.1},
]


@pytest.mark.parametrize(
    ("cls", "settings"),
    [(RAPNodeClassifier, one) for one in FREE + OF_NODES + ALONE]
    + [(RAPGraphClassifier, one) for one in FREE[::2] + OF_SETS + ALONE[:2]],
    ids=str,
)
def test_all_that_is_tried_has_what_is_fixed_and_the_rest_is_chosen(cls, settings, tmp_path):
    graph = many_rows() if cls is RAPNodeClassifier else collection()
    model = cls(**settings).fit(graph)
    assert as_asked(model, settings)
    if settings in ALONE:
        assert model.trials_
    else:
        assert len(model.trials_) > 1
        assert isinstance(model.model_, Average) or len(model.trials_) > 3
    probabilities = model.predict_proba(graph)
    assert np.isfinite(probabilities).all()
    model.save(tmp_path)
    assert np.array_equal(cls.load(tmp_path).predict_proba(graph), probabilities)


NODES = {
    "units": {"units": 64, "scaling": "standard"},
    "layers": {"coefficients": "layers", "width": 24, "num_layers": 3, "activation": "tanh"},
    "layers and units": {"coefficients": "layers", "width": 12, "units": 32, "unit_hops": 1},
    "trained": {"coefficients": "fixed", "head": "mlp", "hidden_channels": 16, "dropout": 0.2, "epochs": 60},
    "labels": {"known_labels": 1},
    "kernel": {"kernel": "gauss", "landmarks": 20},
    "pagerank": {"jumping": "ppr", "num_layers": 8, "teleport": 0.1},
}
SETS = {
    "units": {"backbone": "gin", "units": 64, "log_hops": True},
    "layers": {"backbone": "gin", "coefficients": "layers", "width": 16, "pooling": "mean"},
    "colours": {"coefficients": "colours", "width": 32, "pooling": "log", "standardize": False},
    "kernel": {"backbone": "gin", "kernel": "laplace", "landmarks": 10, "bandwidth": 2},
}


@pytest.mark.parametrize("kind", [*NODES, *(f"sets: {name}" for name in SETS)])
def test_without_a_search_it_is_the_first_point_alone(kind, tmp_path):
    cls = RAPGraphClassifier if kind.startswith("sets") else RAPNodeClassifier
    settings = SETS[kind[6:]] if kind.startswith("sets") else NODES[kind]
    data = graph_list() if kind.startswith("sets") else node_data()
    model = cls(search=False, seed=3, **settings).fit(data)
    (member,) = model.model_.members
    assert len(model.trials_) == 1
    assert as_asked(model, settings)
    assert member.seed == 3
    assert model.score(data) > 0.6
    again = clone(model).fit(data)
    assert np.array_equal(again.predict_proba(data), model.predict_proba(data))
    model.save(tmp_path)
    assert np.array_equal(cls.load(tmp_path).predict_proba(data), model.predict_proba(data))


def test_a_metric_of_the_users_own_tries_balanced_classes_too():
    model = RAPNodeClassifier(search=False, units=16, scoring="f1_macro").fit(node_data())
    assert [trial.settings.get("class_weight") for trial in model.trials_] == [None, "balanced"]


REFUSED = [
    ({"lfit": 3}, "unknown setting 'lfit'"),
    ({"units": "many"}, "whole number"),
    ({"kernel": "gauss"}, "a kernel needs landmarks"),
    ({"kernel": "gauss", "landmarks": 4, "bandwidth": 0.0}, "bandwidth must be above 0"),
    ({"trend": 1}, "true or false"),
    ({"coefficients": "random", "units": 4}, "need fixed coefficients"),
]
NOT_OF_NODES = [
    ({"coefficients": "colours"}, "sets of graphs"),
    ({"components": 13}, "at most the 12 columns"),
]
NOT_OF_SETS = [
    ({"known_labels": 1}, "nodes of one graph"),
    ({"node_columns": 4}, "nodes of one graph"),
    ({"edges": "undirected"}, "as given"),
    ({"jumping": "ppr"}, "nodes of one graph"),
    ({"components": 4}, "at most the 3 columns"),
]


@pytest.mark.parametrize(
    ("cls", "settings", "sentence"),
    [(RAPNodeClassifier, *one) for one in REFUSED + NOT_OF_NODES]
    + [(RAPGraphClassifier, *one) for one in REFUSED + NOT_OF_SETS],
    ids=str,
)
def test_what_the_graph_does_not_admit_is_refused_before_any_work(cls, settings, sentence, monkeypatch):
    data = node_data() if cls is RAPNodeClassifier else graph_list()
    monkeypatch.setattr("rapgnn.estimators.base.train", lambda *args, **how: pytest.fail("work began"))
    for search in (True, False):
        for how in (settings, {"settings": settings}):
            with pytest.raises(InputError, match=sentence):
                cls(search=search, **how).fit(data)


@pytest.mark.parametrize("settings", [{"bandwidth": 2.0}, {"width": 16}, {"log_hops": True, "units": 0}], ids=str)
def test_what_decides_nothing_is_refused_where_there_is_a_search(settings):
    with pytest.raises(InputError, match="they decide nothing"):
        RAPNodeClassifier(**settings).fit(node_data())


def test_more_landmarks_than_rows_are_refused():
    with pytest.raises(InputError, match="31 landmarks cannot be drawn from 30 rows"):
        RAPNodeClassifier(search=False, kernel="gauss", landmarks=31).fit(node_data())


@pytest.mark.parametrize("search", [True, False])
def test_a_head_that_is_trained_keeps_the_rows_it_was_stopped_by(search):
    data = node_data()
    del data.val_mask
    trained = {"coefficients": "fixed", "head": "mlp", "hidden_channels": 8, "dropout": 0.0, "epochs": 20}
    model = RAPNodeClassifier(search=search, **trained).fit(data)
    assert len(model.split_["val"])
    assert not any("solved again" in note for note in model.notes_)
    held = model.split_["val"]
    assert (model.predict(data)[held] == data.y.numpy()[held]).mean() == pytest.approx(model.validation_score_)
    solved = RAPNodeClassifier(search=search, units=8).fit(data)
    assert not len(solved.split_["val"])


@pytest.mark.parametrize("settings", [{"known_labels": 1}, {"node_columns": 8}])
def test_what_is_bound_to_a_graph_represents_no_other(settings):
    data, other = node_data(), node_data(seed=1)
    model = RAPNodeClassifier(search=False, **settings).fit(data)
    assert model.transform(data).shape[0] == 300
    for use in (model.transform, model.predict):
        with pytest.raises(InputError, match="nothing to say about another"):
            use(other)


def test_a_graph_on_disk_is_refused_in_one_sentence(tmp_path):
    graph = from_pyg(node_data())
    model = RAPNodeClassifier(search=False, units=8).fit_graph(graph)
    with pytest.raises(InputError, match="single RAP network"):
        model.predict(DiskGraph.write(tmp_path / "graph", graph))


CHANGING = ({}, {"units": 32}, {"coefficients": "layers", "width": 12}, {"components": 4}, {"head": "mlp", "epochs": 3})


@pytest.mark.parametrize("settings", [*CHANGING, {"known_labels": 1}, {"node_columns": 64, "num_layers": 2}], ids=str)
def test_a_graph_that_has_changed_a_little_is_predicted_alike(settings):
    """A feature that moves by 1e-4; nodes in another order, and one more or one fewer; their ids tell who they are."""
    graph = replace(many_rows(), ids=np.array([f"node {i}" for i in range(500)], dtype=object))
    model = RAPNodeClassifier(**settings).fit_graph(graph)
    x, edges, none = dense(graph.x), graph.edge_index, graph.train[:0]
    before = model.predict_proba(graph)

    def after(x, edges, ids):
        how = {"y": torch.zeros(len(x), dtype=torch.int64), "ids": ids, "train": none, "val": none, "test": none}
        return model.predict_proba(replace(graph, x=x, edge_index=edges, **how))

    moved = x.clone()
    moved[0, 0] += 1e-4
    np.testing.assert_allclose(after(moved, edges, graph.ids), before, atol=0.01)
    order = torch.randperm(500, generator=torch.Generator().manual_seed(0))
    np.testing.assert_allclose(after(x[order], order.argsort()[edges], graph.ids[order]), before[order], atol=1e-3)
    more = after(torch.cat([x, x[:1]]), edges, np.append(graph.ids, "new"))
    np.testing.assert_allclose(more[:500], before, atol=1e-3)
    fewer = after(x[:499], edges[:, (edges < 499).all(0)], graph.ids[:499])
    assert np.abs(fewer - before[:499]).mean() < 0.01


# Of every search.


@pytest.mark.parametrize("settings", [{}, {"units": 16}, {"known_labels": 1}])
def test_the_search_never_looks_at_the_test_rows(settings):
    graph = many_rows()
    spoiled = graph.y.clone()
    spoiled[graph.test] = (spoiled[graph.test] + 1) % 3
    one, other = (RAPNodeClassifier(**settings).fit(g) for g in (graph, replace(graph, y=spoiled)))
    assert [(t.settings, t.value) for t in one.trials_] == [(t.settings, t.value) for t in other.trials_]
    assert np.array_equal(one.predict_proba(graph), other.predict_proba(graph))


@pytest.mark.parametrize("settings", [{}, {"backbone": "sage"}])
def test_a_time_budget_stops_the_search(small_graph, settings):
    assert len(RAPNodeClassifier(time_budget=1e-9, **settings).fit(small_graph).trials_) == 1


def test_no_labelled_row_to_spare_for_validation():
    data = Data(x=torch.eye(4), edge_index=torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]]), y=torch.tensor([0, -1, 1, -1]))
    model = RAPNodeClassifier().fit(data, train=[0, 2])
    assert model.predict(data)[[0, 2]].tolist() == [0, 1]
    assert 0 <= model.validation_score_ <= 1  # each training row was left out in turn


@pytest.mark.parametrize("settings", [{"embedding": "identity"}, {"num_layers": 3, "backbone": "sage", "ridge": 5.0}])
def test_wide_features_are_searched_through_components_and_kept_by_save_and_load(settings, tmp_path):
    graph = word_graph(nodes=700, features=1200, edges=5000, topics=3, train=0.5)
    model = RAPNodeClassifier(**settings).fit(graph)
    assert as_asked(model, settings)
    assert all(trial.settings["components"] for trial in model.trials_)
    assert model.score(graph, split="test") > 0.85
    model.save(tmp_path)
    loaded = RAPNodeClassifier.load(tmp_path)
    assert np.array_equal(loaded.predict_proba(graph), model.predict_proba(graph))
    probabilities, spread = loaded.predict_proba(graph, return_std=True)
    np.testing.assert_allclose(probabilities, model.predict_proba(graph), rtol=1e-4, atol=1e-7)
    assert (spread >= 0).all()


def test_verbose_reaches_the_screen_and_silence_is_the_default(small_graph, capsys, monkeypatch):
    monkeypatch.setattr(logging.getLogger("rapgnn"), "propagate", False)  # as in a program without logging
    RAPNodeClassifier().fit(small_graph)
    assert capsys.readouterr().err == ""
    RAPNodeClassifier(verbose=True).fit(small_graph)
    assert "rapgnn: candidate 1: " in capsys.readouterr().err
    assert logging.getLogger("rapgnn").handlers == []
