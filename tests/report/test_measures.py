"""A graph in numbers, and what the page measures: columns, hops, calibration, and trainings with fewer labels."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import binomtest

from rapgnn import RAPNodeClassifier, make_graph
from rapgnn.datasets.catalog import BlockModel
from rapgnn.estimators import estimator_for
from rapgnn.estimators.card import describe_graph
from rapgnn.report.quality import coverage, reliability
from rapgnn.report.search import by_depth, by_labels, fewer_labels, growth_parts
from rapgnn.report.subject import AbsentError, Subject
from samples import FAST, collection


def blocks(**changes):
    given = {"nodes": 500, "classes": 3, "features": 6, "signal": 3.0, "train": 30, "val": 60, "test": 200, "seed": 3}
    return BlockModel(**given | changes).generate()


def subject_of(graph, **given) -> Subject:
    return Subject(RAPNodeClassifier(**FAST, **given).fit(graph), graph)


@pytest.fixture(scope="module")
def one_column() -> Subject:
    """Only column 4 tells the classes apart."""
    graph = blocks(homophily=0.9)
    noise = torch.from_numpy(np.random.default_rng(0).normal(size=(500, 6)).astype(np.float32))
    noise[:, 4] = graph.y + 0.1 * noise[:, 4]
    return subject_of(replace(graph, x=noise))


def test_groups_of_answers_have_the_interval_of_their_share(one_column):
    table = reliability(one_column)
    right = one_column.p.argmax(1) == one_column.y
    assert table["rows"].tolist() == [20] * 10
    assert table["stated"].is_monotonic_increasing
    assert table["rows"] @ table["true"] == pytest.approx(right[one_column.rows].sum())
    for row in table.itertuples():
        wanted = binomtest(round(row.rows * row.true), row.rows).proportion_ci(method="wilson")
        assert (row.low, row.high) == pytest.approx((wanted.low, wanted.high))


def test_the_coverage_of_numbers_counts_errors_inside_the_bars():
    graph = collection("regression", graphs=60)
    subject = Subject(estimator_for(graph.task)(search=False).fit(graph), graph)
    inside = coverage(subject)
    error = np.abs(subject.y - subject.p)[subject.rows]
    assert inside[0.95] == pytest.approx((error <= 1.95996398 * subject.spread[subject.rows]).mean())
    assert list(inside.values()) == sorted(inside.values())


def test_depth_and_labels_are_trained_anew(one_column):
    depths = by_depth(one_column)
    assert list(depths)[:3] == [0, 1, 2]
    assert depths[one_column.depth] == pytest.approx(one_column.score(one_column.p), abs=0.03)
    labels = by_labels(one_column)
    assert list(labels) == [9, 24, 45, 90]
    assert labels[90] == depths[one_column.depth]


def test_a_line_has_three_points_or_is_not_drawn(one_column, monkeypatch):
    monkeypatch.setattr("rapgnn.report.search.SHARES", (0.5, 1.0))
    figure, *_ = growth_parts(one_column)
    assert [panel.title for panel in figure.panels] == ["By depth"]
    monkeypatch.setattr("rapgnn.report.search.SECONDS", 0.0)
    with pytest.raises(AbsentError, match="fewer than 3 trainings"):
        growth_parts(one_column)


def test_fewer_labels_keep_every_class():
    graph = blocks(train=5)
    few = fewer_labels(graph, 0.1, 0)
    assert sorted(graph.y[few.train].tolist()) == [0, 1, 2]
    assert set(few.train.tolist()) <= set(graph.train.tolist())
    assert torch.equal(few.test, graph.test)


def test_a_graph_in_numbers(small_graph, molecules):
    row = describe_graph(small_graph)
    assert (row["nodes"], row["edges"], row["features"]) == (300, small_graph.edge_index.shape[1], 12)
    assert (row["classes"], sum(row["class sizes"])) == (3, 300)
    assert (row["train"], row["val"], row["test"]) == (30, 60, 100)
    many = describe_graph(replace(molecules, folds=True))
    assert (many["graphs"], many["nodes"], many["edge features"]) == (120, molecules.num_nodes, 3)
    assert "10-fold" in many["protocol"]
    y = np.array([[0.0, 1.0], [1.0, np.nan], [0.0, 0.0]])
    labels = describe_graph(make_graph(np.ones((3, 2)), torch.zeros(2, 0, dtype=torch.int64), y, [0, 1], [], [2]))
    assert (labels["labels"], labels["positive share"], labels["unknown"]) == (2, pytest.approx(0.4), 1)
