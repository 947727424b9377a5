"""``rapgnn tune``."""

import json

import pytest

from commands import SBM, refused
from rapgnn import InputError
from rapgnn.experiments.tune.search import search
from samples import KINDS


def test_tune_refuses_what_is_not_a_study(rapgnn, tmp_path):
    (tmp_path / "t.db").write_text("not a database, but long enough to look at" * 100)
    refused(rapgnn("tune", SBM, "--storage", tmp_path / "t.db", "--trials", 1), "not a database of trials")


def test_tune_minimises_an_error(rapgnn, small_molecules, tmp_path, monkeypatch):
    pytest.importorskip("optuna")
    target = tmp_path / "t.json"
    arguments = ("--trials", 2, "--seeds", 1, "--storage", tmp_path / "t.db", "--json", target, "--space", "wide")
    code, _, err = rapgnn("tune", small_molecules, "--embedding", "fixed-random", *arguments)
    assert code == 0, err
    best = json.loads(target.read_text())[0]
    assert best["metric"] == "rmse"


TINY = "sbm:nodes=60,classes=2,features=4,train=5,val=20,test=20"


def test_tune_saves_the_best_model(rapgnn, tmp_path):
    out, records, plot = tmp_path / "model", tmp_path / "t.json", tmp_path / "t.png"
    arguments = ("--trials", 1, "--seeds", 1, "--storage", tmp_path / "t.db", "--out", out, "--json", records)
    code, text, err = rapgnn("tune", TINY, *arguments, "--plot", plot)
    assert code == 0, err
    assert plot.stat().st_size > 1000
    best = json.loads(records.read_text())[0]
    assert best["space"] == "any"
    assert json.loads((out / "checkpoint.json").read_text())["config"]["embedding"] == best["embedding"]
    scores = [line for line in text.splitlines() if line.split()[0] in ("train", "val", "test")]
    assert len(scores) == 3
    code, text, err = rapgnn("evaluate", out, TINY)
    assert code == 0, err
    assert text.splitlines()[:3] == scores
    assert best["saved"]["val"] == best["val_values"][0]  # seed 0 is that of the search


def test_tune_refuses_in_one_sentence(rapgnn, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "other").write_text("")
    (tmp_path / "file").write_text("")
    refused(rapgnn("tune", TINY, "--workers", 0), "workers", "at least 1")
    refused(rapgnn("tune", TINY, "--out", "full"), "other files")
    refused(rapgnn("tune", TINY, "--out", "file"), "it is a file")
    refused(rapgnn("tune", TINY, "--out", "/proc/x"), "cannot write")
    refused(rapgnn("tune", TINY, "--plot", "t.txt"), ".png")
    refused(rapgnn("tune", TINY, "--method", "end-to-end", "--out", "m"), "random layers")
    refused(rapgnn("tune", TINY, "--embedding", "magic"), "'magic'")
    assert not (tmp_path / "tune.db").exists()
    with pytest.raises(InputError, match="workers"):
        search(KINDS["signed"], "rap", tmp_path / "t.db", trials=1, workers=0)
