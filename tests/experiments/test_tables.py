"""What a person reads in the terminal holds the numbers of the records."""

import statistics
from dataclasses import replace

import numpy as np
import pytest
import torch

from rapgnn import make_graph
from rapgnn.experiments.tables import describe, show_comparison
from rapgnn.training.methods import METHODS


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


def test_a_graph_in_numbers(small_graph, molecules):
    row = describe(small_graph)
    assert (row["nodes"], row["edges"], row["features"]) == (300, small_graph.edge_index.shape[1], 12)
    assert (row["classes"], sum(row["class sizes"])) == (3, 300)
    assert (row["train"], row["val"], row["test"]) == (30, 60, 100)
    many = describe(replace(molecules, folds=True))
    assert (many["graphs"], many["nodes"], many["edge features"]) == (120, molecules.num_nodes, 3)
    assert "10-fold" in many["protocol"]
    y = np.array([[0.0, 1.0], [1.0, np.nan], [0.0, 0.0]])
    labels = describe(make_graph(np.ones((3, 2)), torch.zeros(2, 0, dtype=torch.int64), y, [0, 1], [], [2]))
    assert (labels["labels"], labels["positive share"], labels["unknown"]) == (2, pytest.approx(0.4), 1)
