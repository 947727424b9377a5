"""Peak memory: a process of its own on a CPU, and the tables of both graphs."""

import pytest

from rapgnn.experiments.bench.generated import PowerLaw
from rapgnn.experiments.reproduce.figures.memory import cells, measure_memory, memory_cell, show
from rapgnn.experiments.reproduce.item import Graphs, Scale
from rapgnn.experiments.reproduce.timed import TITLES

SMALL = PowerLaw(300, 2_000, features=4, classes=2, train=60, val=40, test=40, name="a small one")


def test_a_cell_is_measured():
    record = measure_memory(memory_cell(SMALL, "rap", 2, 8, "cpu"), Graphs(), None)
    assert record["peak_memory_mb"] > 0
    assert (record["nodes"], record["method"], record["num_layers"]) == (300, "rap", 2)
    assert record["data_mb"] > 0


def test_the_cells():
    """PubMed with 32 layers, and ogbn-proteins' size or a share of it."""
    full, quick = cells(Scale(), Graphs()), cells(Scale(quick=True), Graphs())
    assert len(full) == 2 * len(TITLES)
    assert len(quick) == 2 * (len(TITLES) - 1)
    places = {cell.dataset: cell.spec for cell in full}
    assert places["pubmed"]["num_layers"] == 32
    assert places["pubmed"]["hidden_channels"] == 256
    assert places["0.05 of ogbn-proteins' size"]["generated"]["edges"] == round(0.05 * 79_122_504)


@pytest.fixture
def records():
    found = []
    for graph, layers, more in (("pubmed", 32, {}), ("a small one", 4, {"generated": vars(SMALL)})):
        common = {"dataset": graph, "num_layers": layers, "hidden_channels": 256, "device": "cpu"} | more
        for method, peak in (("end-to-end", 330.0), ("rap-stepwise", 60.0), ("rap", 55.0), ("fixed-full", 66.0)):
            found.append(common | {"method": method, "title": TITLES[method], "peak_memory_mb": peak})
        found.append(common | {"method": "end-to-end-pyg", "title": "PyG's", "note": "does not fit"})
    return found


def test_the_page(records):
    text = show(records)
    assert "## PubMed, 32 layers, 256 channels" in text
    assert "| RAP-GNN, shortcut | 55 | 6.0× | 3× |" in text
    assert "| RAP-GNN, layer by layer | 60 | 5.5× | 3× |" in text
    assert "| RAP-GNN, shortcut | 55 | 6.0× | more than 2 |" in text
    assert "| Fixed Random Weights | 66 | 5.0× | – |" in text
    assert "| PyG's | does not fit | – | – |" in text
    assert "a small one: 300 nodes, 2,000 edges" in text
    assert "Quick run" not in text
    assert "Quick run, cut" in show([r | {"quick": True} for r in records])
