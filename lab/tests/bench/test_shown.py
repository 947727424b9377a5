"""Rows are measured once, and the tables and plots of all benchmarks hold the numbers of their records."""

import json

import matplotlib as mpl
import pytest
import torch

from rapgnn.errors import InputError
from rapgnn_lab.bench import shown
from rapgnn_lab.store import Row, Store, machine, measure_rows


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


def test_another_error_is_not_swallowed():
    with pytest.raises(ZeroDivisionError):
        measure_rows([Row({"method": "a"}, lambda: 1 // 0)])


@pytest.mark.parametrize("text", ["{}", "[1]", "no JSON"])
def test_a_file_without_records_is_refused(text, tmp_path):
    (tmp_path / "rows.json").write_text(text)
    with pytest.raises(InputError):
        Store(tmp_path / "rows.json")


def test_costs_by_depth_are_shown_with_their_ratios(by_depth):
    """Also those of records that know no validation; a row that was not measured says why."""
    records = [*by_depth, by_depth[0] | {"train_ms_per_epoch": None, "note": "out of memory"}]
    assert shown._table("depth", records).splitlines() == [
        "| layers | method | train ms | vs end-to-end | vs PyG | before ms | peak MB | note |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
        "| 2 | RAP, shortcut | 0.5 | 16× | 24× | 12 | 33 | – |",
        "| 2 | end-to-end, CSR | 8 | 1.0× | 1.5× | 0 | – | – |",
        "| 16 | RAP, shortcut | 0.5 | 128× | 192× | 12 | 47 | – |",
        "| 16 | end-to-end, CSR | 64 | 1.0× | 1.5× | 0 | – | – |",
        "| 2 | RAP, shortcut | – | 16× | 24× | 12 | 33 | out of memory |",
    ]


def test_sizes_are_shown_with_their_slopes(capsys):
    size = {"method": "rap", "size": "tiny", "nodes": 2000, "edges": 30_000, "hidden_channels": 64, "epoch_ms": 2.0}
    slope = {"method": "slope", "quantity": "hops_seconds", "against": "edges", "at": "width 64", "slope": 1.01}
    shown.show("scale", "sizes", [size | {"hardware": "abacus"}, slope | {"points": 3, "hardware": "abacus"}])
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["tiny", "2,000", "30,000", "64", "2"] in lines
    assert ["hops_seconds", "edges", "width", "64", "1.01", "3"] in lines


def test_the_plot_by_depth_is_an_image_with_every_method(by_depth, readable_plot, tmp_path):
    records = [r | {"epoch_ms": 2.0, "infer_ms": 3.0} for r in by_depth]
    shown.plot("depth", records, tmp_path / "d.png")
    readable_plot(tmp_path / "d.png")
    with mpl.rc_context({"svg.fonttype": "none"}):  # words stay words
        shown.plot("depth", records, tmp_path / "d.svg")
    text = (tmp_path / "d.svg").read_text()
    for word in (
        "RAP, shortcut",
        "end-to-end, CSR",
        "meadow, 96 channels, abacus, 7 rods",
        "16",
        *shown.DEPTH.values(),
    ):
        assert f">{word}<" in text
