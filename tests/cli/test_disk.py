"""rapgnn hops, and fit, evaluate and predict on a graph on disk, as a user types them."""

import json

import numpy as np
import pandas as pd
import pytest

from commands import refused
from disk_cases import blocks
from rapgnn import RAPNodeClassifier
from rapgnn.scale.disk_graph import DiskGraph


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
    plain = RAPNodeClassifier(search=False).fit(blocks())
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
