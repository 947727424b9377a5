"""The kind "time": what is recorded of a strategy, on a dataset and on a generated graph."""

import pytest
import torch

from rapgnn.experiments.bench.depth import MEASURES
from rapgnn.experiments.bench.generated import PowerLaw
from rapgnn.experiments.reproduce.figures.memory import measure_memory, memory_cell
from rapgnn.experiments.reproduce.item import Graphs, Scale
from rapgnn.experiments.reproduce.timed import TITLES, describe_generated, measure_time, share_of, time_cell

SIZES = {"num_layers": 2, "hidden_channels": 8, "epochs": 4, "repeats": 1}
TINY = "sbm:nodes=80,classes=2,features=6,train=5,val=20,test=20"
SMALL = PowerLaw(200, 1_000, features=6, classes=3, train=40, val=30, test=30, name="a small one")


@pytest.fixture(scope="module")
def graphs() -> Graphs:
    return Graphs()


def test_every_strategy_of_the_tables_can_be_measured():
    assert set(TITLES) < set(MEASURES)
    assert len(set(TITLES.values())) == len(TITLES)


@pytest.mark.parametrize("backbone", ["gcn", "sage"])
@pytest.mark.parametrize("method", [m for m in TITLES if m != "end-to-end-pyg"])
def test_a_generated_graph(method, backbone, graphs):
    cell = time_cell(SMALL, method, SIZES | {"backbone": backbone}, "cpu", {})
    record = measure_time(cell, graphs, None)
    assert (record["nodes"], record["edges"], record["backbone"]) == (200, 1_000, backbone)
    for name in ("train_ms_per_epoch", "infer_ms", "infer_all_ms"):
        assert record[name] > 0
    assert {"hardware", "threads", "versions", "num_layers", "hidden_channels"} <= set(record)
    assert cell.labels["title"] == TITLES[method]
    assert cell.dataset == "a small one"


def test_a_dataset_and_pyg(graphs):
    record = measure_time(time_cell(TINY, "end-to-end-pyg", SIZES, "cpu", {}), graphs, None)
    assert record["nodes"] == 80
    assert record["train_ms_per_epoch"] > 0
    assert "generated" not in record


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("method", TITLES)
def test_a_gpu(method):
    record = measure_time(time_cell(SMALL, method, SIZES, "cuda", {}), Graphs("cuda"), None)
    assert record["train_ms_per_epoch"] > 0
    peak = measure_memory(memory_cell(SMALL, method, 2, 8, "cuda"), Graphs("cuda"), None)
    assert peak["peak_memory_mb"] > 0


def test_what_cannot_fit_is_said_and_not_tried(graphs):
    cell = time_cell(SMALL, "end-to-end", SIZES | {"num_layers": 100_000, "hidden_channels": 1 << 16}, "cpu", {})
    record = measure_time(cell, graphs, None)
    assert record["note"] == "does not fit into memory"
    assert "train_ms_per_epoch" not in record


def test_the_whole_size_is_for_a_gpu():
    assert share_of(Scale(), "cuda", 0.01) == 1.0
    assert share_of(Scale(), "cpu", 0.01) == 0.05
    assert share_of(Scale(quick=True), "cuda", 0.01) == share_of(Scale(quick=True), "cpu", 0.01) == 0.01


def test_generated_graphs_are_described_once():
    specs = [time_cell(SMALL, m, SIZES, "cpu", {}).spec | {"dataset": SMALL.name} for m in ("rap", "end-to-end")]
    said = describe_generated([*specs, {"dataset": "pubmed"}])
    assert said.count("a small one: 200 nodes, 1,000 edges, 6 features") == 1
    assert "pubmed" not in said
    assert describe_generated([{"dataset": "pubmed"}]) == ""
