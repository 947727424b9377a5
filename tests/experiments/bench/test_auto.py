"""The estimator beside a tuned GCN: both are trained on every seed, and the record is made of what was measured."""

import statistics

import pytest

from rapgnn.datasets.synthetic import BlockModel
from rapgnn.experiments.bench import auto
from rapgnn.experiments.bench.unseen import UNSEEN, Unseen

KEYS = {
    *("dataset", "about", "nodes", "edges", "features", "labelled", "task", "method", "metric", "mean", "values"),
    *("gcn_mean", "gcn_values", "gcn_settings", "gcn_trials", "fit_seconds", "gcn_seconds", "chosen", "seeds"),
    *("threads", "hardware", "date", "versions"),
}


@pytest.fixture
def tiny(monkeypatch):
    graph = BlockModel(nodes=80, classes=2, features=6, signal=3.0, train=8, val=20, test=30).generate()
    monkeypatch.setitem(UNSEEN, "tiny", Unseen("for tests", lambda: graph))
    monkeypatch.setattr(auto, "EPOCHS", 10)
    return graph


def test_the_record_of_a_comparison(tiny, fresh_random_state):
    told = []
    record = auto.bench("tiny", trials=3, seeds=2, on_trial=lambda: told.append(1))
    assert set(record) == KEYS
    assert len(told) == 5
    assert (record["dataset"], record["about"], record["nodes"]) == ("tiny", "for tests", 80)
    assert record["seeds"] == [0, 1]
    for prefix in ("", "gcn_"):
        assert len(record[f"{prefix}values"]) == 2
        assert record[f"{prefix}mean"] == pytest.approx(statistics.fmean(record[f"{prefix}values"]))
        assert all(0 <= value <= 1 for value in record[f"{prefix}values"])
    assert record["mean"] > 0.6
    assert min(record["fit_seconds"], record["gcn_seconds"]) > 0
    points = record["gcn_trials"]
    assert len(points) == 3
    best = max(points, key=lambda p: (p["val"], -p["val_loss"]))
    assert record["gcn_settings"] == best["settings"]
    assert all(point["settings"][key] in values for point in points for key, values in auto.SPACE.items())
    assert [set(chosen) for chosen in record["chosen"]] == [{*auto.SHOWN, "candidates"}] * 2


def test_a_gcn_learns_and_repeats(tiny, monkeypatch):
    monkeypatch.setattr(auto, "EPOCHS", 60)
    settings = {"hidden_channels": 16, "num_layers": 2, "dropout": 0.0, "lr": 0.03, "weight_decay": 0.0}
    first, again = (auto.train_gcn(tiny, settings, 0)[:2] for _ in range(2))
    assert first == again
    assert first[1] > 0.8
    assert settings["lr"] == 0.03  # what was given is left as it was
