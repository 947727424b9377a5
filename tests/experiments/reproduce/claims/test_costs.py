"""Claims on time, memory, ranks and weights."""

import math

import numpy as np
import pytest

from claim_records import RANKS, TIMES, collapse, cost, everything, judged
from rapgnn.experiments.reproduce.claims.verdict import FAILS, HOLDS, MISSING, PART
from rapgnn.experiments.reproduce.claims.verdicts import verdicts


@pytest.mark.parametrize(
    ("stepwise", "shortcut", "expected"),
    [(2.0, 0.1, HOLDS), (6.0, 0.1, PART), (6.0, 9.0, PART), (15.0, 0.1, PART), (15.0, 20.0, FAILS)],
)
def test_times(stepwise, shortcut, expected):
    times = {"end-to-end": 12.0, "rap-stepwise": stepwise, "rap": shortcut}
    records = {"depth": [cost(m, depth, ms) for depth in (8, 32) for m, ms in times.items()]}
    found = judged(records, "q3-training")
    assert found["verdict"] == expected
    ratios = {(r["method"], r["num_layers"]): r["ratio"] for r in found["details"]}
    assert ratios[("rap-stepwise", 32)] == 12.0 / stepwise
    assert f"{12.0 / stepwise:.1f}×" in found["figures"]


def test_the_factors_are_the_papers():
    found = judged({"depth": [cost(m, n, ms) for n in (4, 8, 32) for m, ms in TIMES.items()]}, "q3-training")
    assert {(r["num_layers"], r["claimed"]) for r in found["details"]} == {(8, 3.0), (32, 6.0)}
    found = judged({"memory": [cost(m, 32, ms, "peak_memory_mb") for m, ms in TIMES.items()]}, "q3-memory")
    assert {r["claimed"] for r in found["details"]} == {3.0}
    assert found["verdict"] == HOLDS


def test_reference_engine_is_layer_by_layer_whatever_its_name():
    records = [cost("end-to-end", 32, 12.0), cost("rap", 32, 2.0) | {"engine": "stepwise"}]
    found = judged({"depth": records}, "q3-training")
    assert (found["verdict"], [r["method"] for r in found["details"]]) == (HOLDS, ["rap-stepwise"])


def test_without_end_to_end_there_is_no_ratio():
    assert judged({"depth": [cost("rap", 32, 1.0)]}, "q3-training")["verdict"] == MISSING


@pytest.mark.parametrize(("saved", "expected"), [((1, 2, 3), HOLDS), ((1, 3, 2), PART), ((3, 2, 1), FAILS)], ids=str)
def test_the_gap_by_depth(saved, expected):
    found = []
    for depth, ms in zip((2, 8, 32), saved, strict=True):
        found += [cost("end-to-end", depth, 10.0 + ms), cost("rap-stepwise", depth, 10.0)]
    assert judged({"depth": found}, "q3-gap")["verdict"] == expected


# Collapse


def test_collapse():
    records = everything()
    found = {v["claim"]: v for v in verdicts(records)}
    assert found["rank-full"]["verdict"] == HOLDS
    assert found["rank-diagonal"]["verdict"] == HOLDS
    assert found["rank-end-to-end"]["verdict"] == PART  # one direction holds nearly all, the rank stays
    assert found["rank-above-end-to-end"]["verdict"] == HOLDS
    assert found["variance"]["verdict"] == HOLDS
    assert found["trained-weights"]["verdict"] == HOLDS


@pytest.mark.parametrize(
    ("claim", "method", "last", "effective", "expected"),
    [
        ("rank-full", "fixed-full", 200, 1.2, PART),
        ("rank-diagonal", "rap", 150, 100.0, PART),
        ("rank-end-to-end", "end-to-end", 256, 90.0, FAILS),
        ("rank-end-to-end", "end-to-end", 1, 1.0, HOLDS),
        ("rank-above-end-to-end", "rap", 100, 1.0, FAILS),
        ("rank-above-end-to-end", "rap", 100, 90.0, PART),
    ],
)
def test_ranks(claim, method, last, effective, expected):
    ranks = RANKS | {method: (256, last, effective)}
    assert judged({"collapse": collapse(ranks)}, claim)["verdict"] == expected


@pytest.mark.parametrize(("last", "effective", "expected"), [(250, 200.0, HOLDS), (250, 1.1, PART), (100, 1.1, FAILS)])
def test_a_kept_rank_needs_more_than_one_direction(last, effective, expected):
    """What counts as collapse for full weights counts for diagonal ones, too."""
    ranks = RANKS | dict.fromkeys(("rap", "fixed-diagonal"), (256, last, effective))
    assert judged({"collapse": collapse(ranks)}, "rank-diagonal")["verdict"] == expected


@pytest.mark.parametrize("seeds", [(0,), (0, 1, 2)])
@pytest.mark.parametrize(("rap", "expected"), [(0.3, HOLDS), (-0.2, FAILS)])
def test_growth_of_variance(rap, expected, seeds):
    rng = np.random.default_rng(0)
    records = collapse(growth={"rap": rap, "end-to-end": 0.1}, seeds=seeds)
    for record in records:
        record["variance"] *= math.exp(0.01 * rng.normal())
    found = judged({"collapse": records}, "variance")
    assert found["verdict"] == expected
    (row,) = found["details"]
    assert row["difference"] == pytest.approx(rap - 0.1, abs=0.01)
    assert f"{math.exp(row['first_mean']):.3f}" in found["figures"]


@pytest.mark.parametrize(("shares", "expected"), [((0.1, 0.2), HOLDS), ((0.1, 0.9), PART), ((0.8, 0.9), FAILS)])
def test_trained_weights(shares, expected):
    records = [{"dataset": "pubmed", "layer": n, "diagonal_share": s} for n, s in zip((1, 64), shares, strict=True)]
    assert judged({"weights": records}, "trained-weights")["verdict"] == expected


# Depth
