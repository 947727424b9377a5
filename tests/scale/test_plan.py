"""Costs follow the sizes they are made of; the layout that is taken is one that fits."""

from dataclasses import replace

import pytest

from rapgnn.datasets.catalog import BlockModel
from rapgnn.errors import InputError
from rapgnn.scale.disk_graph import DiskGraph
from rapgnn.scale.plan import Machines, Problem, Rates, advice, best, costs, from_disk, in_memory, on_ray

WAYS = [in_memory, from_disk, on_ray]
TABLE = tuple(
    (float(size), width, 1e-9 * (2 + width / 4) * (1 + size / 2**29)) for size in (2**20, 2**29) for width in (1, 64)
)
RATES = Rates("a machine", 4, TABLE, 1e10, 1e9, 5e8, 2e9, 1e8, 5e7, 1e9, 100.0)
PAPERS = Problem(111_059_956, 1_615_685_872, 128, 3, 1_332_444)
GIB = 1 << 30


@pytest.mark.parametrize("layout", WAYS)
def test_more_of_anything_costs_more(layout):
    machines = Machines(8, 64 * GIB)
    base = layout(PAPERS, machines, RATES)
    for field in ("nodes", "edges", "features", "layers", "rows"):
        larger = layout(replace(PAPERS, **{field: getattr(PAPERS, field) * 2}), machines, RATES)
        if field == "rows" and layout is in_memory:
            assert larger.kept > base.kept
        else:
            assert larger.total > base.total, field
        if field in ("nodes", "edges"):
            assert larger.read > base.read


@pytest.mark.parametrize("layout", WAYS)
def test_what_fits_is_within_the_memory(layout):
    for gib in (1, 8, 32, 64, 256, 4096):
        cost = layout(PAPERS, Machines(8, gib * GIB), RATES)
        assert not cost.fits or cost.memory <= gib * GIB
        assert cost.width * cost.blocks >= PAPERS.features / cost.machines
    assert cost.fits


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
    assert best(costs(PAPERS, Machines(8, 64 * GIB), RATES)).layout == "ray"
    nothing = costs(PAPERS, Machines(1, GIB), RATES)
    assert best(nothing) is None
    assert "no layout fits into 1GiB" in advice(nothing, Machines(1, GIB))


def test_rates_survive_json_and_damage_is_refused():
    given = dict(vars(RATES))
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


def test_the_sizes_of_a_graph_on_disk(tmp_path):
    graph = DiskGraph.write(tmp_path / "g", BlockModel(nodes=1500, degree=12.0, features=3, seed=1).generate())
    sizes = Problem.of(graph, layers=3)
    assert (sizes.nodes, sizes.edges, sizes.features) == (1500, graph.num_edges, 3)
    assert sizes.rows == len(graph.train) + len(graph.val)
    files = [(graph.folder / f"{name}.npy").stat().st_size for name in ("indptr", "indices", "features")]
    assert sizes.graph_bytes + sizes.feature_bytes == pytest.approx(sum(files), rel=0.01)
