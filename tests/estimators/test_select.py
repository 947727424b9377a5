"""The search for what a user left open, what it logs, and wide features that it looks at through a sketch."""

import logging
import warnings

import numpy as np
import pytest
import torch
from rapgnn.estimators.select import choose, cost, sketched, training_cost
from torch_geometric.data import Data

from rapgnn import InputNotice, RAPGraphRegressor, RAPNodeClassifier
from rapgnn.datasets.catalog import BlockModel
from rapgnn.estimators import select
from rapgnn.estimators import select as sketch
from rapgnn.network.config import Config
from rapgnn.search.costs import sparse_training_cost
from rapgnn.sparse import dense
from rapgnn.training import wide
from samples import graph_list, node_data, word_graph


def test_fixed_settings_stay_fixed_and_the_rest_is_chosen():
    data = node_data()
    model = RAPNodeClassifier(backbone="sage", num_layers=5).fit(data)
    assert (model.config_.backbone, model.config_.num_layers) == ("sage", 5)
    assert len(model.trials_) > 1
    assert max(t.value for t in model.trials_) == pytest.approx(model.validation_score_)


def test_the_search_never_looks_at_the_test_rows(small_graph):
    from dataclasses import replace

    spoiled = small_graph.y.clone()
    spoiled[small_graph.test] = (spoiled[small_graph.test] + 1) % 3
    base = Config()
    one = choose(small_graph, base, {}, 0)
    other = choose(replace(small_graph, y=spoiled), base, {}, 0)
    assert one.config == other.config
    assert [t.value for t in one.trials] == [t.value for t in other.trials]


def test_a_time_budget_stops_the_search(small_graph):
    assert len(choose(small_graph, Config(), {}, 0, time_budget=1e-9).trials) == 1


def test_costs_grow_with_the_work(small_graph):
    shallow, deep = (cost(small_graph, Config(num_layers=n)) for n in (1, 16))
    assert 0 < shallow < deep
    big = BlockModel(nodes=3000, train=20).generate()
    assert training_cost(big) > training_cost(small_graph) > 0


def test_no_labelled_row_to_spare_for_validation():
    data = Data(x=torch.eye(4), edge_index=torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]]), y=torch.tensor([0, -1, 1, -1]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputNotice)
        model = RAPNodeClassifier().fit(data, train=[0, 2])
    assert model.predict(data)[[0, 2]].tolist() == [0, 1]
    assert 0 <= model.validation_score_ <= 1  # each training row was left out in turn


@pytest.fixture(scope="module")
def words():
    return word_graph(nodes=1200, features=1500, edges=9000, topics=3, train=0.5)


@pytest.fixture
def sketching(monkeypatch):
    monkeypatch.setattr(wide, "LONG", 0.0)
    monkeypatch.setattr(wide, "matrix_free_cost", lambda graph, config: 0.0)
    monkeypatch.setattr(select, "matrix_free_cost", lambda graph, config: 1.0)
    monkeypatch.setattr(select, "sparse_training_cost", lambda graph: 3.9)
    monkeypatch.setattr(sketch, "DIRECTIONS", 64)


def test_a_sketch_keeps_distances_between_propagated_rows(words):
    small, reuse = sketched(words, 0)
    assert small.num_features == sketch.DIRECTIONS
    S = words.operator("gcn").matrix
    before, after = S @ (S @ dense(words.x)), S @ (S @ dense(small.x))
    kept = torch.cdist(after[:200], after[:200]) / torch.cdist(before[:200], before[:200]).clamp(min=1e-9)
    off = ~torch.eye(200, dtype=torch.bool)
    assert 0.8 < float(kept[off].median()) <= 1.001
    normal, _ = reuse.inputs(small, Config(normalize_features=True))
    sizes = dense(words.x).abs().sum(1, keepdim=True).clamp(min=1e-9)
    assert torch.allclose(dense(normal.x), dense(small.x) / sizes, atol=1e-5)


