"""Random graphs for equivalence tests, and where real data may lie."""

import os
import random
from pathlib import Path

import numpy as np
import pytest
import sklearn.model_selection  # noqa: F401 (importing it moves Python's random state, once)
import torch

from rapgnn.datasets.synthetic import BlockModel
from rapgnn.graph.graph import Graph

torch.set_num_threads(1)  # the tests' tensors are tiny: a second thread only waits, long on a busy machine

SHARED = Path(__file__).resolve().parents[2] / "shared" / "datasets"


@pytest.fixture(autouse=True)
def _no_user_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests see no data folder but the ones they name."""
    for name in ("RAPGNN_DATA", "RAPGNN_DEBUG"):
        monkeypatch.delenv(name, raising=False)


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


@pytest.fixture
def fresh_random_state():
    """Fails the test if it touched torch's, numpy's or Python's global random state."""
    before, numpy_before, python_before = torch.get_rng_state(), np.random.get_state(), random.getstate()
    yield
    assert torch.equal(torch.get_rng_state(), before)
    assert str(np.random.get_state()) == str(numpy_before)
    assert random.getstate() == python_before
