"""All claims together, on records as the items measure them."""

import json
import math
import re

import pytest

from claim_records import ITEMS, everything, gaps, judged, outcomes, score, tables
from rapgnn.experiments.reproduce.cells import Cell
from rapgnn.experiments.reproduce.claims.verdict import FAILS, HOLDS, MISSING, PART
from rapgnn.experiments.reproduce.claims.verdicts import PROVISIONAL, format_verdicts, verdicts
from rapgnn.experiments.reproduce.figures import collapse as collapse_item
from rapgnn.experiments.reproduce.figures import trained_weights
from rapgnn.experiments.reproduce.figures.collapse import part_of, strategy_cell
from rapgnn.experiments.reproduce.item import Graphs, Scale
from rapgnn.experiments.reproduce.kinds import KINDS
from rapgnn.experiments.reproduce.timed import time_cell
from rapgnn.models.config import Config


def by_depth(**falls):
    return {
        "depth": [
            score("pubmed", method.replace("_", "-"), 0.78 - (fall if depth == 32 else 0), config={"num_layers": depth})
            for method, fall in falls.items()
            for depth in (32, 8, 2)
        ]
    }


@pytest.mark.parametrize(
    ("claim", "falls", "expected"),
    [
        ("depth-diagonal", {"rap": 0.0, "fixed_diagonal": 0.0}, HOLDS),
        ("depth-diagonal", {"rap": -0.05, "fixed_diagonal": 0.015}, HOLDS),
        ("depth-diagonal", {"rap": 0.0, "fixed_diagonal": 0.1}, PART),
        ("depth-diagonal", {"rap": 0.1, "fixed_diagonal": 0.1}, FAILS),
        ("depth-full", {"random_full": 0.3, "fixed_full": 0.1}, HOLDS),
        ("depth-full", {"random_full": 0.3, "fixed_full": 0.0}, PART),
        ("depth-full", {"random_full": 0.03, "fixed_full": 0.03}, PART),
        ("depth-full", {"random_full": 0.0, "fixed_full": 0.0}, FAILS),
        ("depth-end-to-end", {"end_to_end": 0.2}, HOLDS),
        ("depth-end-to-end", {"end_to_end": -0.2}, FAILS),
        ("depth-ahead", {"rap": 0.0, "end_to_end": 0.3}, PART),
    ],
)
def test_accuracy_by_depth(claim, falls, expected):
    assert judged(by_depth(**falls), claim)["verdict"] == expected


# Measured records


def measured():
    """The items of the figures on a tiny graph, as they are measured."""
    name, graphs, small = "sbm:nodes=120,train=10,val=20,test=20", Graphs(), {"num_layers": 4, "hidden_channels": 8}
    records = {"collapse": [], "weights": [], "depth": []}
    for method in ("rap", "end-to-end", "random-full-uniform"):
        spec = strategy_cell(method, Scale(quick=True)).spec
        config = Config(**spec["config"]).update(**small, epochs=3, pretrain_epochs=3).to_dict()
        whole = Cell("collapse", name, spec | {"config": config, "layers": [0, 1, 2, 4]})
        found = KINDS["collapse"](whole, graphs, None)
        for layer in (0, 1, 2, 4):
            part = part_of(whole, "layer", layer, {})
            records["collapse"].append({"dataset": name} | collapse_item.join(part, [found]))
        if method == "end-to-end":
            matrices = [trained_weights.join(part_of(whole, "matrix", n, {}), [found]) for n in (1, 4)]
            records["weights"] += [{"dataset": name} | matrix for matrix in matrices]
    for method in ("end-to-end", "rap", "rap-stepwise"):
        cell = time_cell(name, method, small | {"num_layers": 8, "epochs": 4, "repeats": 1}, "cpu", {})
        records["depth"].append(KINDS["time"](cell, graphs, None) | {"dataset": "pubmed"})
    return records


def test_claims_find_what_the_items_measure():
    found = {v["claim"]: v for v in verdicts(measured())}
    ranks = ("rank-full", "rank-diagonal", "rank-end-to-end", "rank-above-end-to-end", "variance", "trained-weights")
    for claim in (*ranks, "q3-training", "q3-inference"):
        assert found[claim]["verdict"] != MISSING, claim
    assert [row["layer"] for row in found["trained-weights"]["details"]] == [1, 4]
    assert {row["method"] for row in found["q3-training"]["details"]} == {"rap", "rap-stepwise"}
    json.dumps(list(found.values()), allow_nan=False)


