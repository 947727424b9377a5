"""The large graphs: their sizes, where accuracy is measured, settings that train, and the page."""

import pytest

from rapgnn.datasets.ogb import NODE_GRAPHS
from rapgnn.experiments.reproduce.item import Graphs, Scale
from rapgnn.experiments.reproduce.large import ABSENT, LARGE, LEFT_OUT, TIMED, cells, is_there, products_size, show
from rapgnn.experiments.reproduce.rows import METHODS_OF_TABLES
from rapgnn.models.config import Config
from rapgnn.training.methods import fit

TINY = "sbm:nodes=60,classes=3,features=6,train=4,val=12,test=12"


@pytest.fixture
def nowhere(tmp_path, monkeypatch) -> Graphs:
    """No dataset is in the cache or in the user's folder."""
    for name in ("data", "cache"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("RAPGNN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("RAPGNN_DATA", str(tmp_path / "data"))
    return Graphs()


def put(graphs: Graphs, folder, dataset: str) -> None:
    """One file where the dataset's would be."""
    files = NODE_GRAPHS[dataset]
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
    for quick in (True, False):
        found = cells(Scale(quick=quick), nowhere)
        assert {cell.kind for cell in found} == {"time"}
        assert len(found) == len(LARGE) * len(TIMED)
        assert {cell.labels["no_accuracy"] for cell in found} == {ABSENT}
    assert {cell.dataset for cell in found} == {"0.05 of ogbn-proteins' size", "0.05 of ogbn-products' size"}
    assert [c.spec["backbone"] for c in found] == ["gcn"] * 2 * len(TIMED) + ["sage"] * len(TIMED)


@pytest.mark.parametrize("place", ["data", "cache"])
def test_a_dataset_that_is_there_is_trained_on(place, nowhere, tmp_path):
    put(nowhere, tmp_path / place, "ogbn-products")
    assert is_there("ogbn-products", nowhere)
    assert not is_there("ogbn-proteins", nowhere)
    trained = [cell for cell in cells(Scale(), nowhere) if cell.kind == "accuracy"]
    assert [cell.spec["method"] for cell in trained] == [*METHODS_OF_TABLES, *METHODS_OF_TABLES]
    assert {cell.dataset for cell in trained} == {"ogbn-products"}
    quick = cells(Scale(quick=True), nowhere)
    assert {(c.dataset.split()[-2], c.labels["no_accuracy"]) for c in quick} == {
        ("ogbn-proteins'", ABSENT),
        ("ogbn-products'", LEFT_OUT),
    }


def test_the_settings_train(nowhere, tmp_path):
    """Every method of every table, on a small graph for a moment."""
    for name in NODE_GRAPHS:
        put(nowhere, tmp_path / "data", name)
    trained = [cell for cell in cells(Scale(), nowhere) if cell.kind == "accuracy"]
    assert len(trained) == len(LARGE) * len(METHODS_OF_TABLES)
    graph = nowhere.get(TINY)
    for cell in trained:
        config = Config(**cell.spec["config"]).update(hidden_channels=4, epochs=2, pretrain_epochs=2)
        fitted = fit(cell.spec["method"], graph, config, 0)
        assert fitted.predict(graph.test).scores.isfinite().all()
        if cell.spec["method"].endswith("full"):
            assert (config.structure, config.distribution) == ("full", "glorot")
        if cell.spec["method"] == "rap":
            assert fitted.inference == "sample"


def made_up(nowhere, quick: bool = True) -> list[dict]:
    """Records of the item's own cells, with numbers that are easy to find."""
    found = []
    for i, cell in enumerate(cells(Scale(quick=quick), nowhere)):
        figures = {"train_ms_per_epoch": 100.0 + i, "infer_all_ms": 200.0 + i, "peak_memory_mb": 300.0 + i}
        if cell.spec["method"] == "end-to-end":
            figures = {"note": "out of memory"}
        found.append(cell.spec | cell.labels | figures | {"kind": "time", "dataset": cell.dataset, "quick": quick})
    return found


def test_the_page(nowhere):
    text = show(made_up(nowhere))
    assert "## ogbn-products, GraphSAGE" in text
    assert "| Pretrained Embedding | not available here | 71.07 ± 0.36 | 100 | 2,803 | 200 | 1,540 | 300 |" in text
    assert (
        "| End-to-End | not available here | 77.29 ± 0.46 | out of memory | 14,078 | out of memory | 9,969 | - |"
        in text
    )
    assert "| RAP-GNN, layer by layer | – | 77.74 ± 0.43 | 119 | 7,934 | 219 | 7,109 | 319 |" in text
    assert "| **RAP-GNN, shortcut** | not available here | 77.74 ± 0.43 | 120 | 7,934 | 220 | 7,109 | 320 |" in text
    assert "`rapgnn data get ogbn-proteins` and `rapgnn data get ogbn-products`" in text
    assert "0.01 of ogbn-products' size: 24,490 nodes" in text
    assert "Quick run, cut" in text
    assert "Quick run" not in show(made_up(nowhere, quick=False))


def test_the_page_with_accuracies(nowhere, tmp_path):
    put(nowhere, tmp_path / "data", "ogbn-products")
    records = []
    for cell in cells(Scale(), nowhere):
        common = cell.spec | cell.labels | {"kind": cell.kind, "dataset": cell.dataset, "quick": False}
        if cell.kind == "time":
            records.append(common | {"train_ms_per_epoch": 1.0, "infer_all_ms": 2.0, "peak_memory_mb": 3.0})
        else:
            scores = {"mean": 0.4567, "std": 0.0123, "metric": "accuracy", "protocol": "fixed split"}
            records.append(common | scores | {"backbone": cell.spec["config"]["backbone"]})
    text = show(records)
    assert text.count("| 45.67 ± 1.23 |") == 2 * len(METHODS_OF_TABLES)
    assert text.count(ABSENT) == len(METHODS_OF_TABLES) + 1
    assert "standard deviation over 5 seeds" in text
