"""``rapgnn tune``, and the reservoir systems in ``rapgnn compare``."""

import json

from commands import SBM, refused
from rapgnn_lab.baselines.systems import METHODS
from trials import trial_records

TINY = "sbm:nodes=60,classes=2,features=4,train=5,val=20,test=20"


def test_tune_minimises_an_error(rapgnn, small_molecules, tmp_path):
    target = tmp_path / "t.json"
    arguments = ("--trials", 2, "--seeds", 1, "--storage", tmp_path / "t.db", "--json", target)
    code, _, err = rapgnn("tune", small_molecules, "--embedding", "fixed-random", *arguments)
    assert code == 0, err
    (best,) = json.loads(target.read_text())
    assert best["metric"] == "rmse"
    values = [r["value"] for r in trial_records(tmp_path / "t.db")]
    assert best["val_values"][0] in values
    assert len(values) == best["trials"] == 2


def test_tune_saves_the_best_model(rapgnn, tmp_path):
    out, records = tmp_path / "model", tmp_path / "t.json"
    arguments = ("--trials", 1, "--seeds", 1, "--storage", tmp_path / "t.db", "--out", out, "--json", records)
    code, text, err = rapgnn("tune", TINY, *arguments)
    assert code == 0, err
    best = json.loads(records.read_text())[0]
    assert best["space"] == "any"
    assert json.loads((out / "checkpoint.json").read_text())["config"]["embedding"] == best["embedding"]
    scores = [line for line in text.splitlines() if line.split()[0] in ("train", "val", "test")]
    assert len(scores) == 3
    val = f"{100 * best['saved']['validation_score']:.2f} %"  # which evaluate cannot know
    code, text, err = rapgnn("evaluate", out, TINY)
    assert code == 0, err
    assert text.splitlines()[:3] == [line.removesuffix(f" ({val} corrected for the choice)") for line in scores]
    assert best["saved"]["val"] == best["val_values"][0]  # seed 0 is that of the search


def test_tune_refuses_in_one_sentence(rapgnn, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "other").write_text("")
    (tmp_path / "file").write_text("not a database, but long enough to look at" * 100)
    for said, *words in (
        ("not a database of trials", "--storage", "file"),
        ("at least 1", "--trials", 0),
        ("other files", "--out", "full"),
        ("it is a file", "--out", "file"),
        ("cannot write", "--out", "/proc/x"),
        ("random layers", "--method", "end-to-end", "--out", "m"),
        ("'learnable-linear'", "--embedding", "learnable-linear"),  # of the paper's space alone
        ("'all'", "--space", "all"),
        ("'fdgnn'", "--method", "fdgnn"),  # a search is for strategies
    ):
        refused(rapgnn("tune", TINY, *words), said)
    assert not (tmp_path / "tune.db").exists()
    refused(rapgnn("tune", TINY, "--space", "faithful"), "sbm")  # none of the paper's datasets


def test_reservoir_systems_are_methods_by_name(rapgnn, small_molecules, tmp_path):
    arguments = ("--methods", "rap,u-gcn,mrgnn", "--epochs", 5, "--seeds", 1, "--json", tmp_path / "r.json")
    code, out, err = rapgnn("compare", small_molecules, *arguments)
    assert code == 0, err
    records = json.loads((tmp_path / "r.json").read_text())
    assert [r["method"] for r in records] == ["rap", "u-gcn", "mrgnn"]
    for r in records[1:]:
        assert r["chosen"][0]["units"] > 0
        assert METHODS[r["method"]].title in out
    refused(rapgnn("compare", SBM, "--methods", "reservoirs", "--seeds", 1), "classifies graphs, not nodes")
