"""``rapgnn fit``, ``evaluate`` and ``predict``."""

import json

import pandas as pd
import pytest

from commands import refused

SBM = "sbm:nodes=300,classes=3,features=12,signal=3,train=10,val=60,test=100,seed=1"


def test_one_network_from_the_shell(rapgnn, tmp_path):
    model, record = tmp_path / "model", tmp_path / "fit.json"
    described = ("--no-search", "--set", "units=32", "--set", "scaling=standard")
    code, out, err = rapgnn("fit", SBM, "--out", model, "--json", record, *described)
    assert code == 0, err
    assert "as described: gcn, 2 hops side by side, standardised features, 32 random features, ridge" in out
    code, _, err = rapgnn("predict", model, SBM, "--out", tmp_path / "p.csv")
    assert code == 0, err
    assert len(pd.read_csv(tmp_path / "p.csv")) == 300


def test_predictions_are_explained_from_the_shell(rapgnn, plants, tmp_path):
    model, told = tmp_path / "model", tmp_path / "p.json"
    words = ("predict", model, plants, "--out", tmp_path / "p.csv", "--json", told)
    assert rapgnn("fit", plants, "--out", model, "--no-search")[0] == 0
    code, out, err = rapgnn(*words, "--explain", "plant 7, plant 3")
    assert code == 0, err
    explanations = json.loads(told.read_text())[0]["explanations"]
    assert [one["row"] for one in explanations] == ["plant 7", "plant 3"]
    first = explanations[0]
    label = pd.read_csv(tmp_path / "p.csv").set_index("id").loc["plant 7", "label"]
    assert out.startswith(f"plant 7: {label}, ")
    moved = [one["contribution"] for name in ("columns", "labels") for one in first[name]]
    assert first["base"] + sum(moved) == pytest.approx(first["score"], abs=1e-5)
    refused(rapgnn(*words, "--explain", "weed"), "no row has the id 'weed'")
    assert rapgnn("predict", model, plants, "--out", tmp_path / "p.csv")[1].startswith("wrote")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("fit", SBM, "--out", "m", "--set", "unist=3"), "unknown setting 'unist'"),
        (("fit", SBM, "--out", "m", "--set", "units"), "--set takes name=value"),
        (("fit", SBM, "--out", "m", "--set", "units=3", "--memory", "4GiB"), "fixed coefficients"),
        (("evaluate", "nowhere", SBM), "holds no model"),
        (("predict", "nowhere", SBM, "--out", "p.txt"), "must end in .csv, .parquet"),
        (("fit", SBM, "--out", "file"), "it is a file"),
        (("fit", SBM, "--out", "full"), "holds other files"),
    ],
)
def test_bad_commands_are_refused(rapgnn, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    (tmp_path / "full").mkdir()
    (tmp_path / "full/thing").write_text("")
    code, _, err = rapgnn(*arguments)
    assert code == 2
    assert words in err
    assert len(err.strip().splitlines()) == 1
