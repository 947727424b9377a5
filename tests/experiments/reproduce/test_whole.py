"""The folder of a run: records with the keys that others read, tables, a plot, a page of all; and what fails."""

import json
from dataclasses import replace

import pytest
import torch

from rapgnn.errors import InputError
from rapgnn.experiments.reproduce.cells import Cell
from rapgnn.experiments.reproduce.claims import verdicts as claims
from rapgnn.experiments.reproduce.item import Graphs, Scale
from rapgnn.experiments.reproduce.kinds import KINDS
from rapgnn.experiments.reproduce.store import Store
from rapgnn.experiments.reproduce.whole import count_cells, reproduce
from small_items import TINY, run_in, small_item

CONTRACT = {
    *("dataset", "task", "method", "backbone", "metric", "mean", "std", "values", "seeds", "fit_seconds"),
    *("train_ms_per_epoch", "eval_ms_per_epoch", "peak_memory_mb", "engine", "config", "versions"),
    *("item", "kind", "key", "quick", "date", "command", "hardware", "source", "title", "column"),
}
RAP = ("rap",)


def draw(records, path) -> None:
    from matplotlib.figure import Figure

    figure = Figure()
    figure.subplots().plot([r["mean"] for r in records])
    figure.savefig(path)


def test_a_folder_has_everything(tmp_path):
    item = replace(small_item(methods=("rap", "end-to-end")), plot=draw)
    run = run_in(tmp_path, item, quick=True)
    records = json.loads((tmp_path / "meadow.json").read_text())
    assert records == run.records["meadow"]
    for record in records:
        assert set(record) >= CONTRACT
        assert record["command"] == "rapgnn reproduce meadow --quick"
        assert record["mean"] == pytest.approx(sum(record["values"]) / len(record["values"]))
    page = (tmp_path / "meadow.md").read_text()
    assert page.startswith("# The meadow\n")
    assert item.show(records) in page
    assert "![The meadow](meadow.png)" in page
    assert records[0]["hardware"] in page
    assert (tmp_path / "meadow.png").read_bytes().startswith(b"\x89PNG")
    assert {path.name for path in run.written} == {path.name for path in tmp_path.iterdir()} - {"cells"}


def test_the_page_of_all_shows_what_is_there_whatever_was_asked_for(tmp_path):
    items = [small_item(name, RAP) for name in ("meadow", "wood", "lake")]
    for item in items[:2]:
        reproduce([item], Scale(), Graphs(), Store(tmp_path), items)
    page = (tmp_path / "README.md").read_text()
    judged = json.loads((tmp_path / "claims.json").read_text())
    assert [v["claim"] for v in judged] == [claim.name for claim in claims.CLAIMS]
    assert page.index("## The paper's claims") < page.index("## The meadow") < page.index("## The wood")
    assert "The lake" not in page
    assert page.count("| rap |") == 2
    assert page.count("\n# ") == 0  # one heading of the first order, on top
    assert "`rapgnn reproduce --again`" in page


def test_an_item_without_data_is_left_out_and_the_others_go_on(tmp_path):
    def refuse(scale, graphs):
        raise InputError("cannot get the data.")

    missing = replace(small_item("wood"), cells=refuse)
    nothing = replace(small_item("lake"), cells=lambda *given: [])
    run = run_in(tmp_path, missing, small_item(methods=RAP), nothing)
    assert list(run.records) == ["meadow"]
    assert run.failed == {"wood": "cannot get the data.", "lake": "no settings were searched for it."}
    assert not (tmp_path / "wood.md").exists()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (InputError("the polynomial engine would not be exact."), "the polynomial engine would not be exact."),
        (torch.OutOfMemoryError("CUDA"), "out of memory."),
    ],
)
def test_a_cell_that_cannot_be_measured_leaves_its_item_open(tmp_path, monkeypatch, error, said):
    """Its other cells are measured and kept; a later run tries again."""

    def measure(cell, graphs, on_epoch):
        raise error

    monkeypatch.setitem(KINDS, "broken", measure)
    whole = small_item(methods=RAP)
    broken = replace(whole, cells=lambda *given: [Cell("broken", TINY, {}, {"title": "it"}), *whole.cells(*given)])
    run = run_in(tmp_path, broken, small_item("wood", RAP))
    assert list(run.records) == ["wood"]
    assert run.failed == {"meadow": f"meadow: {TINY} it: {said}"}
    assert not (tmp_path / "meadow.json").exists()
    monkeypatch.setitem(
        KINDS, "broken", lambda *given: {"method": "it", "protocol": "", "seeds": [], "metric": "accuracy"}
    )
    again = reproduce([replace(broken, show=lambda records: "")], Scale(), Graphs(), Store(tmp_path))
    assert (again.found, again.cells) == (1, 2)
    assert again.failed == {}


def test_other_errors_are_not_hidden(tmp_path, monkeypatch):
    def measure(cell, graphs, on_epoch):
        raise RuntimeError("a fault of the code")

    monkeypatch.setitem(KINDS, "broken", measure)
    with pytest.raises(RuntimeError, match="a fault of the code"):
        run_in(tmp_path, replace(small_item(), cells=lambda *given: [Cell("broken", TINY, {})]))


def test_progress_counts_cells(tmp_path):
    seen: list[tuple[int, int, str]] = []
    item = small_item(methods=("rap", "end-to-end"))
    reproduce([item], Scale(), Graphs(), Store(tmp_path), at_work=lambda *now: seen.append(now))
    assert seen[0] == (0, 0, "meadow: data")
    assert seen[1] == (0, 2, f"meadow: {TINY} rap")
    assert seen[-1] == (1, 2, f"meadow: {TINY} end-to-end")
    assert len(seen) == 1 + 2 + 2 * 2 * 10  # once per cell, and after every epoch of two seeds


def test_cells_are_counted_without_measuring(tmp_path):
    item = small_item(seeds=2)
    assert count_cells(item, Scale(), Graphs(), Store(tmp_path)) == (0, 4)
    run_in(tmp_path, item, quick=True)
    assert count_cells(item, Scale(quick=True), Graphs(), Store(tmp_path)) == (4, 4)
    assert count_cells(item, Scale(), Graphs(), Store(tmp_path)) == (0, 4)
    assert not list((tmp_path / "cells").glob(".*"))
