"""The claims: what is compared, how outcomes are judged, and that all of it follows the records."""

import json
import math

import numpy as np
import pytest

from claim_records import (
    DEPTHS,
    ITEMS,
    TIMES,
    by_depth,
    collapse,
    cost,
    embedded,
    everything,
    gaps,
    judged,
    outcomes,
    score,
    tables,
)
from rapgnn_lab.paper.claims.judged import (
    CLAIMS,
    FAILS,
    HOLDS,
    MISSING,
    PART,
    PROVISIONAL,
    RULES,
    format_claims,
    judge_claims,
)
from rapgnn_lab.results import one_published


@pytest.mark.parametrize(
    ("rule", "given", "expected"),
    [
        ("not-behind", "level ahead level", HOLDS),
        ("not-behind", "behind level ahead", PART),
        ("not-behind", "behind level", FAILS),
        ("better", "ahead ahead", HOLDS),
        ("better", "ahead level level", PART),
        ("better", "ahead ahead behind", PART),
        ("better", "ahead behind", FAILS),
        ("better", "level level", FAILS),
    ],
)
def test_rules(rule, given, expected):
    assert RULES[rule].judge([{"outcome": word} for word in given.split()]) == expected


# What is compared with what


@pytest.mark.parametrize(("worst", "expected"), [(0.0, HOLDS), (-0.02, PART)])
def test_competitive(worst, expected):
    claim = judged(gaps({"cora": worst, "citeseer": 0.0, "mutag": 0.02, "molesol": 0.02}), "q1-competitive")
    said = "behind" if worst else "level"
    assert outcomes(claim) == {"cora": said, "citeseer": "level", "mutag": "ahead", "molesol": "ahead"}
    assert claim["verdict"] == expected


def test_holm_is_over_the_comparisons_of_a_claim():
    # p of one dataset is about 0.02: significant alone, not among ten.
    (row,) = judged(gaps({"cora": 0.0035}), "q1-competitive")["details"]
    assert row["p"] == row["p_holm"]
    many = judged(gaps(dict.fromkeys(ITEMS, 0.0) | {"cora": 0.0035}), "q1-competitive")
    (same,) = [r for r in many["details"] if r["dataset"] == "cora"]
    assert (same["p"], same["p_holm"]) == (row["p"], pytest.approx(10 * row["p"]))


def test_folds_are_paired_and_seeds_are_not():
    records = gaps({"cora": 0.01, "mutag": 0.01})
    claim = judged(records, "q1-competitive")
    assert [row["test"] for row in claim["details"]] == ["Welch t", "paired t"]
    assert outcomes(claim)["mutag"] == "ahead"  # far less than the spread of the folds, but in each of them
    assert [row["p_shared"] is None for row in claim["details"]] == [True, False]
    records["table2"][0]["seeds"] = [1]  # other folds
    assert [row["test"] for row in judged(records, "q1-competitive")["details"]] == ["Welch t", "Welch t"]


def test_the_papers_settings_decide_and_others_stand_beside():
    records = gaps({"cora": -0.03, "ptc": 0.0})
    records["table1"] += [score("cora", m, mean, column="best") for m, mean in (("rap", 0.9), ("end-to-end", 0.8))]
    for record, shift in zip(records["table2"], (0.05, 0.0), strict=True):
        record["strict_values"] = list(np.array(record["values"]) + shift)
    claim = judged(records, "q1-competitive")
    shown = [(r["column"], r["outcome"]) for r in claim["details"]]
    assert shown == [("faithful", "behind"), ("faithful", "level"), ("best", "ahead"), ("strict", "ahead")]
    assert claim["verdict"] == FAILS
    assert "Best settings of this library" in claim["figures"]


def test_both_sides_have_one_kind_of_embedding():
    """The settings of RAP-GNN hold a GNN layer, those of the methods' own searches an MLP."""
    records = tables(
        score("cora", "rap", 0.8),
        score("cora", "rap", 0.7, column="MLP"),
        score("cora", "fixed-full", 0.6),
        score("cora", "fixed-full", 0.5, column="own search"),
        score("cora", "pretrained-embedding", 0.4),
        score("cora", "pretrained-embedding", 0.3, column="GNN layer"),
    )
    means = [
        {r["column"]: (r["first_mean"], r["second_mean"]) for r in judged(records, claim)["details"]}
        for claim in ("q2-diagonal", "q2-full-embedding")
    ]
    assert means[0] == {"faithful": pytest.approx((80, 60)), "own search": pytest.approx((70, 50))}
    assert means[1] == {"faithful": pytest.approx((30, 60)), "own search": pytest.approx((40, 50))}


