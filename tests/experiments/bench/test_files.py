"""Loading a folder of tables, timed."""

import pytest

from rapgnn.experiments.bench.files import IDS, bench


@pytest.mark.parametrize("ids", IDS)
def test_the_record_of_a_load(ids):
    record = bench(400, ids)
    assert (record["ids"], record["listed_edges"], record["nodes"]) == (ids, 400, 40)
    assert record["features"] == 5  # two numbers, three kinds
    assert 400 < record["edges"] <= 800  # both directions, duplicates once
    assert record["seconds"] > 0
    assert record["megabytes"] >= 0
    assert {"hardware", "date", "versions", "dataset"} <= set(record)
