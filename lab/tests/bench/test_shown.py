"""Rows are measured once, and the tables and plots of all benchmarks hold the numbers of their records."""

import json

import matplotlib as mpl
import pytest
import torch

from rapgnn.errors import InputError
from rapgnn_lab.bench import tables
from rapgnn_lab.bench.depth import TITLES
from rapgnn_lab.bench.plots import COLORS, DEPTH, plot
from rapgnn_lab.bench.rows import Row, machine, measure_rows
from rapgnn_lab.store import Store


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


def cells(text: str) -> list[list[str]]:
    """The cells of every line of a table."""
    lines = [line for line in text.splitlines() if line.startswith(("│", "┃"))]
    return [[cell.strip() for cell in line.strip("│┃").replace("┃", "│").split("│")] for line in lines]


@pytest.mark.parametrize(
    ("value", "number", "ratio", "short"),
    [
        (0.01234, "0.0123", "0.012×", "0"),
        (12.345, "12.3", "12.3×", "12"),
        (12345.6, "12,346", "12,346×", "12k"),
        (2449029.0, "2,449,029", "2,449,029×", "2.4M"),
    ],
)
def test_how_numbers_are_written(value, number, ratio, short):
    assert (tables.number(value), tables.ratio(value), tables.short(value)) == (number, ratio, short)


def test_costs_by_depth_are_shown_with_their_ratios(by_depth, capsys):
    """Also those of records that know no validation; a row that was not measured says why."""
    tables.show("depth", "meadow", [*by_depth, by_depth[0] | {"train_ms_per_epoch": None, "note": "out of memory"}])
    text = capsys.readouterr().out
    assert "meadow · abacus, 7 rods" in text
    header = ["layers", "method", "train ms", "vs end-to-end", "vs PyG", "before ms", "peak MB", "note"]
    assert cells(text) == [
        header,
        ["2", "RAP, shortcut", "0.5", "16.0×", "24.0×", "12", "33", ""],
        ["2", "end-to-end, CSR", "8", "1.0×", "1.5×", "0", "-", ""],
        ["16", "RAP, shortcut", "0.5", "128×", "192×", "12", "47", ""],
        ["16", "end-to-end, CSR", "64", "1.0×", "1.5×", "0", "-", ""],
        ["2", "RAP, shortcut", "-", "16.0×", "24.0×", "12", "33", "out of memory"],
    ]


def test_sizes_are_shown_with_their_slopes(capsys):
    size = {"method": "rap", "size": "tiny", "nodes": 2000, "edges": 30_000, "hidden_channels": 64, "epoch_ms": 2.0}
    slope = {"method": "slope", "quantity": "hops_seconds", "against": "edges", "at": "width 64", "slope": 1.01}
    tables.show("scale", "sizes", [size | {"hardware": "abacus"}, slope | {"points": 3, "hardware": "abacus"}])
    lines = cells(capsys.readouterr().out)
    assert lines[1] == ["tiny", "2,000", "30k", "64", "2"]
    assert lines[-1] == ["hops_seconds", "edges", "width 64", "1.01", "3"]


def test_the_plot_by_depth_is_an_image_with_every_method(by_depth, readable_plot, tmp_path):
    records = [r | {"epoch_ms": 2.0, "infer_ms": 3.0} for r in by_depth]
    plot("depth", records, tmp_path / "d.png")
    readable_plot(tmp_path / "d.png")
    with mpl.rc_context({"svg.fonttype": "none"}):  # words stay words
        plot("depth", records, tmp_path / "d.svg")
    text = (tmp_path / "d.svg").read_text()
    for word in ("RAP, shortcut", "end-to-end, CSR", "meadow, 96 channels, abacus, 7 rods", "16", *DEPTH.values()):
        assert f">{word}<" in text


def test_every_method_has_a_colour_of_its_own():
    assert set(TITLES) == set(COLORS)
    assert len(set(COLORS.values())) == len(COLORS)
