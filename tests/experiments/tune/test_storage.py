"""The file of trials: any name, several searches at once, a full disk; and Ctrl-C."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from listening import begin
from rapgnn.errors import InputError, OutputError
from rapgnn.experiments.tune.search import search
from rapgnn.experiments.tune.study import open_storage, storing, trial_records

optuna = pytest.importorskip("optuna")
FAST = "pretrained-embedding"  # the strategy whose trials take least
ONE = {"trials": 1, "seeds": 1, "confirm": 1}
OPENER = """
import sys, time
from pathlib import Path
from rapgnn.datasets.synthetic import BlockModel
from rapgnn.experiments.tune.study import SearchPlan
from rapgnn.models.config import Config
import optuna
graph = BlockModel(nodes=60, classes=2, features=4, train=5, val=10, test=10).generate()
plans = [
    SearchPlan(graph, "rap", None, "any", 1, Config(), Path(sys.argv[1]) / f"{n}.db", "s", 1, 1, None)
    for n in range(int(sys.argv[2]))
]
print("ready", flush=True)
sys.stdin.readline()
begin = time.time() + 0.2
for n, plan in enumerate(plans):
    time.sleep(max(0, begin + 0.5 * n - time.time()))  # every process at the same moment
    plan.open()
"""


@pytest.mark.parametrize("name", ["a?b.db", "a%20b.db", "a{b}.db", "a#b;c=d.db", "ä ö.db", "a?mode=memory"])
def test_a_file_of_any_name_holds_the_trials(small_graph, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    search(small_graph, FAST, Path(name), **ONE)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert len(trial_records(Path(name))) == 1
    search(small_graph, FAST, tmp_path / name, **ONE)  # goes on with it
    assert len(trial_records(tmp_path / name)) == 1


@pytest.mark.parametrize("name", ["a\0b.db", "n" * 300, "d/" * 3000 + "x.db"])
def test_names_that_no_file_can_have(small_graph, tmp_path, name):
    with pytest.raises(InputError, match="cannot write"):
        search(small_graph, FAST, tmp_path / name, **ONE)
    assert not list(tmp_path.iterdir())


def test_another_file_is_refused_and_stays(small_graph, tmp_path):
    (tmp_path / "notes.txt").write_text("precious" * 100)
    with pytest.raises(InputError, match="not a database of trials"):
        search(small_graph, FAST, tmp_path / "notes.txt", **ONE)
    assert (tmp_path / "notes.txt").read_text() == "precious" * 100


@pytest.mark.parametrize("count", [4, pytest.param(60, marks=pytest.mark.slow)])
def test_searches_that_make_one_new_file_at_once(tmp_path, count):
    words = [sys.executable, "-c", OPENER, str(tmp_path), str(count)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    processes = [subprocess.Popen(words, **pipes) for _ in range(2)]
    assert [p.stdout.readline() for p in processes] == [b"ready\n"] * 2
    for process in processes:
        process.stdin.write(b"go\n")
        process.stdin.flush()
    for process in processes:
        _, err = process.communicate()
        assert process.returncode == 0, err.decode()


def test_a_full_disk_is_one_sentence_and_loses_no_trial(small_graph, tmp_path):
    import sqlite3

    database = tmp_path / "t.db"
    search(small_graph, FAST, database, **ONE)
    opened = open_storage(database)
    pages = sqlite3.connect(database).execute("PRAGMA page_count").fetchone()[0]
    real = sqlite3.connect

    def small(*given: object, **options: object) -> sqlite3.Connection:
        connection = real(*given, **options)
        connection.execute(f"PRAGMA max_page_count = {pages}")  # as if the disk were full
        return connection

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rapgnn.experiments.tune.study.sqlite3.connect", small)
        with pytest.raises(OutputError, match="the disk is full"):
            search(small_graph, FAST, database, trials=200, seeds=1, confirm=1)
    found = trial_records(database)
    assert len(found) >= 1
    assert found[0]["state"] == "COMPLETE"
    assert optuna.get_all_study_names(opened)
    with pytest.raises(OutputError, match="may only be read"), storing(database):
        raise sqlite3.OperationalError("attempt to write a readonly database")


@pytest.mark.parametrize(
    "after", [1.0, pytest.param(2.0, marks=pytest.mark.slow), pytest.param(7.0, marks=pytest.mark.slow)]
)
def test_workers_end_at_once_with_ctrl_c(tmp_path, after):
    """From the moment on that they are started, also while they load their libraries."""
    sbm = "sbm:nodes=3000,features=60,train=200,val=500"
    words = ["-m", "rapgnn", "tune", sbm, "--trials", "100000", "--workers", "2"]
    with begin(*words, "--storage", str(tmp_path / "t.db")) as process:
        while not (tmp_path / "t.db").exists():
            time.sleep(0.05)
        time.sleep(after)
        pressed = time.monotonic()
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        _, err = process.communicate(timeout=60)
        seconds = time.monotonic() - pressed
    assert process.returncode in (130, -signal.SIGINT), err.decode()  # a shell calls both 130
    lines = [line for line in err.decode().splitlines() if line.strip() and "0:0" not in line]
    assert lines == ["rapgnn: interrupted."]
    assert seconds < 3  # not until the workers have loaded their libraries
