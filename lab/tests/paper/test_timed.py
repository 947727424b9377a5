"""Time and memory of strategies: what is recorded, the cells of the figures and what a quick run cuts, the pages."""

import pytest
import torch

from rapgnn.network.config import Config
from rapgnn_lab.baselines.systems import METHODS
from rapgnn_lab.bench.depth import load_graph, peak_of
from rapgnn_lab.bench.generated import PowerLaw
from rapgnn_lab.paper import timed
from rapgnn_lab.paper.cells import Graphs, Scale
from rapgnn_lab.paper.rows import cut
from rapgnn_lab.paper.timed import (
    DEPTHS,
    QUICK_DEPTHS,
    TIMED,
    TITLES,
    cost_cell,
    depth_cells,
    measure_memory,
    measure_time,
    memory_cells,
    score_cell,
    share_of,
    show_depth,
    show_memory,
)
from small_items import Given

SIZES = {"num_layers": 2, "hidden_channels": 8, "epochs": 4, "repeats": 1}
TINY = "sbm:nodes=80,classes=2,features=6,train=5,val=20,test=20"
SMALL = PowerLaw(200, 1_000, features=6, classes=3, train=40, val=30, test=30, name="a small one")
CONFIG = Config(num_layers=6, hidden_channels=16, epochs=1000, pretrain_epochs=200)


@pytest.fixture(scope="module")
def graphs() -> Graphs:
    """A small graph in PubMed's place; no settings were searched for it."""
    return Given(Graphs().get(TINY), "pubmed")


@pytest.mark.parametrize(("method", "backbone"), [*((m, "gcn") for m in TITLES), ("rap", "sage")])
def test_a_generated_graph_is_timed(method, backbone, graphs):
    cell = cost_cell("time", SMALL, method, SIZES | {"backbone": backbone}, "cpu")
    record = measure_time(cell, graphs, None)
    assert (record["nodes"], record["edges"], record["backbone"]) == (200, 1_000, backbone)
    assert all(record[name] > 0 for name in ("train_ms_per_epoch", "infer_ms", "infer_all_ms"))
    assert {"hardware", "threads", "versions", "num_layers", "hidden_channels"} <= set(record)
    assert (cell.labels["title"], cell.dataset) == (TITLES[method], "a small one")


def test_memory_is_measured(graphs, monkeypatch):
    monkeypatch.setattr(timed, "in_child", lambda request: peak_of(request, load_graph(request)))
    record = measure_memory(cost_cell("memory", SMALL, "rap", SIZES, "cpu"), graphs, None)
    assert min(record["peak_memory_mb"], record["data_mb"]) > 0
    assert (record["nodes"], record["method"], record["num_layers"]) == (200, "rap", 2)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("method", TITLES)
def test_a_gpu(method):
    record = measure_time(cost_cell("time", SMALL, method, SIZES, "cuda"), Graphs("cuda"), None)
    assert record["train_ms_per_epoch"] > 0
    peak = measure_memory(cost_cell("memory", SMALL, method, SIZES, "cuda"), Graphs("cuda"), None)
    assert peak["peak_memory_mb"] > 0


def test_what_cannot_fit_is_said_and_not_tried(graphs):
    sizes = SIZES | {"num_layers": 100_000, "hidden_channels": 1 << 16}
    record = measure_time(cost_cell("time", SMALL, "end-to-end", sizes, "cpu"), graphs, None)
    assert record["note"] == "does not fit into memory"
    assert "train_ms_per_epoch" not in record


def test_the_whole_size_is_for_a_gpu():
    assert [share_of(Scale(), device, 0.01) for device in ("cuda", "cpu")] == [1.0, 0.05]
    assert {share_of(Scale(quick=True), device, 0.01) for device in ("cuda", "cpu")} == {0.01}


@pytest.mark.parametrize(("quick", "depths", "repeats"), [(True, QUICK_DEPTHS, 1), (False, DEPTHS, 5)])
def test_every_strategy_is_timed_at_every_depth(quick, depths, repeats, graphs):
    timed = [cell for cell in depth_cells(Scale(quick=quick), graphs) if cell.kind == "time"]
    assert [(c.spec["num_layers"], c.spec["method"]) for c in timed] == [(n, m) for n in depths for m in TIMED]
    assert {(c.spec["hidden_channels"], c.spec["repeats"]) for c in timed} == {(256, repeats)}


