"""One random network that the user describes: nothing else is tried, and all that an estimator does it does."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone

from rapgnn import InputError, InputNotice, RAPGraphClassifier, RAPNodeClassifier, from_pyg
from rapgnn.network.config import Config
from rapgnn.scale.disk_graph import DiskGraph
from samples import graph_list, node_data

NODES = {
    "lift": {"lift": 64, "features": "standard"},
    "layers": {"width": 24, "num_layers": 3, "activation": "tanh"},
    "layers and lift": {"width": 12, "lift": 32, "lift_hops": 1},
    "trained": {"hidden": 16, "dropout": 0.2},
    "labels": {"known": 1},
    "kernel": {"kernel": "gauss", "landmarks": 20},
    "pagerank": {"jumping": "ppr", "num_layers": 8, "teleport": 0.1},
}
SETS = {
    "lift": {"backbone": "gin", "lift": 64, "logarithm": True},
    "layers": {"backbone": "gin", "width": 16, "pooling": "mean"},
    "colours": {"colours": 32, "pooling": "log", "whiten": False},
    "kernel": {"backbone": "gin", "kernel": "laplace", "landmarks": 10, "reach": 2},
}


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputNotice)
        yield


@pytest.mark.parametrize("name", NODES)
def test_of_nodes(name, tmp_path):
    data = node_data()
    model = RAPNodeClassifier(network=NODES[name], seed=3).fit(data)
    (member,) = model.model_.members
    assert len(model.trials_) == 1
    assert member.config == Config(**NODES[name])
    assert member.seed == 3
    assert model.score(data, split="test") > 0.6
    again = clone(model).fit(data)
    assert np.array_equal(again.predict_proba(data), model.predict_proba(data))
    model.save(tmp_path)
    assert np.array_equal(RAPNodeClassifier.load(tmp_path).predict_proba(data), model.predict_proba(data))


@pytest.mark.parametrize("name", SETS)
def test_of_graphs(name, tmp_path):
    graphs = graph_list()
    model = RAPGraphClassifier(network=SETS[name]).fit(graphs)
    assert [member.config for member in model.model_.members] == [Config(**SETS[name] | _floats(SETS[name]))]
    assert model.score(graphs) > 0.8
    model.save(tmp_path)
    assert np.array_equal(RAPGraphClassifier.load(tmp_path).predict_proba(graphs), model.predict_proba(graphs))


def _floats(given):
    return {"reach": float(given["reach"])} if "reach" in given else {}


def test_a_metric_of_the_users_own_tries_balanced_classes_too():
    model = RAPNodeClassifier(network={"lift": 16}, scoring="f1_macro").fit(node_data())
    assert [trial.settings.get("class_weight") for trial in model.trials_] == [None, "balanced"]


@pytest.mark.parametrize(
    ("network", "said"),
    [
        ({"lfit": 3}, "no setting 'lfit': like it are lift"),
        ("lift", "dictionary"),
        ({"lift": -1}, "lift must be a whole number"),
        ({"colours": 8}, "sets of graphs"),
        ({"kernel": "gauss"}, "landmarks"),
        ({"sketch": 13}, "at most the 12 columns"),
        ({"lift_hops": 1}, "set lift too"),
        ({"edges": "both", "width": 4}, "side by side"),
        ({"kernel": "gauss", "landmarks": 31}, "31 landmarks cannot be drawn from 30 rows"),
    ],
)
def test_what_is_wrong_is_refused(network, said):
    with pytest.raises(InputError, match=said):
        RAPNodeClassifier(network=network).fit(node_data())


@pytest.mark.parametrize("network", [{"known": 1}, {"identity": 4}, {"edges": "undirected"}, {"jumping": "ppr"}])
def test_sets_have_nothing_that_is_of_one_graph(network):
    with pytest.raises(InputError, match="graph"):
        RAPGraphClassifier(network=network).fit(graph_list())


def test_it_is_all_or_nothing():
    for given in ({"num_layers": 2}, {"settings": {"jumping": "cat"}}):
        with pytest.raises(InputError, match="describes the whole network"):
            RAPNodeClassifier(network={"lift": 8}, **given).fit(node_data())
    with pytest.raises(InputError, match="in memory"):
        RAPNodeClassifier(network={"lift": 8}, memory_limit="4GiB").fit(node_data())


def test_a_head_that_is_trained_keeps_the_rows_it_was_stopped_by():
    data = node_data()
    del data.val_mask
    model = RAPNodeClassifier(network={"hidden": 8, "dropout": 0}).fit(data)
    assert len(model.split_["val"])
    assert not any("solved again" in note for note in model.notes_)
    held = model.split_["val"]
    assert (model.predict(data)[held] == data.y.numpy()[held]).mean() == pytest.approx(model.validation_score_)
    solved = RAPNodeClassifier(network={"lift": 8}).fit(data)
    assert not len(solved.split_["val"])


@pytest.mark.parametrize("network", [{"known": 1}, {"identity": 8}])
def test_what_is_bound_to_a_graph_represents_no_other(network):
    data, other = node_data(), node_data(seed=1)
    model = RAPNodeClassifier(network=network).fit(data)
    assert model.transform(data).shape[0] == 300
    for ask in (model.transform, model.predict):
        with pytest.raises(InputError, match="nothing to say about another"):
            ask(other)


def test_settings_as_they_were_stored_are_taken():
    data = node_data()
    config = Config(lift=32)
    one, other = (RAPNodeClassifier(network=given).fit(data) for given in (config, {"lift": 32}))
    assert np.array_equal(one.predict_proba(data), other.predict_proba(data))


def test_a_graph_on_disk_is_refused_in_one_sentence(tmp_path):
    graph = from_pyg(node_data())
    model = RAPNodeClassifier(network={"lift": 8}).fit_graph(graph)
    with pytest.raises(InputError, match="single RAP network"):
        model.predict(DiskGraph.write(tmp_path / "graph", graph))
