"""The items: what they measure, and that their tables say what was measured, what was not, and what was cut."""

import re
from dataclasses import replace

import pytest

from rapgnn.experiments.published import one_published
from rapgnn.experiments.reproduce import batches, embeddings, identity, molbace, quick, rows, table1, table2, table3
from rapgnn.experiments.reproduce.cells import Cell, cell_key
from rapgnn.experiments.reproduce.item import Scale
from rapgnn.experiments.reproduce.items import ITEMS
from rapgnn.experiments.reproduce.kinds import KINDS
from rapgnn.experiments.reproduce.quick import Budget, cut, walks
from rapgnn.experiments.reproduce.store import Store
from rapgnn.experiments.reproduce.whole import reproduce
from rapgnn.models.config import Config
from rapgnn.training.methods import METHODS
from small_items import SMALL, Stand, small_config

MINE = {m.ITEM.name: m.ITEM for m in (table1, table2, table3, identity, embeddings, batches, molbace)}
COLUMNS = {"faithful", "best", "expectation", "another draw", "uniform", "linear", "own search"}


@pytest.fixture(autouse=True)
def _searched(monkeypatch):
    monkeypatch.setattr(rows, "chosen_config", small_config)


def only(name: str, *datasets: str):
    item = MINE[name]
    return replace(item, cells=lambda *given: [c for c in item.cells(*given) if c.dataset in datasets])


@pytest.fixture
def measure(tmp_path, monkeypatch):
    """Measures an item with even fewer epochs than a quick run has: its records and its page."""
    monkeypatch.setattr(quick, "STORED", Budget(1e9, 4, 8))
    for name in ("WALKED", "BATCHED"):
        monkeypatch.setattr(quick, name, Budget(1e9, 2, 4))
    monkeypatch.setattr(quick, "PRETRAINED", Budget(1e9, 2, 3))

    def call(item):
        run = reproduce([item], Scale(quick=True), Stand(), Store(tmp_path))
        assert run.failed == {}
        return run.records[item.name], (tmp_path / f"{item.name}.md").read_text()

    return call


def one(records: list[dict], method: str, column: str) -> dict:
    (found,) = [r for r in records if (r["method"], r["column"]) == (method, column)]
    return found


def line(page: str, heading: str, title: str) -> list[str]:
    """The cells of one row of one dataset's table."""
    part = page.partition(f"## {heading}")[2].partition("## ")[0]
    (found,) = [row for row in part.splitlines() if row.strip("|* ").split(" |")[0].strip("* ") == title]
    return [cell.strip() for cell in found.strip("|").split("|")]


def trainings(name: str) -> list[Cell]:
    """The cells of an item but for the estimator's."""
    return [cell for cell in MINE[name].cells(Scale(), Stand()) if cell.kind != "estimator"]


def test_the_items_have_the_order_of_the_paper():
    assert list(ITEMS) == [
        *("table1", "table2", "table3", "large", "identity", "embeddings", "batches", "molbace", "estimators"),
        *("depth", "memory", "collapse", "weights"),
    ]
    assert all(item.name == name and item.title for name, item in ITEMS.items())


@pytest.mark.parametrize("short", [False, True])
@pytest.mark.parametrize("name", list(MINE))
def test_cells_are_measurable_and_labelled(name, short):
    graphs = Stand()
    cells = MINE[name].cells(Scale(short), graphs)
    assert cells
    for cell in cells:
        assert cell.kind in KINDS
        assert cell.labels["column"] in COLUMNS
        assert cell_key(cell, graphs.checksum(cell.dataset))
        if cell.kind == "estimator":
            continue
        config = Config(**cell.spec["config"])
        folds = graphs.get(cell.dataset).folds
        assert len(cell.spec["seeds"]) == (1 if folds else 2 if short else 5)
        assert cell.spec.get("folds") == ((2 if short else 10) if folds else None)
        cut = (config.epochs, config.pretrain_epochs) != (500, 300) and not METHODS[cell.spec["method"]].reservoir
        assert ("cut" in cell.labels) == cut
        assert short or "cut" not in cell.labels
    places = [(c.dataset, c.labels["title"], c.labels["column"]) for c in cells]
    assert len(set(places)) == len(places)


