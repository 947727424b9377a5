"""Hops on Ray: the same as in one process, with processes that are killed on the way."""

import os
import shutil
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch

from commands import refused
from distributed_cases import RAY_CONFIG as CONFIG
from distributed_cases import fault, killed_once
from rapgnn import RAPNodeClassifier
from rapgnn.datasets.catalog import BlockModel
from rapgnn.errors import InputError
from rapgnn.scale import homes
from rapgnn.scale.disk_graph import DiskGraph
from rapgnn.scale.fit import fit, labelled_graph, predict
from rapgnn.scale.homes import HERE, RayHops, connected, open_home
from rapgnn.scale.hops import Budget, DiskHops, untrained
from rapgnn.scale.store import HopStore

pytestmark = [
    pytest.mark.skipif(find_spec("ray") is None, reason='Ray is not installed: pip install "rapgnn[ray]"'),
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> DiskGraph:
    model = BlockModel(nodes=300, classes=3, features=8, train=10, val=60, test=100, seed=1)
    return DiskGraph.write(tmp_path_factory.mktemp("graph") / "graph", model.generate())


@pytest.fixture(scope="module")
def right(graph: DiskGraph, tmp_path_factory: pytest.TempPathFactory) -> HopStore:
    """By one process."""
    return DiskHops(graph, untrained(graph, CONFIG), Budget()).store(
        tmp_path_factory.mktemp("right") / "s", nodes(graph)
    )


@pytest.fixture(scope="module")
def ray():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))  # Ray's processes import the cases
        with connected("local", workers=2) as ray:
            yield ray
    assert not ray.is_initialized()


def nodes(graph: DiskGraph) -> np.ndarray:
    return np.union1d(graph.train, graph.val)


def test_hops_are_those_of_one_process(ray, graph, right, tmp_path: Path):
    shown: list[tuple[int, int]] = []
    hops = RayHops(graph, untrained(graph, CONFIG), Budget(), width=2)
    hops.store(tmp_path / "store", right.rows, lambda *done: shown.append(done))
    assert shown == [(4 * i, 16) for i in range(5)]
    assert torch.equal(HopStore.open(tmp_path / "store").read(slice(None)), right.read(slice(None)))


def test_a_process_that_is_killed_is_replaced(ray, graph, right, tmp_path: Path, monkeypatch):
    monkeypatch.setattr(homes, "hops_of_block", killed_once)
    folder = Path(shutil.copytree(graph.folder, tmp_path / "graph"))
    copied = replace(graph, folder=folder)
    found = RayHops(copied, untrained(graph, CONFIG), Budget(), width=2).store(tmp_path / "store", right.rows)
    assert torch.equal(found.read(slice(None)), right.read(slice(None)))
    assert len(list(tmp_path.glob("tried *"))) == 4


@pytest.mark.parametrize("changes", [{"head": "ridge"}, {"embedding": "pretrained", "backbone": "gin"}], ids=str)
def test_a_model_is_that_of_one_process(changes, ray, graph, tmp_path: Path):
    config = CONFIG.update(hidden_channels=6, epochs=5, pretrain_epochs=5, **changes)
    small, rows = labelled_graph(graph)
    expected = fit(graph, small, rows, config, 0, Budget())
    with open_home("ray") as home:
        found = fit(graph, small, rows, config, 0, Budget(), tmp_path / "store", home=home)
    assert found.blocks > 1
    for name, value in expected.model.state_dict().items():
        assert torch.equal(found.model.state_dict()[name], value), name
    given = graph, small.objective, Budget(), rows, True
    one, other = (list(predict(found.model, *given, home=where)) for where in (home, HERE))
    assert all(torch.equal(a.spread, b.spread) for (_, a), (_, b) in zip(one, other, strict=True))


def test_the_estimator_and_the_command_line_train_on_ray(ray, graph, rapgnn, tmp_path: Path):
    expected = RAPNodeClassifier(num_layers=2).fit(graph)
    found = RAPNodeClassifier(num_layers=2, hops="ray").fit(graph)
    assert np.array_equal(found.predict_proba(graph), expected.predict_proba(graph))
    code, out, err = rapgnn("fit", graph.folder, "--layers", 2, "--cluster", "auto", "--out", tmp_path / "model")
    assert code == 0, err
    assert "saved" in out
    loaded = RAPNodeClassifier.load(tmp_path / "model")
    assert np.array_equal(loaded.predict_proba(graph), expected.predict_proba(graph))


def test_a_cluster_that_is_not_there_is_refused_in_one_sentence(ray, graph, rapgnn, tmp_path: Path, monkeypatch):
    monkeypatch.setattr(ray, "is_initialized", lambda: False)  # as in a process that is not connected yet
    refusal = rapgnn("fit", graph.folder, "--cluster", "no port", "--out", tmp_path / "model")
    refused(refusal, "Ray", "no port")
    assert not (tmp_path / "model").exists()


def test_what_a_task_refuses_is_one_sentence(ray, graph, tmp_path: Path, monkeypatch):
    other = replace(graph, folder=tmp_path, fingerprint="0")
    with pytest.raises(InputError, match="missing or another one"):
        RayHops(other, untrained(graph, CONFIG), Budget()).store(tmp_path / "s", nodes(graph))
    monkeypatch.setattr(homes, "hops_of_block", fault)
    with pytest.raises(InputError, match=r"column \d is at fault\.$"):
        RayHops(graph, untrained(graph, CONFIG), Budget()).store(tmp_path / "other", nodes(graph))


def test_without_ray_the_sentence_says_how_to_get_it(graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    small, rows = labelled_graph(graph)
    with pytest.raises(InputError, match=r'pip install "rapgnn\[ray\]"'), open_home("ray") as home:
        fit(graph, small, rows, CONFIG, 0, Budget(), tmp_path / "store", home=home)
    assert not (tmp_path / "store").exists()
    assert homes.MISSING.count(".") == 1
