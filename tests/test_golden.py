"""The numbers of earlier versions: a change of shape must not change what is computed.

Where one must change, raise ``numerics`` of the methods that it belongs to (``rapgnn.compare.METHODS``): stored
measurements are found by it.
"""

import json
from pathlib import Path

import pytest

from golden.records import records

GOLDEN = Path(__file__).parent / "golden"
# On one machine the numbers are exact. Processors round differently, training adds that up, and a metric of few rows
# jumps where one of them changes sides.
CLOSE, METRIC = {"rel": 2e-3, "abs": 2e-4}, {"abs": 0.04}


def approximately(value, tolerance=CLOSE):
    if isinstance(value, dict):
        return {k: approximately(v, METRIC if k in ("history", "trials") else tolerance) for k, v in value.items()}
    if isinstance(value, list):
        return [approximately(item, tolerance) for item in value]
    return pytest.approx(value, nan_ok=True, **tolerance) if isinstance(value, float) else value


@pytest.fixture(scope="module")
def now():
    return records()


@pytest.mark.parametrize("name", json.loads((GOLDEN / "records.json").read_text()))
def test_the_numbers_are_those_of_the_record(now, name):
    assert now[name] == approximately(json.loads((GOLDEN / "records.json").read_text())[name])


def test_every_record_has_a_number_to_compare(now):
    assert set(now) == set(json.loads((GOLDEN / "records.json").read_text()))
