"""The bench by depth on a tiny graph: all methods, all keys, ratios of the times that stand beside them."""

import pytest

from rapgnn.datasets.synthetic import BlockModel
from rapgnn.experiments.bench import depth
from rapgnn.training.methods import STRATEGIES

KEYS = {
    *("method", "title", "dataset", "task", "backbone", "num_layers", "hidden_channels", "batch_size", "repeats"),
    *("device", "hardware", "threads", "date", "versions", "train_ms_per_epoch", "precompute_ms", "peak_memory_mb"),
    *("speedup_vs_end_to_end", "speedup_vs_pyg", "train_speedup_vs_end_to_end", "train_speedup_vs_pyg", "source"),
    *(
        "eval_ms_per_epoch",
        "epoch_ms",
        "steady_ms_per_epoch",
        "timed_epochs",
        "infer_ms",
        "infer_all_ms",
        "infer_rows",
        "nodes",
        "edges",
    ),
}


@pytest.fixture(scope="module")
def records():
    graph = BlockModel(nodes=60, classes=2, features=6, train=5, val=10, test=10).generate()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(depth, "SHORTCUT_EPOCHS", 4)
        return depth.bench(graph, num_layers=3, hidden_channels=8, repeats=1)


def test_all_methods_are_there_with_all_keys(records):
    assert [r["method"] for r in records] == list(depth.TITLES) == list(depth.MEASURES)
    assert set(STRATEGIES) - {r["method"] for r in records} == {"identity"}  # which costs what a fixed diagonal does
    for r in records:
        assert set(r) == KEYS
        assert r["title"] == depth.TITLES[r["method"]]
        assert (r["num_layers"], r["hidden_channels"], r["repeats"], r["backbone"]) == (3, 8, 1, "gcn")


def test_times_are_measured_and_ratios_follow_from_them(records):
    found = {r["method"]: r for r in records}
    for r in records:
        assert min(r["train_ms_per_epoch"], r["eval_ms_per_epoch"], r["infer_ms"], r["infer_all_ms"]) > 0
        for prefix, key in (("", "epoch_ms"), ("train_", "train_ms_per_epoch")):
            slow, pyg = found["end-to-end"][key], found["end-to-end-pyg"][key]
            assert r[f"{prefix}speedup_vs_end_to_end"] == pytest.approx(slow / r[key])
            assert r[f"{prefix}speedup_vs_pyg"] == pytest.approx(pyg / r[key])
        assert r["peak_memory_mb"] is None or r["peak_memory_mb"] >= 0
    beforehand = {r["method"] for r in records if r["precompute_ms"] > 0}
    assert beforehand == {"rap", "fixed-diagonal", "fixed-full", "pyg-sgconv", "pyg-sign"}


def test_what_can_be_kept_is_predicted_for_the_test_rows_alone(records):
    rows = {r["method"]: r["infer_rows"] for r in records}
    whole = {"rap-stepwise", "random-full", "end-to-end", "end-to-end-pyg", "pyg-sgconv"}
    assert rows == {name: 60 if name in whole else 10 for name in rows}


def test_some_methods_alone_have_no_ratios():
    graph = BlockModel(nodes=40, classes=2, features=4, train=5, val=10, test=10).generate()
    (record,) = depth.bench(graph, 1, 4, 1, ["pyg-sgconv"])
    assert record["speedup_vs_end_to_end"] is None


def test_a_bench_leaves_the_global_random_state_alone(fresh_random_state, monkeypatch):
    monkeypatch.setattr(depth, "SHORTCUT_EPOCHS", 1)
    graph = BlockModel(nodes=40, classes=2, features=4, train=5, val=10, test=10).generate()
    depth.bench(graph, 1, 4, 1)
