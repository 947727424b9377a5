"""What commands say about how good a model is, and the metrics and weights a user may choose by."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import average_precision_score

from commands import SBM, refused
from folders import many, tables, write
from rapgnn import load_model


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


def test_average_precision_is_that_of_the_class_one_looks_for(rapgnn, fraud, tmp_path):
    nodes = pd.read_csv(fraud / "nodes.csv").assign(
        split=np.array(["train", "train", "val", "test"])[np.arange(900) % 4]
    )
    nodes.loc[:9, "split"] = ""
    record, out, _ = fitted(rapgnn, tmp_path, write(fraud, nodes=nodes), "--metric", "f1_weighted")
    assert "by weighted F1: " in out
    assert "average precision of fraud (chance" in out
    model, rows = load_model(tmp_path / "model"), np.flatnonzero(nodes["split"] == "test")
    for j, (name, options) in enumerate({"fine": ("--positive", "fine"), "fraud": ()}.items()):
        p, y = model.predict_proba(fraud)[rows, j], nodes["label"].to_numpy()[rows] == name
        code, out, err = rapgnn("evaluate", tmp_path / "model", fraud, *options, "--json", tmp_path / "e.json")
        assert code == 0, err
        found = json.loads((tmp_path / "e.json").read_text())[0]
        assert (found["metric"], found["positive"]) == ("f1_weighted", name)
        assert found["average_precision"] == pytest.approx(average_precision_score(y, p))
        assert found["positive_share"] == pytest.approx(y.mean())
    assert record["average_precision"] == pytest.approx(found["average_precision"])
    assert "positive class 'theft' is none" in rapgnn("evaluate", tmp_path / "model", fraud, "--positive", "theft")[2]


def test_few_rows_have_no_verdict(rapgnn, tmp_path):
    sbm = "sbm:nodes=200,classes=2,features=8,train=5,val=40,test=19"
    record, _, _ = fitted(rapgnn, tmp_path, sbm, "--no-search")
    assert record["verdict"] == ["19 rows are too few for a verdict: at least 20 would tell something."]


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
    assert load_model(tmp_path / "model").evaluate(fraud).items() <= found.items()  # in Python, too
    assert set(record) - set(found) == {"candidates", "class_weight", "config", "engine", "val", "validation_score"}
    write(fraud, nodes=nodes.assign(split=nodes["split"].replace("train", "")))
    code, out, err = rapgnn("evaluate", tmp_path / "model", fraud, "--json", report)
    assert code == 0, err
    assert "there is no model without edges: the data have no training rows." in out
    assert json.loads(report.read_text())[0]["without_edges"] is None


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


def test_goals_that_do_not_exist_are_refused(rapgnn, tmp_path):
    out = ("--out", tmp_path / "m")
    refused(rapgnn("fit", SBM, *out, "--metric", "rmse"), "rmse is no metric for classes")
    refused(rapgnn("fit", SBM, *out, "--metric", "best"), "metric 'best' is unknown")
    refused(rapgnn("fit", SBM, *out, "--class-weight", "even"), "--class-weight takes balanced")


def test_whole_numbers_and_several_targets_of_nodes(rapgnn, tmp_path):
    nodes, edges = tables()
    whole = write(tmp_path / "whole", nodes=nodes.assign(label=np.arange(90) % 7), edges=edges)
    assert fitted(rapgnn, tmp_path, whole)[0]["task"] == "node-classification"
    assert fitted(rapgnn, tmp_path, whole, "--task", "regression")[0]["task"] == "node-regression"
    words = write(tmp_path / "words", nodes=nodes, edges=edges)
    refused(rapgnn("fit", words, "--out", tmp_path / "m", "--task", "regression"), "targets of a regression must be")
    two = nodes.drop(columns="label").assign(label_tall=nodes["height"], label_green=nodes["leaves"])
    folder, table = write(tmp_path / "two", nodes=two, edges=edges), tmp_path / "p.csv"
    assert fitted(rapgnn, tmp_path, folder)[0]["task"] == "node-regression"
    assert rapgnn("predict", tmp_path / "model", folder, "--out", table)[0] == 0
    wanted = ["id", "value_tall", "spread_tall", "value_green", "spread_green", "known"]
    assert list(pd.read_csv(table).columns) == wanted
    swapped = two[["id", "height", "leaves", "colour", "label_green", "label_tall"]]  # the model knows the names
    report = tmp_path / "e.json"
    other = write(tmp_path / "swapped", nodes=swapped, edges=edges)
    assert rapgnn("evaluate", tmp_path / "model", other, "--json", report)[0] == 0
    assert json.loads(report.read_text())[0]["r2"] > 0.9
    graphs = many(40)
    sizes = graphs["nodes"].groupby("graph").size().reindex(graphs["graphs"]["id"]).to_numpy()
    graphs["graphs"] = graphs["graphs"].drop(columns="label").assign(label_n=sizes + 0.5, label_twice=2.0 * sizes)
    record, _, _ = fitted(rapgnn, tmp_path, write(tmp_path / "graphs", **graphs))
    assert record["task"] == "graph-regression"
    assert record["r2"] > 0.9
