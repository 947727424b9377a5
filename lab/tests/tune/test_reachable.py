"""What the paper's ranges can reach: which trials are scored on the test rows, and which of them is taken."""

from dataclasses import replace
from pathlib import Path

import pytest

from rapgnn_lab.store import read_records
from rapgnn_lab.tune.reachable import ALL, CHOSEN, FIRST, TRIALS, choose, score, trials_of

TUNE = Path(__file__).resolve().parents[3] / "results" / "tune"


def trial(number: int, value: float | None, **settings) -> dict:
    settings = {"embedding": "pretrained", "epochs": 3, "pretrain_epochs": 2, "hidden_channels": 8} | settings
    return {"trial": number, "settings": settings, "values": {"0": value, "1": value}}


def test_the_best_by_validation_are_scored_and_the_best_of_them_on_all_seeds(small_graph):
    graph, stored = replace(small_graph, name="cora"), []
    layer = trial(2, 0.5, embedding="pretrained-gnn")
    others = [trial(3, None), trial(4, 0.99, embedding="learnable")]
    searches = [{"search": "cora-rap", "trials": [trial(0, 0.9), trial(1, 0.1), layer, *others]}]
    searches += [{"search": "citeseer-rap", "trials": [trial(0, 1.0)]}]
    assert [t["trial"] for t in trials_of(searches, "cora")] == [0, 1, 2]  # those that ended, of the paper's embeddings
    score(graph, searches, 2, 1, lambda: stored.append(1))
    tests = {t["trial"]: tuple(map(int, t.get("test", ()))) for t in searches[0]["trials"]}
    assert sorted(tests[number] for number in (0, 2)) == [FIRST, ALL]
    assert tests[1] == tests[3] == tests[4] == ()
    assert "test" not in searches[1]["trials"][0]
    assert len(stored) == 3
    score(graph, searches, 2, 1, lambda: stored.append(1))
    assert len(stored) == 3  # nothing is run twice


def test_the_test_rows_choose_among_those_with_the_most_seeds():
    two, five, low = (trial(n, 0.5) for n in range(3))
    two["test"] = {"0": 0.99, "1": 0.99}
    five["test"], low["test"] = ({str(s): v for s in ALL} for v in (0.8, 0.7))
    searches = [{"search": "cora-rap", "trials": [two, five, low]}]
    assert choose(searches, "cora", "accuracy")["trial"] == 1
    assert choose(searches, "cora", "rmse")["trial"] == 2
    assert choose(searches, "pubmed", "accuracy") is None


@pytest.mark.skipif(not (TUNE / CHOSEN).is_file(), reason="nothing was scored yet")
def test_what_is_recorded_is_the_best_of_the_recorded_trials():
    searches = read_records(TUNE / TRIALS)
    for record in read_records(TUNE / CHOSEN):
        assert choose(searches, record["dataset"], record["metric"]) == record
