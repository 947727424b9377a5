"""A search keeps every trial, goes on where it stopped, ends in time, begins with the estimator's choice, and looks at
validation alone."""

import json
import os
import signal
import sqlite3
import subprocess
import time
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from rapgnn.estimators.select import choose

from listening import begin
from rapgnn import InputError
from rapgnn.graph.scores import with_goal
from rapgnn.search.start import start_config
from rapgnn_lab.tune.search import Search, trial_records

FAST = "pretrained-embedding"  # the strategy whose trials take least
RANDOM = {"seeds": 1, "embedding": "fixed-random"}


def test_every_trial_is_stored_and_a_search_goes_on(small_graph, tmp_path):
    first = Search(small_graph, "fixed-diagonal", tmp_path / "t.db", 3, confirm=2, **RANDOM)
    assert first.run()["trials"] == 3
    more = replace(first, trials=5).run()
    assert more["trials"] == 5
    records = trial_records(tmp_path / "t.db")
    assert [r["trial"] for r in records] == [0, 1, 2, 3, 4]
    assert all(r["settings"]["embedding"] == "fixed-random" for r in records)
    assert not any("origin" in r for r in records)  # the estimator's choice is RAP-GNN's first trial
    assert len(more["val_values"]) == 6  # one seed of the search, five that confirm
    best = sorted((r["value"] for r in records), reverse=True)[:2]
    assert more["val_values"][0] in best


def test_the_papers_space_takes_embeddings_past_the_papers(small_graph, tmp_path):
    cora = replace(small_graph, name="cora")
    found = Search(cora, "rap", tmp_path / "t.db", 1, 1, "faithful", "learnable-linear", confirm=1).run()
    assert (found["embedding"], found["settings"]["embedding"]) == ("learnable-linear", "learnable")
    assert found["settings"]["activation"] == "identity"


def test_another_graph_or_metric_is_another_study(small_graph, tmp_path):
    goal = with_goal(small_graph, "log_loss", "balanced")
    other = replace(small_graph, x=small_graph.x + 1)
    found = [
        Search(graph, FAST, tmp_path / "t.db", 2, seeds=1, confirm=1).run() for graph in (small_graph, other, goal)
    ]
    assert len({record["study"] for record in found}) == 3
    assert [record["metric"] for record in found] == ["accuracy", "accuracy", "log_loss"]
    own = [r["value"] for r in trial_records(tmp_path / "t.db") if r["study"] == found[2]["study"]]
    assert found[2]["val_mean"] == pytest.approx(min(own))  # a loss counts downwards
    assert json.dumps(found)


def test_the_search_never_looks_at_test_labels(small_graph, tmp_path):
    hidden = small_graph.y.clone()
    hidden[small_graph.test] = 0
    one, two = (
        Search(graph, "rap", tmp_path / f"{i}.db", 3, seeds=1, confirm=2).run()
        for i, graph in enumerate((small_graph, replace(small_graph, y=hidden)))
    )
    assert (one["settings"], one["val_values"]) == (two["settings"], two["val_values"])
    with pytest.raises(InputError):
        Search(replace(small_graph, val=small_graph.val[:0]), "rap", tmp_path / "t.db", 1).run()
    hidden[small_graph.val] = 0  # one class: no point can be scored, and each is refused by itself
    unscored = with_goal(replace(small_graph, y=hidden), "rocauc", None)
    with pytest.raises(InputError):
        Search(unscored, FAST, tmp_path / "t.db", 2, seeds=1).run()
    assert [r["state"] for r in trial_records(tmp_path / "t.db")] == ["PRUNED"] * 2


def test_the_first_trial_is_the_estimators_choice_and_the_result_no_worse(small_graph, tmp_path):
    search = Search(small_graph, "rap", tmp_path / "t.db", 3, seeds=2, confirm=1)
    found = search.run()
    first, *others = trial_records(tmp_path / "t.db")
    assert first["origin"] == "estimator"
    assert not any("origin" in t for t in others)
    network = choose(small_graph, start_config(small_graph), {"ridge": None}, 0)
    chosen = {name: getattr(network.config, name) for name in first["settings"] if name != "params"}
    assert {name: first["settings"][name] for name in chosen} == chosen
    assert network.fitted.loop.best is not None
    assert first["val_values"][0] == pytest.approx(network.fitted.loop.best[0])
    assert found["val_mean"] >= first["value"]
    assert replace(search, trials=4).run()["trials"] == 4
    assert sum("origin" in t for t in trial_records(tmp_path / "t.db")) == 1


def test_the_estimators_choice_may_be_chosen_even_where_others_rank_higher(small_graph, tmp_path):
    search = Search(small_graph, "rap", tmp_path / "t.db", 1, confirm=1, **RANDOM)
    search.run()
    study = search.open()
    for value in (2.0, 3.0):  # better than any network
        trial = study.ask()
        trial.set_user_attr("settings", json.dumps({"embedding": "fixed-random"}))
        study.tell(trial, value)
    assert [t.number for t in replace(search, confirm=2).best(study)] == [2, 1, 0]


