"""A search keeps every trial, goes on where it stopped, ends in time, begins with the estimator's choice, and looks at
validation alone."""

import json
import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from commands import begin
from rapgnn import InputError
from rapgnn.errors import OutputError
from rapgnn.graph.rows import with_goal
from rapgnn.search.average import ranked
from rapgnn.search.costs import training_cost
from rapgnn.search.search import Search as EstimatorSearch
from rapgnn.search.start import start_config
from rapgnn_lab.tune.search import Search, open_study, storing
from trials import trial_records

FAST = "pretrained-embedding"  # the strategy whose trials take least
RANDOM = {"seeds": 1, "embedding": "fixed-random"}


def test_every_trial_is_stored_and_a_search_goes_on(small_graph, tmp_path):
    first = Search(small_graph, "fixed-diagonal", tmp_path / "t.db", 2, confirm=2, **RANDOM)
    assert first.run()["trials"] == 2
    more = replace(first, trials=4).run()
    assert more["trials"] == 4
    records = trial_records(tmp_path / "t.db")
    assert [r["trial"] for r in records] == [0, 1, 2, 3]
    assert all(r["settings"]["embedding"] == "fixed-random" for r in records)
    assert not any("origin" in r for r in records)  # the estimator's choice is RAP-GNN's first trial
    assert len(more["val_values"]) == 6  # one seed of the search, five that confirm
    best = sorted((r["value"] for r in records), reverse=True)[:2]
    assert more["val_values"][0] in best


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
        Search(graph, "rap", tmp_path / f"{i}.db", 2, seeds=1, confirm=1).run()
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
    fixed = {"coefficients": "random"}
    tried = EstimatorSearch(small_graph, start_config(small_graph), fixed, 0, lambda: False, alone=True)
    tried.run(training_cost(small_graph))
    best = ranked(tried.scored, tried.by_metric)[0].candidate.config.to_dict()
    chosen = {name: value for name, value in first["settings"].items() if name != "params"}
    assert {name: best[name] for name in chosen} == chosen
    assert found["val_mean"] >= first["value"]
    assert replace(search, trials=4).run()["trials"] == 4
    assert sum("origin" in t for t in trial_records(tmp_path / "t.db")) == 1


def test_a_time_budget_ends_a_search(small_graph, tmp_path):
    lines = []
    late = Search(small_graph, FAST, tmp_path / "t.db", 10_000, seeds=1, minutes=1e-6).run(say=lines.append)
    assert late["trials"] == 1  # nothing begins after the end, but one there must be
    assert len(late["val_values"]) == len(lines) == 1  # no time to decide, which is said
    start = time.monotonic()
    found = Search(small_graph, FAST, tmp_path / "t.db", 10_000, seeds=1, minutes=0.03).run()
    assert 1 <= found["trials"] < 1000  # one on a busy machine
    assert time.monotonic() - start < 1.8 + 4  # what was begun may end: a solve, a phase 1


def test_processes_share_one_study_and_one_that_dies_loses_only_its_trial(rapgnn, tmp_path):
    graph = "sbm:nodes=200,classes=3,features=8,train=5,val=40,test=60"
    command = ["tune", graph, "--seeds", "1", "--storage", str(tmp_path / "t.db"), "--method", FAST]
    one, two = (begin("-m", "rapgnn", *command, "--trials", "100000") for _ in range(2))
    with one as first, two as second:
        _wait(lambda: _complete(tmp_path / "t.db") >= 2)
        first.kill()
        before = _complete(tmp_path / "t.db")
        _wait(lambda: _complete(tmp_path / "t.db") >= before + 1)
        second.kill()
    records = trial_records(tmp_path / "t.db")
    complete = [r for r in records if r["state"] == "COMPLETE"]
    assert len({r["study"] for r in records}) == 1
    assert len(records) <= len(complete) + 2
    assert len({json.dumps(r["settings"]) for r in complete}) == len(complete)  # not one random sequence twice
    code, _, err = rapgnn(*command, "--trials", len(complete) + 1, "--json", tmp_path / "t.json")
    assert code == 0, err
    assert json.loads((tmp_path / "t.json").read_text())[0]["trials"] == len(complete) + 1


def test_a_finished_search_has_nothing_to_do(small_graph, tmp_path, monkeypatch):
    search = Search(small_graph, FAST, tmp_path / "t.db", 3, seeds=1, confirm=2)
    found = search.run()
    monkeypatch.setattr(Search, "measure", None)  # not even to decide
    assert search.run() == found


def _wait(holds, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.1)


def _complete(database: Path) -> int:
    try:
        with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
            return connection.execute("select count(*) from trials where state = 'COMPLETE'").fetchone()[0]
    except sqlite3.Error:  # it is still being made
        return 0


@pytest.mark.parametrize("name", ["a%20{b}.db", "ä#b;c=d.db", "a?mode=memory"])
def test_a_file_of_any_name_holds_the_trials(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    study = open_study(Path(name), "s", True)
    study.tell(study.ask(), 0.5)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert len(open_study(tmp_path / name, "s", True).trials) == 1  # goes on with it
    assert trial_records(Path(name)) == [{"study": "s", "trial": 0, "state": "COMPLETE", "value": 0.5}]


@pytest.mark.parametrize("name", ["a\0b.db", "n" * 300, "d/" * 3000 + "x.db"])
def test_names_that_no_file_can_have_and_other_files_are_refused(tmp_path, name):
    with pytest.raises(InputError):
        open_study(tmp_path / name, "s", True)
    assert not list(tmp_path.iterdir())
    (tmp_path / "notes.txt").write_text("precious" * 100)
    with pytest.raises(InputError):
        open_study(tmp_path / "notes.txt", "s", True)
    assert (tmp_path / "notes.txt").read_text() == "precious" * 100


def test_a_full_disk_is_one_sentence_and_loses_no_trial(tmp_path, monkeypatch):
    database, connect = tmp_path / "t.db", sqlite3.connect
    study = open_study(database, "s", True)
    study.tell(study.ask(), 0.5)
    pages = connect(database).execute("PRAGMA page_count").fetchone()[0]

    def small(*given: object, **options: object) -> sqlite3.Connection:
        connection = connect(*given, **options)
        connection.execute(f"PRAGMA max_page_count = {pages}")  # as if the disk were full
        return connection

    def fill() -> None:
        study = open_study(database, "s", True)
        for _ in range(100):
            study.ask().set_user_attr("settings", json.dumps("s" * 1000))

    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", small)
        with pytest.raises(OutputError), storing(database):
            fill()
    assert trial_records(database)[0]["state"] == "COMPLETE"
