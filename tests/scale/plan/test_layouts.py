"""Costs follow the sizes they are made of; the layout that is taken is one that fits."""

from dataclasses import replace

import numpy as np
import pytest

from rapgnn.errors import InputError
from rapgnn.scale.plan.layouts import LAYOUTS, Machines, best, costs, from_disk, on_ray
from rapgnn.scale.plan.problem import Problem
from rapgnn.scale.plan.rates import Rates
from rapgnn.scale.plan.report import advice, plan_rows, show_seconds

TABLE = tuple(
    (float(size), width, 1e-9 * (2 + width / 4) * (1 + size / 2**29)) for size in (2**20, 2**29) for width in (1, 64)
)
RATES = Rates("a machine", 4, TABLE, 1e10, 1e9, 5e8, 2e9, 1e8, 5e7, 1e9, 100.0)
PAPERS = Problem(111_059_956, 1_615_685_872, 128, 3, 1_332_444)
GIB = 1 << 30


@pytest.mark.parametrize("layout", LAYOUTS)
def test_more_of_anything_costs_more(layout):
    machines = Machines(8, 64 * GIB)
    base = LAYOUTS[layout](PAPERS, machines, RATES)
    for field in ("nodes", "edges", "features", "layers", "rows"):
        larger = LAYOUTS[layout](replace(PAPERS, **{field: getattr(PAPERS, field) * 2}), machines, RATES)
        if field == "rows" and layout == "memory":
            assert larger.kept > base.kept
        else:
            assert larger.total > base.total, field
        if field in ("nodes", "edges"):
            assert larger.read > base.read


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_fits_is_within_the_memory(layout):
    for gib in (1, 8, 32, 64, 256, 4096):
        cost = LAYOUTS[layout](PAPERS, Machines(8, gib * GIB), RATES)
        assert not cost.fits or cost.memory <= gib * GIB
        assert cost.width * cost.blocks >= PAPERS.features / cost.machines
    assert cost.fits


def test_less_memory_makes_more_and_narrower_blocks():
    wide, narrow = (from_disk(PAPERS, Machines(1, gib * GIB), RATES) for gib in (256, 16))
    assert narrow.blocks > wide.blocks
    assert narrow.width < wide.width
    assert narrow.read > wide.read
    assert narrow.total > wide.total
    assert narrow.memory < 16 * GIB


def test_machines_share_the_columns():
    alone = from_disk(PAPERS, Machines(1, 64 * GIB), RATES)
    several = on_ray(PAPERS, Machines(8, 64 * GIB), RATES)
    assert several.total < alone.total
    assert several.moved >= PAPERS.kept_bytes * 7 // 8
    assert alone.moved == 0
    few = replace(PAPERS, features=3)
    assert on_ray(few, Machines(8, 64 * GIB), RATES).machines == 3


def test_a_small_graph_stays_in_memory_and_a_large_one_does_not():
    small = Problem(10_000, 200_000, 64, 2, 1000)
    assert best(costs(small, Machines(8, 64 * GIB), RATES)).layout == "memory"
    assert best(costs(PAPERS, Machines(1, 64 * GIB), RATES)).layout == "disk"
    assert best(costs(PAPERS, Machines(8, 64 * GIB), RATES)).layout in ("ray", "rows")
    nothing = costs(PAPERS, Machines(1, GIB), RATES)
    assert best(nothing) is None
    assert "no layout fits into 1GiB" in advice(nothing, Machines(1, GIB))


def test_rates_between_and_beyond_the_measured_points():
    assert RATES.per_edge(2**20, 1) == pytest.approx(TABLE[0][2])
    assert RATES.per_edge(2**10, 1) == RATES.per_edge(2**20, 1)
    middle = RATES.per_edge(2**24, 8)
    assert TABLE[0][2] < middle < TABLE[-1][2]
    assert RATES.per_edge(2**29, 128) == pytest.approx(2 * RATES.per_edge(2**29, 64))


def test_rates_survive_json_and_damage_is_refused():
    given = RATES.to_dict()
    assert Rates.from_dict(given) == RATES
    for damage in ({"memory": 0.0}, {"product": []}, {"product": [["a", 1, 2]]}, {"cores": 0}):
        with pytest.raises(InputError, match="rates are damaged"):
            Rates.from_dict(given | damage)
    with pytest.raises(InputError, match="rates are damaged"):
        Rates.from_dict([])


@pytest.mark.parametrize("wrong", [{"nodes": 0}, {"edges": -1}, {"features": 0}, {"layers": 0}, {"rows": 10**12}])
def test_sizes_that_are_none(wrong):
    with pytest.raises(InputError):
        replace(PAPERS, **wrong)


def test_every_layout_has_a_row_of_words():
    rows = plan_rows(costs(PAPERS, Machines(8, 64 * GIB), RATES))
    assert len(rows) == len(LAYOUTS)
    assert "too much" in rows[0]["memory per machine"]
    assert all(row["time"] for row in rows)


@pytest.mark.parametrize(("seconds", "text"), [(0.05, "50 ms"), (3, "3.0 s"), (600, "10.0 min"), (9e5, "10.4 days")])
def test_times_for_people(seconds, text):
    assert show_seconds(seconds) == text


def test_seconds_add_up():
    cost = from_disk(PAPERS, Machines(1, 64 * GIB), RATES)
    assert np.isclose(cost.total, sum(cost.seconds.values()))
    assert cost.to_dict()["total_seconds"] == cost.total
