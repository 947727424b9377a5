"""Time and memory of strategies: what is recorded, the cells of the figures and what a quick run cuts, the pages."""

import pytest
import torch

from rapgnn.datasets.published import NODE_GRAPHS
from rapgnn_lab.bench.depth import load_graph, peak_of
from rapgnn_lab.bench.generated import PowerLaw
from rapgnn_lab.paper import timed
from rapgnn_lab.paper.cells import Graphs, Scale
from rapgnn_lab.paper.rows import METHODS_OF_TABLES
from rapgnn_lab.paper.timed import (
    ABSENT,
    LEFT_OUT,
    TIMED_LARGE,
    TITLES,
    cost_cell,
    large_cells,
    measure_memory,
    measure_time,
)
from small_items import Given

SIZES = {"num_layers": 2, "hidden_channels": 8, "epochs": 4, "repeats": 1}
TINY = "sbm:nodes=80,classes=2,features=6,train=5,val=20,test=20"
SMALL = PowerLaw(200, 1_000, features=6, classes=3, train=40, val=30, test=30, name="a small one")


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


@pytest.fixture
def nowhere(tmp_path, monkeypatch) -> Graphs:
    """No dataset is in the cache or in the user's folder."""
    for name in ("data", "cache"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("RAPGNN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("RAPGNN_DATA", str(tmp_path / "data"))
    return Graphs()


def put(folder, *datasets: str) -> None:
    """One file where each dataset's would be."""
    for files in map(NODE_GRAPHS.get, datasets):
        path = folder / files.folder / next(iter(files.files))
        path.parent.mkdir(parents=True)
        path.write_bytes(b"")


def test_without_the_datasets_there_are_times_alone(nowhere):
    timed = large_cells(Scale(), nowhere)
    assert {(cell.kind, cell.labels["no_accuracy"]) for cell in timed} == {("time", ABSENT)}
    assert [(c.spec["backbone"], c.spec["method"]) for c in timed] == [
        (backbone, method) for backbone in ("gcn", "gcn", "sage") for method in TIMED_LARGE
    ]


@pytest.mark.parametrize("place", ["data", "cache"])
def test_a_dataset_that_is_there_is_trained_on(place, nowhere, tmp_path):
    put(tmp_path / place, "ogbn-products")
    trained = [cell for cell in large_cells(Scale(), nowhere) if cell.kind == "accuracy"]
    assert [cell.spec["method"] for cell in trained] == [*METHODS_OF_TABLES, *METHODS_OF_TABLES]
    assert {cell.dataset for cell in trained} == {"ogbn-products"}
    quick = large_cells(Scale(quick=True), nowhere)
    assert {(c.dataset.split()[-2], c.labels["no_accuracy"]) for c in quick} == {
        ("ogbn-proteins'", ABSENT),
        ("ogbn-products'", LEFT_OUT),
    }
