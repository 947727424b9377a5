"""Wide bags of words: the search looks at a sketch, the model is solved on the features."""

import numpy as np
import pytest
import torch

from rapgnn import RAPNodeClassifier
from rapgnn.estimators import select, sketch
from rapgnn.estimators.costs import nominal_cost, sparse_training_cost, training_cost
from rapgnn.estimators.sketch import sketched
from rapgnn.experiments.bench.words import wide_words
from rapgnn.models.config import Config
from rapgnn.sparse import dense
from rapgnn.training import wide


@pytest.fixture(scope="module")
def words():
    return wide_words(nodes=1200, features=1500, edges=9000, topics=3, fields=2, words=60.0, train=0.5)


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


def test_accuracy_is_that_of_the_search_without_a_sketch(words, request):
    plain = RAPNodeClassifier(settings={"normalize_features": False}).fit(words)
    request.getfixturevalue("sketching")
    quick = RAPNodeClassifier(settings={"normalize_features": False}).fit(words)
    assert quick.score(words, split="test") > plain.score(words, split="test") - 0.02


def test_what_the_user_fixes_stays(words, sketching):
    model = RAPNodeClassifier(num_layers=3, backbone="sage", ridge=5.0).fit(words)
    assert (model.config_.num_layers, model.config_.backbone, model.config_.ridge) == (3, "sage", 5.0)
    other = RAPNodeClassifier(embedding="fixed-random").fit(words)
    assert other.config_.embedding == "fixed-random"


def test_a_metric_that_rare_classes_decide_may_reweigh(words, sketching):
    model = RAPNodeClassifier(scoring="balanced_accuracy").fit(words)
    assert 0 < model.validation_score_ <= 1


def test_a_real_wide_graph_is_counted_below_training_and_the_direct_way():
    graph = wide_words(nodes=3000, features=8000, edges=40_000, train=0.6)
    config = Config(embedding="identity", head="ridge", ridge=None, num_layers=2, activation="identity")
    assert wide.too_wide(graph, config)
    assert nominal_cost(graph, config) < 0.1 * wide.direct_cost(graph, config, graph.num_features)
    assert nominal_cost(graph, config) < sparse_training_cost(graph) < training_cost(graph)
