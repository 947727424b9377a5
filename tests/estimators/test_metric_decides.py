"""A metric of the user's own, or the order of rare rows, decides in a search; a saved model keeps it."""

import json
from dataclasses import replace

import pytest
from sklearn.metrics import roc_auc_score

from altered import alter
from rapgnn import InputError, RAPGraphRegressor, RAPNodeClassifier
from rapgnn.estimators import average
from rapgnn.estimators.judge import Judge
from rapgnn.estimators.members import NetCandidate
from rapgnn.models.net_config import NetConfig
from rapgnn.training.averaged import scores_of
from samples import graph_list, rare

PLAIN = {"search": False, "num_layers": 2}


@pytest.mark.parametrize("given", [{}, {"class_weight": "balanced"}])
def test_the_metric_decides_members_also_where_classes_are_weighed(given, monkeypatch):
    asked = []
    chosen = average.chosen_members
    monkeypatch.setattr(average, "chosen_members", lambda *args: asked.append(args[2]) or chosen(*args))
    RAPNodeClassifier(scoring="f1_macro", **given).fit(rare(nodes=400))
    assert set(asked) == {True}
    asked.clear()
    RAPNodeClassifier(**given).fit(rare(nodes=400))
    assert set(asked) == {False}


def test_the_metric_decides_about_numbers_too(monkeypatch):
    asked = []
    chosen = average.chosen_members
    monkeypatch.setattr(average, "chosen_members", lambda *args: asked.append(args[2]) or chosen(*args))
    model = RAPGraphRegressor(scoring="mae").fit(graph_list(40, regression=True))
    assert set(asked) == {True}
    assert model.score(graph_list(40, regression=True)) > -1.0


def test_where_one_class_is_rare_candidates_are_ranked_by_the_order_of_the_rows():
    graph = rare()
    common = replace(graph, y=(graph.x[:, 1] > 0).long())
    for on, ranked_by_order in ((graph, True), (common, False)):
        judge = Judge(on, on.objective)
        verdict = judge.see(NetCandidate(on, NetConfig(num_layers=1), 0, {}))
        scores = scores_of(verdict.probabilities, on.objective)
        auc = roc_auc_score(on.y[on.val].numpy(), verdict.probabilities[:, 1].numpy())
        assert verdict.order == pytest.approx(auc if ranked_by_order else on.objective.score(scores, on.y[on.val]))


@pytest.mark.parametrize("given", [{}, PLAIN])
def test_a_saved_model_is_scored_by_the_same_metric(given, tmp_path):
    graph = rare(nodes=400)
    model = RAPNodeClassifier(scoring="average_precision", **given).fit(graph)
    model.save(tmp_path / "own")
    loaded = RAPNodeClassifier.load(tmp_path / "own")
    assert loaded.scoring == "average_precision"
    assert loaded.score(graph, split="test") == model.score(graph, split="test")
    assert json.loads((tmp_path / "own/checkpoint.json").read_text())["version"] == 5
    alter(tmp_path / "own", lambda index: index["schema"].update(scoring="rmse"))
    with pytest.raises(InputError, match="metric is none of this task"):
        RAPNodeClassifier.load(tmp_path / "own")
    RAPNodeClassifier(**given).fit(graph).save(tmp_path / "usual")
    assert RAPNodeClassifier.load(tmp_path / "usual").scoring is None


def test_a_search_ends_when_the_users_time_is_up():
    graph = rare(nodes=400)
    assert len(RAPNodeClassifier(time_budget=0).fit(graph).trials_) == 1
    assert len(RAPNodeClassifier(time_budget=600).fit(graph).trials_) > len(RAPNodeClassifier().fit(graph).trials_)
