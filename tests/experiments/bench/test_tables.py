"""The benchmarks' tables hold the numbers of their records."""

import pytest

from rapgnn.experiments.bench.tables import (
    Column,
    bench_table,
    number,
    ratio,
    short,
    show_auto,
    show_depth,
    show_graphs,
    show_memory,
    show_peers,
    show_scale,
    show_spmm,
)


def rows(text: str) -> list[list[str]]:
    """The cells of every line of a table."""
    lines = [line for line in text.splitlines() if line.startswith(("│", "┃"))]
    return [[cell.strip() for cell in line.strip("│┃").replace("┃", "│").split("│")] for line in lines]


@pytest.mark.parametrize(
    ("value", "number_", "ratio_", "short_"),
    [
        (None, "-", "-", "-"),
        (0.01234, "0.0123", "0.012×", "0"),
        (12.345, "12.3", "12.3×", "12"),
        (12345.6, "12,346", "12,346×", "12k"),
        (2449029.0, "2,449,029", "2,449,029×", "2.4M"),
    ],
)
def test_how_numbers_are_written(value, number_, ratio_, short_):
    assert (number(value), ratio(value), short(value)) == (number_, ratio_, short_)


def test_a_row_that_was_not_measured_says_why(capsys):
    records = [{"title": "a", "ms": 1.0}, {"title": "b", "note": "out of memory"}]
    bench_table("t", records, [Column("method", "title"), Column("ms", "ms", number)])
    assert rows(capsys.readouterr().out) == [["method", "ms", "note"], ["a", "1", ""], ["b", "-", "out of memory"]]


def test_costs_by_depth_are_shown_with_their_ratios(by_depth, capsys):
    """Also those of records that know no validation."""
    show_depth(by_depth)
    text = capsys.readouterr().out
    assert "meadow · 96 channels · abacus, 7 rods" in text
    assert rows(text)[1:] == [
        ["2", "RAP, shortcut", "0.5", "-", "0.5", "16.0×", "24.0×", "-", "-", "12", "33"],
        ["2", "end-to-end, CSR", "8", "-", "8", "1.0×", "1.5×", "-", "-", "-", "-"],
        ["16", "RAP, shortcut", "0.5", "-", "0.5", "128×", "192×", "-", "-", "12", "47"],
        ["16", "end-to-end, CSR", "64", "-", "64", "1.0×", "1.5×", "-", "-", "-", "-"],
    ]


def test_costs_on_many_graphs_are_shown(by_depth, capsys):
    times = {"eval_ms_per_epoch": 0.25, "epoch_ms": 0.75, "infer_ms": 3.0, "infer_all_ms": 4.0}
    show_graphs([r | times for r in by_depth[:1]])
    text = capsys.readouterr().out
    assert "meadow · 2 layers · 96 channels · batches of 48 · abacus, 7 rods" in text
    assert rows(text)[1:] == [["RAP, shortcut", "0.5", "0.25", "0.75", "16.0×", "24.0×", "3", "4", "12", "33"]]


def test_the_estimator_beside_a_tuned_gcn_is_shown(capsys):
    record = {"dataset": "words", "about": "binary", "nodes": 4000, "hardware": "abacus, 7 rods", "mean": 0.8125}
    show_auto([record | {"gcn_mean": 0.8025, "fit_seconds": 0.5, "gcn_seconds": 2.25}])
    text = capsys.readouterr().out
    assert "abacus, 7 rods" in text
    assert rows(text)[1:] == [["words", "binary", "4,000", "81.25", "80.25", "+1.00", "0.50", "2.25", "4.5×"]]


def test_memory_is_shown_beside_end_to_end(capsys):
    record = {"dataset": "meadow", "nodes": 20_000, "edges": 400, "num_layers": 8, "title": "RAP", "method": "rap"}
    record |= {"peak_memory_mb": 25.0, "memory_ratio_vs_end_to_end": 3.0, "data_mb": 7.0, "hidden_channels": 96}
    show_memory([record | {"hardware": "abacus", "device": "cpu"}])
    text = capsys.readouterr().out
    assert rows(text)[-1] == ["meadow", "20k", "400", "8", "RAP", "25", "3.0×", "7"]
    assert "of a process" in text


def test_peers_are_shown_with_their_search(capsys):
    record = {"dataset": "meadow", "title": "SGC", "setting": "tuned", "mean": 0.5, "std": 0.01, "seconds": 2.0}
    record |= {"preprocess_seconds": 0.5, "times_rap": 4.0, "search_seconds": 40.0, "trials": [{}] * 20}
    show_peers([record | {"hardware": "abacus", "method": "sgc"}])
    assert rows(capsys.readouterr().out)[-1] == [
        *("meadow", "SGC", "tuned", "50.00 ± 1.00", "2", "0.5", "4.0×", "40", "20"),
    ]


def test_sizes_are_shown_with_their_slopes(capsys):
    size = {"method": "rap", "size": "tiny", "nodes": 2000, "edges": 30_000, "hidden_channels": 64, "num_layers": 3}
    size |= {"build_seconds": 0.5, "hops_seconds": 0.25, "epoch_ms": 2.0, "fit_seconds": 3.0, "predict_seconds": 4.0}
    size |= {"peak_memory_mb": 5.0, "hop_megabytes": 6.0, "floor_ratio": 7.0, "end_to_end_epoch_ms": 16.0}
    size |= {"speedup_vs_end_to_end": 8.0, "epochs": 9, "copy_gb_per_s": 30.0, "hardware": "abacus"}
    slope = {"method": "slope", "quantity": "hops_seconds", "against": "edges", "at": "width 64", "slope": 1.01}
    show_scale([size, slope | {"points": 3}])
    found = rows(capsys.readouterr().out)
    assert found[1] == [
        *("tiny", "2,000", "30k", "64", "0.5", "0.25", "2", "3", "4", "5", "6", "7.0×", "16", "8.0×"),
    ]
    assert found[-1] == ["hops_seconds", "edges", "width 64", "1.01", "3"]


def test_products_are_shown_with_their_share_of_a_copy(capsys):
    record = {"dataset": "meadow", "nodes": 50, "nnz": 400, "order": "rcm", "width": 64, "title": "scipy", "ms": 0.5}
    record |= {"gb_per_s": 3.0, "gather_gb_per_s": 9.0, "copy_share": 0.25, "copy_gb_per_s": 12.0}
    show_spmm([record | {"hardware": "abacus", "method": "scipy"}])
    text = capsys.readouterr().out
    assert "a copy: 12 GB/s" in text
    assert rows(text)[-1] == ["meadow", "50", "400", "rcm", "64", "scipy", "0.5", "3", "25 %", "9"]
