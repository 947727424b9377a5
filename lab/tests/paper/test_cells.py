"""A cell's key: what decides a number changes it, and nothing else does."""

from dataclasses import replace
from pathlib import Path

import pytest

from rapgnn_lab.baselines.systems import METHODS
from rapgnn_lab.paper.cells import Cell, Graphs, Scale, cell_key, open_store
from rapgnn_lab.paper.items import ITEMS
from rapgnn_lab.paper.run import is_there
from small_items import TINY

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


def test_data_have_a_checksum(monkeypatch):
    graphs, graph = Graphs(), Graphs().get(TINY)
    monkeypatch.setattr("rapgnn_lab.paper.cells.load_dataset", lambda *given: graph)
    assert graphs.checksum("cora") == graph.fingerprint()
    assert graphs.checksum(TINY) == "generated"  # its name holds its parameters
    assert graphs.get(TINY) is graphs.get(TINY)  # loaded once
