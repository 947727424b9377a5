"""Workers that are killed, stopped, or too few: the hops go on from the last one that all have finished."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from distributed_cases import deep_hops
from rapgnn import Config
from rapgnn.datasets.synthetic import BlockModel
from rapgnn.scale.blocks import Budget
from rapgnn.scale.disk_graph import DiskGraph
from rapgnn.scale.distributed.saved import SavedHops
from rapgnn.scale.hops import hops_of, untrained
from rapgnn.scale.store import HopStore
from workers import run_together

TESTS = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> DiskGraph:
    model = BlockModel(nodes=300, classes=3, features=4, train=10, val=60, test=100, seed=1)
    return DiskGraph.write(tmp_path_factory.mktemp("graph") / "graph", model.generate())


def check(graph: DiskGraph, found: Path, layers: int, folder: Path) -> None:
    """Against the hops of one process, from the disk."""
    model = untrained(graph, Config(num_layers=layers, embedding="identity", activation="identity"))
    right, _ = hops_of(graph, np.union1d(graph.train, graph.val), model, Budget(), folder)
    expected, hops = right.read(slice(None)), HopStore.open(found).read(slice(None))
    assert torch.allclose(hops, expected, rtol=1e-5, atol=1e-5 * float(expected.abs().max()))
    assert not list(found.glob("unfinished-*"))


def until(there: Callable[[], bool], process: subprocess.Popen) -> None:
    end = time.monotonic() + 60
    while not there():
        assert process.poll() is None, process.stderr.read() if process.stderr else ""
        assert time.monotonic() < end, "nothing happened for a minute"
        time.sleep(0.01)


def test_a_worker_that_is_killed_is_started_again_and_goes_on(graph: DiskGraph, tmp_path: Path):
    layers, store, log = 200, tmp_path / "store", tmp_path / "log"
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--max-restarts=1"]
    command += ["--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", str(TESTS / "torchrun_hops.py")]
    command += [str(graph.folder), str(store), str(layers), str(log)]
    launcher = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    try:
        until(lambda: any(store.glob("unfinished-*/whole-0002?.*.npy")), launcher)
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
    for restart, first, last in lines:
        assert restart == "1"
        assert int(first) >= 20  # not from the start
        assert int(last) == layers
    check(graph, store, layers, tmp_path / "right")


def test_fewer_workers_go_on_where_more_have_stopped(graph: DiskGraph, tmp_path: Path):
    store = tmp_path / "store"
    for seen in run_together(3, tmp_path / "three", deep_hops, graph.folder, store, 9, 4):
        assert seen == [0, 1, 2, 3, 4]
    assert HopStore.open(store, complete=False).missing()
    for seen in run_together(2, tmp_path / "two", deep_hops, graph.folder, store, 9):
        assert seen == [4, 5, 6, 7, 8, 9]
    check(graph, store, 9, tmp_path / "right")


def test_rows_are_read_from_the_files_of_any_workers(tmp_path: Path):
    saved, values = SavedHops(tmp_path / "block"), np.arange(30, dtype=np.float32).reshape(10, 3)
    for rows in (slice(0, 4), slice(4, 4), slice(4, 10)):
        saved.write("whole", 1, rows, values[rows])
        saved.write("wanted", 0, rows, values[rows])
    assert np.array_equal(saved.read("whole", 1, slice(2, 7), 3), values[2:7])
    assert saved.read("whole", 1, slice(3, 3), 3).shape == (0, 3)
    assert saved.covers("whole", 1, slice(0, 10))
    assert not saved.covers("whole", 2, slice(0, 10))
    assert saved.covers("whole", 2, slice(5, 5))
    assert saved.last(slice(0, 10), slice(0, 10), (0, 2)) == 1
    assert saved.last(slice(0, 11), slice(0, 10), (0, 2)) == -1
    assert saved.last(slice(0, 10), slice(0, 10), (0,)) == 0
    saved.forget(1, slice(4, 10))
    assert not saved.covers("whole", 1, slice(0, 10))
    (tmp_path / "block" / ".rapgnn-0123456789abcdef.npy").touch()  # what a worker that was killed leaves
    saved.remove()
    assert not (tmp_path / "block").exists()
