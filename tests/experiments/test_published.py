"""The paper's numbers: complete tables, names of the package, and lookups that answer or refuse."""

import re

import pytest

from rapgnn.datasets import DATASETS
from rapgnn.errors import InputError
from rapgnn.experiments.published import TABLES, Published, find_published, one_published, published
from rapgnn.layers.embedding import EMBEDDINGS
from rapgnn.training.methods import METHODS, RESERVOIRS, STRATEGIES

PERCENT = ("accuracy", "rocauc")
PAPER_METHODS = set(STRATEGIES) - {"identity"}


def test_every_table_has_cells_and_no_cell_stands_twice():
    cells = published()
    assert {cell.table for cell in cells} == set(TABLES)
    keys = [
        (c.table, c.dataset, c.method, c.metric, c.embedding, c.backbone, c.batch_size, c.num_layers) for c in cells
    ]
    assert len(set(keys)) == len(keys)


def test_names_are_those_of_the_package():
    for cell in published():
        assert cell.dataset in DATASETS, cell
        assert cell.method in METHODS, cell
        assert cell.table == "tu" or cell.method not in RESERVOIRS, cell
        assert cell.embedding is None or cell.embedding in EMBEDDINGS, cell


def test_numbers_are_as_printed():
    for cell in published():
        if cell.mean is None:
            assert cell.std is None, cell
            assert cell.note, cell
        elif cell.metric in PERCENT:
            assert 1 < cell.mean < 100, cell  # percent, not a fraction
            assert cell.std is not None, cell
            assert 0 < cell.std < cell.mean, cell
        elif cell.metric == "rmse":
            assert cell.dataset == "molesol", cell
            assert 0 < cell.mean < 2, cell
        else:
            assert re.fullmatch(r"(train|eval)_ms_per_epoch|train_ms_saved|\w+_vs_end_to_end", cell.metric), cell
            assert cell.mean > 0, cell


@pytest.mark.parametrize(
    ("table", "dataset"),
    [("planetoid", d) for d in ("cora", "citeseer", "pubmed")]
    + [("tu", d) for d in ("mutag", "ptc", "proteins")]
    + [("molecules", d) for d in ("molesol", "moltox21", "molhiv", "molbace")]
    + [("ogbn", d) for d in ("ogbn-proteins", "ogbn-products")],
)
def test_a_table_of_methods_has_all_of_them(table, dataset):
    found = {cell.method for cell in find_published(table, dataset=dataset)}
    assert found - set(RESERVOIRS) == PAPER_METHODS


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
    assert one_published("tu", dataset="ptc", method="fdgnn").mean == 64.3
    assert one_published("molecules", dataset="molbace", method="end-to-end").std == 4.0
    products = {"dataset": "ogbn-products", "method": "rap", "metric": "train_ms_per_epoch"}
    assert one_published("ogbn-products", **products, backbone="sage").mean == 7934
    assert one_published("costs", num_layers=32, metric="speedup_vs_end_to_end").mean == 6


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"table": "nodes"}, "table 'nodes' is unknown"),
        ({"table": "tu", "seed": 1}, "field 'seed' is unknown"),
        ({"table": "tu", "method": "rap"}, "has 3 cells with method='rap', not one"),
        ({"table": "tu", "dataset": "cora"}, "has 0 cells"),
    ],
)
def test_a_lookup_that_fits_no_cell_or_many_is_refused(fields, said):
    with pytest.raises(InputError, match=re.escape(said)):
        one_published(**fields)
