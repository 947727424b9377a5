"""What commands say about how good a model is, and the metrics and weights a user may choose by."""

import json

import numpy as np
import pandas as pd
import pytest

from commands import SBM, refused
from folders import many, tables, write


@pytest.fixture
def fraud(tmp_path):
    """Nine of ten accounts are fine; features say little."""
    rng = np.random.default_rng(3)
    n = 900
    bad = rng.random(n) < 0.1
    nodes = pd.DataFrame(rng.normal(size=(n, 4)), columns=list("abcd"))
    nodes["a"] += 0.8 * bad
    nodes["label"] = np.where(bad, "fraud", "fine")
    members = {kind: np.flatnonzero(bad == kind) for kind in (False, True)}
    source = np.repeat(np.arange(n), 3)
    near = np.array([rng.choice(members[bad[u]]) for u in source])
    target = np.where(rng.random(len(source)) < 0.3, near, rng.integers(n, size=len(source)))
    nodes.loc[:9, "label"] = ""
    return write(tmp_path / "fraud", nodes=nodes, edges=pd.DataFrame({"source": source, "target": target}))


def fitted(rapgnn, tmp_path, *arguments):
    report = tmp_path / "fit.json"
    code, out, err = rapgnn("fit", *arguments, "--out", tmp_path / "model", "--json", report)
    assert code == 0, err
    lines = out.partition("\nnext: ")[0].splitlines()  # paths below are as long as they are
    said = lines[next(i for i, line in enumerate(lines) if line.startswith("train ")) :]
    assert max(map(len, said)) <= 80
    assert len(said) <= 32
    return json.loads(report.read_text())[0], out, err


def test_fit_says_that_accuracy_alone_is_useless_where_one_class_is_rare(rapgnn, fraud, tmp_path):
    record, out, _ = fitted(rapgnn, tmp_path, fraud)
    assert record["test"] < record["majority"] + 0.05
    assert "accuracy alone says little" in out
    assert "always the same answer" in out
    assert "without edges" in out
    for key in ("balanced_accuracy", "rocauc", "average_precision", "calibration_error", "without_edges"):
        assert 0 <= record[key] <= 1
    assert [row["class"] for row in record["per_class"]] == ["fine", "fraud"]


def test_fit_by_another_metric_beats_the_majority(rapgnn, fraud, tmp_path):
    record, out, _ = fitted(rapgnn, tmp_path, fraud, "--metric", "rocauc")
    assert record["metric"] == "rocauc"
    assert record["majority"] == pytest.approx(0.5)
    assert record["test"] > 0.65
    assert "test   ROC-AUC" in out
    weighed, _, _ = fitted(rapgnn, tmp_path, fraud, "--metric", "balanced_accuracy", "--class-weight", "balanced")
    assert sorted(weighed["class_weight"]) == ["fine", "fraud"]
    assert weighed["per_class"][1]["recall"] > 0.4


def test_evaluate_says_the_same_or_why_not(rapgnn, fraud, tmp_path):
    record, _, _ = fitted(rapgnn, tmp_path, fraud)
    nodes = pd.read_csv(fraud / "nodes.csv").assign(split="")
    nodes.loc[10:, "split"] = np.where(np.arange(890) % 2, "train", "test")
    write(fraud, nodes=nodes)
    report = tmp_path / "e.json"
    code, out, err = rapgnn("evaluate", tmp_path / "model", fraud, "--json", report)
    assert code == 0, err
    found = json.loads(report.read_text())[0]
    assert found["without_edges"] is not None
    assert set(record) - set(found) == {"candidates", "class_weight", "config", "engine", "val"}
    write(fraud, nodes=nodes.assign(split=nodes["split"].replace("train", "")))
    code, out, err = rapgnn("evaluate", tmp_path / "model", fraud, "--json", report)
    assert code == 0, err
    assert "there is no model without edges: the data have no training rows." in out
    assert json.loads(report.read_text())[0]["without_edges"] is None