# All of them


def test_every_claim_is_judged_where_everything_is_measured():
    found = verdicts(everything())
    assert [v["claim"] for v in found if v["verdict"] == MISSING] == []
    for v in found:
        assert v["details"], v["claim"]
        assert all(not isinstance(value, dict | list) for row in v["details"] for value in row.values())


@pytest.mark.parametrize("item", sorted({*ITEMS.values(), "embeddings", "batches", "depth", "memory", "collapse"}))
def test_an_item_may_be_missing(item):
    whole, less = everything(), everything()
    del less[item]
    changed = [a["claim"] for a, b in zip(verdicts(whole), verdicts(less), strict=True) if a != b]
    assert changed  # and nothing raised


def test_the_order_of_seeds_and_of_records_does_not_matter():
    records, other = everything(), everything()
    for rows in other.values():
        rows.reverse()
        for r in rows:
            if r.get("values") and "fold" not in r["protocol"] and r["column"] not in ("faithful", "expectation"):
                r["values"] = r["values"][::-1]
    for a, b in zip(verdicts(records), verdicts(other), strict=True):
        assert (a["verdict"], a["claim"]) == (b["verdict"], b["claim"])
        assert a["figures"] == b["figures"]


@pytest.mark.parametrize("values", [[0.8] * 5, [0.8], [0.8, None, 0.7, 0.8, 0.9], [0.8, 0.8]])
def test_no_nan_whatever_the_values(values):
    records = everything()
    for rows in records.values():
        for r in rows:
            if r.get("values"):
                mean = math.nan if None in values else 0.8
                r |= {"values": values, "strict_values": values, "mean": mean, "seeds": list(range(len(values)))}
    found = verdicts(records)
    text = json.dumps(found, allow_nan=False) + format_verdicts(found)
    assert "nan" not in text.lower().replace("nanmean", "")


def test_different_values_without_spread_are_not_judged():
    records = tables(*(score("cora", m, 0, values=[v] * 5) for m, v in (("rap", 0.8), ("end-to-end", 0.7))))
    found = judged(records, "q1-competitive")
    assert (found["verdict"], outcomes(found)) == (MISSING, {"cora": "no test"})
    assert "one value, no test" in found["test"]
    assert "+10.00 points" in found["figures"]


def test_quick_records_make_a_provisional_verdict():
    records = gaps({"cora": 0.02, "citeseer": 0.02})
    assert not judged(records, "q1-competitive")["quick"]
    records["table1"][3]["quick"] = True
    found = judged(records, "q1-competitive")
    assert found["quick"]
    assert f"{HOLDS} ({PROVISIONAL})" in format_verdicts([found])


def test_every_number_of_a_comparison_follows_the_records():
    """One point more for RAP-GNN: every difference of it in the figures is one more."""
    before = gaps({"cora": 0.02, "citeseer": -0.03, "pubmed": -0.02})
    after = gaps({"cora": 0.03, "citeseer": -0.02, "pubmed": -0.01})
    numbers = [
        [float(n) for n in re.findall(r"[-+]\d+\.\d+", judged(records, "q1-competitive")["figures"])]
        for records in (before, after)
    ]
    assert len(numbers[0]) >= 5  # three datasets, their mean, the end of an interval
    assert [b - a for a, b in zip(*numbers, strict=True)] == pytest.approx([1.0] * len(numbers[0]), abs=0.011)


def test_markdown_has_a_row_for_each_claim_and_the_rules():
    found = verdicts(everything())
    text = format_verdicts(found)
    table = text.split("\n\n")[1].splitlines()
    assert len(table) == len(found) + 2
    for v, line in zip(found, table[2:], strict=True):
        assert line.startswith(f"| {v['says']} | {v['verdict']} | {v['figures']}")
        assert line.count("|") == 4
        assert f"### {v['claim']}: {v['verdict']}" in text
        assert f"Rule: {v['rule']}" in text
