"""The file of trials: any name, several searches at once, a full disk."""

import json
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rapgnn.errors import InputError, OutputError
from rapgnn_lab.tune.search import open_study, storing
from trials import trial_records

OPENER = """
import sys, time
from pathlib import Path
from rapgnn_lab.tune.search import open_study
print("ready", flush=True)
begin = float(sys.stdin.readline())
for n in range(int(sys.argv[2])):
    time.sleep(max(0, begin + 0.3 * n - time.time()))  # every process at the same moment
    open_study(Path(sys.argv[1]) / f"{n}.db", "s", True)
"""


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


@pytest.mark.parametrize("count", [3, pytest.param(60, marks=pytest.mark.slow)])
def test_searches_that_make_one_new_file_at_once(tmp_path, count):
    words = [sys.executable, "-c", OPENER, str(tmp_path), str(count)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(words, **pipes) for _ in range(2)]
    assert [p.stdout.readline() for p in processes] == ["ready\n"] * 2
    for process in processes:
        process.stdin.write(f"{time.time() + 0.2}\n")
        process.stdin.flush()
    for process in processes:
        _, err = process.communicate()
        assert process.returncode == 0, err


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
