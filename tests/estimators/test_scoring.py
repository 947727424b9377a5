"""What a model is chosen by and judged by: metrics, class weights, and answers that need no graph."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.metrics import balanced_accuracy_score, log_loss, recall_score, roc_auc_score

from rapgnn import InputError, InputNotice, RAPGraphClassifier, RAPGraphRegressor, RAPNodeClassifier
from rapgnn.estimators.evaluation import counting_split, evaluate, fit_without_edges
from rapgnn.training.averaged import model_on
from samples import graph_list, node_data, rare

PLAIN = {"search": False, "num_layers": 2}


def test_the_search_chooses_by_the_metric_and_score_returns_it():
    graph = rare()
    y, test = graph.y.numpy(), graph.test.numpy()
    model = RAPNodeClassifier(scoring="rocauc").fit(graph)
    p = model.predict_proba(graph)
    assert model.score(graph, split="test") == pytest.approx(roc_auc_score(y[test], p[test, 1]))
    val = graph.val.numpy()
    assert model.validation_score_ == pytest.approx(roc_auc_score(y[val], p[val, 1]), abs=1e-6)
    assert any(t.settings.get("class_weight") == "balanced" for t in model.trials_)
    assert model.score(graph, split="test") > 0.65
    assert not any("class_weight" in t.settings for t in RAPNodeClassifier().fit(graph).trials_)


def test_a_metric_of_which_less_is_better_is_returned_negative():
    graph = rare()
    model = RAPNodeClassifier(scoring="log_loss", **PLAIN).fit(graph)
    test = graph.test.numpy()
    expected = log_loss(graph.y.numpy()[test], model.predict_proba(graph)[test])
    assert model.score(graph, split="test") == pytest.approx(-expected, rel=1e-4)
    searched = RAPNodeClassifier(scoring="log_loss").fit(graph)
    val = graph.val.numpy()
    expected = log_loss(graph.y.numpy()[val], searched.predict_proba(graph)[val])
    assert searched.validation_score_ == pytest.approx(expected, rel=1e-4)
    numbers = graph_list(regression=True)
    fitted = RAPGraphRegressor(scoring="mae", search=False).fit(numbers)
    errors = np.abs(fitted.predict(numbers) - [float(g.y) for g in numbers])
    assert fitted.score(numbers) == pytest.approx(-errors.mean(), rel=1e-4)


@pytest.mark.parametrize("settings", [{}, {"head": "linear", "epochs": 60, "lr": 0.05, "hidden_channels": 16}])
def test_balanced_weights_find_the_rare_class(settings):
    graph = rare()
    y, test = graph.y.numpy(), graph.test.numpy()
    recalls, balanced = [], []
    for weight in (None, "balanced"):
        goal = {"class_weight": weight, "scoring": weight and "balanced_accuracy"}
        model = RAPNodeClassifier(**goal, **PLAIN, **settings).fit(graph)
        recalls.append(recall_score(y[test], model.predict(graph)[test]))
        balanced.append(balanced_accuracy_score(y[test], model.predict(graph)[test]))
    assert recalls[0] < 0.3 < 0.45 < recalls[1]
    assert balanced[1] > balanced[0] + 0.1
    assert sorted(model.class_weight_) == [0, 1]


@pytest.mark.parametrize("settings", [{}, {"head": "linear", "epochs": 5, "hidden_channels": 8}])
def test_equal_weights_are_no_weights(settings, small_graph):
    plain, equal = (
        RAPNodeClassifier(class_weight=weight, **PLAIN, **settings).fit(small_graph).predict_proba(small_graph)
        for weight in (None, {0: 2, 1: 2, 2: 2})
    )
    np.testing.assert_allclose(plain, equal, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"scoring": "r2"}, "r2 is no metric for classes"),
        ({"scoring": "best"}, "metric 'best' is unknown"),
        ({"class_weight": "even"}, "class_weight must be"),
        ({"class_weight": {"x": 1}}, "names 'x', which is not a class"),
    ],
)
def test_wrong_goals_are_refused_before_training(small_graph, arguments, words):
    with pytest.raises(InputError, match=words):
        clone(RAPNodeClassifier(**arguments)).fit(small_graph)


def test_numbers_have_no_class_weight():
    with pytest.raises(InputError, match="class_weight is for rows with one class"):
        RAPGraphRegressor(class_weight="balanced", search=False).fit(graph_list(regression=True))


def test_a_made_up_validation_split_is_announced():
    data = node_data()
    data.val_mask = None
    with pytest.warns(InputNotice, match=r"no validation rows were given: \d+ of the 30 training rows"):
        RAPNodeClassifier(**PLAIN).fit(data)
    with pytest.warns(InputNotice, match=r"no validation rows were given: 12 of the 60 training rows"):
        RAPGraphClassifier(search=False).fit(graph_list())
    with warnings.catch_warnings():
        warnings.simplefilter("error", InputNotice)
        RAPNodeClassifier(**PLAIN).fit(node_data())


def test_without_a_search_there_is_one_closed_form_fit_that_suits_the_graph(small_graph):
    few = RAPNodeClassifier(search=False).fit(small_graph)  # 30 training rows, 12 features
    assert (few.config_.embedding, few.config_.head, few.config_.num_layers) == ("identity", "ridge", 4)
    assert few.config_.jumping == "cat"
    assert few.trials_ == []
    wide = replace(small_graph, train=small_graph.train[:20])
    assert RAPNodeClassifier(search=False).fit(wide).config_.jumping == "last"
    many = RAPGraphClassifier(search=False).fit(graph_list())
    assert (many.config_.backbone, many.config_.head, many.config_.jumping) == ("gin", "ridge", "cat")


@pytest.mark.parametrize(
    ("settings", "head", "embedding"),
    [
        ({"head": "linear", "epochs": 5}, "linear", "pretrained"),
        ({"epochs": 5}, "linear", "pretrained"),
        ({"hidden_channels": 8, "settings": {"pretrain_epochs": 3}}, "ridge", "pretrained"),
        ({"embedding": "fixed-random", "hidden_channels": 8}, "ridge", "fixed-random"),
        ({"embedding": "random", "epochs": 2, "hidden_channels": 8}, "linear", "random"),
        ({"embedding": "learnable", "hidden_channels": 8, "settings": {"epochs": 2}}, "linear", "learnable"),
        ({"settings": {"structure": "full", "epochs": 2, "hidden_channels": 8}}, "linear", "pretrained"),
        ({"backbone": "gin", "num_layers": 1}, "ridge", "identity"),
        ({"backbone": "sage", "settings": {"self_loops": True}}, "ridge", "identity"),
        ({"head": "ridge", "epochs": 7}, "ridge", "identity"),
    ],
)
def test_without_a_search_what_is_set_is_kept(small_graph, settings, head, embedding):
    model = RAPNodeClassifier(search=False, **settings).fit(small_graph)
    assert (model.config_.head, model.config_.embedding) == (head, embedding)
    given = {**settings, **settings.get("settings", {})}
    given.pop("settings", None)
    assert {name: getattr(model.config_, name) for name in given} == given


def test_negative_edge_weights_are_taken_with_and_without_a_search(small_graph):
    weight = torch.linspace(-1, 1, small_graph.edge_index.shape[1])
    signed = replace(small_graph, x=torch.as_tensor(small_graph.x).abs(), edge_weight=weight)
    assert RAPNodeClassifier(search=False).fit(signed).config_.activation == "identity"
    assert RAPNodeClassifier().fit(signed).trials_  # a search takes them too


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"inference": "mean", "settings": {"num_samples": 4}},
        {"inference": "sample"},
        {"embedding": "random", "epochs": 2, "hidden_channels": 8},
    ],
)
def test_probabilities_are_the_same_with_and_without_their_spread(small_graph, settings):
    model = RAPNodeClassifier(**PLAIN, **settings).fit(small_graph)
    probability, spread = model.predict_proba(small_graph, return_std=True)
    np.testing.assert_allclose(model.predict_proba(small_graph), probability, rtol=1e-5, atol=1e-7)
    assert spread.max() > 0
    assert (model.predict(small_graph) == model.classes_[probability.argmax(1)]).mean() > 0.99


def test_numbers_for_nodes_are_refused_with_what_to_do(small_graph):
    data = node_data()
    data.y = torch.rand(300)
    with pytest.raises(InputError, match="these look like regression targets, which are for RAPNodeRegressor"):
        RAPNodeClassifier().fit(data)
    numbers = replace(small_graph, y=torch.rand(300, 1), task="node-regression", num_outputs=1)
    with pytest.raises(InputError, match="an estimator for node-classification, but the data are for node-regression"):
        RAPNodeClassifier().fit(numbers)


def judged(graph, scoring=None, **settings):
    model = RAPNodeClassifier(scoring=scoring, **(PLAIN | settings)).fit(graph)
    return evaluate(graph, model_on(model.model_, graph), scoring, fit_without_edges(graph, model.config_, 0))


def test_a_useless_model_is_called_so():
    graph = rare(useless=True)
    record = judged(graph)
    share = float((graph.y[graph.test] == 0).double().mean())
    assert record["majority"] == pytest.approx(share)
    assert record["scored_split"] == "test"
    said = " ".join(record["verdict"])
    assert "better than always answering 0" in said
    assert "the graph" in said
    assert "accuracy alone says little" in said
    assert abs(record["rocauc"] - 0.5) < 0.12


def test_a_graph_that_helps_is_not_called_useless():
    from rapgnn.datasets.synthetic import BlockModel

    graph = BlockModel(nodes=1000, classes=3, features=8, train=20, val=200, test=500).generate()
    record = judged(graph, search=True, num_layers=None)
    assert record["verdict"] == []
    assert record["score"] > record["without_edges"] + 0.1 > record["majority"]


def test_the_model_without_edges_does_not_see_them(small_graph):
    other = replace(small_graph, edge_index=small_graph.edge_index.flip(1)[:, :50])
    config = RAPNodeClassifier(**PLAIN).fit(small_graph).config_
    rows = small_graph.test
    one, two = (fit_without_edges(g, config, 0)(rows).probabilities for g in (small_graph, other))
    torch.testing.assert_close(one, two)
    assert float((one.argmax(1) == small_graph.y[rows]).double().mean()) > 0.5


def test_graphs_and_numbers_have_their_baselines_too(molecules):
    model = RAPGraphClassifier(search=False).fit(molecules)
    bare = fit_without_edges(molecules, model.config_, 0)
    record = evaluate(molecules, model_on(model.model_, molecules), None, bare)
    assert {"majority", "without_edges", "balanced_accuracy", "rocauc", "average_precision"} <= set(record)
    assert 0 <= record["calibration_error"] <= 1


def test_without_training_rows_or_own_features_there_is_no_model_without_edges(small_graph):
    from rapgnn.graph.table import Encoding

    model = RAPNodeClassifier(**PLAIN).fit(small_graph)
    empty = replace(small_graph, train=small_graph.train[:0])
    with pytest.raises(InputError, match="no training rows"):
        fit_without_edges(empty, model.config_, 0)
    with pytest.raises(InputError, match="made of the edges"):
        fit_without_edges(replace(small_graph, encoding=Encoding("structural")), model.config_, 0)
    assert counting_split(replace(empty, val=empty.val[:0], test=empty.test[:0]))[0] == "all"
