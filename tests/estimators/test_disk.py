"""RAPNodeClassifier on a graph on disk and under a memory limit, against itself in memory."""

from dataclasses import replace

import numpy as np
import pytest

from disk_cases import blocks
from rapgnn import InputError, InputNotice, RAPGraphClassifier, RAPNodeClassifier
from rapgnn.scale.disk_graph import DiskGraph


@pytest.fixture
def graph():
    return blocks()


@pytest.fixture
def disk(graph, tmp_path):
    return DiskGraph.write(tmp_path / "g", graph)


def test_it_is_the_model_without_a_search(graph, disk):
    plain = RAPNodeClassifier(search=False).fit(graph)
    limited = RAPNodeClassifier(memory_limit="4GiB", search=False).fit(disk)
    assert limited.trials_ == []
    assert limited.config_ == plain.config_
    assert limited.validation_score_ == pytest.approx(plain.validation_score_)
    assert limited.score(disk, split="test") == pytest.approx(plain.score(graph, split="test"))
    assert limited.score(disk) == pytest.approx(plain.score(graph))
    assert (limited.predict(disk) == plain.predict(graph)).all()
    (p, spread), (q, expected) = (m.predict_proba(d, return_std=True) for m, d in ((limited, disk), (plain, graph)))
    np.testing.assert_allclose(p, q, rtol=1e-4, atol=2e-4)  # gaps of 90 between scores
    np.testing.assert_allclose(spread, expected, rtol=1e-2, atol=1e-3)
    assert limited.predict_proba(graph) == pytest.approx(p, abs=2e-4)  # trained on disk, used in memory


def test_without_validation_rows_some_are_held_out(graph, tmp_path):
    bare = replace(graph, val=graph.val[:0])
    disk = DiskGraph.write(tmp_path / "g", bare)
    with pytest.warns(InputNotice, match="no validation rows were given"):
        limited = RAPNodeClassifier(memory_limit="4GiB", search=False).fit(disk)
    plain = RAPNodeClassifier(search=False).fit(bare)
    assert limited.validation_score_ == pytest.approx(plain.validation_score_)
    np.testing.assert_allclose(limited.predict_proba(disk), plain.predict_proba(bare), atol=1e-5)


def test_a_search_tries_what_one_store_of_hops_serves(graph, disk, tmp_path):
    done = []
    searched = RAPNodeClassifier(memory_limit="4GiB").fit_disk(
        disk, tmp_path / "hops", on_hop=lambda *hop: done.append(hop)
    )
    assert len(done) == 5  # of one walk over four layers
    shapes = [(trial.settings["jumping"], trial.settings["num_layers"]) for trial in searched.trials_]
    assert shapes[0] == ("cat", 4)  # what there is without a search
    assert sorted(shapes) == [("cat", 1), ("cat", 2), ("cat", 4), ("last", 1), ("last", 2), ("last", 4)]
    best = max(searched.trials_, key=lambda trial: trial.value)
    assert searched.validation_score_ == best.value
    chosen = {"jumping": searched.config_.jumping, "num_layers": searched.config_.num_layers}
    plain = RAPNodeClassifier(search=False, **chosen).fit(graph)
    np.testing.assert_allclose(searched.predict_proba(disk), plain.predict_proba(graph), atol=2e-4)
    for trial in searched.trials_:
        alone = RAPNodeClassifier(search=False, **{name: trial.settings[name] for name in chosen}).fit(graph)
        assert trial.value == pytest.approx(alone.validation_score_)


def test_what_is_fixed_is_not_searched_for(disk):
    fixed = RAPNodeClassifier(memory_limit="4GiB", num_layers=3, jumping="last").fit(disk)
    assert (fixed.config_.num_layers, fixed.config_.jumping, fixed.trials_) == (3, "last", [])


def test_rows_come_in_the_order_that_they_are_asked_for(disk):
    fitted = RAPNodeClassifier(memory_limit="4GiB").fit(disk)
    parts = list(fitted.predict_parts(disk, np.array([3, 7, 200]), error_bars=True))
    assert np.concatenate([nodes for nodes, _ in parts]).tolist() == [3, 7, 200]
    assert all(found.spread is not None for _, found in parts)


def test_what_does_not_go_together_is_refused(graph, disk, molecules):
    fitted = RAPNodeClassifier(memory_limit="4GiB").fit(disk)
    for call, words in {
        lambda: RAPNodeClassifier(memory_limit="4GiB").fit(disk, graph.y): "brings its own labels",
        lambda: RAPNodeClassifier(memory_limit="much").fit(disk): "must be a size such as",
        lambda: RAPNodeClassifier(memory_limit="1MiB").fit(disk): "is the least that works",
        lambda: RAPGraphClassifier(memory_limit="4GiB").fit(molecules): "memory_limit is for the nodes of one graph",
        lambda: RAPGraphClassifier(hops="ray").fit(molecules): "hops is for the nodes of one graph",
        lambda: fitted.predict_proba(disk, n_samples=3): "predictions on a graph on disk are exact",
        lambda: fitted.transform(disk): "not held in memory",
        lambda: fitted.predict("nowhere"): "nowhere",
        lambda: fitted.score(disk, split="all"): "split",
    }.items():
        with pytest.raises(InputError, match=words):
            call()


def test_a_graph_with_other_features_is_refused(disk, tmp_path):
    fitted = RAPNodeClassifier(memory_limit="4GiB").fit(disk)
    other = blocks()
    narrow = DiskGraph.write(tmp_path / "narrow", replace(other, x=other.x[:, :5]))
    with pytest.raises(InputError, match="trained with 12 node features, the data have 5"):
        fitted.predict(narrow)
