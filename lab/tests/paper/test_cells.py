"""A cell's key: what decides a number changes it, and nothing else does; rows of benchmarks are measured once."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from rapgnn.errors import InputError
from rapgnn_lab.baselines.systems import METHODS
from rapgnn_lab.paper.cells import Cell, Graphs, Scale, cell_key, open_store
from rapgnn_lab.paper.items import ITEMS
from rapgnn_lab.paper.run import is_there
from rapgnn_lab.store import Row, Store, machine, measure_rows

RESULTS = Path(__file__).resolve().parents[3] / "results" / "reproduce"
CELL = Cell("accuracy", "cora", {"method": "rap", "config": {"params": (0.0, 1.0), "lr": 0.1}}, {"column": "best"})


def test_what_decides_the_number_decides_the_key():
    keys = [
        cell_key(cell, checksum)
        for cell, checksum in [
            (CELL, "one"),
            (CELL, "other"),
            (replace(CELL, kind="time"), "one"),
            (replace(CELL, dataset="pubmed"), "one"),
            (replace(CELL, spec=CELL.spec | {"method": "identity"}), "one"),
            (replace(CELL, spec=CELL.spec | {"config": CELL.spec["config"] | {"lr": 0.1 + 1e-9}}), "one"),
        ]
    ]
    assert len(set(keys)) == len(keys)
    assert all(len(key) == 16 and int(key, 16) >= 0 for key in keys)


def test_labels_order_and_the_kind_of_list_do_not():
    other = {"config": {"lr": 0.1, "params": [0.0, 1.0]}, "method": "rap"}
    assert cell_key(replace(CELL, labels={}, spec=other), "one") == cell_key(CELL, "one")


def test_a_setting_that_came_later_counts_where_it_is_not_the_usual_one():
    config = CELL.spec["config"]
    usual, other = (replace(CELL, spec=CELL.spec | {"config": config | {"units": n}}) for n in (0, 8))
    assert cell_key(usual, "one") == cell_key(CELL, "one") != cell_key(other, "one")


@pytest.mark.parametrize(
    ("kind", "spec"), [("accuracy", {"method": "rap"}), ("layer", {"base_method": "rap"}), ("estimator", {})]
)
def test_numbers_that_changed_have_other_keys(monkeypatch, kind, spec):
    cell, name = Cell(kind, "cora", spec), "fit" if kind == "estimator" else "rap"
    before = cell_key(cell, "one")
    monkeypatch.setitem(METHODS, name, replace(METHODS[name], numerics=METHODS[name].numerics + 1))
    assert cell_key(cell, "one") != before


def test_every_stored_cell_is_found_by_its_settings_and_data(data_dir):
    """A change of the code that changes no number loses no measurement."""
    store, graphs = open_store(RESULTS), Graphs(data_dir=data_dir)
    for name in ("table1", "identity", "embeddings", "estimators"):
        cells = ITEMS[name].cells(Scale(), graphs)
        assert [cell for cell in cells if not is_there(cell, graphs, store)] == []


def row(name: str, made: list[str], **more: object) -> Row:
    return Row({"method": name, **more}, lambda: made.append(name) or {"ms": float(len(made))})


def test_a_stopped_run_goes_on_at_the_next_row(tmp_path):
    path, made = tmp_path / "rows.json", []

    def stop():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure_rows([row("a", made), Row({"method": "b"}, stop)], Store(path, "typed"))
    stored = json.loads(path.read_text())
    assert [(r["method"], r["ms"], r["command"]) for r in stored] == [("a", 1.0, "typed")]
    store = Store(path)
    records = measure_rows([row("a", made), row("b", made)], store)
    assert made == ["a", "b"]
    assert [r["ms"] for r in records] == [1.0, 2.0]
    assert len(store.reused) == 1


def test_other_settings_or_another_machine_are_measured_anew(tmp_path):
    path, made = tmp_path / "rows.json", []
    setting = {"params": (0.0, 1.0), "nan": float("nan"), "versions": {"torch": "1"}}
    measure_rows([row("a", made, **setting)], Store(path))
    measure_rows([row("a", made, **setting)], Store(path))
    assert made == ["a"]
    measure_rows([row("a", made, **setting | {"versions": {"torch": "2"}})], Store(path))
    assert made == ["a", "a"]
    measure_rows([row("a", made, **setting)], Store(path, again=True))
    assert made == ["a", "a", "a"]
    assert set(machine("cpu")) == {"device", "hardware", "threads", "versions"}


def test_rows_of_another_run_stay_in_the_file(tmp_path):
    path, made = tmp_path / "rows.json", []
    for name, again in (("a", False), ("b", False), ("a", True)):
        store = Store(path, again=again)
        store.finish(measure_rows([row(name, made)], store))
    assert sorted((r["method"], r["ms"]) for r in json.loads(path.read_text())) == [("a", 3.0), ("b", 2.0)]


@pytest.mark.parametrize("error", [MemoryError(), torch.OutOfMemoryError(), RuntimeError("can't allocate memory")])
def test_a_row_without_enough_memory_says_so(error):
    def fail():
        raise error

    (record,) = measure_rows([Row({"method": "a"}, fail)])
    assert record["note"] == "out of memory"


@pytest.mark.parametrize("text", ["{}", "[1]", "no JSON"])
def test_a_file_without_records_is_refused(text, tmp_path):
    (tmp_path / "rows.json").write_text(text)
    with pytest.raises(InputError):
        Store(tmp_path / "rows.json")
