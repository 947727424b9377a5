"""Time and accuracy by depth: which cells there are, what a quick run cuts, and the page."""

import pytest

from rapgnn.experiments.reproduce.figures.depth import DEPTHS, QUICK_DEPTHS, SEEDS, TIMED, cells, score_cell, show
from rapgnn.experiments.reproduce.item import Graphs, Scale
from rapgnn.experiments.reproduce.quick import cut
from rapgnn.experiments.reproduce.timed import TITLES
from rapgnn.models.config import Config
from rapgnn.training.methods import METHODS

TINY = "sbm:nodes=80,classes=2,features=6,train=5,val=20,test=20"
CONFIG = Config(num_layers=6, hidden_channels=16, epochs=1000, pretrain_epochs=200)


@pytest.fixture(scope="module")
def graphs() -> Graphs:
    """A small graph in PubMed's place; no settings were searched for it."""
    found = Graphs()
    found._loaded["pubmed"] = found.get(TINY)
    return found


@pytest.mark.parametrize(("quick", "depths", "repeats"), [(True, QUICK_DEPTHS, 1), (False, DEPTHS, 5)])
def test_every_strategy_is_timed_at_every_depth(quick, depths, repeats, graphs):
    timed = [cell for cell in cells(Scale(quick=quick), graphs) if cell.kind == "time"]
    assert [(c.spec["num_layers"], c.spec["method"]) for c in timed] == [(n, m) for n in depths for m in TIMED]
    assert {c.spec["hidden_channels"] for c in timed} == {256}
    assert {c.spec["repeats"] for c in timed} == {repeats}
    assert {"rap", "rap-stepwise", "end-to-end", "end-to-end-pyg"} < set(TIMED)


@pytest.mark.parametrize("method", ["end-to-end", "random-full", "rap", "fixed-full"])
def test_the_settings_are_kept_at_another_depth(method, graphs):
    graph = graphs.get(TINY)
    full, quick = (score_cell(graph, method, CONFIG, 32, Scale(quick=quick)) for quick in (False, True))
    config = full.spec["config"]
    assert (config["num_layers"], config["hidden_channels"], config["epochs"]) == (32, 64, 1000)
    assert full.spec["seeds"] == list(range(SEEDS))
    assert "cut" not in full.labels
    assert quick.spec["seeds"] == [0]
    if method in ("end-to-end", "random-full"):  # fewer than in the tables: there are many depths
        assert quick.spec["config"]["epochs"] == 10
        assert quick.labels["cut"] == "10 of 1000 epochs"
    else:
        usual, said = cut(graph, method, CONFIG, Scale(quick=True))
        assert quick.spec["config"]["epochs"] == usual.epochs
        assert quick.labels.get("cut", "") == said


def times(quick: bool = False) -> list[dict]:
    """Made-up milliseconds that are easy to find."""
    found = []
    for layers in (8, 32):
        for method, ms in (("end-to-end", 10.0 * layers), ("rap-stepwise", 2.5 * layers), ("rap", 0.5)):
            record = {"kind": "time", "dataset": "pubmed", "method": method, "title": TITLES[method], "quick": quick}
            sizes = {"num_layers": layers, "hidden_channels": 256, "hardware": "abacus, 7 rods"}
            found.append(record | sizes | {"train_ms_per_epoch": ms, "infer_ms": ms / 5, "infer_all_ms": ms / 4})
    lost = {"kind": "time", "dataset": "pubmed", "method": "end-to-end-pyg", "title": "PyG's", "quick": quick}
    return [*found, lost | {"num_layers": 8, "hidden_channels": 256, "note": "out of memory"}]


def scores(quick: bool = False) -> list[dict]:
    found = []
    for method, layers, mean in (("rap", 8, 0.7654), ("rap", 32, 0.7432), ("end-to-end", 8, None)):
        labels = {"title": METHODS[method].title, "column": "faithful", "quick": quick, "cut": "20 of 90 epochs"}
        config = {"num_layers": layers, "hidden_channels": 64}
        record = {"kind": "accuracy", "dataset": "pubmed", "method": method, "config": config, "seeds": [0, 1, 2]}
        record |= {"mean": mean, "std": 0.0111, "metric": "accuracy", "protocol": "fixed split"}
        found.append(record | labels)
    return found


def test_the_page():
    text = show([*times(), *scores()])
    assert "| End-to-End | 80 | 320 |" in text
    assert "| **RAP-GNN, shortcut** | 0.50 | 0.50 |" in text
    assert "| RAP-GNN, layer by layer | 4.0× | 4.0× |" in text
    assert "| **RAP-GNN, shortcut** | 160× | 640× |" in text
    assert "| paper | 3× | 6× |" in text
    assert "| End-to-End, PyG's layers | out of memory | – |" in text
    assert "| **RAP-GNN** | 76.54 ± 1.11 | 74.32 ± 1.11 |" in text
    assert "| End-to-End | diverged | – |" in text
    assert "3 seeds" in text
    assert "Quick run" not in text


def test_the_page_says_what_was_cut():
    text = show([*times(quick=True), *scores(quick=True)])
    assert "Quick run, cut: depths 2, 8 and 32" in text
    assert "PubMed: 20 of 90 epochs: RAP-GNN, End-to-End." in text
    assert "Quick run, cut" in show(times(quick=True))
    assert "Accuracy: not searched." in show(times())
