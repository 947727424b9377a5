"""The searches: every trial is kept, a stopped one goes on, and one of another graph begins anew."""

import json

import pytest

from rapgnn.datasets.synthetic import BlockModel
from rapgnn.experiments.bench.suite import tuning
from rapgnn.experiments.bench.suite.registry import Entry
from rapgnn.experiments.bench.suite.tuning import draw_points, read_search, rivals_of, space_of, tune

MAKE = BlockModel(nodes=80, classes=2, features=6, signal=3.0, train=8, val=20, test=30).generate
ENTRY = Entry("for tests", "accuracy", (MAKE,))


@pytest.fixture
def short(monkeypatch):
    """Trainings of four epochs, counted."""
    made = []
    real = tuning.train_rival

    def train(*args, **kwargs):
        made.append(args[3])
        return real(*args, **{**kwargs, "epochs": 4})

    monkeypatch.setattr(tuning, "train_rival", train)
    return made


def test_a_search_keeps_every_trial_and_trains_the_best(short, tmp_path, fresh_random_state):
    told = []
    record = tune("tiny", ENTRY, "gcn", 5, 2, tmp_path, lambda: told.append(1))
    trials = record["splits"][0]["trials"]
    assert [trial["settings"] for trial in trials] == draw_points(space_of(ENTRY, "gcn"), 5) == short[:5]
    best = max(trials, key=lambda t: (t["val"], -t["val_loss"]))
    assert record["settings"] == best["settings"] == short[5] == short[6]
    assert len(short) == len(told) - 1 == 7
    assert record["mean"] == pytest.approx(sum(record["values"]) / 2)
    stored = read_search(tmp_path, "tiny", "gcn")
    assert stored is not None
    assert {key: stored[key] for key in record if key != "date"} == record
    assert {"hardware", "versions", "command", "date", "threads", "definition"} <= set(stored)


def test_a_stopped_search_goes_on(short, tmp_path, monkeypatch):
    whole = tune("tiny", ENTRY, "sage", 4, 1)
    del short[:]

    class StoppedError(Exception):
        pass

    def stop():
        if len(short) == 3:
            raise StoppedError

    with pytest.raises(StoppedError):
        tune("tiny", ENTRY, "sage", 4, 1, tmp_path, stop)
    kept = read_search(tmp_path, "tiny", "sage")
    assert kept is not None
    assert (len(kept["splits"][0]["trials"]), kept["done"]) == (2, False)
    del short[:]
    monkeypatch.setattr(tuning, "hardware", lambda device: "another machine")
    resumed = tune("tiny", ENTRY, "sage", 4, 1, tmp_path)
    assert resumed["resumed_on"] == ["another machine"]
    assert len(short) == 3  # two trials and the final training
    assert resumed["values"] == whole["values"]
    assert resumed["settings"] == whole["settings"]
    del short[:]
    assert tune("tiny", ENTRY, "sage", 4, 1, tmp_path) == resumed
    assert not short


def test_another_graph_space_or_number_of_trials_is_another_search(short, tmp_path):
    tune("tiny", ENTRY, "appnp", 2, 1, tmp_path)
    other = BlockModel(nodes=80, classes=2, features=6, signal=3.0, train=8, val=20, test=30, seed=1).generate
    del short[:]
    tune("tiny", Entry("for tests", "accuracy", (other,)), "appnp", 2, 1, tmp_path)
    assert len(short) == 3
    tune("tiny", Entry("for tests", "rocauc", (other,)), "appnp", 2, 1, tmp_path)
    assert len(short) == 6
    tune("tiny", Entry("for tests", "rocauc", (other,)), "appnp", 3, 1, tmp_path)
    assert len(short) == 10
    stored = json.loads((tmp_path / "tiny-appnp.json").read_text())
    assert stored["search_trials"] == 3


def test_a_trial_below_the_median_ends_early(monkeypatch):
    monkeypatch.setattr(tuning, "MARK", 3)
    earlier = [{"at_mark": 2.0}] * tuning.LEAST  # better than any accuracy
    point = draw_points(space_of(ENTRY, "gcn"), 1)[0]
    assert tuning._trial("gcn", MAKE(), "accuracy", point, earlier, "cpu")["epochs"] == 3
    trial = tuning._trial("gcn", MAKE(), "accuracy", point, earlier[1:], "cpu")
    assert trial["epochs"] > 3
    assert 0 <= trial["at_mark"] <= 1


def test_folds_are_searched_one_by_one(short, tmp_path):
    parts = BlockModel(nodes=80, classes=2, features=6, signal=3.0, train=8, val=20, test=30, seed=2).generate
    record = tune("folds", Entry("two splits", "accuracy", (MAKE, parts)), "gcn", 2, 3, tmp_path)
    assert [len(split["trials"]) for split in record["splits"]] == [2, 2]
    assert len(record["values"]) == 2  # one training per fold, whatever the number of seeds
    assert all("chosen" in split for split in record["splits"])


def test_what_is_searched_depends_on_the_kind():
    bare = Entry("", "accuracy", (MAKE,), features=False)
    assert set(space_of(bare, "gcn")) - set(space_of(ENTRY, "gcn")) == {"ids"}
    one_way = Entry("", "accuracy", (MAKE,), directed=True)
    assert set(space_of(one_way, "sage")) - set(space_of(ENTRY, "sage")) == {"both_ways"}
    assert rivals_of(ENTRY) == ["gcn", "appnp", "sage"]
    assert rivals_of(Entry("", "accuracy", (MAKE,), sets=True)) == ["gin"]