def test_training_rows_are_thinned_in_proportion(words, monkeypatch):
    monkeypatch.setattr(sketch, "ROWS", 60)
    rows = sketched(words, 0)[0].train
    assert len(rows) == len(rows.unique()) == 60
    assert set(rows.tolist()) <= set(words.train.tolist())
    share = torch.bincount(words.y[rows]) / 60
    assert torch.allclose(share, torch.bincount(words.y[words.train]) / len(words.train), atol=0.03)


def test_the_model_is_solved_on_the_features_and_kept_by_save_and_load(words, sketching, tmp_path):
    model = RAPNodeClassifier(embedding="identity").fit(words)
    assert (model.config_.embedding, model.config_.head, model.engine_) == ("identity", "ridge", "polynomial")
    assert model.model_.head.weight.shape[0] % words.num_features == 0
    assert model.validation_score_ == pytest.approx(max(t.value for t in model.trials_[-2:]))
    assert model.score(words, split="test") > 0.85
    again = RAPNodeClassifier(embedding="identity").fit(words)
    assert np.array_equal(again.predict_proba(words), model.predict_proba(words))
    model.save(tmp_path / "model")
    loaded = RAPNodeClassifier.load(tmp_path / "model")
    assert np.array_equal(loaded.predict_proba(words), model.predict_proba(words))
    probabilities, spread = loaded.predict_proba(words, return_std=True)
    assert np.array_equal(probabilities, model.predict_proba(words))
    assert spread.shape == probabilities.shape
    assert (spread >= 0).all()
    assert model.transform(words).shape == (words.num_nodes, model.model_.head.weight.shape[0])


def test_what_the_user_fixes_stays(words, sketching):
    model = RAPNodeClassifier(num_layers=3, backbone="sage", ridge=5.0).fit(words)
    assert (model.config_.num_layers, model.config_.backbone, model.config_.ridge) == (3, "sage", 5.0)
    other = RAPNodeClassifier(embedding="fixed-random").fit(words)
    assert other.config_.embedding == "fixed-random"


def test_a_real_wide_graph_is_counted_below_training_and_the_direct_way():
    graph = word_graph(nodes=3000, features=8000, edges=40_000, train=0.6)
    config = Config(embedding="identity", head="ridge", ridge=None, num_layers=2, activation="identity")
    assert wide.too_wide(graph, config)
    assert cost(graph, config) < 0.1 * wide.direct_cost(graph, config, graph.num_features)
    assert cost(graph, config) < sparse_training_cost(graph) < training_cost(graph)


def test_candidates_are_logged(small_graph, caplog):
    with caplog.at_level(logging.INFO, logger="rapgnn"):
        model = RAPNodeClassifier().fit(small_graph)
    lines = [record.getMessage() for record in caplog.records]
    assert sum(line.startswith("candidate") for line in lines) == len(model.trials_)
    assert lines[-1].startswith("trained: ")


def test_verbose_reaches_the_screen_and_silence_is_the_default(small_graph, capsys, monkeypatch):
    monkeypatch.setattr(logging.getLogger("rapgnn"), "propagate", False)  # as in a program without logging
    RAPNodeClassifier().fit(small_graph)
    assert capsys.readouterr().err == ""
    RAPNodeClassifier(verbose=True).fit(small_graph)
    assert "rapgnn: candidate 1: " in capsys.readouterr().err
    assert logging.getLogger("rapgnn").handlers == []


def test_a_search_of_graphs_keeps_what_is_fixed():
    graphs = graph_list(48)
    sizes = [float(len(g.x)) for g in graphs]
    model = RAPGraphRegressor(head="ridge", embedding="identity").fit(graphs, sizes)
    assert (model.config_.head, model.config_.embedding) == ("ridge", "identity")
    assert len(model.trials_) > 1
    assert model.score(graphs, sizes) > 0.8
