"""Several processes on one study."""

import json
import multiprocessing
import os
import signal

import pytest

from rapgnn.experiments.tune.search import search
from rapgnn.experiments.tune.study import trial_records

optuna = pytest.importorskip("optuna")
FAST = "pretrained-embedding"  # the strategy whose trials take least


@pytest.fixture(scope="module")
def shared_study(small_graph, tmp_path_factory):
    """A search by two processes: (its record, the database, what the parent was told)."""
    database, told = tmp_path_factory.mktemp("workers") / "w.db", []
    found = search(
        small_graph,
        FAST,
        database,
        trials=8,
        seeds=1,
        confirm=2,
        workers=2,
        on_trial=lambda done, value: told.append((done, value)),
    )
    return found, database, told


@pytest.fixture
def quick_start(monkeypatch):
    """Workers forked from a process that has the libraries loaded; ``shared_study`` spawns them as users' are."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["rapgnn.experiments.tune.search", "optuna"])
    monkeypatch.setattr("rapgnn.experiments.tune.workers.multiprocessing.get_context", lambda how: context)


def test_workers_share_one_study(shared_study):
    found, database, told = shared_study
    records = trial_records(database)
    assert len({r["study"] for r in records}) == 1
    assert 8 <= len(records) <= 9  # one too many at most
    assert [r["state"] for r in records] == ["COMPLETE"] * len(records)
    assert len({json.dumps(r["settings"]) for r in records}) == len(records)  # not one random sequence twice
    assert found["trials"] == len(records)
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert told[-1] == (len(records), max(r["value"] for r in records))
    assert len(found["val_values"]) == 6


def test_a_finished_search_has_nothing_to_do(shared_study, small_graph, monkeypatch):
    found, database, _ = shared_study
    monkeypatch.setattr("rapgnn.experiments.tune.trials.run", None)  # not even the runs that decide among the best
    assert search(small_graph, FAST, database, trials=8, seeds=1, confirm=2) == found


def test_killed_workers_lose_only_what_they_ran(small_graph, tmp_path, quick_start, monkeypatch):
    monkeypatch.setattr("rapgnn.experiments.tune.workers.POLL_SECONDS", 0.02)
    said, killed = [], []
    others = {child.pid for child in multiprocessing.active_children()}  # joblib keeps its workers

    def kill(done: int, value: float) -> None:
        running = [child.pid for child in multiprocessing.active_children() if child.pid not in others]
        if not killed and done >= 1 and len(running) == 2:
            killed.extend(running)
            for pid in running:
                os.kill(pid, signal.SIGKILL)

    kept = {"trials": 8, "seeds": 2, "confirm": 1}  # none of the workers is done before it is killed
    found = search(small_graph, FAST, tmp_path / "k.db", workers=2, on_trial=kill, say=said.append, **kept)
    assert len(killed) == len(said) == 2
    assert "-9" in said[0]
    states = [r["state"] for r in trial_records(tmp_path / "k.db")]
    assert found["trials"] == states.count("COMPLETE") == 8
    assert states.count("RUNNING") <= 2


def test_a_time_budget_ends_workers(small_graph, tmp_path, quick_start):
    others = multiprocessing.active_children()
    found = search(small_graph, FAST, tmp_path / "m.db", trials=100_000, seeds=1, confirm=1, minutes=1e-6, workers=2)
    assert 1 <= found["trials"] <= 2  # nothing begins after the end, but one there must be
    assert set(multiprocessing.active_children()) <= set(others)
