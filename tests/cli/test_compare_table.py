"""What ``rapgnn compare`` shows: 80 columns, honest deviations, and all that ``--epochs`` cuts."""

import json
import statistics
from typing import Any

import pytest

from commands import SBM
from rapgnn.cli.compare import show_comparison
from rapgnn.compare import METHODS


def compared(rapgnn, tmp_path, *arguments):
    report = tmp_path / "c.json"
    methods = ("--methods", "rap,end-to-end,pretrained-embedding", "--hidden", 8)
    code, out, err = rapgnn("compare", SBM, *methods, *arguments, "--json", report)
    assert code == 0, err
    return json.loads(report.read_text()), out


def test_epochs_cut_phase_one_too(rapgnn, tmp_path):
    records, out = compared(rapgnn, tmp_path, "--seeds", 1, "--epochs", 3)
    assert [r["config"]["pretrain_epochs"] for r in records] == [3, 3, 3]
    assert records[2]["epochs"] == [3]
    assert "3 epochs after 3 of phase 1" in out
    records, _ = compared(rapgnn, tmp_path, "--seeds", 1, "--epochs", 3, "--set", "pretrain_epochs=5")
    assert records[0]["config"]["pretrain_epochs"] == 5


@pytest.fixture
def comparison() -> list[dict[str, Any]]:
    """Three methods on one graph."""
    common = {"dataset": "meadow", "task": "node-classification", "metric": "accuracy", "protocol": "fixed split"}
    common |= {"seeds": [0, 1], "hardware": "abacus, 7 rods", "engine_reason": "no entry is negative"}
    numbers = {
        "rap": (0.8123, 0.0111, 1.25, 0.0417, 3.5, 61.0, 8, "polynomial"),
        "end-to-end": (0.7456, 0.0222, 17.75, 23.1, 4.6, None, 16, "stepwise"),
        "pretrained-embedding": (0.6789, 0.0333, 0.75, 5.07, 5.7, 63.0, 8, "none"),
    }
    records = []
    for method, (mean, std, seconds, train, evaluation, peak, layers, engine) in numbers.items():
        cost = {"fit_seconds": seconds, "train_ms_per_epoch": train, "eval_ms_per_epoch": evaluation}
        records.append(
            common
            | {"method": method, "mean": mean, "std": std, "peak_memory_mb": peak, "engine": engine}
            | {"values": [mean - std, mean + std]}
            | cost
            | {"config": {"num_layers": layers}, "epochs": [90 + layers, 100 + layers]}
        )
    return records


def rows(text: str) -> list[list[str]]:
    """The cells of every line of a table."""
    lines = [line for line in text.splitlines() if line.startswith(("│", "┃"))]
    return [[cell.strip() for cell in line.strip("│┃").replace("┃", "│").split("│")] for line in lines]


def cells(text: str) -> list[dict[str, str]]:
    header, *body = rows(text)
    return [dict(zip(header, row, strict=True)) for row in body]


def test_a_comparison_shows_metric_cost_and_engine(comparison, capsys):
    show_comparison(comparison)
    text = capsys.readouterr().out
    assert "meadow · abacus, 7 rods · 2 seeds" in text
    table = cells(text)
    assert [row["method"] for row in table] == [METHODS[record["method"]].title for record in comparison]
    for row, record, seconds, ms, peak in zip(
        table, comparison, ("1.25", "17.75", "0.75"), ("0.0417", "23.1", "5.07"), ("61", "-", "63"), strict=True
    ):
        deviation = statistics.stdev(record["values"])  # that of a sample
        assert row["accuracy %"] == f"{100 * record['mean']:.2f} ± {100 * deviation:.2f}"
        assert (row["fit s"], row["ms/epoch"], row["MB"]) == (seconds, ms, peak)
    said = " ".join(text.split())
    assert f"{METHODS['rap'].title}: 8 layers, 108 epochs" in said
    assert f"{METHODS['end-to-end'].title}: 16 layers, 116 epochs" in said
    assert "polynomial engine, because no entry is negative." in said
    assert "Quick run" not in text
    show_comparison(comparison[:1], quick=True)
    assert "Quick run" in capsys.readouterr().out


def test_a_comparison_by_cross_validation_shows_both_protocols(comparison, capsys):
    for i, record in enumerate(comparison):
        record |= {"task": "graph-classification", "strict_mean": 0.5 + i / 100, "strict_std": 0.04}
        record |= {"strict_values": [0.46 + i / 100, 0.54 + i / 100]}
    show_comparison(comparison)
    text = capsys.readouterr().out
    assert [row["strict"] for row in cells(text)] == ["50.00 ± 5.66", "51.00 ± 5.66", "52.00 ± 5.66"]
    assert "the paper's protocol" in " ".join(text.split())


def test_errors_and_rare_labels_are_shown_in_their_units(comparison, capsys):
    error = {"task": "graph-regression", "metric": "rmse", "mean": 0.912345, "values": [0.912345]}
    show_comparison([comparison[0] | error])
    assert cells(capsys.readouterr().out)[0]["RMSE"] == "0.912"  # one value has no deviation
    share = {"task": "graph-multilabel", "metric": "rocauc", "positive_share": 0.0312, "average_precision": 0.234}
    show_comparison([comparison[0] | share])
    text = " ".join(capsys.readouterr().out.split())
    assert "3.1 % of the known test labels are positive" in text
    assert "RAP-GNN 23.4" in text
