"""``rapgnn bench``."""

import json

from commands import SBM, refused


def test_bench_depth(rapgnn, tmp_path):
    out = tmp_path / "b.json"
    arguments = ("bench", "depth", SBM, "--layers", "1,2", "--hidden", 8, "--repeats", 1, "--json", out)
    code, text, err = rapgnn(*arguments, "--plot", tmp_path / "b.svg")
    assert code == 0, err
    records = json.loads(out.read_text())
    assert len(records) == 12
    assert all(r["train_ms_per_epoch"] > 0 for r in records)
    assert "GCNConv" in text


def test_bench_graphs(rapgnn, small_molecules, tmp_path, monkeypatch):
    target = tmp_path / "b.json"
    arguments = ("--layers", 2, "--hidden", 8, "--batch-size", 16, "--repeats", 1, "--json", target)
    code, out, err = rapgnn("bench", "graphs", small_molecules, *arguments)
    assert code == 0, err
    records = json.loads(target.read_text())
    assert [r["method"] for r in records] == ["rap", "rap-stepwise", "end-to-end", "end-to-end-pyg"]
    assert all(r["train_ms_per_epoch"] > 0 for r in records)
    assert "than PyG" in out
    refused(rapgnn("bench", "graphs", SBM), "is one graph")
