"""Claims on accuracies: pairs, outcomes, and the rules that make verdicts of them."""

import numpy as np
import pytest

from claim_records import FOLD_NOISE, FOLDS, ITEMS, SEEDS, everything, gaps, judged, outcomes, score, tables
from rapgnn.experiments.published import one_published
from rapgnn.experiments.reproduce.claims.verdict import BETTER, FAILS, HOLDS, MISSING, NOT_BEHIND, PART
from rapgnn.experiments.reproduce.claims.verdicts import CLAIMS, format_verdicts, verdicts


@pytest.mark.parametrize(
    ("rule", "found", "expected"),
    [
        (NOT_BEHIND, "level ahead level", HOLDS),
        (NOT_BEHIND, "behind level ahead", PART),
        (NOT_BEHIND, "behind level", FAILS),
        (BETTER, "ahead ahead", HOLDS),
        (BETTER, "ahead level level", PART),
        (BETTER, "ahead ahead behind", PART),
        (BETTER, "ahead behind", FAILS),
        (BETTER, "level level", FAILS),
    ],
)
def test_rules(rule, found, expected):
    assert rule.judge(found.split()) == expected


def test_nothing_measured():
    found = verdicts({})
    assert [v["claim"] for v in found] == [claim.name for claim in CLAIMS]
    assert {v["verdict"] for v in found} == {MISSING}
    assert not any(v["details"] or v["quick"] for v in found)
    assert format_verdicts(found).count(MISSING) == len(found)


def test_names_of_claims_are_unique():
    assert len({claim.name for claim in CLAIMS}) == len(CLAIMS)


# Accuracy


@pytest.mark.parametrize(
    ("differences", "expected"),
    [
        ({"cora": 0.02, "citeseer": 0.0, "pubmed": 0.0}, HOLDS),
        ({"cora": -0.02, "citeseer": 0.0, "pubmed": 0.02}, PART),
        ({"cora": -0.02, "citeseer": -0.02, "pubmed": 0.02}, FAILS),
        ({"molesol": 0.02, "mutag": 0.02, "molhiv": 0.0}, HOLDS),
        ({"molesol": -0.02, "mutag": -0.02, "molhiv": 0.0}, FAILS),
    ],
)
def test_competitive(differences, expected):
    found = judged(gaps(differences), "q1-competitive")
    assert found["verdict"] == expected
    words = {d: "ahead" if gap > 0.01 else "behind" if gap < -0.01 else "level" for d, gap in differences.items()}
    assert outcomes(found) == words


def test_a_lower_error_is_better():
    low, high = (gaps({"molesol": gap}) for gap in (0.05, -0.05))
    assert outcomes(judged(low, "q1-ahead")) == {"molesol": "ahead"}
    assert outcomes(judged(high, "q1-ahead")) == {"molesol": "behind"}
    (row,) = judged(low, "q1-ahead")["details"]
    assert row["first_mean"] < row["second_mean"]
    assert row["difference"] == pytest.approx(0.05)  # not in points
    assert row["unit"] == "RMSE"


def test_outperforming_is_asked_where_the_paper_prints_it():
    found = judged(gaps(dict.fromkeys(ITEMS, 0.02)), "q1-ahead")
    assert found["verdict"] == HOLDS
    assert set(outcomes(found)) == {"cora", "mutag", "molesol", "molhiv", "molbace"}


def test_holm_is_over_the_comparisons_of_a_claim():
    # p of one dataset is about 0.02: significant alone, not among ten.
    shift = 0.0035
    alone, many = gaps({"cora": shift}), gaps({"cora": shift} | {d: 0.0 for d in ITEMS if d != "cora"})
    (row,) = judged(alone, "q1-competitive")["details"]
    assert row["p"] == row["p_holm"]
    rows = {r["dataset"]: r for r in judged(many, "q1-competitive")["details"]}
    assert rows["cora"]["p"] == row["p"]
    assert rows["cora"]["p_holm"] == pytest.approx(10 * row["p"])


def test_folds_are_paired_and_seeds_are_not():
    found = judged(gaps({"cora": 0.01, "mutag": 0.01}), "q1-competitive")
    tests = {row["dataset"]: row["test"] for row in found["details"]}
    assert tests == {"cora": "Welch t", "mutag": "paired t"}
    assert outcomes(found)["mutag"] == "ahead"  # far less than the spread of the folds, but in each of them
    assert [row["p_shared"] is None for row in found["details"]] == [True, False]


def test_folds_of_other_seeds_are_not_paired():
    records = gaps({"mutag": 0.01})
    records["table2"][0]["seeds"] = [1]
    (row,) = judged(records, "q1-competitive")["details"]
    assert row["test"] == "Welch t"


def test_the_papers_settings_decide_and_the_best_stand_beside():
    records = gaps({"cora": -0.03})
    records["table1"] += [score("cora", m, mean, column="best") for m, mean in (("rap", 0.9), ("end-to-end", 0.8))]
    found = judged(records, "q1-competitive")
    assert found["verdict"] == FAILS
    assert [(r["column"], r["outcome"]) for r in found["details"]] == [("faithful", "behind"), ("best", "ahead")]
    assert "Best settings of this library" in found["figures"]


