"""Ours beside the stored rivals: what is joined, what is measured, and the table that judges it."""

import statistics

import pytest

from rapgnn.datasets.synthetic import BlockModel
from rapgnn.experiments.bench.suite import compare, tuning
from rapgnn.experiments.bench.suite.compare import bench, fit_ours, pick_best, plan, points
from rapgnn.experiments.bench.suite.ego import cycles
from rapgnn.experiments.bench.suite.page import goals, show_suite, suite_table
from rapgnn.experiments.bench.suite.registry import SUITE, Entry
from rapgnn.experiments.bench.suite.structure import roles
from rapgnn.experiments.bench.suite.tuning import draw_points, space_of, tune

MAKE = BlockModel(nodes=80, classes=2, features=6, signal=3.0, train=8, val=20, test=30).generate


@pytest.fixture
def tiny(monkeypatch):
    """A graph of the suite, with rivals that train for two epochs."""
    entry = Entry("for tests", "rocauc", (MAKE,))
    monkeypatch.setitem(SUITE, "tiny", entry)
    for module in (compare, tuning):
        real = module.train_rival
        monkeypatch.setattr(module, "train_rival", lambda *a, real=real, **k: real(*a, **{**k, "epochs": 2}))
    return entry


def test_ours_is_joined_with_the_rivals_that_are_there(tiny, tmp_path, fresh_random_state):
    alone = bench("tiny", 2, 2, tmp_path, search=False)
    assert (alone["rivals"], alone["best_rival"], alone["rival_seconds"]) == ([], None, None)
    assert "gcn_mean" not in alone
    gcn = tune("tiny", tiny, "gcn", 2, 2, tmp_path)
    joined = bench("tiny", 2, 2, tmp_path, search=False)
    assert [rival["title"] for rival in joined["rivals"]] == ["GCN"]
    assert joined["gcn_values"] == gcn["values"]
    assert joined["best_rival_mean"] == gcn["mean"]
    assert joined["difference"] == pytest.approx(100 * (joined["mean"] - gcn["mean"]))
    assert joined["mean"] == alone["mean"] == pytest.approx(statistics.fmean(joined["values"]))
    assert joined["mean"] > 0.9
    assert min(joined["fit_seconds"], joined["rival_seconds"]) > 0
    assert len(joined["all_fit_seconds"]) == len(joined["all_rival_seconds"]) == 2
    whole = bench("tiny", 2, 2, tmp_path)
    assert [rival["rival"] for rival in whole["rivals"]] == ["gcn", "appnp", "sage"]
    assert whole["best_rival_mean"] == max(rival["mean"] for rival in whole["rivals"])


def test_a_row_is_another_one_when_a_rival_came_in(tiny, tmp_path):
    before = plan(["tiny"], 2, 1, tmp_path, search=False)[0].settings
    tune("tiny", tiny, "gcn", 2, 1, tmp_path)
    after = plan(["tiny"], 2, 1, tmp_path, search=False)[0].settings
    assert before["definitions"] == {}
    assert set(after["definitions"]) == {"gcn"}
    assert set(plan(["tiny"], 2, 1, tmp_path)[0].settings["definitions"]) == {"gcn", "appnp", "sage"}


def test_a_long_run_is_told_by_its_first_part(monkeypatch):
    point = draw_points(space_of(Entry("", "accuracy", ()), "gcn"), 1)[0]
    monkeypatch.setattr(compare, "MOST_SECONDS", 0.0)
    seconds, epochs = compare.time_run("gcn", MAKE(), "accuracy", point, 0)
    assert epochs == compare.LEAST_TIMED
    assert seconds > 0
    monkeypatch.setattr(compare, "MOST_SECONDS", 1e9)
    assert compare.time_run("gcn", MAKE(), "accuracy", point, 0)[1] == compare.EPOCHS


def test_ours_gets_no_features_where_there_are_none():
    graph = roles(15)
    bare, given = (Entry("", "accuracy", (), features=kept) for kept in (False, True))
    assert compare.as_given(bare, graph)[0] is None
    value, seconds, chosen = fit_ours(bare, graph, 0)
    assert value > 0.6
    assert seconds > 0
    assert chosen["candidates"] >= 1
    assert compare.as_given(given, graph)[0] is graph


def test_numbers_are_told_for_sets_of_graphs():
    graph = cycles(80)
    value, _, _ = fit_ours(Entry("", "rmse", (), sets=True), graph, 0)
    assert value < float(graph.y[graph.test].std())


def test_points_and_the_best_rival():
    assert points("accuracy", "node-classification", 0.81, 0.80) == pytest.approx(1.0)
    assert points("rmse", "graph-regression", 0.9, 1.0) == pytest.approx(10.0)
    rivals = [{"mean": 0.7}, {"mean": 0.9}]
    entry = Entry("", "rmse", ())
    assert pick_best(entry, "graph-regression", rivals) is rivals[0]
    assert pick_best(Entry("", "accuracy", ()), "node-classification", rivals) is rivals[1]
    assert pick_best(entry, "graph-regression", []) is None


def test_the_table_judges(capsys):
    common = {"about": "a kind", "task": "node-classification", "metric": "rocauc", "hardware": "a CPU"}
    records = [
        common | {"dataset": "a", "mean": 0.9, "best_rival": "GCN", "best_rival_mean": 0.88, "difference": 2.0}
        | {"fit_seconds": 1.0, "rival_seconds": 4.0, "plain_gcn_seconds": 2.0, "sparse_gcn_seconds": 0.5}
        | {"calibration_error": 0.0312},
        common | {"dataset": "b", "mean": 0.796, "best_rival": "APPNP", "best_rival_mean": 0.8, "difference": -0.4}
        | {"fit_seconds": 5.0, "rival_seconds": 4.0, "plain_gcn_seconds": 3.0, "calibration_error": None},
        common | {"dataset": "c", "mean": 0.5, "best_rival": None, "best_rival_mean": None, "difference": None}
        | {"fit_seconds": 1.0, "rival_seconds": None},
    ]  # fmt: skip
    table = suite_table(records).splitlines()
    assert table[2] == "| a | a kind | ROC-AUC | 90.00 | GCN | 88.00 | +2.00 | 1.00 | 4.00 | 4.0× | 2.00 | 0.50 | 3.1 |"
    assert table[4] == "| c | a kind | ROC-AUC | 50.00 | – | – | – | 1.00 | – | – | – | – | – |"
    assert "Of 2 graphs" in goals(records)
    assert "on 2, ahead on 1," in goals(records)
    assert "best rival on 1. Faster than 200 epochs of a plain GCN" in goals(records)
    assert goals(records).endswith("on 1 of 2 single graphs, and of one with sparse features on 0 of 1.")
    assert goals(records[2:]).endswith("best rival on 0.")
    show_suite(records)
    assert "APPNP" in capsys.readouterr().out
