"""A run that was stopped goes on where it was, and gives what a run without a stop gives."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rapgnn.errors import OutputError
from rapgnn.experiments.reproduce.store import CELLS
from small_items import run_in, scores, small_item

SCRIPT = """
import sys
from pathlib import Path
from small_items import run_in, small_item
run_in(Path(sys.argv[1]), small_item(seeds=4, epochs=30))
"""
TESTS = Path(__file__).resolve().parents[2]


def stored(out: Path) -> list[Path]:
    return sorted((out / CELLS).glob("[!.]*.json"))


def start(out: Path) -> subprocess.Popen:
    environment = os.environ | {"PYTHONPATH": str(TESTS), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([sys.executable, "-c", SCRIPT, str(out)], env=environment)


def test_killed_three_times_it_gives_the_same_numbers(tmp_path):
    """kill -9 after the first, the fifth and the tenth training of sixteen."""
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    kept: dict[Path, bytes] = {}
    for trainings in (1, 5, 10):
        process = start(killed)
        while len(stored(killed)) < trainings and process.poll() is None:
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        assert not (killed / "meadow.json").exists()
        assert all(path.read_bytes() == before for path, before in kept.items())  # nothing is measured twice
        kept = {path: path.read_bytes() for path in stored(killed)}
    for out in (killed, whole):
        run_in(out, small_item(seeds=4, epochs=30))
    assert all(path.read_bytes() == before for path, before in kept.items())
    first, second = (json.loads((out / "meadow.json").read_text()) for out in (killed, whole))
    assert len(first) == 4
    for name in ("method", "key", "values", "val_values", "mean", "std", "epochs", "seeds", "config"):
        assert [r[name] for r in first] == [r[name] for r in second]
    assert (killed / "meadow.md").read_text() == (whole / "meadow.md").read_text()


def test_a_second_run_measures_nothing(tmp_path, monkeypatch):
    first = run_in(tmp_path, small_item())
    assert (first.found, first.cells) == (0, 4)
    files = {path: path.read_bytes() for path in tmp_path.rglob("*.json")}
    forbid(monkeypatch)
    second = run_in(tmp_path, small_item())
    assert (second.found, second.cells) == (4, 4)
    assert second.records == first.records
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.json")} == files


def forbid(monkeypatch) -> None:
    def train(*given: object, **options: object) -> None:
        pytest.fail("trained")

    monkeypatch.setattr("rapgnn.experiments.reproduce.accuracy.run", train)


def test_the_file_of_an_item_is_enough(tmp_path, monkeypatch):
    """As in a repository that has no cells."""
    first = run_in(tmp_path, small_item())
    for path in stored(tmp_path):
        path.unlink()
    forbid(monkeypatch)
    assert run_in(tmp_path, small_item()).records == first.records


def test_items_share_their_cells_and_not_their_labels(tmp_path, monkeypatch):
    first = run_in(tmp_path, small_item())
    forbid(monkeypatch)
    for cells_there in (True, False):
        second = run_in(tmp_path, small_item("wood")).records["wood"]
        assert [r["key"] for r in second] == [r["key"] for r in first.records["meadow"]]
        assert {r["column"] for r in second} == {"wood"}
        assert {r["item"] for r in second} == {"wood"}
        for path in stored(tmp_path) if cells_there else ():
            path.unlink()


def test_more_seeds_are_added_to_those_that_are_there(tmp_path):
    quick = run_in(tmp_path, small_item(seeds=3), quick=True)
    before = {path: path.stat().st_mtime_ns for path in stored(tmp_path)}
    full = run_in(tmp_path, small_item(seeds=3))
    assert all(path.stat().st_mtime_ns == when for path, when in before.items())
    assert [r["values"][:2] for r in full.records["meadow"]] == scores(quick)["meadow"]
    assert [r["quick"] for r in full.records["meadow"]] == [False] * 4
    assert [r["quick"] for r in quick.records["meadow"]] == [True] * 4


def test_a_full_run_is_not_lost_by_a_quick_one(tmp_path, monkeypatch):
    """The records of the item's file that the new one does not have go to the cells."""
    full = run_in(tmp_path, small_item(seeds=3))
    for path in stored(tmp_path):
        path.unlink()
    run_in(tmp_path, small_item(seeds=3), quick=True)
    forbid(monkeypatch)
    assert run_in(tmp_path, small_item(seeds=3)).records == full.records


@pytest.mark.parametrize("spoil", [b"", b'{"key": "', b"[]", b'{"key": "another"}', b"\xff\xfe\x00"])
def test_a_damaged_cell_is_measured_again_and_named_once(tmp_path, spoil):
    first = run_in(tmp_path, small_item(methods=("rap",)))
    (tmp_path / "meadow.json").unlink()
    damaged, kept = stored(tmp_path)
    before = kept.read_bytes()
    damaged.write_bytes(spoil)
    said: list[str] = []
    second = run_in(tmp_path, small_item(methods=("rap",)), say=said.append)
    assert said == [f"{damaged} is damaged: it is measured again."]
    assert scores(second) == scores(first)
    assert kept.read_bytes() == before
    assert json.loads(damaged.read_text())["key"] == damaged.stem


def test_a_damaged_item_is_named_and_written_anew(tmp_path):
    first = run_in(tmp_path, small_item())
    page = tmp_path / "meadow.json"
    page.write_text(page.read_text()[:-40])
    said: list[str] = []
    assert run_in(tmp_path, small_item(), say=said.append).records == first.records
    assert said == [f"{page} is damaged: its records are not used."]
    assert len(json.loads(page.read_text())) == 4


def test_again_measures_everything_once(tmp_path):
    item = small_item(methods=("rap",))
    first = run_in(tmp_path, item)
    before = {path: path.stat().st_mtime_ns for path in stored(tmp_path)}
    again = run_in(tmp_path, item, small_item("wood", methods=("rap",)), again=True)
    assert again.found == 0
    assert scores(again)["meadow"] == scores(first)["meadow"]
    assert all(path.stat().st_mtime_ns > when for path, when in before.items())
    assert again.records["meadow"][0]["fit_seconds"] == again.records["wood"][0]["fit_seconds"]


def test_what_a_killed_run_had_begun_to_write_is_removed(tmp_path):
    (tmp_path / CELLS).mkdir()
    old, young, foreign = (tmp_path / CELLS / f".rapgnn-{name}" for name in (f"{'0' * 16}.json", "f" * 16, "notes"))
    for path in (old, young, foreign):
        path.write_text('[{"key"')
    for path in (old, foreign):
        os.utime(path, (0, 0))
    run_in(tmp_path, small_item(methods=("rap",)))
    assert [path.exists() for path in (old, young, foreign)] == [False, True, True]


def test_a_full_disk_is_one_sentence_and_loses_nothing(tmp_path, monkeypatch):
    """The disk takes three files and no more."""
    import rapgnn.experiments.reproduce.store as module

    write, left = module.write_atomic, [3]

    def fills_up(path, *given) -> None:
        left[0] -= 1
        write(path if left[0] >= 0 else Path("/dev/full"), *given)

    monkeypatch.setattr(module, "write_atomic", fills_up)
    with pytest.raises(OutputError, match="No space left on device"):
        run_in(tmp_path, small_item())
    assert len(stored(tmp_path)) == 3
    monkeypatch.undo()
    assert len(run_in(tmp_path, small_item()).records["meadow"]) == 4
