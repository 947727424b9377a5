"""What a model is chosen by and judged by: metrics, class weights, answers that need no graph; exact error bars."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.metrics import balanced_accuracy_score, log_loss, recall_score, roc_auc_score

from rapgnn import Config, InputError, InputNotice, RAPGraphClassifier, RAPGraphRegressor, RAPNodeClassifier, from_pyg
from rapgnn.estimators.evaluation import counting_split, evaluate, fit_without_edges
from rapgnn.network.network import Average
from rapgnn.search.candidate import Candidate
from rapgnn.search.start import HOPS
from rapgnn.training.predict import model_on
from samples import FAST, graph_list, node_data, rare, rings

PLAIN = {"search": False, "num_layers": 2}


def test_the_search_chooses_by_the_metric_and_score_returns_it():
    graph = rare()
    y, test = graph.y.numpy(), graph.test.numpy()
    model = RAPNodeClassifier(scoring="rocauc").fit(graph)
    p = model.predict_proba(graph)
    assert model.score(graph, split="test") == pytest.approx(roc_auc_score(y[test], p[test, 1]))
    val = graph.val.numpy()
    assert 0.5 < model.validation_score_ < roc_auc_score(y[val], p[val, 1])  # rows do not judge what they chose
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
    assert searched.validation_score_ >= expected
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
        ({"hidden_channels": 8, "settings": {"pretrain_epochs": 3}}, "ridge", "pretrained"),
        ({"embedding": "fixed-random", "hidden_channels": 8}, "ridge", "fixed-random"),
        ({"embedding": "learnable", "hidden_channels": 8, "settings": {"epochs": 2}}, "linear", "learnable"),
        ({"settings": {"structure": "full", "epochs": 2, "hidden_channels": 8}}, "linear", "pretrained"),
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


@pytest.mark.parametrize("settings", [{"bandwidth": 3.0}, {"lr": 0.1, "head": "ridge"}, {"width": 16}])
def test_without_a_search_settings_that_decide_nothing_are_named(small_graph, settings):
    with pytest.warns(InputNotice, match=f"decide nothing here: {next(iter(settings))}"):
        model = RAPNodeClassifier(search=False, **settings).fit(small_graph)
    assert any("decide nothing" in note for note in model.notes_)


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


def judged(graph, scoring=None, **settings):
    model = RAPNodeClassifier(scoring=scoring, **(PLAIN | settings)).fit(graph)
    return evaluate(graph, model_on(model.model_, graph), model)


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
    from rapgnn.datasets.catalog import BlockModel

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


@pytest.mark.parametrize(("head", "jumping"), [("ridge", "last"), ("linear", "cat"), ("mlp", "cat")])
def test_exact_error_bars_are_those_of_many_draws(head, jumping):
    data = node_data(x=torch.rand(300, 12, generator=torch.Generator().manual_seed(0)))
    settings = {"embedding": "fixed-random", "embedding_output": "split", "rescale": True}
    model = RAPNodeClassifier(
        num_layers=3, hidden_channels=64, head=head, jumping=jumping, epochs=50, settings=settings, search=False
    ).fit(data)
    graph, every = model._graph(data), torch.arange(0, 300, 3)
    mean, exact = _draws(model._prediction(graph, every, inference="expected", error_bars=True))
    sampled, spread = _draws(model._prediction(graph, every, inference="mean", num_samples=600))
    assert spread.max() > 1e-3
    large = spread > 0.2 * spread.max()
    ratio = exact[large] / spread[large]
    assert abs(np.median(ratio) - 1) < 0.05
    assert 0.75 < np.quantile(ratio, 0.02) < np.quantile(ratio, 0.98) < 1.3
    np.testing.assert_allclose(mean, sampled, atol=0.02)
    again = model._prediction(graph, every, inference="expected", error_bars=True)
    np.testing.assert_array_equal(_draws(again)[1], exact)  # no sampling
    parts = [part.numpy() for part in again.parts.values()]
    assert list(again.parts) == (["draws", "head"] if head == "ridge" else ["draws"])
    whole = model.predict_proba(data, method="exact", return_std=True)[1][::3]
    np.testing.assert_allclose(whole, np.sqrt(np.square(parts).sum(0)), rtol=1e-5)
    # Calibrated: of the draws of a probability, about 68 and 95 percent lie within one and two error bars.
    draws = np.stack([_draw(model, data, i)[::3] for i in range(60)])
    z = (np.abs(draws - mean) / np.maximum(exact, 1e-9))[:, large]
    assert 0.60 < (z < 1).mean() < 0.78
    assert (z < 2).mean() > 0.90


def _draws(found):
    return found.probabilities.numpy(), found.parts["draws"].numpy()


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
    fixed = (
        RAPNodeClassifier(**FAST)
        .set_params(settings=FAST["settings"] | {"schedule": "fixed", "head": "linear"})
        .fit(data)
    )
    assert fixed.config_.head == "linear"
    with pytest.warns(InputNotice, match="no error bars"):  # never 0, which would read as certainty
        assert np.isnan(fixed.predict_proba(data, method="exact", return_std=True)[1]).all()
    table = fixed.error_bars(data)
    assert list(table.columns) == ["id", "label", "probability", "spread", "draws", "head", "members"]
    assert table[["spread", "draws", "head", "members"]].isna().to_numpy().all()
    assert list(table.attrs["missing"]) == ["draws", "head", "members"]


def test_exact_error_bars_of_an_average_are_those_of_many_draws_within_two_percent():
    """RAP networks and a network of fixed hops, which has no spread, with different weights."""
    graph = from_pyg(node_data(x=torch.rand(300, 12, generator=torch.Generator().manual_seed(0))))
    linear = Config(embedding="identity", head="ridge", activation="identity", normalize_features=False)
    shapes = [
        linear.update(num_layers=3),
        linear.update(scaling="length", backbone="sage", num_layers=2, jumping="cat"),
        HOPS.update(units=32),
    ]
    members = [Candidate(graph, shape, seed, {}).finished(0.1, 3.0) for seed, shape in enumerate(shapes)]
    average = Average(members, weights=[1.0, 0.5, 0.5])
    rows = torch.arange(300)
    exact = model_on(average, graph, inference="expected", error_bars=True)(rows)
    drawn = model_on(average, graph, inference="mean", num_samples=4000)(rows)
    exact, parts = exact.parts["draws"], exact.parts
    drawn = drawn.parts["draws"]
    assert list(parts) == ["draws", "head", "members"]
    assert float(drawn.max()) > 1e-3
    large = drawn > 0.2 * drawn.max()
    ratio = (exact / drawn)[large]
    assert abs(float(ratio.median()) - 1) < 0.02
    assert float(ratio.quantile(0.02)) > 0.85
    assert float(ratio.quantile(0.98)) < 1.15


def test_without_training_rows_or_own_features_there_is_no_model_without_edges(small_graph):
    from rapgnn.graph.table import Encoding

    model = RAPNodeClassifier(**PLAIN).fit(small_graph)
    empty = replace(small_graph, train=small_graph.train[:0])
    with pytest.raises(InputError, match="no training rows"):
        fit_without_edges(empty, model.config_, 0)
    with pytest.raises(InputError, match="made of the edges"):
        fit_without_edges(replace(small_graph, encoding=Encoding("structural")), model.config_, 0)
    assert counting_split(replace(empty, val=empty.val[:0], test=empty.test[:0]))[0] == "all"


def test_error_bars_of_fixed_filters_are_not_certainty():
    """An average whose members draw nothing had a spread of 0 on every row."""
    data = node_data()
    model = RAPNodeClassifier(coefficients="fixed", known_labels=1, jumping="cat").fit(data)
    table = model.error_bars(data)
    assert (table["head"] > 0).all()
    assert table["draws"].isna().all()
    p, spread = model.predict_proba(data, return_std=True)
    np.testing.assert_array_equal(p, model.predict_proba(data))
    np.testing.assert_array_equal(p.max(1), table["probability"])
    np.testing.assert_array_equal(spread[np.arange(300), p.argmax(1)], table["spread"])
    squares = table[["head", "members"]].fillna(0).pow(2).sum(axis=1)
    np.testing.assert_allclose(table["spread"], np.sqrt(squares), rtol=1e-6)


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
