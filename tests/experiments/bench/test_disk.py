"""The benchmark of graphs on disk: the graph that it generates, and a row of it."""

from dataclasses import replace

import numpy as np
import pytest

from rapgnn import InputError
from rapgnn.experiments.bench import disk_graphs, disk_tables
from rapgnn.experiments.bench.disk import measure
from rapgnn.experiments.bench.disk_graphs import DISK_SIZES, shared_size, write_power_law
from rapgnn.experiments.bench.generated import PowerLaw

SIZE = PowerLaw(500, 6000, 8, classes=4, train=60, val=40, test=100, name="small")


def test_the_graph_is_symmetric_and_has_a_few_large_nodes(tmp_path, monkeypatch):
    monkeypatch.setattr(disk_graphs, "BUCKET", 1000)
    monkeypatch.setattr(disk_graphs, "CHUNK", 900)
    monkeypatch.setattr(disk_graphs, "ROWS", 64)
    graph = write_power_law(SIZE, tmp_path)
    assert (graph.num_nodes, graph.num_edges, graph.num_features) == (500, 6000, 8)
    receiver = np.repeat(np.arange(500), np.diff(graph.indptr))
    pairs = np.stack([receiver, graph.indices])
    assert (np.lexsort(pairs[::-1]) == np.arange(6000)).all()
    back = pairs[::-1][:, np.lexsort(pairs)]
    assert (back == pairs).all()
    degree = np.diff(graph.indptr)
    assert degree.max() > 4 * degree.mean()
    assert [len(graph.rows(split)) for split in ("train", "val", "test")] == [60, 40, 100]
    when = (tmp_path / "graph.json").stat().st_mtime_ns
    write_power_law(SIZE, tmp_path)
    assert (tmp_path / "graph.json").stat().st_mtime_ns == when
    write_power_law(replace(SIZE, seed=1), tmp_path)
    assert (tmp_path / "graph.json").stat().st_mtime_ns != when


def test_a_row_says_time_peak_and_accuracy(tmp_path):
    graph = write_power_law(SIZE, tmp_path)
    found = measure({"graph": str(graph.folder), "limit": "4GiB", "settings": {"num_layers": 2}, "device": "cpu"})
    assert found["blocks"] == 1
    assert found["num_layers"] == 2
    assert 0 < found["base_memory_mb"] <= found["peak_memory_mb"] < 4096
    assert found["fit_seconds"] >= found["hops_seconds"] > 0
    assert found["test_accuracy"] > 0.3


def test_tables_give_the_graph_again(tmp_path, monkeypatch):
    pytest.importorskip("duckdb", reason="needs the extra rapgnn[big]")
    from rapgnn.scale.tables.convert import convert_folder

    monkeypatch.setattr(disk_tables, "ROWS", 64)
    graph = write_power_law(SIZE, tmp_path / "small-0")
    tables = disk_tables.write_tables(graph, tmp_path / "small-0.tables")
    again = convert_folder(tables, tmp_path / "again")
    ends = [np.stack([np.repeat(np.arange(500), np.diff(g.indptr)), g.indices]) for g in (graph, again)]
    assert np.array_equal(*(np.unique(pairs, axis=1) for pairs in ends))
    correlation = np.corrcoef(graph.features.T, again.features.T)  # features of a user's folder are standardised
    assert np.allclose(np.diag(correlation, graph.num_features), 1)
    assert np.array_equal(graph.y, again.y)
    for split in ("train", "val", "test"):
        assert np.array_equal(graph.rows(split), again.rows(split))
    request = {"tables": str(tables), "limit": "4GiB", "settings": {"num_layers": 2}, "device": "cpu"}
    found = measure(request)
    assert found["convert_seconds"] > 0
    assert found["peak_memory_mb"] >= found["convert_peak_mb"] > 0
    assert found["test_accuracy"] > 0.3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again", "small-0", "small-0.tables"]


def test_shares():
    assert shared_size("products", 1) == replace(DISK_SIZES["products"], name="products")
    small = shared_size("wide", 0.01)
    assert (small.nodes, small.edges, small.features, small.name) == (200_000, 2_000_000, 64, "0.01 of wide")
    with pytest.raises(InputError, match="share"):
        shared_size("wide", 0)


def test_predictions_are_compared_with_those_in_memory(tmp_path):
    graph = write_power_law(SIZE, tmp_path)
    request = {"graph": str(graph.folder), "limit": "4GiB", "settings": {"num_layers": 2}, "device": "cpu"}
    found = measure(request | {"compare": True})
    assert found["relative_error"] < 1e-5
    assert found["same_class"] == 1
    assert "relative_error" not in measure(request | {"compare": False})