def test_the_strict_protocol_stands_beside():
    records = gaps({"ptc": 0.0})
    for record, shift in zip(records["table2"], (0.05, 0.0), strict=True):
        record["strict_values"] = list(np.array(record["values"]) + shift)
    found = judged(records, "q1-competitive")
    assert [(r["column"], r["outcome"]) for r in found["details"]] == [("faithful", "level"), ("strict", "ahead")]


def test_reservoirs_are_quoted():
    record = score("proteins", "rap", 0.75)
    found = judged(tables(record), "q1-reservoirs")
    quoted = {m: one_published("tu", dataset="proteins", method=m) for m in ("mrgnn", "u-gcn", "p-rgnn", "fdgnn")}
    assert [row["second"] for row in found["details"]] == ["MRGNN", "U-GCN", "P-RGNN", "FDGNN"]
    for row, cell in zip(found["details"], quoted.values(), strict=True):
        assert row["difference"] == pytest.approx(100 * record["mean"] - cell.mean)
        assert row["in_their_std"] == pytest.approx(row["difference"] / cell.std)
        assert row["test"] == "one-sample t"
    assert judged(tables(score("proteins", "rap", 0.5)), "q1-reservoirs")["verdict"] == FAILS


def test_measured_reservoirs_stand_beside_the_quoted_ones():
    records = tables(score("proteins", "rap", 0.75), score("proteins", "u-gcn", 0.6))
    found = judged(records, "q1-reservoirs")
    *quoted, mine = found["details"]
    assert len(quoted) == 4
    assert (mine["second"], mine["column"], mine["outcome"]) == ("U-GCN", "Measured here", "ahead")
    assert mine["difference"] == pytest.approx(15.0, abs=0.1)
    assert "Measured here: " in found["figures"]
    assert found["verdict"] == judged(tables(score("proteins", "rap", 0.75)), "q1-reservoirs")["verdict"]


def test_diagonal_against_full():
    better = gaps({"cora": 0.1}, "rap", "fixed-full")
    better["table1"] += [score("cora", "random-full", 0.3), score("cora", "fixed-diagonal", 0.9)]
    assert judged(better, "q2-diagonal")["verdict"] == HOLDS
    better["table1"].append(score("cora", "fixed-full", 0.95, column="uniform"))
    found = judged(better, "q2-diagonal")
    assert found["verdict"] == HOLDS
    assert {r["column"]: r["outcome"] for r in found["details"]} == {"faithful": "ahead", "uniform": "behind"}


def test_on_the_fly_must_be_ahead_not_level():
    assert judged(gaps({"cora": 0.0}, "rap", "fixed-diagonal"), "q2-on-the-fly")["verdict"] == FAILS
    assert judged(gaps({"cora": 0.02}, "rap", "fixed-diagonal"), "q2-on-the-fly")["verdict"] == HOLDS


def test_identity_is_not_the_lowest_where_full_weights_are_lower():
    means = {"rap": 0.82, "fixed-diagonal": 0.81, "fixed-full": 0.58, "random-full": 0.23}
    records = tables(*(score("cora", method, mean) for method, mean in means.items()))
    records["identity"] = [score("cora", "identity", 0.80)]
    assert judged(records, "identity-lowest")["verdict"] == FAILS
    assert judged(records, "identity-below-rap")["verdict"] == HOLDS
    records["identity"] = [score("cora", "identity", 0.1)]
    assert judged(records, "identity-lowest")["verdict"] == HOLDS


# Settings


def test_embeddings():
    records = everything()
    for claim in ("embedding-learnable", "embedding-random", "embedding-identity"):
        assert judged(records, claim)["verdict"] == HOLDS
        assert judged({}, claim)["verdict"] == MISSING
    worse = {"embeddings": [r for r in records["embeddings"] if r["config"]["embedding"] == "pretrained"]}
    worse["embeddings"] += [
        score(r["dataset"], "rap", 0.7, config={"embedding": "learnable"}) for r in worse["embeddings"]
    ]
    assert judged(worse, "embedding-learnable")["verdict"] == FAILS


def batches(shifts):
    rng, records = np.random.default_rng(0), []
    for size, shift in zip((256, 512, 1024), shifts, strict=True):
        noise = 0.002 * rng.normal(size=FOLDS)
        values = list(0.75 + shift + FOLD_NOISE + noise - noise.mean())
        records.append(score("proteins", "rap", 0, values=values, config={"batch_size": size}))
    return {"batches": records}


@pytest.mark.parametrize(
    ("shifts", "expected"), [((0, 0, 0), HOLDS), ((0, 0.005, 0.01), PART), ((0, 0.0, 0.05), FAILS)]
)
def test_batch_sizes(shifts, expected):
    found = judged(batches(shifts), "batch-size")
    assert found["verdict"] == expected
    assert len(found["details"]) == 3
    assert f"{100 * max(shifts):.2f} points" in found["figures"]


def test_the_expectation_is_paired_with_one_draw_of_the_same_model():
    rng = np.random.default_rng(0)
    draw = rng.normal(0.8, 0.05, SEEDS)
    expected = draw + 0.01 + 0.001 * rng.normal(size=SEEDS)
    records = tables(score("cora", "rap", 0, values=list(draw)))
    records["table1"].append(score("cora", "rap", 0, values=list(expected), column="expectation"))
    found = judged(records, "expectation")
    assert (found["verdict"], outcomes(found)) == (HOLDS, {"cora": "ahead"})
    records["table1"][1]["values"] = list(draw - (expected - draw))
    assert judged(records, "expectation")["verdict"] == FAILS


# Costs
