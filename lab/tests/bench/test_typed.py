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


@pytest.mark.slow
def test_from_a_database_to_predictions_in_processes_of_their_own():
    record = tables.bench_database(2000, timed=False)
    assert record["nodes"] == 2000
    assert record["fit_cpu_seconds"] > 1
    assert record["peak_memory_mb"] > 50


def test_in_the_generated_shop_what_was_bought_tells_who_leaves():
    data = tables.shop(20_000)
    assert {name: len(table) for name, table in data.tables.items()} == {
        "customers": 2000, "orders": 6000, "lines": 10_000, "products": 400, "visits": 1600
    }  # fmt: skip
    orders = data.tables["orders"].merge(data.tables["customers"], left_on="customer_id", right_on="id")
    early = orders[orders.created_at < orders.asked_at]
    count = early.groupby("customer_id").size().reindex(range(2000), fill_value=0)
    stays = (data.tables["customers"].churned == "no").to_numpy()
    assert count[stays].mean() > count[~stays].mean()
    assert np.array_equal(means_before(data)["orders customer_id count"].fillna(0), count)
