"""The items: what they measure, and that their tables say what was measured, what was not, and what was cut."""

import pytest

from rapgnn.network.config import Config
from rapgnn_lab.baselines.systems import METHODS
from rapgnn_lab.paper import rows
from rapgnn_lab.paper.cells import PARTS, Cell, Scale, cell_key, open_store
from rapgnn_lab.paper.items import ITEMS
from rapgnn_lab.paper.rows import cut, walks
from rapgnn_lab.paper.run import reproduce
from small_items import QUICK, SMALL, Stand, small_config

TABLES = ("table1", "table2", "table3", "identity", "embeddings", "batches", "molbace")
MINE = {name: ITEMS[name] for name in TABLES}
COLUMNS = {"faithful", "best", "reachable", "expectation", "another draw", "uniform", "linear", "own search"}
COLUMNS |= {"MLP", "GNN layer"}


@pytest.fixture(autouse=True)
def _searched(monkeypatch):
    monkeypatch.setattr(rows, "chosen_config", small_config)


@pytest.fixture
def measure(tmp_path):
    """Measures an item: its records and its page."""

    def call(item):
        run = reproduce([item], QUICK, Stand(), open_store(tmp_path))
        assert run.failed == {}
        return run.records[item.name], (tmp_path / f"{item.name}.md").read_text()

    return call


def trainings(name: str) -> list[Cell]:
    """The cells of an item but for the estimator's."""
    return [cell for cell in MINE[name].cells(Scale(), Stand()) if cell.kind != "estimator"]


@pytest.mark.parametrize("short", [False, True])
@pytest.mark.parametrize("name", list(MINE))
def test_cells_are_measurable_and_labelled(name, short):
    graphs = Stand()
    cells = MINE[name].cells(Scale(short), graphs)
    assert cells
    for cell in cells:
        assert cell.kind in PARTS
        assert cell.labels["column"] in COLUMNS
        assert cell_key(cell, graphs.checksum(cell.dataset))
        if cell.kind == "estimator":
            continue
        config = Config(**cell.spec["config"])
        folds = graphs.get(cell.dataset).folds
        assert len(cell.spec["seeds"]) == (1 if folds else 2 if short else 5)
        assert cell.spec.get("folds") == ((2 if short else 10) if folds else None)
        cut = (config.epochs, config.pretrain_epochs) != (500, 300) and METHODS[cell.spec["method"]].configured
        assert ("cut" in cell.labels) == cut
        assert short or "cut" not in cell.labels
    places = [(c.dataset, c.labels["title"], c.labels["column"]) for c in cells]
    assert len(set(places)) == len(places)


@pytest.mark.parametrize("name", ["table1", "table2", "table3", "molbace"])
def test_the_faithful_rap_predicts_by_its_draw_and_its_expectation_stands_beside_it(name):
    configs = {c.labels["column"]: c.spec["config"] for c in trainings(name) if c.spec["method"] == "rap"}
    how = {c: (config.pop("inference"), config.pop("keep_draw")) for c, config in configs.items() if c != "best"}
    assert how["faithful"] == ("sample", True)
    assert how["expectation"][0] == "expected"
    assert how.get("another draw", ("sample", False)) == ("sample", False)
    assert configs["faithful"] == configs["expectation"] == configs.get("another draw", configs["faithful"])


def test_identity_shares_the_cells_of_table_1():
    keys = {}
    for name in ("table1", "identity", "embeddings"):
        keys[name] = {cell_key(c, "") for c in MINE[name].cells(Scale(), Stand())}
    assert len(keys["identity"] - keys["table1"]) == 6  # identity weights on three graphs, with two settings
    assert len(keys["embeddings"] & keys["table1"]) == 12  # end-to-end and RAP-GNN


@pytest.mark.parametrize("name", list(MINE))
def test_a_table_of_nothing_says_so(name):
    assert "not searched" in MINE[name].show([])


@pytest.mark.parametrize(
    ("method", "settings", "walking"),
    [
        ("rap", {}, False),
        ("rap", {"embedding_output": "none"}, True),
        ("rap", {"embedding_output": "none", "activation": "identity"}, False),
        ("rap", {"embedding": "learnable"}, True),
        ("rap", {"layer_dropout": 0.1}, True),
        ("fixed-diagonal", {"embedding_output": "none"}, False),
        ("random-full", {}, True),
        ("end-to-end", {}, True),
        ("pretrained-embedding", {}, False),
    ],
)
def test_what_walks_through_the_graph_is_cut_most(method, settings, walking):
    config, graph = SMALL.update(epochs=500, **settings), Stand().get("cora")
    assert walks(method, config) == walking
    few, said = cut(graph, method, config, Scale(quick=True))
    expected = 20 if walking else 500 if method == "pretrained-embedding" else 200
    assert few.epochs == expected
    assert (f"{expected} of 500 epochs" in said) == (expected < 500)
    assert cut(graph, method, config, Scale()) == (config, "")


def test_of_many_graphs_a_quick_run_trains_on_some():
    graphs = Stand()
    full, short = (MINE["molbace"].cells(Scale(quick, many_graphs=59), graphs) for quick in (False, True))
    assert {c.spec.get("every") for c in full} == {None}
    assert {c.spec.get("every") for c in short} == {20}
    assert all("every 20th graph" in c.labels["cut"] for c in short)
    assert [c.spec["config"]["batch_size"] for c in trainings("batches")] == [256, 512, 1024]  # the paper's
    table1 = MINE["table1"].cells(Scale(quick=True, many_graphs=59), graphs)
    assert {c.spec.get("every") for c in table1} == {None}
