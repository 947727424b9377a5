"""What counts as good, and from where on the answer is yes: scikit-learn's metrics, the class looked for."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import average_precision_score, f1_score, fbeta_score, make_scorer, matthews_corrcoef

from folders import write
from rapgnn import InputError, RAPGraphRegressor, RAPNodeClassifier, load_model
from samples import graph_list, node_data, rare


def named(graph=None):
    """A graph with a rare class, called ``fraud``."""
    graph = rare() if graph is None else graph
    words = np.array(["fine", "fraud"])[graph.y.numpy()]
    masks = {split: getattr(graph, split).numpy() for split in ("train", "val", "test")}
    return {"data": graph.x, "y": words, "edge_index": graph.edge_index, **masks}


def rule(estimator, X, y):
    """A scorer of one's own: it sees an estimator with scikit-learn's methods, and labels as the user calls them."""
    assert set(np.unique(y)) <= {"fine", "fraud"}
    assert estimator.predict_proba(X).shape == (len(y), 2)
    return float((estimator.predict(X) == y).mean())


SCORERS = (
    "f1",
    "roc_auc",
    "neg_log_loss",
    "matthews_corrcoef",
    make_scorer(fbeta_score, beta=2, pos_label="fraud"),
    rule,
)


@pytest.mark.parametrize("scoring", SCORERS, ids=lambda one: getattr(one, "__name__", str(one)))
def test_scikit_learns_names_and_any_scorer_choose_and_score(scoring):
    given = named(rare(nodes=600))
    data = given.pop("data")
    shape = {"edge_index": given["edge_index"]}
    model = RAPNodeClassifier(num_layers=2, scoring=scoring, pos_label="fraud").fit(data, **given)
    test, y = given["test"], given["y"]
    answers, p = model.predict(data, **shape)[test], model.predict_proba(data, **shape)[test]
    assert np.isfinite(model.validation_score_)
    score = model.score(data, y, split="test", edge_index=given["edge_index"], train=given["train"], test=test)
    if scoring == "f1":
        assert score == pytest.approx(f1_score(y[test], answers, pos_label="fraud"))
    if scoring == "matthews_corrcoef":
        assert score == pytest.approx(matthews_corrcoef(y[test], answers))
    if scoring is rule:
        assert score == pytest.approx((answers == y[test]).mean())
    assert p.shape[1] == 2


def test_metrics_of_sklearn_and_numbers_will_do():
    graphs = graph_list(regression=True)
    model = RAPGraphRegressor(scoring="neg_median_absolute_error", search=False).fit(graphs)
    wanted = -np.median(np.abs(model.predict(graphs) - [float(g.y) for g in graphs]))
    assert model.score(graphs) == pytest.approx(wanted, rel=1e-4)
    data = node_data()
    assert RAPNodeClassifier(scoring=matthews_corrcoef, search=False).fit(data).score(data) > 0.7
    for wrong in ("f2", 3, lambda estimator: 1.0):
        with pytest.raises(InputError):
            RAPNodeClassifier(scoring=wrong).fit(data)


def test_the_class_looked_for_has_the_metrics_of_one_class(tmp_path):
    given = named()
    data, y, test, edges = given.pop("data"), given["y"], given["test"], {"edge_index": given["edge_index"]}
    model = RAPNodeClassifier(search=False, scoring="average_precision", pos_label="fine").fit(data, **given)
    p = model.predict_proba(data, **edges)[test]
    wanted = average_precision_score(y[test] == "fine", p[:, 0])
    assert model.score(data, y, split="test", test=test, train=given["train"], **edges) == pytest.approx(wanted)
    model.save(tmp_path / "m")
    assert load_model(tmp_path / "m").pos_label == "fine"
    with pytest.raises(InputError, match="'moss' is none of the classes: fine, fraud"):
        RAPNodeClassifier(pos_label="moss").fit(data, **given)
    with pytest.raises(InputError, match="for two classes"):
        RAPNodeClassifier(pos_label=1).fit(node_data())


def test_a_threshold_as_given_or_the_best_for_a_metric_or_costs(tmp_path):
    given = named()
    data, y, test = given.pop("data"), given["y"], given["test"]
    shape = {"edge_index": given["edge_index"]}
    plain = RAPNodeClassifier(search=False, pos_label="fraud").fit(data, **given)
    p = plain.predict_proba(data, **shape)
    fixed = plain.set_params(threshold=0.2)
    assert ((fixed.predict(data, **shape) == "fraud") == (p[:, 1] >= 0.2)).all()
    np.testing.assert_array_equal(fixed.predict_proba(data, **shape), p)  # probabilities stay what they are
    fixed.save(tmp_path / "m")
    np.testing.assert_array_equal(load_model(tmp_path / "m").predict(data, **shape), fixed.predict(data, **shape))
    chosen = plain.set_params(threshold="f1")
    judged = chosen.model_.fit_rows
    values = judged.probabilities[:, 1].numpy()
    best = max(f1_score(judged.y, values >= t) for t in np.unique(values))
    assert f1_score(judged.y, values >= chosen.threshold_) == pytest.approx(best, abs=0.02)
    half = f1_score(y[test], np.where(p[test, 1] >= 0.5, "fraud", "fine"), pos_label="fraud", zero_division=0)
    assert f1_score(y[test], chosen.predict(data, **shape)[test], pos_label="fraud") > half
    dear = plain.set_params(threshold={"false_positive": 1, "false_negative": 50}).predict(data, **shape)
    cheap = plain.set_params(threshold={"false_positive": 50, "false_negative": 1}).predict(data, **shape)
    assert (dear == "fraud").sum() > (cheap == "fraud").sum()
    for wrong in (0, 1.5, True, "f2", {"false_positive": 1}):
        with pytest.raises(InputError):
            plain.set_params(threshold=wrong).predict(data, **shape)
    with pytest.raises(InputError, match="two classes"):
        RAPNodeClassifier(threshold=0.3).fit(node_data())


def test_the_command_line_takes_them(rapgnn, tmp_path):
    graph = rare()
    nodes = pd.DataFrame(graph.x.numpy(), columns=[f"c{j}" for j in range(graph.num_features)])
    nodes = nodes.assign(id=np.arange(len(nodes)), label=np.array(["fine", "fraud"])[graph.y.numpy()])
    edges = pd.DataFrame(graph.edge_index.T.numpy(), columns=["source", "target"])
    folder, out, report = write(tmp_path / "d", nodes=nodes, edges=edges), tmp_path / "m", tmp_path / "r.json"
    code, _, err = rapgnn(
        "fit", folder, "--out", out, "--no-search", "--metric", "f1", "--threshold", "f1", "--json", report
    )
    assert code == 0, err
    record = json.loads(report.read_text())[0]
    assert (record["metric"], record["positive"]) == ("f1", "fraud")
    assert 0 < record["threshold"] < 0.5
    counts = []
    for threshold in ("0.05", "0.9", "fp=1,fn=50"):
        assert rapgnn("predict", out, folder, "--out", tmp_path / "p.csv", "--threshold", threshold)[0] == 0
        counts.append((pd.read_csv(tmp_path / "p.csv")["label"] == "fraud").sum())
    assert counts[0] > counts[1]
    assert counts[2] > counts[1]
    code, said, err = rapgnn("evaluate", out, folder, "--threshold", 0.05, "--positive", "fraud")
    assert code == 0, err
    assert "fraud" in said
    code, _, err = rapgnn("evaluate", out, folder, "--threshold", "f3")
    assert (code, "'f3'" in err.strip().splitlines()[-1]) == (2, True)
