"""The bench by depth on a tiny graph: all methods, all keys, ratios of the times that stand beside them."""

import pytest

from rapgnn.datasets.synthetic import BlockModel
from rapgnn.experiments.bench import depth

METHODS = ["rap", "rap-stepwise", "pyg-sgconv", "pyg-sign", "end-to-end", "end-to-end-pyg"]
KEYS = {
    *("method", "title", "dataset", "task", "backbone", "num_layers", "hidden_channels", "batch_size", "repeats"),
    *("device", "hardware", "threads", "date", "versions", "train_ms_per_epoch", "precompute_ms", "peak_memory_mb"),
    *("speedup_vs_end_to_end", "speedup_vs_pyg"),
}


@pytest.fixture(scope="module")
def records():
    graph = BlockModel(nodes=60, classes=2, features=6, train=5, val=10, test=10).generate()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(depth, "SHORTCUT_EPOCHS", 4)
        return depth.bench(graph, num_layers=3, hidden_channels=8, repeats=1)


def test_all_methods_are_there_with_all_keys(records):
    assert [r["method"] for r in records] == METHODS == list(depth.MEASURES)
    for r in records:
        assert set(r) == KEYS
        assert r["title"] == depth.TITLES[r["method"]]
        assert (r["num_layers"], r["hidden_channels"], r["repeats"], r["backbone"]) == (3, 8, 1, "gcn")


def test_times_are_measured_and_ratios_follow_from_them(records):
    times = {r["method"]: r["train_ms_per_epoch"] for r in records}
    assert all(ms > 0 for ms in times.values())
    for r in records:
        ms = r["train_ms_per_epoch"]
        assert r["speedup_vs_end_to_end"] == pytest.approx(times["end-to-end"] / ms)
        assert r["speedup_vs_pyg"] == pytest.approx(times["end-to-end-pyg"] / ms)
        assert r["peak_memory_mb"] is None or r["peak_memory_mb"] >= 0
    beforehand = {r["method"] for r in records if r["precompute_ms"] > 0}
    assert beforehand == {"rap", "pyg-sgconv", "pyg-sign"}


def test_a_bench_leaves_the_global_random_state_alone(fresh_random_state, monkeypatch):
    monkeypatch.setattr(depth, "SHORTCUT_EPOCHS", 1)
    graph = BlockModel(nodes=40, classes=2, features=4, train=5, val=10, test=10).generate()
    depth.bench(graph, 1, 4, 1)
