"""Records of a cross-validation."""

from dataclasses import replace

import numpy as np
import pytest

from rapgnn.experiments.run import run
from samples import GRAPH_CONFIG as CONFIG


def test_cross_validation_record(molecules):
    graph = replace(molecules, folds=True)
    record = run("rap", graph, CONFIG.update(epochs=3, pretrain_epochs=2), [0])
    assert len(record["values"]) == len(record["strict_values"]) == 10
    assert record["mean"] == pytest.approx(np.mean(record["values"]))
    searching = run("rap", graph, CONFIG.update(epochs=3, pretrain_epochs=2), [0], splits=("val",))
    assert "strict_mean" not in searching
    assert searching["val_mean"] == record["val_mean"]
