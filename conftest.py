"""Fixtures of every room: small graphs, where real data may lie, the command line in this process."""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # before torch: a thread that waits leaves the core to other tests
os.environ.setdefault("MPLBACKEND", "Agg")  # plots go to files, whether or not there is a screen

import gc
import random
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import sklearn.model_selection  # noqa: F401 (importing it moves Python's random state, once)
import torch

from folders import molecules as molecule_files
from folders import tables, write
from rapgnn.datasets.catalog import BlockModel
from rapgnn.graph.graph import Graph
from samples import collection

torch.set_num_threads(1)  # the tests' tensors are tiny: a second thread only waits, long on a busy machine

SHARED = Path(__file__).resolve().parents[1] / "shared" / "datasets"


def pytest_collection_finish() -> None:
    """Libraries stay loaded: the collection before every measured fit need not walk through them."""
    gc.freeze()


@pytest.fixture(autouse=True)
def _no_user_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests see no data folder but the ones they name."""
    for name in ("RAPGNN_DATA", "RAPGNN_DEBUG", "RAPGNN_OFFLINE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of downloaded and parsed files that is empty."""
    monkeypatch.setenv("RAPGNN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """A folder of real datasets; tests that need one are skipped where there is none."""
    named = os.environ.get("RAPGNN_TEST_DATA")
    folder = Path(named) if named else SHARED
    if not folder.is_dir():
        pytest.skip(f"no real datasets at hand: set RAPGNN_TEST_DATA to a folder that holds them (looked in {folder})")
    return folder


@pytest.fixture(scope="session")
def small_graph() -> Graph:
    return BlockModel(nodes=300, classes=3, features=12, signal=3.0, train=10, val=60, test=100, seed=1).generate()


@pytest.fixture(scope="session")
def molecules() -> Graph:
    """A hundred and twenty small graphs with features of nodes and edges."""
    return collection()


@pytest.fixture
def plants(tmp_path: Path) -> Path:
    """A user's folder of tables."""
    nodes, edges = tables()
    return write(tmp_path / "plants", nodes=nodes, edges=edges)


@pytest.fixture
def rapgnn(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Run a command in this process: (exit code, standard output, standard error)."""
    from rapgnn.cli import main

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["rapgnn", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        out, err = capsys.readouterr()
        code = stop.value.code
        return (0 if code is None else int(code)), out, err

    return call


@pytest.fixture
def fresh_random_state():
    """Fails the test if it touched torch's, numpy's or Python's global random state."""
    before, numpy_before, python_before = torch.get_rng_state(), np.random.get_state(), random.getstate()
    yield
    assert torch.equal(torch.get_rng_state(), before)
    assert str(np.random.get_state()) == str(numpy_before)
    assert random.getstate() == python_before


@pytest.fixture
def small_molecules(tmp_path: Path) -> Path:
    """Sixty small graphs in OGB's layout, regression unless the labels are replaced."""
    rng = np.random.default_rng(0)
    sizes, bonds = rng.integers(2, 6, 60), []
    for n in sizes:
        bonds.append([[i, i + 1] for i in range(n - 1)])
    atoms = np.zeros((sizes.sum(), 9), dtype=int)
    atoms[:, 0] = rng.integers(5, 9, sizes.sum())
    edges = [pair for one in bonds for pair in one]
    return molecule_files(
        tmp_path / "small",
        **{
            "raw/num-node-list": sizes,
            "raw/num-edge-list": sizes - 1,
            "raw/node-feat": atoms,
            "raw/edge": edges,
            "raw/edge-feat": np.stack([rng.integers(0, 4, len(edges)), *np.zeros((2, len(edges)), int)], axis=1),
            "raw/graph-label": sizes + 0.5,
            "split/scaffold/train": np.arange(40),
            "split/scaffold/valid": np.arange(40, 50),
            "split/scaffold/test": np.arange(50, 60),
        },
    )


@pytest.fixture
def readable_plot():
    """Checks that a file is an image with something on it."""

    def check(path: Path) -> None:
        import matplotlib.image

        image = matplotlib.image.imread(path)
        assert min(image.shape[:2]) > 200
        assert len({tuple(pixel) for pixel in image[::7, ::7, :3].reshape(-1, 3).tolist()}) > 5  # colours

    return check
