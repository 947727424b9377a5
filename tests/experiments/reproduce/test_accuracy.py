"""A cell that is trained in parts gives the record that one run of all seeds, or of all folds, gives."""

from dataclasses import replace

import pytest

from rapgnn.experiments.reproduce.accuracy import accuracy_cell, join, measure, split, train
from rapgnn.experiments.reproduce.item import Graphs
from rapgnn.experiments.reproduce.thin import thinned
from rapgnn.experiments.run import run
from rapgnn.models.config import Config
from samples import collection

TINY = "sbm:nodes=120,train=5,val=20,test=20"
CONFIG = Config(num_layers=2, hidden_channels=8, epochs=12, pretrain_epochs=8)
GRAPH_CONFIG = CONFIG.update(backbone="gin", batch_size=32, normalize_features=False)
COSTS = {"fit_seconds", "total_seconds", "train_ms_per_epoch", "eval_ms_per_epoch", "peak_memory_mb"}
ELSEWHERE = {"date", "versions", "hardware", "dataset"}  # which ``measured`` adds


class Given(Graphs):
    """One graph that is there already."""

    def __init__(self, graph):
        super().__init__()
        self._loaded["given"] = graph


@pytest.fixture(scope="module")
def folds() -> Given:
    return Given(replace(collection(graphs=60), folds=True))


def same(record: dict, whole: dict) -> None:
    assert set(record) == set(whole) - ELSEWHERE
    assert {k: v for k, v in record.items() if k not in COSTS} == {k: whole[k] for k in set(record) - COSTS}
    for name in COSTS - {"peak_memory_mb"}:
        assert record[name] > 0


@pytest.mark.parametrize("method", ["rap", "end-to-end", "pretrained-embedding"])
def test_the_seeds_one_by_one_are_the_seeds_together(method):
    graphs = Graphs()
    record = measure(accuracy_cell(TINY, method, CONFIG, [0, 3], {}), graphs, None)
    same(record, run(method, graphs.get(TINY), CONFIG, [0, 3]))
    assert record["values"][0] != record["values"][1]


@pytest.mark.parametrize("protocol", ["paper", "strict", "both"])
def test_the_folds_one_by_one_are_the_folds_together(protocol, folds):
    config = GRAPH_CONFIG.update(epochs=6, patience=1, inference="sample")
    record = measure(accuracy_cell("given", "rap", config, [0, 1], {}, protocol, 10), folds, None)
    same(record, run("rap", folds.get("given"), config, [0, 1], protocol=protocol))
    assert len(record["values"]) == 20


def test_the_first_folds_are_those_of_all(folds):
    """The epoch is chosen by the folds that are held out; the strict protocol chooses it in each by itself."""
    cells = [accuracy_cell("given", "rap", GRAPH_CONFIG, [0], {}, "both", n) for n in (2, 10)]
    few, all_of_them = (measure(cell, folds, None) for cell in cells)
    assert few["strict_values"] == all_of_them["strict_values"][:2]
    assert few["protocol"] == f"{all_of_them['protocol']}, the first 2 held out"
    assert len(few["values"]) == 2


def test_parts_are_shared_by_longer_lists_of_seeds():
    """Labels and the length of the list have no part in them."""
    few, many = (split(accuracy_cell(TINY, "rap", CONFIG, range(n), {"column": str(n)}), Graphs()) for n in (2, 5))
    assert few == many[:2]
    paper, both = (
        split(accuracy_cell(TINY, "rap", CONFIG, [0], {}, protocol, 3), Graphs()) for protocol in ("paper", "both")
    )
    assert paper == both[:3]
    assert len(both) == 6


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_every_second_graph_is_trained_on(task):
    """The graphs that are gone had no part in it."""
    graphs = Given(collection(task, graphs=60))
    graph = graphs.get("given")
    fewer = replace(graph, train=graph.train[::2], val=graph.val[::2])
    config = GRAPH_CONFIG.update(backbone="gine", embedding="pretrained-gnn")
    cell = accuracy_cell("given", "rap", config, [0], {}, every=2)
    assert measure(cell, graphs, None)["values"] == pytest.approx(run("rap", fewer, config, [0])["values"], rel=1e-5)
    thin = thinned(graph, 2)
    assert thin.num_rows == len(fewer.train) + len(fewer.val) + len(graph.test)
    assert split(cell, graphs) != split(accuracy_cell("given", "rap", config, [0], {}), graphs)


def test_a_training_that_diverged_is_kept_as_such(folds):
    """Stored without NaN, which JSON has not, and joined again."""
    cell = accuracy_cell("given", "rap", GRAPH_CONFIG.update(epochs=3), [0], {}, "paper", 2)
    first, second = (train(part, folds, None) for part in split(cell, folds))
    lost = second | {"history": [None, None, None]}
    record = join(cell, [first, lost])
    assert record["values"][0] == first["history"][0]
    assert record["mean"] != record["mean"]


def test_a_training_reports_its_epochs():
    seen = []
    train(split(accuracy_cell(TINY, "rap", CONFIG, [0], {}), Graphs())[0], Graphs(), lambda: seen.append(1))
    assert len(seen) == CONFIG.epochs
