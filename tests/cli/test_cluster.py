"""Commands that torchrun starts: every worker runs the command, one of them tells the result."""

from pathlib import Path

import numpy as np
import pytest

from commands import refused
from distributed_cases import command, run_together
from rapgnn import InputError, RAPNodeClassifier
from rapgnn.datasets.catalog import BlockModel
from rapgnn.scale.disk_graph import DiskGraph
from rapgnn.scale.store import HopStore


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> DiskGraph:
    model = BlockModel(nodes=300, classes=3, features=8, train=10, val=60, test=100, seed=1)
    return DiskGraph.write(tmp_path_factory.mktemp("graph") / "graph", model.generate())


def test_workers_fit_what_one_process_does(graph: DiskGraph, rapgnn, tmp_path: Path):
    given = ["fit", graph.folder, "--layers", 3]
    words = [*map(str, given), "--store", str(tmp_path / "store"), "--out", str(tmp_path / "together")]
    told = run_together(2, tmp_path / "told", command, words)
    assert [code for code, _, _ in told] == [0, 0], told
    out = "".join(out for _, out, _ in told)
    assert out.count("saved") == 1
    assert len(HopStore.open(tmp_path / "store").blocks) == 1
    code, alone, err = rapgnn(*given, "--out", tmp_path / "alone")
    assert code == 0, err
    assert out.splitlines()[2:5] == alone.splitlines()[2:5]  # the scores
    models = [RAPNodeClassifier.load(tmp_path / name) for name in ("together", "alone")]
    assert np.allclose(*(model.predict_proba(graph) for model in models), atol=1e-5)


@pytest.mark.parametrize(
    ("hops", "words"),
    [
        ("torchrun", "name a store"),
        (5, "hops must be"),
        ([], "hops must be"),
        ({}, "hops must be"),
        ("", "hops must be"),
        ("memroy", 'did you mean "memory"'),
        ("rya", 'did you mean "ray"'),
        ("rays://host", "hops must be"),
    ],
)
def test_homes_that_cannot_be_are_refused(hops, words: str, graph: DiskGraph, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=words):
        RAPNodeClassifier(num_layers=2, hops=hops).fit(graph)
    assert not list(tmp_path.iterdir())


@pytest.fixture
def one_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """As torchrun starts a process."""
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")


@pytest.mark.usefixtures("one_of_two")
def test_workers_need_a_graph_on_disk_and_a_common_store(graph: DiskGraph, plants: Path, rapgnn, tmp_path: Path):
    refused(rapgnn("hops", plants, "--out", tmp_path / "store"), "rapgnn data convert")
    refused(rapgnn("fit", plants, "--store", tmp_path / "store", "--out", tmp_path / "model"), "rapgnn data convert")
    refused(rapgnn("fit", graph.folder, "--out", tmp_path / "model"), "--store")
    refused(rapgnn("fit", graph.folder, "--cluster", "auto", "--out", tmp_path / "model"), "--cluster")
