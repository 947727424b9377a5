"""``rapgnn bench``: every command as a user types it, on tiny graphs; a run that was stopped goes on."""

import json

import pytest

from commands import SBM, refused
from rapgnn.experiments.bench import depth, graphs, memory, rivals
from rapgnn.experiments.bench.generated import SIZES, PowerLaw


@pytest.fixture(autouse=True)
def _short(monkeypatch):
    monkeypatch.setattr(depth, "SHORTCUT_EPOCHS", 4)
    monkeypatch.setattr(graphs, "SHORTCUT_EPOCHS", 2)


def test_bench_depth_and_its_rerun(rapgnn, tmp_path, readable_plot, monkeypatch):
    out, plot = tmp_path / "b.json", tmp_path / "b.png"
    arguments = ("bench", "depth", SBM, "--layers", "1,2", "--hidden", 8, "--repeats", 1, "--json", out)
    code, text, err = rapgnn(*arguments, "--plot", plot)
    assert code == 0, err
    records = json.loads(out.read_text())
    assert len(records) == 2 * len(depth.TITLES)
    assert all(r["train_ms_per_epoch"] > 0 and r["epoch_ms"] >= r["train_ms_per_epoch"] for r in records)
    assert all(r["command"].startswith("rapgnn bench depth") for r in records)
    assert "GCNConv" in text
    readable_plot(plot)

    out.write_text(json.dumps(records[:5]))  # as if it had been stopped
    calls = []
    monkeypatch.setattr(depth, "measure", lambda name, *_: calls.append(name) or {"train_ms_per_epoch": 1.0})
    code, _, err = rapgnn(*arguments, "--methods", ",".join(depth.TITLES))
    assert code == 0, err
    assert "5 rows were there from an earlier run" in err
    again = json.loads(out.read_text())
    assert [(r["num_layers"], r["method"]) for r in again] == [(r["num_layers"], r["method"]) for r in records]
    assert [r["train_ms_per_epoch"] for r in again[:5]] == [r["train_ms_per_epoch"] for r in records[:5]]
    assert len(calls) == 15 + len(depth.TITLES)  # those that were missing, and the warm-up

    calls.clear()
    assert rapgnn(*arguments, "--again")[0] == 0
    assert len(calls) == 3 * len(depth.TITLES)


def test_bench_graphs(rapgnn, small_molecules, tmp_path, readable_plot):
    target, plot = tmp_path / "b.json", tmp_path / "b.png"
    arguments = ("--layers", 2, "--hidden", 8, "--batch-size", 16, "--repeats", 1, "--json", target, "--plot", plot)
    code, out, err = rapgnn("bench", "graphs", small_molecules, *arguments)
    assert code == 0, err
    records = json.loads(target.read_text())
    assert [r["method"] for r in records] == ["rap", "rap-stepwise", "end-to-end", "end-to-end-pyg"]
    assert all(r["train_ms_per_epoch"] > 0 and r["infer_ms"] > 0 for r in records)
    assert "vs PyG" in out
    readable_plot(plot)
    refused(rapgnn("bench", "graphs", SBM), "is one graph")
    refused(rapgnn("bench", "depth", small_molecules), "is a set of graphs")


def test_bench_memory(rapgnn, tmp_path, readable_plot, monkeypatch):
    """In this process instead of a child's: what a child does has a test of its own."""
    monkeypatch.setattr(memory, "in_child", lambda request: memory.peak_of(request, memory.load(request)))
    target, plot = tmp_path / "b.json", tmp_path / "b.png"
    arguments = ("--layers", "1,2", "--hidden", 8, "--share", 0.001, "--methods", "rap,end-to-end", "--json", target)
    code, out, err = rapgnn("bench", "memory", SBM, *arguments, "--plot", plot)
    assert code == 0, err
    records = json.loads(target.read_text())
    assert [(r["method"], r["num_layers"]) for r in records] == [
        *(("rap", 1), ("end-to-end", 1), ("rap", 2), ("end-to-end", 2)),
        *(("rap", 4), ("end-to-end", 4)),
    ]
    assert records[-1]["nodes"] == 133
    assert "0.001 of ogbn-proteins' size" in out
    readable_plot(plot)
    refused(rapgnn("bench", "memory", "none", "--share", 0), "nothing to measure")
    refused(rapgnn("bench", "memory", "none", "--share", 2), "at most 1")
    refused(rapgnn("bench", "memory", "none", "--methods", "magic"), "'magic'")


