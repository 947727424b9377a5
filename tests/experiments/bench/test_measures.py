"""Memory, sizes, products and peers on tiny graphs: what is measured, and what follows from it."""

import statistics
from dataclasses import replace

import numpy as np
import pytest
import torch

from rapgnn import RAPNodeClassifier
from rapgnn.datasets.synthetic import BlockModel
from rapgnn.errors import InputError
from rapgnn.experiments.bench import memory, peers, rivals, scale, spmm, timing
from rapgnn.experiments.bench import ready as bench_ready
from rapgnn.experiments.bench.depth import TITLES
from rapgnn.experiments.bench.generated import SIZES, PowerLaw, proteins_size
from rapgnn.experiments.bench.rows import measure_rows
from rapgnn.sparse import dense

SMALL = PowerLaw(120, 600, features=5, classes=3, train=30, val=20, test=20)


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


def test_published_sizes():
    assert (SIZES["products"].nodes, SIZES["products"].edges, SIZES["products"].train) == (2449029, 123718280, 196615)
    whole = proteins_size()
    assert (whole.nodes, whole.edges, whole.features, whole.labels) == (132_534, 79_122_504, 8, 112)
    part = replace(proteins_size(0.001), labels=4).generate()
    assert (part.num_nodes, part.num_outputs, part.task) == (133, 4, "node-multilabel")
    for share in (0, -1, 1.1):
        with pytest.raises(InputError, match="share"):
            proteins_size(share)


@pytest.mark.parametrize("method", list(TITLES))
def test_every_method_trains_for_its_memory(method):
    graph = memory.ready(SMALL.generate())
    found = memory.peak_of({"method": method, "num_layers": 2, "hidden_channels": 4}, graph)
    assert found["nodes"] == 120
    assert found["data_mb"] > 0
    assert found["peak_memory_mb"] is None or found["peak_memory_mb"] >= 0


def test_memory_in_a_process_of_its_own():
    rows = memory.plan(SMALL, [1], 4, ["rap"])
    (record,) = memory.finish(measure_rows(rows))
    assert (record["dataset"], record["method"], record["nodes"]) == ("power-law", "rap", 120)
    assert record["memory_ratio_vs_end_to_end"] is None  # which was not measured
    with pytest.raises(InputError, match="process of its own failed"):
        memory.in_child({"method": "rap"})


def test_memory_ratios_follow_from_the_peaks():
    common = {"dataset": "a", "num_layers": 2, "hidden_channels": 4}
    peaks = {"rap": 10.0, "end-to-end": 35.0}
    records = memory.finish([common | {"method": m, "peak_memory_mb": mb} for m, mb in peaks.items()])
    assert [r["memory_ratio_vs_end_to_end"] for r in records] == [3.5, 1.0]


def test_sizes_are_measured_with_their_floor_and_slopes():
    sizes = {"a": SMALL, "b": replace(SMALL, nodes=240, edges=2_400)}
    records = scale.finish(measure_rows(scale.plan(sizes, [4], 2, 3, "cpu", 1)))
    rows = [r for r in records if r["method"] == "rap"]
    for r in rows:
        assert r["hop_bytes"] == 4 * 30 * 4 * 3  # training rows, channels, hops 0 to 2
        assert r["floor_ms"] == pytest.approx(r["hop_bytes"] / r["copy_gb_per_s"] / 1e6)
        assert r["floor_ratio"] == pytest.approx(r["steady_ms_per_epoch"] / r["floor_ms"])
        assert r["speedup_vs_end_to_end"] == pytest.approx(r["end_to_end_epoch_ms"] / r["epoch_ms"])
        assert r["total_seconds"] == pytest.approx(r["build_seconds"] + r["fit_seconds"])
        assert min(r["hops_seconds"], r["predict_seconds"]) > 0
    slopes = {r["quantity"]: r["slope"] for r in records if r["method"] == "slope"}
    times = [r["hops_seconds"] for r in rows]
    assert slopes["hops_seconds"] == pytest.approx(np.log(times[1] / times[0]) / np.log(4.0))
    assert scale.log_slope([(1.0, 2.0), (10.0, 200.0), (100.0, 20000.0)]) == pytest.approx(2.0)


