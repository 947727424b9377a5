"""The estimators with nothing set as cells: the fits one by one, what the table says of them."""

from dataclasses import replace

import pytest

from rapgnn import RAPNodeClassifier
from rapgnn.experiments.protocol import strict_folds
from rapgnn.experiments.reproduce.estimators import ITEM
from rapgnn.experiments.reproduce.item import Graphs
from rapgnn.experiments.reproduce.measure import measured
from rapgnn.experiments.reproduce.nothing_set import estimator_cell, fit, measure, split
from rapgnn.experiments.reproduce.store import Store
from samples import collection

TINY = "sbm:nodes=120,train=5,val=20,test=20"


class Given(Graphs):
    """One graph that is there already."""

    def __init__(self, graph):
        super().__init__()
        self._loaded["given"] = graph


def test_a_fit_is_the_estimator_s_own():
    graphs = Graphs()
    record = measure(estimator_cell(TINY, [0, 3], {}), graphs, None)
    graph = graphs.get(TINY)
    own = [RAPNodeClassifier(seed=seed).fit(graph).score(graph, split="test") for seed in (0, 3)]
    assert record["values"] == pytest.approx(own)
    assert record["mean"] == pytest.approx(sum(own) / 2)
    assert record["protocol"] == "fixed split"
    assert min(record["candidates"]) > 1
    assert all(record["chosen"])


def test_folds_are_the_strict_ones():
    graph = replace(collection(graphs=60), folds=True)
    cell = estimator_cell("given", [0], {}, folds=2)
    record = measure(cell, Given(graph), None)
    assert len(record["values"]) == 2
    assert record["protocol"] == "10-fold, inner validation, held-out test, the first 2 held out"
    second = list(strict_folds(graph, 0))[1]
    alone = measure(estimator_cell("given", [0], {}), Given(replace(second, folds=False)), None)
    assert record["values"][1] == alone["values"][0]


def test_a_stopped_run_goes_on_after_the_last_fit(tmp_path):
    graphs, cell = Graphs(), estimator_cell(TINY, [0, 1], {"title": "here"})
    first = split(cell, graphs)[0]
    done = measured(first, graphs, Store(tmp_path))
    whole = measured(cell, graphs, Store(tmp_path))
    assert whole["values"][0] == done["values"][0] == fit(first, graphs, None)["values"][0]
    assert whole["title"] == "here"
    assert len(list((tmp_path / "cells").iterdir())) == 2


def test_the_table_compares_by_the_strict_figures():
    ours = {"dataset": "mutag", "method": "estimator", "metric": "accuracy", "mean": 0.87, "std": 0.05}
    ours |= {
        "values": [0.87],
        "fit_seconds": 2.0,
        "title": "estimator, nothing set",
        "quick": False,
        "seeds": [0],
        "column": "x",
        "protocol": "10-fold, inner validation, held-out test",
    }
    trained = ours | {"method": "end-to-end", "mean": 0.95, "strict_mean": 0.85, "strict_std": 0.1, "strict_values": []}
    text = ITEM.show([ours, trained])
    (row,) = (line for line in text.splitlines() if line.startswith("| MUTAG"))
    assert "**87.0 ± 5.0**" in row
    assert "85.0 ± 10.0" in row
    assert "95.0" not in row
    assert "+2.0" in row
