"""Several processes give what one does, also where some are killed, stopped, or too few."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from distributed_cases import (
    HOPS,
    deep_hops,
    fill_all,
    fit_all,
    graphs,
    operators,
    refuse_all,
    run_together,
    wanted_rows,
)
from rapgnn import Config
from rapgnn.datasets.catalog import BlockModel
from rapgnn.graph.graph import Graph
from rapgnn.scale.disk_graph import DiskGraph
from rapgnn.scale.fit import fit, labelled_graph
from rapgnn.scale.hops import Budget, DiskHops, untrained
from rapgnn.scale.store import HopStore
from rapgnn.sparse import dense


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


def test_hops_are_those_of_one_process(folder: Path, tmp_path: Path):
    rates = run_together(3, tmp_path, fill_all, folder, tmp_path / "stores")[-1]
    for name, graph in graphs().items():
        for backbone, loops in operators(name):
            rate, right = in_one_process(graph, backbone, loops)
            store = HopStore.open(tmp_path / "stores" / f"{name} {backbone} {loops}")
            found = store.read(slice(None))
            assert rates[name, backbone, loops] == rate
            assert found.shape == right.shape
            assert float((found - right).abs().max()) <= 1e-5 * float(right.abs().max()), (name, backbone, loops)


def with_gaps(graph: Graph) -> Graph:
    y = graph.y.clone()
    y[::3, 1] = float("nan")
    return replace(graph, y=y)


BLOCKS = BlockModel(nodes=200, classes=3, features=6, train=11, val=50, test=50, seed=2)
LABELS = with_gaps(replace(BLOCKS, labels=3).generate())
CONFIG = Config(num_layers=3, hidden_channels=8, embedding="identity", activation="identity", dropout=0.0, epochs=6)
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
    "mlp, batches, dropout": (CONFIG.update(head="mlp", batch_size=7, dropout=0.5), None, BLOCKS.generate()),
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
    fitted = fit(graph, *labelled_graph(graph, None, class_weight), config, 1, Budget())
    for name, value in (fitted.model.state_dict() | {"merit": torch.tensor(fitted.best)}).items():
        assert torch.allclose(found[0][case][name], value, rtol=1e-4, atol=1e-5), name
        assert all(torch.equal(other[case][name], found[0][case][name]) for other in found[1:])


TESTS = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> DiskGraph:
    model = BlockModel(nodes=300, classes=3, features=8, train=10, val=60, test=100, seed=1)
    return DiskGraph.write(tmp_path_factory.mktemp("graph") / "graph", model.generate())


def check(graph: DiskGraph, found: Path, layers: int, folder: Path) -> None:
    """Against the hops of one process, from the disk."""
    model = untrained(graph, Config(num_layers=layers, embedding="identity", activation="identity"))
    right = DiskHops(graph, model, Budget()).store(folder, np.union1d(graph.train, graph.val))
    expected, hops = right.read(slice(None)), HopStore.open(found).read(slice(None))
    assert torch.allclose(hops, expected, rtol=1e-5, atol=1e-5 * float(expected.abs().max()))


def until(there: Callable[[], bool], process: subprocess.Popen) -> None:
    end = time.monotonic() + 60
    while not there():
        assert process.poll() is None, process.stderr.read() if process.stderr else ""
        assert time.monotonic() < end, "nothing happened for a minute"
        time.sleep(0.01)


def test_a_worker_that_is_killed_is_started_again_and_goes_on(graph: DiskGraph, tmp_path: Path):
    layers, store, log = 200, tmp_path / "store", tmp_path / "log"
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--max-restarts=1"]
    command += ["--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", str(TESTS / "distributed_cases.py")]
    command += [str(graph.folder), str(store), str(layers), str(log)]
    launcher = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    try:
        until(lambda: len(list(store.glob("columns-*-hop-000.npy"))) > 2, launcher)  # one of them is whole
        workers = subprocess.run(["pgrep", "-P", str(launcher.pid)], capture_output=True, text=True).stdout.split()
        assert len(workers) == 2
        os.kill(int(workers[1]), signal.SIGKILL)
        _, errors = launcher.communicate(timeout=90)
    finally:
        launcher.kill()
        launcher.wait()
    assert launcher.returncode == 0, errors
    lines = sorted(line.split() for line in log.read_text().splitlines())
    assert len(lines) == 2
    for restart, done, total in lines:
        assert restart == "1"
        assert done == total
    assert sum(int(total) for _, _, total in lines) < 8 * (layers + 1)  # not from the start
    check(graph, store, layers, tmp_path / "right")


def test_fewer_workers_go_on_where_more_have_stopped(graph: DiskGraph, tmp_path: Path):
    store = tmp_path / "store"
    begun = run_together(3, tmp_path / "three", deep_hops, graph.folder, store, 9, 11)  # each in its second column
    assert [seen[-1] for seen in begun] == [(11, 30), (11, 30), (11, 20)]
    assert len(HopStore.open(store, complete=False).blocks) == 3
    rest = run_together(2, tmp_path / "two", deep_hops, graph.folder, store, 9)
    assert [seen[-1] for seen in rest] == [(30, 30), (20, 20)]
    check(graph, store, 9, tmp_path / "right")


def test_what_the_first_is_refused_all_are(folder: Path, tmp_path: Path):
    sentences = run_together(2, tmp_path, refuse_all, folder)
    assert "holds other files" in sentences[0]
    assert sentences[1] == sentences[0]