def test_the_faithful_rap_predicts_by_one_draw_and_its_expectation_stands_beside_it():
    for name in ("table1", "table2", "table3", "molbace"):
        cells = trainings(name)
        inferences = {c.labels["column"]: c.spec["config"]["inference"] for c in cells if c.spec["method"] == "rap"}
        assert inferences["faithful"] == "sample"
        assert inferences["expectation"] == "expected"
        how = {"inference": "", "keep_draw": None}
        same = {c.labels["column"]: c.spec["config"] | how for c in cells if c.spec["method"] == "rap"}
        assert same["faithful"] == same["expectation"] == same.get("another draw", same["faithful"])
        kept = {c.labels["column"]: c.spec["config"]["keep_draw"] for c in cells if c.spec["method"] == "rap"}
        assert kept["faithful"]
        assert not kept.get("another draw")


def test_signed_embeddings_have_no_exact_form(monkeypatch, measure):
    monkeypatch.setattr(rows, "chosen_config", lambda *given: small_config(*given).update(embedding_output="none"))
    cells = trainings("molbace")
    assert "expectation" not in {c.labels["column"] for c in cells}
    records, page = measure(only("molbace", "molbace"))
    assert line(page, "molbace", "RAP-GNN, exact expectation")[1] == "no exact form"
    assert "does not end in a ReLU" in page
    assert len(records) == 10  # six methods, two of them in the other column as well, another draw, and an estimator


def test_only_what_is_compared_has_a_best_column():
    cells = [c for c in trainings("table1") if c.labels["column"] == "best"]
    assert {c.spec["method"] for c in cells} == {"rap", "end-to-end"}


def test_identity_shares_the_cells_of_table_1():
    keys = {}
    for name in ("table1", "identity", "embeddings"):
        keys[name] = {cell_key(c, "") for c in MINE[name].cells(Scale(), Stand())}
    assert len(keys["identity"] - keys["table1"]) == 6  # identity weights on three graphs, with two settings
    assert len(keys["embeddings"] & keys["table1"]) == 12  # end-to-end and RAP-GNN


def test_full_weights_of_the_observation_have_rows_of_their_own():
    cells = [c for c in MINE["table1"].cells(Scale(), Stand()) if c.labels["column"] == "uniform"]
    assert {c.spec["method"] for c in cells} == {"fixed-full", "random-full"}
    assert all(c.spec["config"]["params"] == [0.0, 1.0] for c in cells)
    assert all(c.spec["config"]["distribution"] == "uniform" for c in cells)


def test_a_table_has_ours_beside_the_papers(measure):
    records, page = measure(only("table1", "cora"))
    for method in table1.METHODS_OF_TABLES:
        paper = one_published("planetoid", dataset="cora", method=method)
        mine = {r["column"]: r for r in records if r["title"] == METHODS[method].title}
        faithful = mine["faithful"]
        shown = [f"{100 * r['mean']:.2f} ± {100 * r['std']:.2f}" for r in mine.values()]
        assert ("best" in mine) == (method in ("rap", "end-to-end"))
        shown += ["–"] * (2 - len(shown))
        gap = f"{100 * faithful['mean'] - paper.mean:+.2f}"
        title = METHODS[method].title
        assert line(page, "Cora", title)[1:] == [*shown, f"{paper.mean:.2f} ± {paper.std:.2f}", gap]
        assert faithful["paper_mean"] == pytest.approx(paper.mean / 100)
    assert line(page, "PubMed", "RAP-GNN")[1:3] == ["not searched"] * 2
    assert line(page, "Cora", "RAP-GNN, exact expectation")[2:] == ["", "–", "–"]
    assert "over 2 seeds" in page
    assert re.search(r"Cora: .*4 of 500 epochs: End-to-End", page)
    assert "3 of 300 of phase 1" in page


