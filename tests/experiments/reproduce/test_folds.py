"""Folds that are trained at once give the records of folds that are trained one by one."""

from dataclasses import replace

import pytest

from rapgnn.experiments.reproduce import folds as at_once
from rapgnn.experiments.reproduce.accuracy import accuracy_cell, join, split, train
from rapgnn.experiments.reproduce.cells import Cell
from rapgnn.experiments.reproduce.folds import train_folds
from rapgnn.experiments.reproduce.item import Graphs
from rapgnn.experiments.reproduce.kinds import KINDS, PARTS, Parts
from rapgnn.experiments.reproduce.measure import measured
from rapgnn.experiments.reproduce.store import Store
from rapgnn.experiments.run import folds_at_once
from rapgnn.models.config import Config
from rapgnn.training.side_by_side import fits_side_by_side
from samples import collection

CONFIG = Config(
    backbone="gin",
    num_layers=2,
    hidden_channels=8,
    factors=2,
    epochs=5,
    dropout=0.0,
    batch_size=16,
    normalize_features=False,
    lr=0.01,
)


@pytest.fixture
def graphs(monkeypatch) -> Graphs:
    """Graphs whose folds are trained at once on a CPU, too."""
    monkeypatch.setattr(at_once, "folds_at_once", lambda method, graph, config: fits_side_by_side(graph, config))
    found = Graphs()
    found._loaded["given"] = replace(collection(graphs=60), folds=True)
    return found


@pytest.mark.parametrize("protocol", ["paper", "strict", "both"])
def test_folds_at_once_are_the_folds_one_by_one(protocol, graphs):
    cell = accuracy_cell("given", "end-to-end", CONFIG, [0, 1], {}, protocol, 3)
    parts = split(cell, graphs)
    together = train_folds(parts, graphs, None)
    assert together is not None
    assert len(together) == len(parts)
    one_by_one = [train(part, graphs, None) for part in parts]
    for mine, other in zip(together, one_by_one, strict=True):
        assert ("history" in mine) == ("history" in other)
        if "history" in mine:
            assert mine["history"] == pytest.approx(other["history"], abs=0.2)  # a graph on the edge may fall over it
        else:
            assert mine["values"] == pytest.approx(other["values"], abs=0.2)
    joined, expected = join(cell, together), join(cell, one_by_one)
    assert set(joined) == set(expected)
    assert joined["mean"] == pytest.approx(expected["mean"], abs=0.05)


def test_only_trained_layers_on_a_gpu_are_trained_at_once():
    graph = collection(graphs=20)
    assert not folds_at_once("end-to-end", graph, CONFIG)  # on a CPU one at a time is as fast
    assert not folds_at_once("rap", graph, CONFIG)
    cell = Cell("training", "sbm:nodes=60", {"method": "rap", "config": CONFIG.to_dict(), "seed": 0})
    assert train_folds([cell, cell], Graphs(), None) is None  # no folds


def test_what_is_missing_is_measured_together_and_stored_one_by_one(tmp_path, monkeypatch):
    asked: list[list[int]] = []

    def pieces(cell, graphs):
        return [Cell("piece", "meadow", {"number": n}) for n in cell.spec["numbers"]]

    def together(parts, graphs, on_epoch):
        asked.append([part.spec["number"] for part in parts])
        return [{"value": 10 * part.spec["number"]} for part in parts]

    def join_all(cell, records):
        return {"value": sum(r["value"] for r in records)}

    monkeypatch.setitem(KINDS, "piece", lambda cell, graphs, on_epoch: {"value": 10 * cell.spec["number"]})
    monkeypatch.setitem(PARTS, "pieces", Parts(pieces, join_all, together))
    graphs = Graphs()
    for numbers, expected in (([1], []), ([1, 2, 3], [2, 3]), ([1, 2, 3, 4], [])):
        asked.clear()
        record = measured(Cell("pieces", "meadow", {"numbers": numbers}), graphs, Store(tmp_path))
        assert record["value"] == 10 * sum(numbers)
        assert asked == ([expected] if expected else [])  # one alone goes the usual way
