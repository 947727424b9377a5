"""A search keeps every trial, goes on where it stopped, ends in time and looks at validation alone."""

import json
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace

import pytest

from rapgnn.experiments.tune.search import search
from rapgnn.experiments.tune.study import trial_records

optuna = pytest.importorskip("optuna")
FAST = "pretrained-embedding"  # the strategy whose trials take least


def test_every_trial_is_kept_and_a_search_goes_on(small_graph, tmp_path):
    database = tmp_path / "t.db"
    kept = {"trials": 3, "seeds": 1, "space": "wide", "confirm": 2, "embedding": "fixed-random"}
    first = search(small_graph, "rap", database, **kept)
    assert first["trials"] == 3
    more = search(small_graph, "rap", database, **{**kept, "trials": 5})
    assert more["trials"] == 5
    records = trial_records(database)
    assert [r["trial"] for r in records] == [0, 1, 2, 3, 4]
    assert all(r["settings"]["embedding"] == "fixed-random" for r in records)
    assert len(more["val_values"]) == 6  # one seed of the search, five that confirm


def test_another_graph_is_another_study(small_graph, tmp_path):
    from rapgnn.datasets.synthetic import BlockModel

    other = BlockModel(nodes=310, classes=3, features=12, train=10, val=60, test=100, seed=2).generate()
    for graph in (small_graph, other):
        search(graph, "rap", tmp_path / "t.db", trials=1, seeds=1, confirm=1, embedding="fixed-random")
    assert len({r["study"] for r in trial_records(tmp_path / "t.db")}) == 2


def test_a_time_budget_ends_a_search(small_graph, tmp_path):
    began = time.monotonic()
    found = search(
        small_graph, "rap", tmp_path / "m.db", trials=10_000, seeds=1, confirm=1, minutes=0.02, embedding="fixed-random"
    )
    assert 1 <= found["trials"] < 1000
    assert time.monotonic() - began < 60


def test_the_search_never_looks_at_test_labels(small_graph, tmp_path):
    hidden = small_graph.y.clone()
    hidden[small_graph.test] = 0
    found = [
        search(g, "rap", tmp_path / f"{i}.db", trials=3, seeds=1, confirm=1)
        for i, g in enumerate((small_graph, replace(small_graph, y=hidden)))
    ]
    assert found[0]["settings"] == found[1]["settings"]
    assert found[0]["val_values"] == found[1]["val_values"]


def test_a_killed_search_resumes(rapgnn, tmp_path, monkeypatch):
    """kill -9 in the middle loses at most the trial that was running."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    database = tmp_path / "k.db"
    graph = "sbm:nodes=200,classes=3,features=8,train=5,val=40,test=60"
    command = ["tune", graph, "--seeds", "1", "--storage", str(database), "--method", FAST]
    quiet = {"stderr": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
    process = subprocess.Popen([sys.executable, "-m", "rapgnn", *command, "--trials", "200"], **quiet)
    deadline = time.monotonic() + 60
    while _complete(database) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = _complete(database)
    assert before >= 2
    out = tmp_path / "k.json"
    wanted = before + 1
    code, _, err = rapgnn(*command, "--trials", wanted, "--json", out)
    assert code == 0, err
    assert json.loads(out.read_text())[0]["trials"] == wanted


def _complete(database) -> int:
    if not database.exists():
        return 0
    try:
        with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
            return connection.execute("select count(*) from trials where state = 'COMPLETE'").fetchone()[0]
    except sqlite3.Error:
        return 0
