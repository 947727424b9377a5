"""A run that was stopped goes on where it was and gives what a run without a stop gives; its folder; what fails."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from rapgnn.compare import Record
from rapgnn.errors import InputError, OutputError
from rapgnn_lab import store as store_module
from rapgnn_lab.paper.cells import CELLS, KINDS, Cell
from rapgnn_lab.paper.plots import Figure, Panel, Series
from rapgnn_lab.store import read_records
from small_items import TINY, run_in, scores, small_item

SCRIPT = """
import sys
from pathlib import Path
from small_items import run_in, small_item
run_in(Path(sys.argv[1]), small_item(seeds=4, epochs=15))
"""
ROOT = Path(__file__).resolve().parents[3]
PATHS = os.pathsep.join([str(ROOT / "tests"), str(ROOT / "lab" / "tests"), os.environ.get("PYTHONPATH", "")])
RAP = ("rap",)
FIGURE = Figure([Panel("lines", "a line", "it rises", "x", "y", {"rap": Series([1, 2], [3, 4])})])
CONTRACT = {
    *("dataset", "task", "method", "backbone", "metric", "mean", "std", "values", "seeds", "fit_seconds"),
    *("train_ms_per_epoch", "eval_ms_per_epoch", "peak_memory_mb", "engine", "config", "versions"),
    *("item", "kind", "key", "quick", "date", "command", "hardware", "source", "title", "column"),
}


def stored(out: Path) -> dict[str, Record]:
    path = out / CELLS
    return {record["key"]: record for record in read_records(path)} if path.exists() else {}


def forbid(monkeypatch) -> None:
    monkeypatch.setattr("rapgnn_lab.paper.accuracy.run", lambda *given, **options: pytest.fail("trained"))


def test_killed_twice_it_gives_the_same_numbers(tmp_path):
    """kill -9 after the first and the eighth training of sixteen."""
    killed, unbroken = tmp_path / "killed", tmp_path / "unbroken"
    before: dict[str, Record] = {}
    for trainings in (1, 8):
        environment = os.environ | {"PYTHONPATH": PATHS, "OMP_NUM_THREADS": "1"}
        process = subprocess.Popen([sys.executable, "-c", SCRIPT, str(killed)], env=environment)
        while len(stored(killed)) < trainings and process.poll() is None:
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        assert not (killed / "meadow.json").exists()
        assert stored(killed).items() >= before.items()  # nothing is measured twice
        before = stored(killed)
    for out in (killed, unbroken):
        run_in(out, small_item(seeds=4, epochs=15))
    assert stored(killed).items() >= before.items()
    first, second = (json.loads((out / "meadow.json").read_text()) for out in (killed, unbroken))
    assert len(first) == 4
    for name in ("method", "key", "values", "val_values", "mean", "std", "epochs", "seeds", "config"):
        assert [r[name] for r in first] == [r[name] for r in second]
    assert (killed / "meadow.md").read_text() == (unbroken / "meadow.md").read_text()


@pytest.mark.parametrize("cells_there", [True, False])
def test_a_second_run_measures_nothing(tmp_path, monkeypatch, cells_there):
    first = run_in(tmp_path, small_item())
    assert (first.earlier, first.cells) == (0, 4)
    if not cells_there:
        (tmp_path / CELLS).unlink()
    files = {path: path.read_bytes() for path in tmp_path.rglob("*.json*")}
    forbid(monkeypatch)
    second = run_in(tmp_path, small_item())
    assert (second.earlier, second.cells) == (4, 4)
    assert second.records == first.records
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.json*")} == files
    other = run_in(tmp_path, small_item("wood")).records["wood"]  # it shares the cells and not the labels
    assert [r["key"] for r in other] == [r["key"] for r in first.records["meadow"]]
    assert {(r["column"], r["item"]) for r in other} == {("wood", "wood")}
    monkeypatch.undo()
    again = run_in(tmp_path, small_item(), small_item("wood"), again=True)  # everything, once
    assert (again.earlier, scores(again)["meadow"]) == (0, scores(first)["meadow"])
    before, after, shared = (
        run.records[n][0]["fit_seconds"] for run, n in ((first, "meadow"), (again, "meadow"), (again, "wood"))
    )
    assert before != after == shared


def test_more_seeds_are_added_to_those_that_are_there(tmp_path, monkeypatch):
    quick = run_in(tmp_path, small_item(seeds=3), quick=True)
    before = stored(tmp_path)
    full = run_in(tmp_path, small_item(seeds=3))
    assert stored(tmp_path).items() >= before.items()
    assert [r["values"][:2] for r in full.records["meadow"]] == scores(quick)["meadow"]
    assert {r["quick"] for r in full.records["meadow"]} == {False}
    assert {r["quick"] for r in quick.records["meadow"]} == {True}
    (tmp_path / CELLS).unlink()
    run_in(tmp_path, small_item(seeds=3), quick=True)  # the full run is not lost by a quick one
    forbid(monkeypatch)
    assert run_in(tmp_path, small_item(seeds=3)).records == full.records


@pytest.mark.parametrize("name", [CELLS, "meadow.json"])
def test_a_damaged_file_is_refused_and_not_written_over(tmp_path, name):
    run_in(tmp_path, small_item(methods=RAP))
    whole = (tmp_path / name).read_bytes()
    for spoiled in (b"", b'{"key": "', b"\xff\xfe\x00", whole[:-20]):
        (tmp_path / name).write_bytes(spoiled)
        with pytest.raises(InputError, match=name):
            run_in(tmp_path, small_item(methods=RAP))
        assert (tmp_path / name).read_bytes() == spoiled


def test_a_full_disk_loses_nothing(tmp_path, monkeypatch):
    """The disk takes three files and no more."""
    write, left = store_module.write_atomic, [3]

    def fills_up(path, *given) -> None:
        left[0] -= 1
        write(path if left[0] >= 0 else Path("/dev/full"), *given)

    monkeypatch.setattr(store_module, "write_atomic", fills_up)
    with pytest.raises(OutputError):
        run_in(tmp_path, small_item())
    assert len(stored(tmp_path)) == 3
    monkeypatch.undo()
    assert len(run_in(tmp_path, small_item()).records["meadow"]) == 4


def test_a_folder_has_everything(tmp_path):
    item = replace(small_item(methods=("rap", "end-to-end")), figures=lambda records: [FIGURE])
    run = run_in(tmp_path, item, quick=True)
    records = json.loads((tmp_path / "meadow.json").read_text())
    assert records == run.records["meadow"]
    for record in records:
        assert set(record) >= CONTRACT
        assert record["command"] == "rapgnn reproduce meadow --quick"
        assert record["mean"] == pytest.approx(sum(record["values"]) / len(record["values"]))
    page = (tmp_path / "meadow.md").read_text()
    assert page.startswith("# The meadow\n")
    assert all(text in page for text in (item.show(records), "![The meadow](meadow.png)", records[0]["hardware"]))
    assert (tmp_path / "meadow.png").read_bytes().startswith(b"\x89PNG")
    assert {path.name for path in run.written} == {path.name for path in tmp_path.iterdir()} - {CELLS}


@pytest.mark.parametrize("error", [InputError("it would not be exact."), torch.OutOfMemoryError("CUDA")])
def test_a_cell_that_cannot_be_measured_leaves_its_item_open(tmp_path, monkeypatch, error):
    """Its other cells are measured and stored; a later run tries again."""

    def measure(cell, graphs, on_epoch):
        raise error

    monkeypatch.setitem(KINDS, "broken", measure)
    item = small_item(methods=RAP)
    broken = replace(item, cells=lambda *given: [Cell("broken", TINY, {}, {"title": "it"}), *item.cells(*given)])
    run = run_in(tmp_path, broken, small_item("wood", RAP))
    assert (list(run.records), list(run.failed)) == (["wood"], ["meadow"])
    assert ("out of memory" if isinstance(error, RuntimeError) else str(error)) in run.failed["meadow"]
    assert not (tmp_path / "meadow.json").exists()
    monkeypatch.setitem(KINDS, "broken", lambda *given: {"method": "it", "protocol": "", "seeds": []})
    again = run_in(tmp_path, replace(broken, show=lambda records: ""))
    assert (again.earlier, again.cells, again.failed) == (1, 2, {})
    monkeypatch.setitem(KINDS, "broken", lambda *given: 1 / 0)
    with pytest.raises(ZeroDivisionError):  # other errors are not hidden
        run_in(tmp_path, broken, again=True)
