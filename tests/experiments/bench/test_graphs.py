"""The bench on many graphs: all methods, ratios of the times that stand beside them."""

from dataclasses import replace

import pytest

from rapgnn.experiments.bench import graphs
from samples import collection

METHODS = ["rap", "rap-stepwise", "end-to-end", "end-to-end-pyg"]


@pytest.mark.parametrize("edges", [True, False])
def test_all_methods_are_measured_and_ratios_follow(edges, monkeypatch):
    monkeypatch.setattr(graphs, "SHORTCUT_EPOCHS", 2)
    graph, told = collection(graphs=30), []
    graph = graph if edges else replace(graph, edge_attr=None)
    records = graphs.bench(graph, 2, 8, 16, 1, lambda: told.append(len(told)))
    assert [r["method"] for r in records] == METHODS == list(graphs.MEASURES)
    assert told == [0, 1, 2, 3]
    times = {r["method"]: r["epoch_ms"] for r in records}
    for r in records:
        assert min(r["train_ms_per_epoch"], r["eval_ms_per_epoch"], r["infer_ms"]) > 0
        assert r["epoch_ms"] == pytest.approx(r["train_ms_per_epoch"] + r["eval_ms_per_epoch"])
        assert r["speedup_vs_end_to_end"] == pytest.approx(times["end-to-end"] / r["epoch_ms"])
        assert r["speedup_vs_pyg"] == pytest.approx(times["end-to-end-pyg"] / r["epoch_ms"])
        assert r["infer_rows"] == len(graph.test)
        assert r["title"] == graphs.TITLES[r["method"]]
        assert (r["backbone"], r["batch_size"]) == ("gine" if edges else "gin", 16)
        assert {"precompute_ms", "peak_memory_mb", "hardware", "versions", "date"} <= set(r)
    assert records[0]["precompute_ms"] > 0


@pytest.mark.parametrize("split", ["train", "val", "test"])
def test_pyg_sees_the_graphs_of_a_split_as_they_are(split):
    graph = collection(graphs=20)
    listed = graphs._data_list(graph, split)
    assert len(listed) == len(graph.rows(split))
    for data, number in zip(listed, graph.rows(split).tolist(), strict=True):
        n = int(graph.ptr[number + 1] - graph.ptr[number])
        assert data.num_nodes == n
        assert not data.edge_index.numel() or 0 <= int(data.edge_index.min()) <= int(data.edge_index.max()) < n
        assert len(data.edge_attr) == data.edge_index.shape[1]
        assert int(data.y) == int(graph.y[number])