def test_bench_scale(rapgnn, tmp_path, readable_plot, monkeypatch):
    for name, factor in (("tiny", 1), ("small", 3)):
        monkeypatch.setitem(SIZES, name, PowerLaw(100 * factor, 400 * factor, 6, 3, train=20, val=10, test=10))
    target, plot = tmp_path / "b.json", tmp_path / "b.png"
    arguments = ("--sizes", "tiny,small", "--widths", "4,8", "--epochs", 3, "--json", target, "--plot", plot)
    code, out, err = rapgnn("bench", "scale", *arguments)
    assert code == 0, err
    records = json.loads(target.read_text())
    assert [r["size"] for r in records if r["method"] == "rap"] == ["tiny", "tiny", "small", "small"]
    assert {r["against"] for r in records if r["method"] == "slope"} == {"edges", "hidden_channels"}
    assert "log-log slopes" in out
    readable_plot(plot)
    refused(rapgnn("bench", "scale", "--sizes", "huge"), "'huge'")
    refused(rapgnn("bench", "scale", "--epochs", 0), "--epochs")


def test_bench_spmm(rapgnn, tmp_path, readable_plot):
    target, plot = tmp_path / "b.json", tmp_path / "b.png"
    arguments = ("--widths", "4", "--nodes", 60, "--edges", 200, "--repeats", 2, "--json", target, "--plot", plot)
    code, out, err = rapgnn("bench", "spmm", f"{SBM},generated".replace(SBM, "sbm"), *arguments)
    assert code == 0, err
    records = json.loads(target.read_text())
    assert {r["dataset"] for r in records} == {"sbm", "power-law"}
    assert {r["order"] for r in records} == {"given", "degree", "rcm"}
    assert all(r["ms"] > 0 for r in records)
    assert "of a copy" in out
    readable_plot(plot)
    refused(rapgnn("bench", "spmm", "sbm", "--orders", "random"), "'random'")


def test_bench_peers(rapgnn, tmp_path, readable_plot, monkeypatch):
    for rival in rivals.RIVALS.values():
        monkeypatch.setitem(rival.published, "epochs", 2)
        monkeypatch.setitem(rival.ranges, "epochs", (2,))
    target, plot = tmp_path / "b.json", tmp_path / "b.png"
    arguments = ("--methods", "rap,sgc", "--trials", 2, "--repeats", 2, "--json", target, "--plot", plot)
    code, out, err = rapgnn("bench", "peers", "sbm", *arguments)
    assert code == 0, err
    records = json.loads(target.read_text())
    assert [(r["method"], r["kind"]) for r in records] == [("rap", "known"), ("sgc", "published"), ("sgc", "tuned")]
    assert all(0 <= r["mean"] <= 1 and r["seconds"] > 0 for r in records)
    assert "SGC" in out
    readable_plot(plot)


def test_bench_files(rapgnn, tmp_path):
    code, out, err = rapgnn("bench", "files", "--edges", 300, "--json", tmp_path / "b.json")
    assert code == 0, err
    assert [r["ids"] for r in json.loads((tmp_path / "b.json").read_text())] == ["numbers", "words"]
    assert "words" in out


def test_a_file_that_holds_something_else_is_not_overwritten(rapgnn, tmp_path):
    target = tmp_path / "notes.json"
    target.write_text('{"mine": 1}')
    refused(rapgnn("bench", "files", "--edges", 300, "--json", target), "holds no records")
    assert target.read_text() == '{"mine": 1}'