def test_end_to_end_training_that_does_not_fit_is_left_out(monkeypatch):
    monkeypatch.setattr(bench_ready, "free_memory", lambda device: 1.0)
    graph = memory.ready(SMALL.generate())
    for method in ("end-to-end", "end-to-end-pyg", "pyg-sgconv"):
        found = memory.peak_of({"method": method, "num_layers": 2, "hidden_channels": 4}, graph)
        assert (found["peak_memory_mb"], found["note"]) == (None, "does not fit")
    (record,) = measure_rows(scale.plan({"a": SMALL}, [4], 2, 2, "cpu", 1))
    assert record["end_to_end_epoch_ms"] is None
    assert record["speedup_vs_end_to_end"] is None
    assert record["note"] == "end-to-end does not fit"


@pytest.mark.parametrize("order", spmm.ORDERS)
def test_every_kernel_gives_the_same_product_in_every_order(order):
    matrix = SMALL.generate().operator("gcn").matrix
    moved = spmm.reordered(matrix, order)
    assert moved.nnz == matrix.nnz
    assert torch.equal(moved.values.sort().values, matrix.values.sort().values)
    if order == "degree":
        assert bool((moved.crow.diff().diff() <= 0).all())
    x = torch.rand(120, 5)
    expected = torch.from_numpy(moved.scipy().toarray()) @ x
    for name, (_, build, _) in spmm.KERNELS.items():
        if name != "numba" or spmm.has_numba():
            assert torch.allclose(torch.as_tensor(build(moved)(x)), expected, atol=1e-5), name


def test_bandwidths_follow_from_the_time():
    matrix = SMALL.generate().operator("gcn").matrix
    r = spmm.measure("rapgnn", matrix, 8, 2, bandwidth=10.0)
    least = 8 * matrix.nnz + 4 * 121 + 2 * 4 * 8 * 120
    assert r["gb_per_s"] == pytest.approx(least / r["ms"] / 1e6)
    assert r["copy_share"] == pytest.approx(r["gb_per_s"] / 10.0)
    more = 4 * 8 * (matrix.nnz - 120)
    assert r["gather_gb_per_s"] == pytest.approx((least + more) / r["ms"] / 1e6)
    assert timing.copy_bandwidth("cpu", 1 << 20, 2) > 0


@pytest.fixture
def blocks(monkeypatch):
    for rival in rivals.RIVALS.values():
        monkeypatch.setitem(rival.published, "epochs", 40)
        monkeypatch.setitem(rival.ranges, "epochs", (5,))
    return BlockModel(nodes=150, classes=2, features=6, signal=3.0, train=10, val=30, test=60).generate()


@pytest.mark.parametrize("name", list(rivals.RIVALS))
def test_every_peer_learns_and_repeats(name, blocks, fresh_random_state):
    settings = rivals.RIVALS[name].published | {"lr": 0.05}
    first, again = (rivals.train_rival(name, blocks, dense(blocks.x), settings, 0) for _ in range(2))
    assert (first.merit, first.test) == (again.merit, again.test)
    assert first.test > 0.75
    assert first.seconds > first.preprocess_seconds > 0


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
        assert r["chosen_settings"] == best["settings"]
        assert r["search_seconds"] == pytest.approx(sum(p["seconds"] for p in r["trials"]))
    assert len(records[2]["trials"]) == 3  # SGC's authors tune its weight decay
    assert records[4]["trials"] == []
    assert records[4]["chosen_settings"] == rivals.RIVALS["gcn"].published


def test_peers_are_for_classes_of_nodes():
    labels = BlockModel(nodes=80, classes=2, features=4, labels=3, train=5, val=10, test=10).generate()
    with pytest.raises(InputError, match="node-multilabel"):
        peers.plan(labels, 1, 1)
