"""``rapgnn bench``: every command as a user types it, on tiny graphs; a run that was stopped goes on."""

import json

import networkx as nx
import pytest

from commands import SBM, refused
from rapgnn.datasets.catalog import BlockModel
from rapgnn_lab.bench import answers, depth, fit, links, peers, spmm
from rapgnn_lab.bench.generated import SIZES, PowerLaw
from rapgnn_lab.bench.suite.graphs import GRAPHS, NODES, Entry


@pytest.fixture
def bench(rapgnn, tmp_path, readable_plot):
    """Run a command with a JSON file and, where ``plot`` is given, a plot; its records, output and messages."""

    def run(*words: object, plot: bool = False) -> tuple[list[dict], str, str]:
        target, image = tmp_path / "b.json", tmp_path / "b.png"
        code, out, err = rapgnn("bench", *words, "--json", target, *(("--plot", image) if plot else ()))
        assert code == 0, err
        if plot:
            readable_plot(image)
        return json.loads(target.read_text()), out, err

    return run


def test_bench_depth_and_its_rerun(rapgnn, bench, tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(depth, "measure", lambda name, *_: calls.append(name) or {"epoch_ms": 1.0})
    arguments = ("depth", SBM, "--layers", "1,2", "--hidden", 8, "--repeats", 1)
    records, out, _ = bench(*arguments, plot=True)
    assert len(records) == 2 * len(depth.TITLES)
    assert all(r["command"].startswith("rapgnn bench depth") for r in records)
    assert "GCNConv" in out

    first = [r | {"epoch_ms": 2.0} for r in records[:5]]
    (tmp_path / "b.json").write_text(json.dumps(first))  # as if it had been stopped
    calls.clear()
    again, _, err = bench(*arguments, "--methods", ",".join(depth.TITLES))
    assert "5 rows were there from an earlier run" in err
    assert [(r["num_layers"], r["method"]) for r in again] == [(r["num_layers"], r["method"]) for r in records]
    assert [r["epoch_ms"] for r in again] == [2.0] * 5 + [1.0] * 15
    assert len(calls) == 15 + len(depth.TITLES)  # those that were missing, and the warm-up

    calls.clear()
    bench(*arguments, "--again")
    assert len(calls) == 3 * len(depth.TITLES)


def test_bench_graphs(rapgnn, bench, small_molecules):
    records, out, _ = bench("graphs", small_molecules, "--batch-size", 16, "--repeats", 1)
    assert [r["method"] for r in records] == ["rap", "rap-stepwise", "end-to-end", "end-to-end-pyg"]
    assert all(r["train_ms_per_epoch"] > 0 and r["infer_ms"] > 0 for r in records)
    assert "vs PyG" in out
    refused(rapgnn("bench", "graphs", SBM), "is one graph")
    refused(rapgnn("bench", "depth", small_molecules), "is a set of graphs")


def test_bench_memory(rapgnn, bench, monkeypatch):
    """In this process instead of a child's: what a child does has a test of its own."""
    monkeypatch.setattr(depth, "in_child", lambda request: depth.peak_of(request, depth.load_graph(request)))
    monkeypatch.setattr(depth, "MEMORY_HIDDEN", 8)
    options = ("--layers", "1,2", "--share", 0.001, "--methods", "rap,end-to-end")
    records, out, _ = bench("memory", SBM, *options)
    assert [(r["method"], r["num_layers"]) for r in records] == [
        *(("rap", 1), ("end-to-end", 1), ("rap", 2), ("end-to-end", 2)),
        *(("rap", 4), ("end-to-end", 4)),
    ]
    assert records[-1]["nodes"] == 133
    assert "0.001 of ogbn-proteins' size" in out
    refused(rapgnn("bench", "memory", "none", "--share", 0), "nothing to measure")
    refused(rapgnn("bench", "memory", "none", "--share", 2), "at most 1")
    refused(rapgnn("bench", "memory", "none", "--methods", "magic"), "'magic'")


def test_bench_scale(rapgnn, bench, monkeypatch):
    for name, factor in (("tiny", 1), ("small", 3)):
        monkeypatch.setitem(SIZES, name, PowerLaw(100 * factor, 400 * factor, 6, 3, train=20, val=10, test=10))
    records, out, _ = bench("scale", "--sizes", "tiny,small", "--widths", "4,8")
    assert [r["size"] for r in records if r["method"] == "rap"] == ["tiny", "tiny", "small", "small"]
    assert {r["against"] for r in records if r["method"] == "slope"} == {"edges", "hidden_channels"}
    assert "log-log slopes" in out
    refused(rapgnn("bench", "scale", "--sizes", "huge"), "'huge'")
    refused(rapgnn("bench", "scale", "--widths", "4,none"), "--widths")


def test_bench_spmm(rapgnn, bench, monkeypatch):
    monkeypatch.setattr(spmm, "GENERATED", PowerLaw(60, 200, features=1, train=1, val=0, test=0))
    records, out, _ = bench("spmm", "sbm,generated", "--widths", "4", "--repeats", 2)
    assert {r["dataset"] for r in records} == {"sbm", "power-law"}
    assert all(r["ms"] > 0 for r in records)
    assert "of a copy" in out


def test_bench_peers(rapgnn, bench, monkeypatch):
    for peer in peers.PEERS.values():
        monkeypatch.setitem(peer["published"], "epochs", 2)
        monkeypatch.setitem(peer["ranges"], "epochs", (2,))
    refused(rapgnn("bench", "peers", "sbm:labels=3"), "classifiers of nodes")
    records, out, _ = bench("peers", "sbm", "--methods", "rap,sgc", "--trials", 2, "--repeats", 2)
    assert [(r["method"], r["kind"]) for r in records] == [("rap", "known"), ("sgc", "published"), ("sgc", "tuned")]
    assert all(0 <= r["mean"] <= 1 and r["seconds"] > 0 for r in records)
    assert "SGC" in out


def test_bench_fit(rapgnn, bench, monkeypatch):
    measured = {"fit_seconds": 2.0, "peak_memory_mb": 30.0, "labelled": 9, "mean": 0.5, "of_gcn": 0.4}
    measured["stages"] = {"hops": {"seconds": 1.5, "peak_mb": 20.0}}
    monkeypatch.setattr(fit, "in_child", lambda module, request: measured)
    records, out, _ = bench("fit", "--nodes", "100,1000", "--columns", "8,600", "--labels", 20)
    assert [(r["nodes"], r["features"], r["kind"]) for r in records if r["method"] != "slope"] == [
        (n, c, kind) for n in (100, 1000) for c, kind in ((8, "numbers"), (600, "words"), (600, "dense-words"))
    ]
    assert {r["against"] for r in records if r["method"] == "slope"} == {"nodes"}
    assert "hops 1.50 (20)" in " ".join(out.split())
    refused(rapgnn("bench", "fit", "--labels", "many"), "--labels")


def test_bench_answers(rapgnn, bench, monkeypatch):
    about = {"coverage": 0.9, "mean": 0.92, "farthest_class": 0.03, "set_size": 1.2}
    monkeypatch.setattr(answers, "in_child", lambda _, request: {} if "nodes" in request else about)
    records, out, _ = bench("answers", "--graphs", "roles,useless", "--nodes", "100")
    assert [r["dataset"] for r in records] == ["roles", "useless", "generated", "mean"]
    assert records[-1]["mean"] == 0.92
    assert "92.0" in out
    refused(rapgnn("bench", "answers", "--graphs", "nowhere"), "nowhere")


def test_what_bench_answers_measures(monkeypatch):
    """Sets of a small graph hold most truths, and a served graph answers for new nodes as a whole walk does."""
    make = BlockModel(nodes=1200, classes=2, features=6, signal=1.0, train=100, val=300, test=600, seed=1).generate
    monkeypatch.setitem(GRAPHS, "tiny", Entry("tiny", "accuracy", (make,)))
    record = answers.measure({"dataset": "tiny", "method": "coverage", "seeds": [0]})
    assert 0.8 < record["mean"] < 1
    assert (record["test_rows"], len(record["classes"]), len(record["values"])) == (600, 2, 1)
    record = answers.measure({"dataset": "generated", "method": "new nodes", "nodes": 2000})
    assert record["difference"] < 1e-4
    assert 0 < record["update_seconds"] <= record["longest_update_seconds"]


def test_bench_disk(rapgnn, bench, tmp_path):
    options = ("--share", 0.0005, "--limits", "4GiB", "--folder", tmp_path / "work", "--set", "num_layers=1")
    (record,), _, _ = bench("disk", "products", *options)
    assert (record["memory_limit"], record["nodes"], record["num_layers"]) == ("4GiB", 1225, 1)
    refused(rapgnn("bench", "disk", "huge"), "'huge'")
    refused(rapgnn("bench", "disk", "--limits", "much"), "--limits")
    refused(rapgnn("bench", "disk", "--device-memory", "1GiB"), "--device-memory")


@pytest.fixture
def tiny(monkeypatch):
    make = BlockModel(nodes=80, classes=2, features=6, signal=3.0, train=8, val=20, test=30).generate
    entry = Entry("for tests", "accuracy", (make,), rivals=("gcn", "appnp"))
    monkeypatch.setitem(NODES, "tiny", entry)
    monkeypatch.setitem(GRAPHS, "tiny", entry)


def test_rivals_first_then_ours(rapgnn, bench, tiny, tmp_path):
    folder = tmp_path / "rivals"
    common = ("auto", "--suite", "nodes", "--graphs", "tiny", "--trials", 1, "--seeds", 1, "--rivals", folder)
    code, _, err = rapgnn("bench", *common, "--measure", "rivals")
    assert code == 0, err
    assert sorted(path.name for path in folder.iterdir()) == ["tiny-appnp.json", "tiny-gcn.json", "trials.db"]
    (record,), out, _ = bench(*common, "--measure", "ours")
    assert len(record["rivals"]) == 2
    assert record["command"].startswith("rapgnn ")
    assert record["best_rival"] in out


def test_what_does_not_go_together_is_refused(rapgnn):
    refused(rapgnn("bench", "auto", "--measure", "ours"), "--rivals")
    refused(rapgnn("bench", "auto", "--suite", "most"), "'most'")
    refused(rapgnn("bench", "auto", "--suite", "all", "--measure", "theirs"), "'theirs'")
    refused(rapgnn("bench", "auto", "--suite", "nodes", "--graphs", "molecules"), "'molecules'")


def test_bench_links(bench, monkeypatch):
    monkeypatch.setitem(
        links.GENERATED, "blocks", lambda seed: nx.planted_partition_graph(3, 20, 0.5, 0.02, seed=seed).edges
    )
    monkeypatch.setitem(links.GENERATED, "bipartite", lambda seed: links.bipartite(seed)[:600])
    monkeypatch.setattr(links, "AUTOENCODERS", [{"channels": 8, "epochs": 5}])
    records, out, _ = bench("links", "--graphs", "blocks,bipartite", "--splits", 1)
    assert [r["method"] for r in records if r["dataset"] == "blocks"] == [links.OURS, *links.RIVALS]
    assert {r["method"] for r in records if r["dataset"] == "bipartite"} >= {"EASE", "item-kNN"}
    assert all(r["mean"] == r[r["metric"]] and r["cpu_seconds"] >= 0 for r in records)
    assert "NDCG@20" in out


def test_bench_links_of_a_large_graph(bench, monkeypatch):
    monkeypatch.setattr(links, "MANY", 50)
    monkeypatch.setitem(links.LARGE, "million", lambda seed: nx.gnm_random_graph(60, 300, seed=seed).edges)
    records, _, _ = bench("links", "--graphs", "million", "--splits", 1)
    assert [r["method"] for r in records] == [links.OURS, links.POPULAR]
    assert {"peak_memory_mb", "top_seconds", "top_cpu_seconds"} <= set(records[0])