def test_folds_have_both_protocols(measure):
    records, page = measure(only("table2", "ptc"))
    rap = one(records, "rap", "faithful")
    accuracy, strict = (f"{100 * rap[f'{k}mean']:.1f} ± {100 * rap[f'{k}std']:.1f}" for k in ("", "strict_"))
    assert line(page, "PTC", "RAP-GNN")[1:4] == [accuracy, strict, "64.2 ± 9.8"]
    assert line(page, "PTC", "Fixed Random Weights")[2] == "–"
    for method, paper in (("fdgnn", "64.3 ± 5.4"), ("mrgnn", "57.6 ± 10.0"), ("p-rgnn", "N/A")):
        mine = one(records, method, "faithful")
        gap = "–" if paper == "N/A" else f"{100 * mine['strict_mean'] - float(paper[:4]):+.1f}"
        shown = [f"{100 * mine[f'{k}mean']:.1f} ± {100 * mine[f'{k}std']:.1f}" for k in ("", "strict_")]
        assert line(page, "PTC", METHODS[method].title)[1:] == [*shown, paper, gap]
    assert one(records, "end-to-end", "best")["strict_values"]
    assert line(page, "PTC", "End-to-End, best")[-2:] == ["–", "–"]
    assert line(page, "MUTAG", "RAP-GNN")[1] == "not searched"
    assert "the first 2 of 10 folds" in page


def test_errors_are_not_shown_in_percent(measure):
    records, page = measure(only("table3", "molesol"))
    rap = one(records, "rap", "faithful")
    shown = line(page, "molesol (RMSE", "RAP-GNN")
    assert shown[1] == f"{rap['mean']:.3f} ± {rap['std']:.3f}"
    assert shown[4] == f"{rap['mean'] - 1.083:+.3f}"


def test_the_linear_learnable_embedding_has_its_time_beside_the_other(measure):
    records, page = measure(only("embeddings", "cora"))
    times = {r["title"]: r for r in records if r["column"] in ("faithful", "linear")}
    body = page.partition("ms per epoch")[2]
    for title in ("learnable", "learnable, linear"):
        (row,) = [r for r in body.splitlines() if r.startswith(f"| {title} |")]
        engine = {"polynomial": "shortcut", "stepwise": "layer by layer"}[times[title]["engine"]]
        assert engine in row.split("|")[2]
        assert row.count("not searched") == 2
    assert line(page, "CiteSeer", "identity")[3] == "OOM"


def test_batches_are_those_of_the_paper(measure):
    records, page = measure(MINE["batches"])
    assert [r["config"]["batch_size"] for r in records] == [256, 512, 1024]
    assert [line(page, "PROTEINS", f"batches of {n}")[2] for n in ("256", "512", "1,024")] == [
        *("75.1 ± 3.3", "75.9 ± 3.8", "75.0 ± 3.1")
    ]


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
        ("rap", {"embedding": "learnable", "embedding_output": "none", "activation": "identity"}, False),
        ("rap", {"embedding": "random"}, True),
        ("rap", {"layer_dropout": 0.1}, True),
        ("fixed-diagonal", {"embedding_output": "none"}, False),
        ("fixed-full", {}, False),
        ("random-full", {}, True),
        ("end-to-end", {}, True),
        ("pretrained-embedding", {}, False),
    ],
)
def test_what_walks_through_the_graph_is_cut_most(method, settings, walking):
    config, graph = SMALL.update(epochs=500, **settings), Stand().get("cora")
    assert walks(method, config) == walking
    few, said = cut(graph, method, config, Scale(quick=True))
    expected = 100 if walking else 500 if method == "pretrained-embedding" else 200
    assert few.epochs == expected
    assert (f"{expected} of 500 epochs" in said) == (expected < 500)
    assert cut(graph, method, config, Scale()) == (config, "")


def test_the_larger_the_work_the_fewer_the_epochs():
    graph = Stand().get("cora")
    epochs = [
        cut(graph, "end-to-end", SMALL.update(epochs=500, num_layers=8, hidden_channels=d), Scale(quick=True))[0].epochs
        for d in (8, 512, 1024, 4096)
    ]
    assert epochs[0] == 100
    assert sorted(epochs, reverse=True) == epochs
    assert epochs[-1] == 5


def test_of_many_graphs_a_quick_run_trains_on_some(monkeypatch):
    graphs = Stand()
    monkeypatch.setattr(quick, "MANY_GRAPHS", 59)
    full, short = (MINE["molbace"].cells(Scale(q), graphs) for q in (False, True))
    assert {c.spec.get("every") for c in full} == {None}
    assert {c.spec.get("every") for c in short} == {quick.THINNED}
    assert all("every 20th graph" in c.labels["cut"] for c in short)
    assert {c.spec.get("every") for c in MINE["table1"].cells(Scale(quick=True), graphs)} == {None}
