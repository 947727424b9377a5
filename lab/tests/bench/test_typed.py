"""``bench typed``: labels lie where the kinds say, and every rival is trained on every split."""

import numpy as np
import pandas as pd
import pytest

from rapgnn_lab.bench.typed import rivals, tables
from rapgnn_lab.bench.typed.graphs import place_of_label
from rapgnn_lab.bench.typed.rivals import RIVALS, neighbours, tune
from rapgnn_lab.bench.typed.tables import TimedTables, means_before

SMALL = place_of_label("relation", each=8, n=300)


@pytest.mark.parametrize("where", ["relation", "path", "features", "noise", "quiet"])
def test_splits_have_rows_of_every_class(where):
    data = place_of_label(where, each=5, n=300)
    assert np.bincount(data.y[data.train]).tolist() == [5, 5, 5]
    assert not set(data.train) & set(data.val)
    assert not set(data.test) & {*data.train, *data.val}
    assert all(ends[0].max() < data.counts[key[0]] and ends[1].max() < data.counts[key[2]]
               for key, ends in data.edges.items())  # fmt: skip


def test_what_rivals_see():
    assert neighbours(SMALL)[:, 0].sum() == SMALL.edges["item", "of", "owner"].shape[1]


@pytest.mark.parametrize("rival", list(RIVALS))
def test_every_rival_is_trained(rival):
    record = tune(rival, [SMALL], trials=1, epochs=5)
    assert 0 <= record["mean"] <= 1
    assert record["run_seconds"] > 0


def test_what_trees_see_of_facts_is_earlier_than_the_row(monkeypatch):
    rng, n = np.random.default_rng(0), 120
    day = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(n), unit="D")
    rows = pd.DataFrame({"id": np.arange(n), "shop_id": np.arange(n) % 6, "day": day, "x": rng.random(n)})
    rows = rows.assign(busy=np.where(rows.shop_id % 2, "yes", "no"))
    facts = pd.DataFrame({"id": np.arange(n), "shop_id": rows.shop_id, "sales": np.arange(n) * 1.0, "created_at": day})
    shops = pd.DataFrame({"id": np.arange(6)})
    data = TimedTables({"days": rows, "sold": facts, "shops": shops}, "days", "busy", "day", {"sold": ("shop_id",)})
    seen = means_before(data)
    assert seen["sold shop_id count"].isna().sum() == 6
    assert seen["sold shop_id sales last"].iloc[50] == 44
    assert seen["sold shop_id sales mean"].iloc[50] == np.mean(np.arange(50 % 6, 50, 6))
    monkeypatch.setitem(tables.TABLES, "days", lambda: data)
    record = tables.bench_tables("days", 1)
    assert 0 <= record["mean"] <= 1
    assert {one["title"] for one in record["rival_records"]} == set(tables.RIVALS)


def test_a_record_says_who_is_best(monkeypatch):
    monkeypatch.setitem(rivals.GRAPHS, "small", lambda each, seed: place_of_label("relation", each, seed, 300))
    record = rivals.bench("small", 8, 1, 1, ["trees"], epochs=5)
    assert record["difference"] == pytest.approx(100 * (record["mean"] - record["best_rival_mean"]))
