"""Rows are measured once: each is stored at once, and an earlier run's are taken where all settings are the same."""

import json

import pytest
import torch

from rapgnn.errors import InputError
from rapgnn.experiments.bench.rows import Row, RowStore, machine, measure_rows


def row(name: str, told: list[str], **more: object) -> Row:
    return Row({"method": name, **more}, lambda: told.append(name) or {"ms": float(len(told))})


def test_a_stopped_run_goes_on_at_the_next_row(tmp_path):
    path, told = tmp_path / "rows.json", []

    def stop():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure_rows([row("a", told), Row({"method": "b"}, stop)], RowStore(path, "typed"))
    stored = json.loads(path.read_text())
    assert [(r["method"], r["ms"], r["command"]) for r in stored] == [("a", 1.0, "typed")]
    store = RowStore(path)
    records = measure_rows([row("a", told), row("b", told)], store)
    assert told == ["a", "b"]
    assert [r["ms"] for r in records] == [1.0, 2.0]
    assert len(store.found) == 1


def test_other_settings_or_another_machine_are_measured_anew(tmp_path):
    path, told = tmp_path / "rows.json", []
    setting = {"params": (0.0, 1.0), "nan": float("nan"), "versions": {"torch": "1"}}
    measure_rows([row("a", told, **setting)], RowStore(path))
    measure_rows([row("a", told, **setting)], RowStore(path))
    assert told == ["a"]
    measure_rows([row("a", told, **setting | {"versions": {"torch": "2"}})], RowStore(path))
    assert told == ["a", "a"]
    measure_rows([row("a", told, **setting)], RowStore(path, again=True))
    assert told == ["a", "a", "a"]


def test_without_a_file_nothing_is_kept():
    told = []
    for _ in range(2):
        measure_rows([row("a", told)])
    assert told == ["a", "a"]


@pytest.mark.parametrize("error", [MemoryError(), torch.OutOfMemoryError(), RuntimeError("can't allocate memory")])
def test_a_row_without_enough_memory_says_so(error):
    def fail():
        raise error

    (record,) = measure_rows([Row({"method": "a"}, fail)])
    assert record["note"] == "out of memory"


def test_another_error_is_not_swallowed():
    def fail():
        raise RuntimeError("shapes differ")

    with pytest.raises(RuntimeError, match="shapes differ"):
        measure_rows([Row({"method": "a"}, fail)])


@pytest.mark.parametrize("text", ["{}", "[1]", "no JSON"])
def test_a_file_without_records_is_refused(text, tmp_path):
    path = tmp_path / "rows.json"
    path.write_text(text)
    with pytest.raises(InputError, match="holds no records"):
        RowStore(path)


def test_a_machine_is_told_by_hardware_threads_and_versions():
    assert set(machine("cpu")) == {"device", "hardware", "threads", "versions"}


def test_rows_of_another_run_stay_in_the_file(tmp_path):
    path, told = tmp_path / "rows.json", []
    for name in ("a", "b", "a"):
        store = RowStore(path, name)
        store.finish(measure_rows([row(name, told)], store))
    assert told == ["a", "b"]
    assert sorted(r["method"] for r in json.loads(path.read_text())) == ["a", "b"]
    store = RowStore(path, again=True)
    store.finish(measure_rows([row("a", told)], store))
    assert told == ["a", "b", "a"]
    assert sorted((r["method"], r["ms"]) for r in json.loads(path.read_text())) == [("a", 3.0), ("b", 2.0)]