def test_reservoirs_are_quoted_and_measured_ones_stand_beside():
    record = score("proteins", "rap", 0.75)
    claim = judged(tables(record), "q1-reservoirs")
    cells = [one_published("tu", dataset="proteins", method=m) for m in ("mrgnn", "u-gcn", "p-rgnn", "fdgnn")]
    assert [row["second"] for row in claim["details"]] == ["MRGNN", "U-GCN", "P-RGNN", "FDGNN"]
    for row, cell in zip(claim["details"], cells, strict=True):
        assert row["difference"] == pytest.approx(100 * record["mean"] - cell.mean)
        assert row["in_their_std"] == pytest.approx(row["difference"] / cell.std)
        assert row["test"] == "one-sample t"
    assert judged(tables(score("proteins", "rap", 0.5)), "q1-reservoirs")["verdict"] == FAILS
    both = judged(tables(record, score("proteins", "u-gcn", 0.6)), "q1-reservoirs")
    *quoted, mine = both["details"]
    assert (quoted, both["verdict"]) == (claim["details"], claim["verdict"])
    assert (mine["second"], mine["column"], mine["outcome"]) == ("U-GCN", "Measured here", "ahead")
    assert mine["difference"] == pytest.approx(15.0, abs=0.1)


# Depth, costs, collapse


def weights(*shares):
    return [{"dataset": "pubmed", "layer": n, "diagonal_share": s} for n, s in zip((1, 64), shares, strict=True)]


def saved(*ms):
    """Times of both networks that lie this far apart at three depths."""
    both = [(cost("end-to-end", n, 10.0 + t), cost("rap-stepwise", n, 10.0)) for n, t in zip(DEPTHS, ms, strict=True)]
    return [record for pair in both for record in pair]


@pytest.mark.parametrize(
    ("claim", "records", "expected"),
    [
        ("q2-on-the-fly", gaps({"cora": 0.0}, "rap", "fixed-diagonal"), FAILS),  # ahead, not level
        ("q1-competitive", tables(score("cora", "rap", 0.8), score("cora", "end-to-end", 0, values=[0.7])), MISSING),
        ("embedding-learnable", {"embeddings": embedded(pretrained=0.8, learnable=0.7)}, FAILS),
        ("embedding-random", {"embeddings": embedded(pretrained=0.8, random=0.3)}, HOLDS),
        ("embedding-identity", {"embeddings": embedded(pretrained=0.8, identity=0.75)}, HOLDS),
        ("depth-diagonal", {"depth": by_depth(rap=-0.05, fixed_diagonal=0.015)}, HOLDS),
        ("depth-diagonal", {"depth": by_depth(rap=0.0, fixed_diagonal=0.1)}, PART),
        ("depth-diagonal", {"depth": by_depth(rap=0.1, fixed_diagonal=0.1)}, FAILS),
        ("depth-full", {"depth": by_depth(random_full=0.3, fixed_full=0.1)}, HOLDS),
        ("depth-full", {"depth": by_depth(random_full=0.03, fixed_full=0.03)}, PART),
        ("depth-full", {"depth": by_depth(random_full=0.0, fixed_full=0.0)}, FAILS),
        ("depth-end-to-end", {"depth": by_depth(end_to_end=-0.2)}, FAILS),
        ("depth-ahead", {"depth": by_depth(rap=0.0, end_to_end=0.3)}, PART),
        ("trained-weights", {"weights": weights(0.1, 0.2)}, HOLDS),
        ("trained-weights", {"weights": weights(0.1, 0.9)}, PART),
        ("trained-weights", {"weights": weights(0.8, 0.9)}, FAILS),
        ("q3-gap", {"depth": saved(1, 2, 3)}, HOLDS),
        ("q3-gap", {"depth": saved(1, 3, 2)}, PART),
        ("q3-gap", {"depth": saved(3, 2, 1)}, FAILS),
        ("rank-full", {"collapse": collapse()}, HOLDS),
        ("rank-full", {"collapse": collapse({"fixed-full": (256, 200, 1.2)})}, PART),
        ("rank-diagonal", {"collapse": collapse({"rap": (256, 150, 100.0)})}, PART),
        # What counts as collapse for full weights counts for diagonal ones, too.
        ("rank-diagonal", {"collapse": collapse(dict.fromkeys(("rap", "fixed-diagonal"), (256, 250, 200.0)))}, HOLDS),
        ("rank-diagonal", {"collapse": collapse(dict.fromkeys(("rap", "fixed-diagonal"), (256, 250, 1.1)))}, PART),
        ("rank-diagonal", {"collapse": collapse(dict.fromkeys(("rap", "fixed-diagonal"), (256, 100, 1.1)))}, FAILS),
        ("rank-end-to-end", {"collapse": collapse()}, PART),  # one direction holds nearly all, the rank stays
        ("rank-end-to-end", {"collapse": collapse({"end-to-end": (256, 256, 90.0)})}, FAILS),
        ("rank-end-to-end", {"collapse": collapse({"end-to-end": (256, 1, 1.0)})}, HOLDS),
        ("rank-above-end-to-end", {"collapse": collapse()}, HOLDS),
        ("rank-above-end-to-end", {"collapse": collapse({"rap": (256, 100, 1.0)})}, FAILS),
        ("rank-above-end-to-end", {"collapse": collapse({"rap": (256, 100, 90.0)})}, PART),
    ],
)
def test_verdicts(claim, records, expected):
    assert judged(records, claim)["verdict"] == expected


