"""Every benchmark on tiny graphs: what is measured, and what follows from it."""

import importlib
import statistics
from dataclasses import replace

import numpy as np
import pytest
import torch

from rapgnn import InputError, RAPNodeClassifier
from rapgnn.compare import STRATEGIES
from rapgnn.datasets.catalog import BlockModel
from rapgnn.sparse import dense
from rapgnn_lab.bench import depth, disk, fit, peers, rivals, scale, spmm, timing
from rapgnn_lab.bench.generated import (
    PowerLaw,
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


@pytest.mark.parametrize("build", [rivals.gcn, rivals.sgconv, rivals.sign])
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


def test_memory_in_a_process_of_its_own():
    (record,) = depth.with_memory_ratios(measure_rows(depth.plan_memory(SMALL, [1], ["rap"])))
    assert (record["dataset"], record["method"], record["nodes"]) == ("power-law", "rap", 120)
    assert record["data_mb"] > 0
    assert record["memory_ratio_vs_end_to_end"] is None  # which was not measured
    with pytest.raises(InputError):
        in_child("rapgnn_lab.bench.none", {})


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


def test_every_kernel_gives_the_same_product():
    matrix, x = SMALL.generate().operator("gcn").matrix, torch.rand(120, 5)
    expected = torch.from_numpy(matrix.scipy().toarray()) @ x
    for name, (_, build, _) in spmm.KERNELS.items():
        assert torch.allclose(torch.as_tensor(build(matrix)(x)), expected, atol=1e-5), name


@pytest.fixture
def blocks(monkeypatch):
    for peer in peers.PEERS.values():
        monkeypatch.setitem(peer["published"], "epochs", 40)
        monkeypatch.setitem(peer["ranges"], "epochs", (5,))
    return BlockModel(nodes=150, classes=2, features=6, signal=3.0, train=10, val=30, test=60).generate()


def test_peers_are_tuned_on_validation_and_run_on_every_seed(blocks):
    rows = peers.plan(blocks, trials=3, seeds=2, methods=["rap", "rap-search", "sgc", "gcn"])
    records = peers.finish(measure_rows(rows))
    assert [(r["method"], r["kind"]) for r in records] == [
        *(("rap", "known"), ("rap-search", "search")),
        *(("sgc", "published"), ("sgc", "tuned"), ("gcn", "published"), ("gcn", "tuned")),
    ]
    ours = records[0]
    assert ours["chosen_settings"] == records[1]["chosen_settings"]
    again = RAPNodeClassifier(settings=ours["chosen_settings"], search=False).fit(blocks)
    assert ours["values"][0] == again.score(blocks, split="test")  # the same settings and seed: the same model
    for r in records:
        assert len(r["values"]) == len(r["all_seconds"]) == 2
        assert r["seconds"] == statistics.median(r["all_seconds"])
        assert r["times_rap"] == pytest.approx(r["seconds"] / ours["seconds"])
    for r in records[3::2]:
        best = max(r["trials"], key=lambda p: (p["val"], -p["val_loss"]))
        assert len(r["trials"]) == 3
        assert r["chosen_settings"] == peers.PEERS[r["method"]]["published"] | best["settings"]
        assert r["search_seconds"] == pytest.approx(sum(p["seconds"] for p in r["trials"]))
    assert len(records[2]["trials"]) == 3  # SGC's authors tune its weight decay
    assert records[4]["trials"] == []
    assert records[4]["chosen_settings"] == peers.PEERS["gcn"]["published"]


def test_a_fit_is_watched_stage_by_stage():
    cell = fit.Cell(300, 600, "words", 20)
    assert cell in fit.grid([300], [8, 600], [20], list(fit.KINDS))
    assert fit.Cell(300, 8, "words", 20) not in fit.grid([300], [8, 600], [20], list(fit.KINDS))
    request = {"nodes": 300, "columns": 8, "kind": "numbers", "labels": 0.5, "seeds": [0]}
    record = fit.measure(request)
    stages = record["stages"]
    assert "linear filters" in stages  # what takes milliseconds may lie between two looks
    assert set(stages) <= {"reading", *fit.KINDS_OF_CANDIDATES, *(stage for stage, _, _ in fit.STAGES)}
    assert sum(stage["seconds"] for stage in stages.values()) == pytest.approx(record["fit_seconds"], rel=0.5, abs=0.5)
    assert record["labelled"] == pytest.approx(150, abs=fit.CLASSES)
    assert min(record[name] for name in ("of_gcn", "of_trees", "of_floor", "predict_seconds", "hop_bytes")) > 0


def test_stages_and_floors_are_those_of_the_library():
    """Every module and function that a stage names is there; words are the same, sparse or dense."""
    for _, module, function in fit.STAGES:
        assert not function or hasattr(importlib.import_module(f"rapgnn.{module}"), function)
    words, table = (fit.Cell(200, 520, kind, 20) for kind in ("words", "dense-words"))
    graph = words.generate()
    assert words.given(graph) == (graph, {}, {})
    assert torch.equal(dense(graph.x), torch.from_numpy(table.given(graph)[0]))
    assert fit.floor(graph)["solve_flops"] == 100 * 520 * 100 + 100**3 / 3


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

    graph = write_power_law(ON_DISK, tmp_path)
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
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["again", graph.folder.name, "small-0.tables"])