def test_many_classes_are_counted_and_numbers_have_no_classes(rapgnn, tmp_path):
    sbm = "sbm:nodes=500,classes=25,features=30,train=5,val=50,test=100"
    _, out, _ = fitted(rapgnn, tmp_path, sbm, "--head", "ridge", "--layers", 1)
    assert "and 5 classes more" in out
    frames = many(60)
    frames["graphs"]["label"] = np.linspace(0.5, 9.5, 60)
    numbers = write(tmp_path / "numbers", **frames)
    record, out, _ = fitted(rapgnn, tmp_path, numbers, "--metric", "mae")
    assert "mean absolute error" in out
    assert "r2" in record
    assert "per_class" not in record


def test_predictions_say_every_probability_and_which_labels_were_known(rapgnn, fraud, tmp_path):
    fitted(rapgnn, tmp_path, fraud, "--head", "ridge", "--layers", 2)
    table = tmp_path / "p.csv"
    code, _, err = rapgnn("predict", tmp_path / "model", fraud, "--out", table, "--probabilities")
    assert code == 0, err
    found = pd.read_csv(table)
    assert list(found.columns)[-3:] == ["probability_fine", "probability_fraud", "known"]
    np.testing.assert_allclose(found["probability_fine"] + found["probability_fraud"], 1, atol=1e-5)
    np.testing.assert_allclose(found[["probability_fine", "probability_fraud"]].max(axis=1), found["probability"])
    assert list(found["known"]) == ["no"] * 10 + ["yes"] * 890
    nodes = pd.read_csv(fraud / "nodes.csv")
    write(fraud, nodes=nodes.drop(columns="label"))
    code, _, err = rapgnn("predict", tmp_path / "model", fraud, "--out", table)
    assert code == 0
    assert "not read" not in err
    assert set(pd.read_csv(table)["known"]) == {"no"}
    write(fraud, nodes=nodes.assign(label="new"))
    code, _, err = rapgnn("predict", tmp_path / "model", fraud, "--out", table)
    assert code == 0
    assert "the labels in the data were not read" in err


def test_a_made_up_validation_split_is_said(rapgnn, tmp_path):
    nodes, edges = tables()
    nodes["split"] = np.where(np.arange(90) % 3, "train", "test")
    _, _, err = fitted(rapgnn, tmp_path, write(tmp_path / "plants", nodes=nodes, edges=edges))
    assert "no validation rows were given: 12 of the 60 training rows serve" in err
    assert "solved again with the held-out rows" in err
    frames = many(40)
    frames["graphs"]["split"] = np.where(np.arange(40) % 4, "train", "test")
    _, _, err = fitted(rapgnn, tmp_path, write(tmp_path / "shapes", **frames))
    assert "no validation rows were given" in err


def test_goals_that_do_not_exist_are_refused(rapgnn, tmp_path):
    out = ("--out", tmp_path / "m")
    refused(rapgnn("fit", SBM, *out, "--metric", "rmse"), "rmse is no metric for classes")
    refused(rapgnn("fit", SBM, *out, "--metric", "best"), "metric 'best' is unknown")
    refused(rapgnn("fit", SBM, *out, "--class-weight", "even"), "--class-weight takes balanced")
    refused(rapgnn("tune", SBM, "--metric", "r2", "--storage", tmp_path / "t.db"), "r2 is no metric for classes")


def test_numbers_for_nodes_are_refused_with_what_to_do(rapgnn, tmp_path):
    nodes, edges = tables()
    folder = write(tmp_path / "plants", nodes=nodes.assign(label=np.linspace(0, 1, 90)), edges=edges)
    words = "there is no regression for nodes, so divide the numbers into classes first"
    refused(rapgnn("fit", folder, "--out", tmp_path / "m"), words)
    whole = write(tmp_path / "whole", nodes=nodes.assign(label=np.arange(90) % 7), edges=edges)
    code, _, err = rapgnn("fit", whole, "--out", tmp_path / "m", "--task", "regression")
    assert code == 2
    assert words in err