def test_a_time_budget_ends_a_search(small_graph, tmp_path):
    lines = []
    late = Search(small_graph, FAST, tmp_path / "t.db", 10_000, seeds=1, minutes=1e-6).run(2, say=lines.append)
    assert 1 <= late["trials"] <= 2  # nothing begins after the end, but one there must be
    assert len(late["val_values"]) == len(lines) == 1  # no time to decide, which is said
    alone = Search(small_graph, FAST, tmp_path / "alone.db", 10_000, seeds=1, minutes=1e-6).run()
    assert (alone["trials"], len(alone["val_values"])) == (1, 1)
    start = time.monotonic()
    found = Search(small_graph, FAST, tmp_path / "t.db", 10_000, seeds=1, minutes=0.03).run()
    assert 1 < found["trials"] < 1000
    assert time.monotonic() - start < 1.8 + 4  # what was begun may end: a solve, a phase 1


def test_workers_share_one_study_and_one_that_dies_loses_only_its_trial(small_graph, tmp_path, monkeypatch):
    started, counts, said = [], [], []

    class Process(subprocess.Popen):
        def __init__(self, *given, **options):
            super().__init__(*given, **options)
            started.append(self)

    def kill_one(count: int, best: float) -> None:
        counts.append((count, best))
        if count >= 1 and started[0].returncode is None:
            os.kill(started[0].pid, signal.SIGKILL)  # Popen.kill would collect it before the search sees it

    monkeypatch.setattr(subprocess, "Popen", Process)
    search = Search(small_graph, FAST, tmp_path / "t.db", 12, seeds=2, confirm=2, poll=0.02)
    found = search.run(2, kill_one, said.append)
    assert [process.returncode for process in started] == [-signal.SIGKILL, 0]
    assert len(said) == 1
    assert "-9" in said[0]
    records = trial_records(tmp_path / "t.db")
    complete = [r for r in records if r["state"] == "COMPLETE"]
    assert 12 <= len(complete) == found["trials"] <= 13  # one too many at most
    assert len(records) <= len(complete) + 1
    assert len({r["study"] for r in records}) == 1
    assert len({json.dumps(r["settings"]) for r in complete}) == len(complete)  # not one random sequence twice
    assert [count for count, _ in counts] == sorted(count for count, _ in counts)
    assert counts[-1] == (len(complete), max(r["value"] for r in complete))
    monkeypatch.setattr(Search, "measure", None)  # a finished search has nothing to do, not even to decide
    assert search.run() == found


def test_a_killed_search_ends_its_workers_and_resumes(rapgnn, tmp_path):
    """kill -9 in the middle loses at most the trials that were running."""
    graph = "sbm:nodes=200,classes=3,features=8,train=5,val=40,test=60"
    command = ["tune", graph, "--seeds", "1", "--storage", str(tmp_path / "t.db"), "--method", FAST]
    with begin("-m", "rapgnn", *command, "--trials", "100000", "--workers", "2") as process:
        _wait(lambda: _complete(tmp_path / "t.db") >= 2)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        process.kill()
        assert len(children) == 2
        _wait(lambda: not any(_runs(child) for child in children))
    before = sum(trial["state"] == "COMPLETE" for trial in trial_records(tmp_path / "t.db"))
    code, _, err = rapgnn(*command, "--trials", before + 1, "--json", tmp_path / "t.json")
    assert code == 0, err
    assert json.loads((tmp_path / "t.json").read_text())[0]["trials"] == before + 1


@pytest.mark.parametrize("after", [1.0, pytest.param(2.0, marks=pytest.mark.slow)])
def test_workers_end_at_once_with_ctrl_c(tmp_path, after):
    """From the moment on that they are started, also while they load their libraries."""
    sbm = "sbm:nodes=3000,features=60,train=200,val=500"
    words = ["-m", "rapgnn", "tune", sbm, "--trials", "100000", "--workers", "2"]
    with begin(*words, "--storage", str(tmp_path / "t.db")) as process:
        _wait((tmp_path / "t.db").exists)
        time.sleep(after)
        pressed = time.monotonic()
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        _, err = process.communicate(timeout=60)
        seconds = time.monotonic() - pressed
    assert process.returncode in (130, -signal.SIGINT), err.decode()  # a shell calls both 130
    lines = [line for line in err.decode().splitlines() if line.strip() and "0:0" not in line]
    assert lines == ["rapgnn: interrupted."]
    assert seconds < 3  # not until the workers have loaded their libraries


def _wait(holds, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.1)


def _runs(pid: str) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def _complete(database: Path) -> int:
    try:
        with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
            return connection.execute("select count(*) from trials where state = 'COMPLETE'").fetchone()[0]
    except sqlite3.Error:  # it is still being made
        return 0
