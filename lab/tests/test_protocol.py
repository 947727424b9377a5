"""The cross-validation protocols, and their records."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from rapgnn import fit
from rapgnn.compare import at_best_mean_epoch, paper_folds, run, strict_folds
from rapgnn.graph.tasks import TASKS
from samples import GRAPH_CONFIG as CONFIG
from samples import collection


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
    fitted = fit("end-to-end", graph, CONFIG.update(lr=1e18, epochs=4), 0)
    assert np.isnan(fitted.loop.history).any()


def test_cross_validation_record(molecules):
    graph = replace(molecules, folds=True)
    record = run("rap", graph, CONFIG.update(epochs=3, pretrain_epochs=2), [0])
    assert len(record["values"]) == len(record["strict_values"]) == 10
    assert record["mean"] == pytest.approx(np.mean(record["values"]))
    searching = run("rap", graph, CONFIG.update(epochs=3, pretrain_epochs=2), [0], splits=("val",))
    assert "strict_mean" not in searching
    assert searching["val_mean"] == record["val_mean"]
