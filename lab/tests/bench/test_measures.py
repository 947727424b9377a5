"""Every benchmark on tiny graphs: what is measured, and what follows from it."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from rapgnn.compare import STRATEGIES
from rapgnn.datasets.catalog import BlockModel
from rapgnn.errors import InputError
from rapgnn.sparse import dense
from rapgnn_lab.bench import depth, disk, scale, timing
from rapgnn_lab.bench.generated import (
    DISK_SIZES,
    SIZES,
    PowerLaw,
    proteins_size,
    shared_size,
    write_power_law,
)
from rapgnn_lab.store import in_child, measure_rows, with_ratios
from samples import collection

SMALL = PowerLaw(120, 600, features=5, classes=3, train=30, val=20, test=20)
ON_DISK = PowerLaw(500, 6000, 8, classes=4, train=60, val=40, test=100, name="small")
TIMES = {
    *("method", "title", "dataset", "task", "backbone", "num_layers", "hidden_channels", "batch_size", "repeats"),
    *("device", "hardware", "threads", "date", "versions", "train_ms_per_epoch", "precompute_ms", "peak_memory_mb"),
    *("speedup_vs_end_to_end", "speedup_vs_pyg", "train_speedup_vs_end_to_end", "train_speedup_vs_pyg", "source"),
    *("eval_ms_per_epoch", "epoch_ms", "timed_epochs", "infer_ms", "infer_all_ms", "infer_rows", "nodes", "edges"),
}


def check_ratios(records) -> None:
    """Every ratio is that of the times beside it."""
    by_method = {r["method"]: r for r in records}
    for r in records:
        for prefix, key in (("", "epoch_ms"), ("train_", "train_ms_per_epoch")):
            slow, pyg = by_method["end-to-end"][key], by_method["end-to-end-pyg"][key]
            assert r[f"{prefix}speedup_vs_end_to_end"] == pytest.approx(slow / r[key])
            assert r[f"{prefix}speedup_vs_pyg"] == pytest.approx(pyg / r[key])


def test_methods_by_depth(fresh_random_state):
    graph = BlockModel(nodes=60, classes=2, features=6, train=5, val=10, test=10).generate()
    records = with_ratios(measure_rows(depth.plan(graph, [3], 8, 1, epochs=4)))
    assert [r["method"] for r in records] == list(depth.TITLES) == list(depth.MEASURES)
    assert set(STRATEGIES) - {r["method"] for r in records} == {"identity"}  # which costs what a fixed diagonal does
    for r in records:
        assert set(r) == TIMES | {"steady_ms_per_epoch"}
        assert min(r["train_ms_per_epoch"], r["eval_ms_per_epoch"], r["infer_ms"], r["infer_all_ms"]) > 0
        assert (r["num_layers"], r["hidden_channels"], r["repeats"], r["backbone"]) == (3, 8, 1, "gcn")
    check_ratios(records)
    beforehand = {r["method"] for r in records if r["precompute_ms"] > 0}
    assert beforehand == {"rap", "fixed-diagonal", "fixed-full", "pyg-sgconv", "pyg-sign"}
    walks = {"rap-stepwise", "random-full", "end-to-end", "end-to-end-pyg", "pyg-sgconv"}  # nothing can be prepared
    assert {r["method"]: r["infer_rows"] for r in records} == {m: 60 if m in walks else 10 for m in depth.TITLES}


@pytest.mark.parametrize("build", [depth.gcn, depth.sgconv, depth.sign])
def test_a_peer_scores_all_nodes_as_it_scores_those_of_a_split(build):
    graph = timing.ready(BlockModel(nodes=60, classes=2, features=6, train=5, val=10, test=10).generate())
    network = build(graph, depth.bench_config(2, 8))
    with torch.no_grad():
        for scores, rows in ((network.val(), graph.val), (network.test(), graph.test)):
            torch.testing.assert_close(scores, network.every()[rows], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("edges", [True, False])
def test_methods_on_many_graphs(edges):
    graph = collection(graphs=30)
    graph = graph if edges else replace(graph, edge_attr=None)
    records = with_ratios(measure_rows(depth.plan_graphs(graph, 16, 1, epochs=3)))
    assert [r["method"] for r in records] == list(depth.GRAPH_TITLES)
    for r in records:
        assert set(r) == TIMES | {"graphs", "steady_ms_per_epoch"}
        assert min(r["train_ms_per_epoch"], r["eval_ms_per_epoch"], r["infer_ms"]) > 0
        assert r["infer_rows"] == len(graph.test)
        assert (r["backbone"], r["batch_size"]) == ("gine" if edges else "gin", 16)
    check_ratios(records)
    assert records[0]["precompute_ms"] > 0


@pytest.mark.parametrize("split", ["train", "val", "test"])
def test_pyg_sees_the_graphs_of_a_split_as_they_are(split):
    graph = collection(graphs=20)
    listed = depth.data_list(graph, split)
    for data, number in zip(listed, graph.rows(split).tolist(), strict=True):
        n = int(graph.ptr[number + 1] - graph.ptr[number])
        assert data.num_nodes == n
        assert not data.edge_index.numel() or 0 <= int(data.edge_index.min()) <= int(data.edge_index.max()) < n
        assert len(data.edge_attr) == data.edge_index.shape[1]
        assert int(data.y) == int(graph.y[number])


def test_a_generated_graph_has_its_size_both_directions_and_hubs():
    size = PowerLaw(5_000, 60_000, features=4, classes=3, train=100, val=50, test=60)
    graph = size.generate()
    assert (graph.num_nodes, graph.edge_index.shape, graph.num_features) == (5_000, (2, 60_000), 4)
    assert [len(graph.rows(s)) for s in ("train", "val", "test")] == [100, 50, 60]
    assert not set(graph.train.tolist()) & set(graph.val.tolist())
    matrix = graph.operator("gcn").matrix.scipy()
    assert abs(matrix - matrix.T).max() < 1e-6
    degrees = torch.bincount(graph.edge_index[0], minlength=5_000).sort(descending=True).values
    assert degrees[0] > 10 * degrees.double().mean()
    # a few nodes have most of the edges: a tenth of them (1/10)^(1 - 0.4) of all
    assert int(degrees[:500].sum()) / 60_000 == pytest.approx(0.1**0.6, abs=0.05)
    assert graph.fingerprint() == size.generate().fingerprint()
    assert graph.fingerprint() != replace(size, seed=1).generate().fingerprint()
    assert dense(graph.x).dtype == torch.float32


def test_sizes_and_shares():
    assert (SIZES["products"].nodes, SIZES["products"].edges, SIZES["products"].train) == (2449029, 123718280, 196615)
    whole = proteins_size()
    assert (whole.nodes, whole.edges, whole.features, whole.labels) == (132_534, 79_122_504, 8, 112)
    part = replace(proteins_size(0.001), labels=4).generate()
    assert (part.num_nodes, part.num_outputs, part.task) == (133, 4, "node-multilabel")
    assert shared_size("products", 1) == replace(DISK_SIZES["products"], name="products")
    small = shared_size("wide", 0.01)
    assert (small.nodes, small.edges, small.features, small.name) == (200_000, 2_000_000, 64, "0.01 of wide")
    for share in (0, -1, 1.1):
        with pytest.raises(InputError):
            proteins_size(share)
        with pytest.raises(InputError):
            shared_size("wide", share)


@pytest.mark.parametrize("method", list(depth.TITLES))
def test_every_method_trains_for_its_memory(method):
    record = depth.peak_of({"method": method, "num_layers": 2, "hidden_channels": 4}, timing.ready(SMALL.generate()))
    assert record["data_mb"] > 0
    assert record["peak_memory_mb"] is None or record["peak_memory_mb"] >= 0


def test_memory_in_a_process_of_its_own():
    (record,) = depth.with_memory_ratios(measure_rows(depth.plan_memory(SMALL, [1], ["rap"])))
    assert (record["dataset"], record["method"], record["nodes"]) == ("power-law", "rap", 120)
    assert record["data_mb"] > 0
    assert record["memory_ratio_vs_end_to_end"] is None  # which was not measured
    with pytest.raises(InputError):
        in_child("rapgnn_lab.bench.depth", {"method": "rap"})


def test_sizes_are_measured_with_their_floor_and_slopes():
    sizes = {"a": SMALL, "b": replace(SMALL, nodes=240, edges=2_400)}
    records = scale.finish(measure_rows(scale.plan(sizes, [4], "cpu", 3, 1)))
    rows = [r for r in records if r["method"] == "rap"]
    for r in rows:
        assert r["hop_bytes"] == 4 * 30 * 4 * 4  # training rows, channels, hops 0 to 3
        assert r["floor_ms"] == pytest.approx(r["hop_bytes"] / r["copy_gb_per_s"] / 1e6)
        assert r["floor_ratio"] == pytest.approx(r["steady_ms_per_epoch"] / r["floor_ms"])
        assert r["speedup_vs_end_to_end"] == pytest.approx(r["end_to_end_epoch_ms"] / r["epoch_ms"])
        assert r["total_seconds"] == pytest.approx(r["build_seconds"] + r["fit_seconds"])
        assert min(r["hops_seconds"], r["predict_seconds"]) > 0
    slopes = {r["quantity"]: r["slope"] for r in records if r["method"] == "slope"}
    times = [r["hops_seconds"] for r in rows]
    assert slopes["hops_seconds"] == pytest.approx(np.log(times[1] / times[0]) / np.log(4.0))


def test_end_to_end_training_that_does_not_fit_is_left_out(monkeypatch):
    monkeypatch.setattr(timing, "free_memory", lambda device: 1.0)
    graph = timing.ready(SMALL.generate())
    for method in ("end-to-end", "end-to-end-pyg", "pyg-sgconv"):
        record = depth.peak_of({"method": method, "num_layers": 2, "hidden_channels": 4}, graph)
        assert (record["peak_memory_mb"], record["note"]) == (None, "does not fit")
    (record,) = measure_rows(scale.plan({"a": SMALL}, [4], "cpu", 2, 1))
    assert (record["end_to_end_epoch_ms"], record["speedup_vs_end_to_end"]) == (None, None)
    assert record["note"] == "end-to-end does not fit"


def test_a_copy_has_a_bandwidth():
    assert timing.copy_bandwidth("cpu", 1 << 20, 2) > 0


def test_the_graph_on_disk_is_symmetric_and_has_a_few_large_nodes(tmp_path):
    graph = write_power_law(ON_DISK, tmp_path, chunk=900, rows_at_once=64)
    assert (graph.num_nodes, graph.num_edges, graph.num_features) == (500, 6000, 8)
    receiver = np.repeat(np.arange(500), np.diff(graph.indptr))
    pairs = np.stack([receiver, graph.indices])
    assert (np.lexsort(pairs[::-1]) == np.arange(6000)).all()
    assert (pairs[::-1][:, np.lexsort(pairs)] == pairs).all()
    degree = np.diff(graph.indptr)
    assert degree.max() > 4 * degree.mean()
    assert [len(graph.rows(split)) for split in ("train", "val", "test")] == [60, 40, 100]
    when = (tmp_path / "graph.json").stat().st_mtime_ns
    write_power_law(ON_DISK, tmp_path)
    assert (tmp_path / "graph.json").stat().st_mtime_ns == when
    write_power_law(replace(ON_DISK, seed=1), tmp_path)
    assert (tmp_path / "graph.json").stat().st_mtime_ns != when


def test_a_row_says_time_peak_accuracy_and_how_far_it_is_from_memory(tmp_path):
    graph = write_power_law(ON_DISK, tmp_path)
    request = {"graph": str(graph.folder), "limit": "4GiB", "settings": {"num_layers": 2}, "device": "cpu"}
    record = disk.measure(request | {"compare": True})
    assert (record["blocks"], record["num_layers"]) == (1, 2)
    assert 0 < record["base_memory_mb"] <= record["peak_memory_mb"] < 4096
    assert record["fit_seconds"] >= record["hops_seconds"] > 0
    assert record["test_accuracy"] > 0.3
    assert record["relative_error"] < 1e-5
    assert record["same_class"] == 1
    assert "relative_error" not in disk.measure(request)


def test_tables_give_the_graph_again(tmp_path):
    pytest.importorskip("duckdb", reason="needs the extra rapgnn[big]")
    from rapgnn.scale.tables.convert import convert_folder

    graph = write_power_law(ON_DISK, tmp_path / "small-0")
    tables = disk.write_tables(graph, tmp_path / "small-0.tables")
    again = convert_folder(tables, tmp_path / "again")
    ends = [np.stack([np.repeat(np.arange(500), np.diff(g.indptr)), g.indices]) for g in (graph, again)]
    assert np.array_equal(*(np.unique(pairs, axis=1) for pairs in ends))
    correlation = np.corrcoef(graph.features.T, again.features.T)  # features of a user's folder are standardised
    assert np.allclose(np.diag(correlation, graph.num_features), 1)
    assert np.array_equal(graph.y, again.y)
    for split in ("train", "val", "test"):
        assert np.array_equal(graph.rows(split), again.rows(split))
    request = {"tables": str(tables), "limit": "4GiB", "settings": {"num_layers": 2}, "device": "cpu"}
    record = disk.measure(request)
    assert record["convert_seconds"] > 0
    assert record["peak_memory_mb"] >= record["convert_peak_mb"] > 0
    assert record["test_accuracy"] > 0.3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again", "small-0", "small-0.tables"]
