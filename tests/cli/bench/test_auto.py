"""``rapgnn bench auto`` as a user types it."""

import json

import pytest

from rapgnn.datasets.synthetic import BlockModel
from rapgnn.experiments.bench import auto
from rapgnn.experiments.bench.suite import compare, tuning
from rapgnn.experiments.bench.suite.registry import NODES, SUITE, Entry
from rapgnn.experiments.bench.unseen import UNSEEN, Unseen

MAKE = BlockModel(nodes=80, classes=2, features=6, signal=3.0, train=8, val=20, test=30).generate


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    for registry in (SUITE, NODES):
        monkeypatch.setitem(registry, "tiny", Entry("for tests", "accuracy", (MAKE,)))
    monkeypatch.setitem(UNSEEN, "tiny", Unseen("for tests", MAKE))
    monkeypatch.setattr(auto, "EPOCHS", 2)
    for module in (compare, tuning):
        real = module.train_rival
        monkeypatch.setattr(module, "train_rival", lambda *a, real=real, **k: real(*a, **{**k, "epochs": 2}))


def test_the_gcn_alone_as_before(rapgnn, tmp_path):
    target = tmp_path / "a.json"
    code, out, err = rapgnn("bench", "auto", "--graphs", "tiny", "--trials", 2, "--seeds", 1, "--json", target)
    assert code == 0, err
    assert [record["dataset"] for record in json.loads(target.read_text())] == ["tiny"]
    assert "tuned PyG GCN" in out


def test_rivals_first_then_ours(rapgnn, tmp_path):
    folder, target, table = tmp_path / "rivals", tmp_path / "ours.json", tmp_path / "suite.md"
    common = ("bench", "auto", "--suite", "nodes", "--graphs", "tiny", "--trials", 2, "--seeds", 1, "--rivals", folder)
    code, out, err = rapgnn(*common, "--measure", "rivals")
    assert code == 0, err
    assert [line.split()[:2] for line in out.splitlines()] == [
        ["tiny", "GCN"],
        ["tiny", "APPNP"],
        ["tiny", "GraphSAGE"],
    ]
    assert sorted(path.name for path in folder.iterdir()) == ["tiny-appnp.json", "tiny-gcn.json", "tiny-sage.json"]
    code, out, err = rapgnn(*common, "--measure", "ours", "--json", target, "--table", table)
    assert code == 0, err
    (record,) = json.loads(target.read_text())
    assert len(record["rivals"]) == 3
    assert record["command"].startswith("rapgnn ")
    assert record["best_rival"] in out
    assert "| tiny | for tests | accuracy |" in table.read_text()


def test_what_does_not_go_together_is_refused(rapgnn, tmp_path):
    for words, said in (
        (("--measure", "ours"), "--suite"),
        (("--suite", "nodes", "--measure", "ours"), "needs --rivals"),
        (("--suite", "most"), "'most'"),
        (("--suite", "all", "--measure", "theirs"), "'theirs'"),
        (("--suite", "nodes", "--graphs", "digits"), "'digits'"),
        (("--suite", "nodes", "--workers", 0), "--workers"),
    ):
        code, _, err = rapgnn("bench", "auto", *words)
        assert code != 0
        assert said in err
