"""The paper's numbers: complete tables, names of the package, and lookups that answer or refuse."""

from dataclasses import replace

import pytest

from rapgnn.compare import STRATEGIES
from rapgnn.datasets import DATASETS
from rapgnn.errors import InputError
from rapgnn.network.encode import EMBEDDINGS
from rapgnn_lab.baselines.systems import METHODS, RESERVOIRS
from rapgnn_lab.results import TABLES, Published, find_published, one_published, published

PERCENT = ("accuracy", "rocauc")
PAPER_METHODS = set(STRATEGIES) - {"identity"}


def test_cells_have_names_of_the_package_and_numbers_as_printed():
    cells = published()
    assert {cell.table for cell in cells} == set(TABLES)
    keys = {replace(cell, mean=None, std=None, note=None) for cell in cells}
    assert len(keys) == len(cells)  # none stands twice
    for cell in cells:
        assert cell.dataset in DATASETS, cell
        assert cell.method in METHODS, cell
        assert cell.embedding is None or cell.embedding in EMBEDDINGS, cell
        if cell.mean is None:
            assert cell.note, cell
        elif cell.metric in PERCENT:
            assert 0 < cell.std < cell.mean < 100, cell
            assert cell.mean > 1, cell  # percent, not a fraction
        else:
            assert cell.mean > 0, cell


@pytest.mark.parametrize(("table", "datasets"), [("planetoid", 3), ("tu", 3), ("molecules", 4), ("ogbn", 2)])
def test_a_table_of_methods_has_all_of_them(table, datasets):
    methods: dict[str, set[str]] = {}
    for cell in find_published(table):
        methods.setdefault(cell.dataset, set()).add(cell.method)
    assert [names - set(RESERVOIRS) for names in methods.values()] == [PAPER_METHODS] * datasets


def test_numbers_that_stand_in_two_tables_agree():
    """Where the paper prints a number again it is the same, but for the two cells that have a note."""
    for table, again in (("planetoid", "weights"), ("planetoid", "embeddings"), ("ogbn", "ogbn-proteins")):
        for cell in find_published(table):
            pretrained = {"embedding": "pretrained"} if again == "embeddings" and cell.method == "rap" else {}
            same = {"dataset": cell.dataset, "method": cell.method, "metric": cell.metric}
            for other in find_published(again, **same, **pretrained):
                assert other.note or (other.mean, other.std) == (cell.mean, cell.std), (cell, other)
    assert len([c for c in published() if c.note and c.mean is not None and c.table == "weights"]) == 2


def test_known_cells():
    assert one_published("planetoid", dataset="cora", method="rap") == Published(
        "planetoid", "cora", "rap", "accuracy", 82.42, 0.3
    )
    assert one_published("embeddings", dataset="citeseer", embedding="identity").note == "OOM"
    products = {"dataset": "ogbn-products", "method": "rap", "metric": "train_ms_per_epoch"}
    assert one_published("ogbn-products", **products, backbone="sage").mean == 7934


@pytest.mark.parametrize(
    "fields",
    [{"table": "nodes"}, {"table": "tu", "seed": 1}, {"table": "tu", "method": "rap"}, {"table": "tu", "dataset": "x"}],
)
def test_a_lookup_that_fits_no_cell_or_many_is_refused(fields):
    with pytest.raises(InputError):
        one_published(**fields)
