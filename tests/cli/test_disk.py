"""rapgnn hops, and fit, evaluate and predict on a graph on disk, as a user or torchrun types them."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from commands import refused
from disk_cases import blocks
from distributed_cases import command, run_together
from rapgnn import InputError, RAPNodeClassifier
from rapgnn.datasets.catalog import BlockModel
from rapgnn.scale.disk_graph import DiskGraph
from rapgnn.scale.store import HopStore


@pytest.fixture
def folder(tmp_path):
    DiskGraph.write(tmp_path / "g", blocks())
    return tmp_path / "g"


def test_from_hops_to_predictions(rapgnn, folder, tmp_path):
    code, out, err = rapgnn("hops", folder, "--out", tmp_path / "s", "--memory", "4GiB", "--json", tmp_path / "h.json")
    assert code == 0, err
    assert "stored 5 hops of 180 rows and 12 columns" in out
    (told,) = json.loads((tmp_path / "h.json").read_text())
    assert (told["rows"], told["columns"], told["hops"], told["blocks"]) == (180, 12, [0, 1, 2, 3, 4], 1)
    how = ("--store", tmp_path / "s", "--memory", "4GiB", "--out", tmp_path / "m", "--json", tmp_path / "f.json")
    code, out, err = rapgnn("fit", folder, *how)
    assert code == 0, err
    (fitted,) = json.loads((tmp_path / "f.json").read_text())
    chosen = {name: fitted["config"][name] for name in ("num_layers", "jumping")}
    plain = RAPNodeClassifier(search=False, **chosen).fit(blocks())
    assert fitted["config"] == plain.config_.to_dict()
    assert fitted["test"] == pytest.approx(plain.score(blocks(), split="test"))
    assert fitted["blocks"] == 1
    assert "next: rapgnn predict" in out
    code, out, err = rapgnn("predict", tmp_path / "m", folder, "--out", tmp_path / "p.csv", "--probabilities")
    assert code == 0, err
    table = pd.read_csv(tmp_path / "p.csv")
    expected, spread = plain.predict_proba(blocks(), return_std=True)
    assert table.columns.tolist()[:5] == ["id", "label", "probability", "spread", "probability_0"]
    assert table["id"].tolist() == list(range(400))
    assert table["label"].tolist() == plain.predict(blocks()).tolist()
    np.testing.assert_allclose(table["probability"], expected.max(1), atol=1e-4)
    np.testing.assert_allclose(table["spread"], spread[np.arange(400), expected.argmax(1)], atol=1e-4)
    code, out, err = rapgnn("evaluate", tmp_path / "m", folder, "--json", tmp_path / "e.json")
    assert code == 0, err
    (scored,) = json.loads((tmp_path / "e.json").read_text())
    assert {split: scored[split] for split in ("train", "val", "test")} == pytest.approx(
        {split: fitted[split] for split in ("train", "val", "test")}
    )


def test_bad_input_is_one_sentence(rapgnn, folder, tmp_path):
    out = ("--out", tmp_path / "m")
    refused(rapgnn("fit", folder, "--memory", "10MiB", *out), "10MiB is too small", "is the least that works")
    refused(rapgnn("fit", folder, "--memory", "lots", *out), "must be a size such as")
    refused(rapgnn("hops", folder, "--rows", "some", *out), "rows 'some' is unknown")
    refused(rapgnn("hops", folder, "--embedding", "pretrained", *out), "need its training")
    refused(rapgnn("hops", folder, "--set", "activation=relu", "--set", "normalize_features=false", *out), "negative")
    assert not (tmp_path / "m").exists()
    assert rapgnn("fit", folder, *out)[0] == 0
    refused(rapgnn("predict", tmp_path / "m", folder, "--out", tmp_path / "p.parquet"), ".csv")
    refused(rapgnn("predict", tmp_path / "m", folder, "--samples", 3, "--out", tmp_path / "p.csv"), "are exact")
    (folder / "indices.npy").write_bytes(b"")
    refused(rapgnn("fit", folder, *out), "indices.npy")


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
    assert len(HopStore.open(tmp_path / "store").blocks) == 2  # one of each
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
        ("disc", 'A new folder is "./disc"'),
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