@pytest.mark.parametrize("method", ["end-to-end", "rap"])
def test_the_settings_stay_at_another_depth(method, graphs):
    graph = graphs.get("pubmed")
    full, quick = (score_cell(graph, method, CONFIG, 32, Scale(quick=quick)) for quick in (False, True))
    config = full.spec["config"]
    assert (config["num_layers"], config["hidden_channels"], config["epochs"]) == (32, 64, 1000)
    assert (full.spec["seeds"], quick.spec["seeds"], "cut" in full.labels) == ([0, 1, 2], [0], False)
    usual, _ = cut(graph, method, CONFIG, Scale(quick=True))
    assert quick.spec["config"]["epochs"] == usual.epochs


def times(quick: bool = False) -> list[dict]:
    """Made-up milliseconds that are easy to find."""
    common = {"kind": "time", "dataset": "pubmed", "hidden_channels": 256, "quick": quick}
    records = [common | {"method": "end-to-end-pyg", "num_layers": 8, "note": "out of memory"}]
    for layers in (8, 32):
        for method, ms in (("end-to-end", 10.0 * layers), ("rap-stepwise", 2.5 * layers), ("rap", 0.5)):
            costs = {"train_ms_per_epoch": ms, "infer_ms": ms / 5, "infer_all_ms": ms / 4}
            records.append(common | {"method": method, "num_layers": layers} | costs)
    return records


def scores(quick: bool = False) -> list[dict]:
    common = {"kind": "accuracy", "dataset": "pubmed", "seeds": [0, 1, 2], "std": 0.0111, "metric": "accuracy"}
    common |= {"protocol": "fixed split", "column": "faithful", "quick": quick, "cut": "20 of 90 epochs"}
    return [
        common | {"method": method, "title": METHODS[method].title, "config": {"num_layers": layers}, "mean": mean}
        for method, layers, mean in (("rap", 8, 0.7654), ("rap", 32, 0.7432), ("end-to-end", 8, None))
    ]


def test_the_page_of_depths():
    text = show_depth([*times(), *scores()])
    for row in (
        *("| **RAP-GNN, shortcut** | 0.50 | 0.50 |", "| **RAP-GNN, shortcut** | 160× | 640× |", "| paper | 3× | 6× |"),
        *("| End-to-End, PyG's layers | out of memory | – |", "| **RAP-GNN** | 76.54 ± 1.11 | 74.32 ± 1.11 |"),
        "| End-to-End | diverged | – |",
    ):
        assert row in text
    assert "Quick run" not in text
    assert "20 of 90 epochs: RAP-GNN, End-to-End" in show_depth([*times(quick=True), *scores(quick=True)])


def test_the_cells_of_memory(graphs):
    """PubMed with 32 layers, and ogbn-proteins' size or a share of it."""
    full, quick = (memory_cells(Scale(quick), graphs) for quick in (False, True))
    assert (len(full), len(quick)) == (2 * len(TITLES), 2 * (len(TITLES) - 1))
    places = {cell.dataset: cell.spec for cell in full}
    assert (places["pubmed"]["num_layers"], places["pubmed"]["hidden_channels"]) == (32, 256)
    assert places["0.05 of ogbn-proteins' size"]["generated"]["edges"] == round(0.05 * 79_122_504)


def test_the_page_of_memory():
    records = []
    for graph, layers, more in (("pubmed", 32, {}), ("a small one", 4, {"generated": vars(SMALL)})):
        common = {"dataset": graph, "num_layers": layers, "hidden_channels": 256, "device": "cpu"} | more
        for method, peak in (("end-to-end", 330.0), ("rap-stepwise", 60.0), ("rap", 55.0), ("fixed-full", 66.0)):
            records.append(common | {"method": method, "title": TITLES[method], "peak_memory_mb": peak})
        records.append(common | {"method": "end-to-end-pyg", "title": "PyG's", "note": "does not fit"})
    text = show_memory(records)
    for row in (
        *("| RAP-GNN, shortcut | 55 | 6.0× | 3× |", "| RAP-GNN, shortcut | 55 | 6.0× | more than 2 |"),
        *("| Fixed Random Weights | 66 | 5.0× | – |", "| PyG's | does not fit | – | – |"),
    ):
        assert row in text
    assert ["Quick run" in show_memory([r | {"quick": q} for r in records]) for q in (False, True)] == [False, True]