@pytest.mark.parametrize(
    ("stepwise", "shortcut", "expected"),
    [(2.0, 0.1, HOLDS), (6.0, 9.0, PART), (15.0, 0.1, PART), (15.0, 20.0, FAILS)],
)
def test_times(stepwise, shortcut, expected):
    times = {"end-to-end": 12.0, "rap-stepwise": stepwise, "rap": shortcut}
    claim = judged({"depth": [cost(m, depth, ms) for depth in (8, 32) for m, ms in times.items()]}, "q3-training")
    assert claim["verdict"] == expected
    ratios = {(r["method"], r["num_layers"]): r["ratio"] for r in claim["details"]}
    assert ratios["rap-stepwise", 32] == 12.0 / stepwise
    assert f"{12.0 / stepwise:.1f}×" in claim["figures"]


def test_the_factors_are_the_papers():
    claim = judged({"depth": [cost(m, n, ms) for n in (4, 8, 32) for m, ms in TIMES.items()]}, "q3-training")
    assert {(r["num_layers"], r["claimed"]) for r in claim["details"]} == {(8, 3.0), (32, 6.0)}
    claim = judged({"memory": [cost(m, 32, ms, "peak_memory_mb") for m, ms in TIMES.items()]}, "q3-memory")
    assert ({r["claimed"] for r in claim["details"]}, claim["verdict"]) == ({3.0}, HOLDS)


# All of them


def test_every_claim_is_judged_where_everything_is_measured_and_none_where_nothing_is():
    nothing = judge_claims({})
    assert [(c["claim"], c["verdict"], c["details"]) for c in nothing] == [(c.name, MISSING, []) for c in CLAIMS]
    claims = judge_claims(everything())
    assert [c["claim"] for c in claims if c["verdict"] == MISSING] == []
    text = format_claims(claims)
    table = text.split("\n\n")[1].splitlines()[2:]
    for claim, line in zip(claims, table, strict=True):
        assert all(not isinstance(value, dict | list) for row in claim["details"] for value in row.values())
        assert line.startswith(f"| {claim['says']} | {claim['verdict']} | {claim['figures']}")
        assert line.count("|") == 4
        assert f"### {claim['claim']}: {claim['verdict']}" in text
        assert f"Rule: {claim['rule']}" in text


@pytest.mark.parametrize("values", [[0.8] * 5, [0.8], [0.8, None, 0.7, 0.8, 0.9]])
def test_no_nan_whatever_the_values(values):
    records = everything()
    for r in (r for rows in records.values() for r in rows if r.get("values")):
        mean = math.nan if None in values else 0.8
        r |= {"values": values, "strict_values": values, "mean": mean, "seeds": list(range(len(values)))}
    claims = judge_claims(records)
    assert "nan" not in (json.dumps(claims, allow_nan=False) + format_claims(claims)).lower()


def test_quick_records_are_provisional():
    records = gaps({"cora": 0.02, "citeseer": 0.02})
    assert not judged(records, "q1-competitive")["quick"]
    records["table1"][3]["quick"] = True
    claim = judged(records, "q1-competitive")
    assert claim["quick"]
    assert f"{HOLDS} ({PROVISIONAL})" in format_claims([claim])
