"""Several processes give what one does."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from distributed_cases import HOPS, OPERATORS, fill_all, fit_all, graphs, train_all, wanted_rows
from rapgnn import Config
from rapgnn.datasets.synthetic import BlockModel
from rapgnn.graph.graph import Graph
from rapgnn.scale.blocks import Budget
from rapgnn.scale.disk_graph import DiskGraph
from rapgnn.scale.distributed.ranges import ROW_COST, row_bounds
from rapgnn.scale.fit import fit_on_disk, labelled_graph
from rapgnn.scale.store import HopStore
from rapgnn.sparse import dense
from rapgnn.training.fit import fit_rap
from workers import run_together


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("graphs")
    for name, graph in graphs().items():
        DiskGraph.write(folder / name, graph)
    return folder


def in_one_process(graph: Graph, backbone: str, loops: bool) -> tuple[float, Tensor]:
    operator = graph.operator(backbone, loops)
    given = graph.normalized_features() if loops else graph
    rate = operator.growth_rate if backbone == "gin" else 1.0
    hops = [dense(given.x)]
    for _ in range(HOPS[backbone][-1]):
        hops.append(operator.matrix @ hops[-1] / rate)
    return rate, torch.stack([hops[k] for k in HOPS[backbone]], 1)[wanted_rows(graph.num_nodes)]


@pytest.mark.parametrize("size", [2, 3, 4])
def test_hops_are_those_of_one_process(size: int, folder: Path, tmp_path: Path):
    rates = run_together(size, tmp_path, fill_all, folder, tmp_path / "stores")[-1]
    for name, graph in graphs().items():
        for backbone, loops in OPERATORS:
            rate, right = in_one_process(graph, backbone, loops)
            store = HopStore.open(tmp_path / "stores" / f"{name} {backbone} {loops}")
            found = store.read(slice(None))
            assert rates[name, backbone, loops] == rate
            assert not list(store.folder.glob("unfinished-*"))
            assert found.shape == right.shape
            assert float((found - right).abs().max()) <= 1e-5 * float(right.abs().max()), (name, backbone, loops)


def test_ranges_of_rows_have_about_the_same_work():
    rng = np.random.default_rng(0)
    indptr = np.concatenate([[0], np.cumsum(rng.integers(0, 50, 1000))])
    work = indptr + ROW_COST * np.arange(1001)
    for workers in (1, 2, 3, 7):
        bounds = row_bounds(indptr, workers)
        assert bounds[0] == 0
        assert bounds[-1] == 1000
        assert len(bounds) == workers + 1
        assert np.diff(work[bounds]).max() <= work[-1] / workers + 50 + ROW_COST
    assert row_bounds(np.array([0, 5]), 4).tolist() == [0, 1, 1, 1, 1]
    assert row_bounds(np.array([0]), 2).tolist() == [0, 0, 0]


def with_gaps(graph: Graph) -> Graph:
    y = graph.y.clone()
    y[::3, 1] = float("nan")
    return replace(graph, y=y)


BLOCKS = BlockModel(nodes=200, classes=3, features=6, train=11, val=50, test=50, seed=2)
LABELS = with_gaps(replace(BLOCKS, labels=3).generate())
CONFIG = Config(num_layers=3, hidden_channels=8, embedding="identity", activation="identity", dropout=0.0, epochs=15)
CASES = {
    "linear, all rows": (CONFIG, BLOCKS.generate()),
    "mlp, batches": (CONFIG.update(head="mlp", batch_size=7, standardize=True), BLOCKS.generate()),
    "labels with gaps": (CONFIG.update(backbone="sage", jumping="cat", batch_size=10), LABELS),
    "one row": (CONFIG, replace(BLOCKS.generate(), train=torch.tensor([0]))),
    "dropout": (CONFIG.update(dropout=0.5, batch_size=9), BLOCKS.generate()),
}

AGAIN = ("mlp, batches", "dropout")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory):
    settings, data = ({name: case[i] for name, case in CASES.items()} for i in (0, 1))
    folder = tmp_path_factory.mktemp("trained")
    first = run_together(3, folder / "first", train_all, settings, data)
    return first, run_together(3, folder / "again", train_all, {name: settings[name] for name in AGAIN}, data)


@pytest.mark.parametrize("case", [name for name in CASES if name != "dropout"])
def test_a_head_trained_together_is_that_of_one_process(case: str, trained):
    config, graph = CASES[case]
    fitted = fit_rap(replace(graph), config.update(normalize_features=False), seed=3)
    history, state = trained[0][0][case]
    assert history == pytest.approx(fitted.loop.history, abs=0.02)
    for name, value in fitted.model.head.state_dict().items():
        assert torch.allclose(state[name], value, rtol=1e-3, atol=1e-4), name


@pytest.mark.parametrize("case", CASES)
def test_the_same_seed_gives_the_same_head_everywhere_and_again(case: str, trained):
    runs = trained if case in AGAIN else trained[:1]
    expected = trained[0][0][case]
    for history, state in (found[case] for run in runs for found in run):
        assert history == expected[0]
        assert all(torch.equal(state[name], value) for name, value in expected[1].items())


RIDGE = CONFIG.update(head="ridge", normalize_features=False)
WHOLE = {
    "ridge, classes weighted": (RIDGE.update(ridge=None), "balanced", BLOCKS.generate()),
    "ridge, labels with gaps": (RIDGE.update(backbone="sage", jumping="cat"), None, LABELS),
    "ridge, hardly any rows": (RIDGE, None, replace(BLOCKS.generate(), train=torch.tensor([0, 1]))),
    "pretrained, gin": (
        CONFIG.update(embedding="pretrained", backbone="gin", pretrain_epochs=5),
        None,
        BLOCKS.generate(),
    ),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory):
    """The folder of the graphs, and what three workers have made of them."""
    folder = tmp_path_factory.mktemp("whole")
    for name, (_, _, graph) in WHOLE.items():
        DiskGraph.write(folder / "graphs" / name, graph)
    cases = {name: case[:2] for name, case in WHOLE.items()}
    return folder, run_together(3, folder / "found", fit_all, folder / "graphs", folder / "stores", cases)


@pytest.mark.parametrize("case", WHOLE)
def test_a_model_is_that_of_one_process(case: str, whole):
    folder, found = whole
    config, class_weight, _ = WHOLE[case]
    graph = DiskGraph.open(folder / "graphs" / case)
    fitted = fit_on_disk(graph, *labelled_graph(graph, None, class_weight), config, 1, Budget())
    for name, value in fitted.model.state_dict().items():
        assert torch.allclose(found[0][case][name], value, rtol=1e-4, atol=1e-5), name
        assert all(torch.equal(other[case][name], found[0][case][name]) for other in found[1:])
