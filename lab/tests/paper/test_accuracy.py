"""A cell that is trained in parts gives the record that one run of all seeds or folds, or an estimator, gives."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from rapgnn import Config, RAPNodeClassifier, fit
from rapgnn.compare import at_best_mean_epoch, paper_folds, run, strict_folds
from rapgnn.graph.tasks import TASKS
from rapgnn_lab.paper.accuracy import ESTIMATOR, accuracy_cell, join, split, train
from rapgnn_lab.paper.cells import Graphs
from samples import GRAPH_CONFIG as MOLECULES
from samples import collection
from small_items import TINY, Given, whole

CONFIG = Config(num_layers=2, hidden_channels=8, epochs=12, pretrain_epochs=8)
GRAPH_CONFIG = CONFIG.update(backbone="gin", batch_size=32, normalize_features=False)
COSTS = {"fit_seconds", "total_seconds", "train_ms_per_epoch", "eval_ms_per_epoch", "peak_memory_mb"}
ELSEWHERE = {"date", "versions", "hardware", "dataset"}  # which ``measured`` adds


@pytest.fixture(scope="module")
def folds() -> Given:
    return Given(replace(collection(graphs=60), folds=True))


def same(record: dict, other: dict) -> None:
    assert set(record) == set(other) - ELSEWHERE
    assert {k: v for k, v in record.items() if k not in COSTS} == {k: other[k] for k in set(record) - COSTS}
    assert all(record[name] > 0 for name in COSTS - {"peak_memory_mb"})


@pytest.mark.parametrize("method", ["rap", "end-to-end", "pretrained-embedding"])
def test_the_seeds_one_by_one_are_the_seeds_together(method):
    graphs = Graphs()
    record = whole(accuracy_cell(TINY, method, CONFIG, [0, 3], {}), graphs)
    same(record, run(method, graphs.get(TINY), CONFIG, [0, 3]))
    assert record["values"][0] != record["values"][1]


@pytest.mark.parametrize("protocol", ["paper", "strict", "both"])
def test_the_folds_one_by_one_are_the_folds_together(protocol, folds):
    config = GRAPH_CONFIG.update(epochs=6, patience=1, inference="sample")
    record = whole(accuracy_cell("given", "rap", config, [0, 1], {}, protocol, 10), folds)
    same(record, run("rap", folds.get("given"), config, [0, 1], protocol=protocol))
    assert len(record["values"]) == 20


def test_parts_are_shared_by_longer_lists_of_seeds_and_by_both_protocols():
    """Labels and the length of the list have no part in them."""
    few, many = (split(accuracy_cell(TINY, "rap", CONFIG, range(n), {"column": str(n)}), Graphs()) for n in (2, 5))
    assert few == many[:2]
    paper, both = (split(accuracy_cell(TINY, "rap", CONFIG, [0], {}, p, 3), Graphs()) for p in ("paper", "both"))
    assert paper == both[:3]
    assert len(both) == 6


def test_a_training_that_diverged_stays_as_such(folds):
    """Stored without NaN, which JSON has not, and joined again."""
    cell = accuracy_cell("given", "rap", GRAPH_CONFIG.update(epochs=3), [0], {}, "paper", 2)
    first, second = (train(part, folds, None) for part in split(cell, folds))
    record = join(cell, [first, second | {"history": [None, None, None]}])
    assert record["values"][0] == first["history"][0]
    assert record["mean"] != record["mean"]


def test_an_estimator_s_fit_is_its_own():
    graphs = Graphs()
    record, graph = whole(accuracy_cell(TINY, ESTIMATOR, CONFIG, [0, 3], {}), graphs), graphs.get(TINY)
    own = [RAPNodeClassifier(seed=seed).fit(graph).score(graph, split="test") for seed in (0, 3)]
    assert record["values"] == pytest.approx(own)
    assert (record["mean"], record["protocol"]) == (pytest.approx(sum(own) / 2), "fixed split")
    assert min(record["candidates"]) > 1
    assert all(record["chosen"])


def test_no_row_of_a_protocol_is_in_two_splits(molecules):
    for graph in (*paper_folds(molecules, 0), *strict_folds(molecules, 0)):
        rows = torch.cat([graph.train, graph.val, graph.test])
        assert len(rows.unique()) == len(rows) == 120
    tests = torch.cat([graph.test for graph in strict_folds(molecules, 0)])
    assert sorted(tests.tolist()) == list(range(120))
    assert all(not len(graph.test) for graph in paper_folds(molecules, 0))


def test_the_papers_protocol_by_hand():
    """Means per epoch are 0.5, 0.65, 0.6: the second epoch, with each run's value there."""
    histories = [[0.5, 0.6, 0.9], [0.5, 0.7, 0.3]]
    assert at_best_mean_epoch(histories) == (1, [0.6, 0.7])
    assert at_best_mean_epoch(histories, higher=False) == (0, [0.5, 0.5])
    assert at_best_mean_epoch([[0.5, 0.9], [0.4]]) == (1, [0.9, 0.4])  # a run that ended early keeps its last value


def test_a_diverged_run_never_wins():
    nan = float("nan")
    assert np.isnan(TASKS["graph-classification"].score(torch.full((3, 2), nan), torch.zeros(3, dtype=torch.int64)))
    assert at_best_mean_epoch([[0.5, nan, 0.2], [0.5, 0.9, 0.2]])[0] == 0
    assert at_best_mean_epoch([[1.0, nan, 0.2], [1.0, 0.1, 0.2]], higher=False)[0] == 2
    graph = collection()
    fitted = fit("end-to-end", graph, MOLECULES.update(lr=1e18, epochs=4), 0)
    assert np.isnan(fitted.loop.history).any()
