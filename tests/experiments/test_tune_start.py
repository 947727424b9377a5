"""A search begins with what the estimator chooses, ends no worse, and ends in time."""

import json
import time

import pytest

from rapgnn.estimators.select import choose
from rapgnn.estimators.start import start_config
from rapgnn.experiments.tune.search import search
from rapgnn.experiments.tune.study import trial_records
from rapgnn.graph.goals import with_goal

pytest.importorskip("optuna")


def test_the_first_trial_is_the_estimators_choice_and_the_result_no_worse(small_graph, tmp_path):
    found = search(small_graph, "rap", tmp_path / "t.db", trials=3, seeds=2, space="any", confirm=1)
    trials = trial_records(tmp_path / "t.db")
    first = trials[0]
    assert first["origin"] == "estimator"
    assert [t.get("origin") for t in trials[1:]] == [None, None]
    network = choose(small_graph, start_config(small_graph), {"ridge": None}, 0)
    chosen = {name: getattr(network.config, name) for name in first["settings"] if name != "params"}
    assert {name: first["settings"][name] for name in chosen} == chosen
    assert network.fitted.loop.best is not None
    assert first["val_values"][0] == pytest.approx(network.fitted.loop.best[0])
    assert found["val_mean"] >= first["value"]
    again = search(small_graph, "rap", tmp_path / "t.db", trials=4, seeds=2, space="any", confirm=1)
    assert sum("origin" in t for t in trial_records(tmp_path / "t.db")) == 1
    assert again["trials"] == 4


def test_the_estimators_choice_is_confirmed_even_where_others_rank_higher(small_graph, tmp_path, monkeypatch):
    from rapgnn.experiments.tune import trials

    asked = []
    whole = trials.measured
    monkeypatch.setattr(
        trials, "measured", lambda p, s, seeds, stop: asked.append((s, seeds)) or whole(p, s, seeds, stop)
    )
    search(small_graph, "rap", tmp_path / "t.db", trials=4, seeds=1, space="any", confirm=2)
    first = trial_records(tmp_path / "t.db")[0]["settings"]
    assert any(settings == first and seeds.start >= 100 for settings, seeds in asked)


def test_only_the_space_for_any_graph_begins_so(small_graph, tmp_path):
    search(small_graph, "rap", tmp_path / "t.db", trials=1, seeds=1, space="wide", embedding="fixed-random")
    search(small_graph, "pretrained-embedding", tmp_path / "t.db", trials=1, seeds=1, space="any")
    assert not any("origin" in t for t in trial_records(tmp_path / "t.db"))


def test_the_time_bounds_the_trials_and_the_runs_that_decide(small_graph, tmp_path):
    lines = []
    start = time.time()
    search(small_graph, "rap", tmp_path / "t.db", trials=500, seeds=2, space="any", minutes=0.05, say=lines.append)
    assert time.time() - start < 3 + 4  # what was begun may end: a solve, a phase 1
    found = search(
        small_graph, "rap", tmp_path / "u.db", trials=500, seeds=1, minutes=1e-6, space="any", say=lines.append
    )
    assert any("the time is up" in line for line in lines)
    assert found["origin"] == "estimator"


def test_another_metric_is_another_study(small_graph, tmp_path):
    plain = search(small_graph, "rap", tmp_path / "t.db", trials=1, seeds=1, space="any")
    goal = with_goal(small_graph, "log_loss", "balanced")
    found = search(goal, "rap", tmp_path / "t.db", trials=3, seeds=1, space="any", confirm=1)
    assert (plain["metric"], found["metric"]) == ("accuracy", "log_loss")
    own = [t["value"] for t in trial_records(tmp_path / "t.db") if t["study"] == found["study"]]
    assert found["val_mean"] == pytest.approx(min(own))
    assert json.dumps(found)
