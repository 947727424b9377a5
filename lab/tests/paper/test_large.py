"""The large graphs: their sizes, where accuracy is measured, settings that train, and the page."""

import pytest

from rapgnn.compare import fit
from rapgnn.datasets.ogb import NODE_GRAPHS
from rapgnn.network.config import Config
from rapgnn_lab.paper.cells import Graphs, Scale
from rapgnn_lab.paper.rows import METHODS_OF_TABLES
from rapgnn_lab.paper.timed import ABSENT, LEFT_OUT, TABLES, TIMED_LARGE, large_cells, products_size, show_large

TINY = "sbm:nodes=60,classes=3,features=6,train=4,val=12,test=12"


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


def test_sizes():
    whole, part = products_size(), products_size(0.01)
    assert (whole.nodes, whole.edges, whole.name) == (2_449_029, 123_718_280, "ogbn-products size")
    assert (part.nodes, part.edges, part.name) == (24_490, 1_237_183, "0.01 of ogbn-products' size")
    assert part.train + part.val + part.test <= part.nodes
    assert (part.features, part.classes) == (100, 47)


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


def test_the_settings_train(nowhere, tmp_path):
    """Every method of every table, on a small graph for a moment."""
    put(tmp_path / "data", *NODE_GRAPHS)
    trained = [cell for cell in large_cells(Scale(), nowhere) if cell.kind == "accuracy"]
    assert len(trained) == len(TABLES) * len(METHODS_OF_TABLES)
    graph = nowhere.get(TINY)
    for cell in trained:
        config = Config(**cell.spec["config"]).update(hidden_channels=4, epochs=2, pretrain_epochs=2)
        fitted = fit(cell.spec["method"], graph, config, 0)
        assert fitted.predict(graph.test).scores.isfinite().all()
        assert (config.structure == "full") == cell.spec["method"].endswith("full")
        assert fitted.inference == "sample" or cell.spec["method"] != "rap"


def made_up(graphs: Graphs, quick: bool) -> list[dict]:
    """Records of the item's own cells, with numbers that are easy to find."""
    records = []
    for i, cell in enumerate(large_cells(Scale(quick=quick), graphs)):
        figures = {"train_ms_per_epoch": 100.0 + i, "infer_all_ms": 200.0 + i, "peak_memory_mb": 300.0 + i}
        if cell.spec["method"] == "end-to-end":
            figures = {"note": "out of memory"}
        if cell.kind == "accuracy":
            figures = {"mean": 0.4567, "std": 0.0123, "metric": "accuracy", "protocol": "fixed split"}
            figures["backbone"] = cell.spec["config"]["backbone"]
        records.append(cell.spec | cell.labels | figures | {"kind": cell.kind, "dataset": cell.dataset, "quick": quick})
    return records


def test_the_page(nowhere, tmp_path):
    text = show_large(made_up(nowhere, quick=True))
    for row in (
        "| End-to-End | not available here | 77.29 ± 0.46 | out of memory | 14,078 | out of memory | 9,969 | – |",
        "| **RAP-GNN, shortcut** | not available here | 77.74 ± 0.43 | 120 | 7,934 | 220 | 7,109 | 320 |",
        "`rapgnn data get ogbn-proteins` and `rapgnn data get ogbn-products`",
    ):
        assert row in text
    put(tmp_path / "data", "ogbn-products")
    text = show_large(made_up(nowhere, quick=False))
    assert text.count("| 45.67 ± 1.23 |") == 2 * len(METHODS_OF_TABLES)
    assert text.count(ABSENT) == len(METHODS_OF_TABLES) + 1
