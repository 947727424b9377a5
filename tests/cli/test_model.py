"""``rapgnn fit``, ``evaluate``, ``predict`` and ``report``."""

import json
import os
import shutil

import pandas as pd
import pytest

from commands import refused
from html_pages import ReadPage
from rapgnn.report import page as library


def test_predictions_are_explained_from_the_shell(rapgnn, plants, tmp_path):
    model, told = tmp_path / "model", tmp_path / "p.json"
    words = ("predict", model, plants, "--out", tmp_path / "p.csv", "--json", told)
    assert rapgnn("fit", plants, "--out", model, "--no-search")[0] == 0
    code, out, err = rapgnn(*words, "--explain", "plant 7, plant 3")
    assert code == 0, err
    explanations = json.loads(told.read_text())[0]["explanations"]
    assert [one["row"] for one in explanations] == ["plant 7", "plant 3"]
    first = explanations[0]
    label = pd.read_csv(tmp_path / "p.csv").set_index("id").loc["plant 7", "label"]
    assert out.startswith(f"plant 7: {label}, ")
    moved = [one["contribution"] for name in ("columns", "labels") for one in first[name]]
    assert first["base"] + sum(moved) == pytest.approx(first["score"], abs=1e-5)
    refused(rapgnn(*words, "--explain", "weed"), "no row has the id 'weed'")
    refused(rapgnn(*words, "--explain", " ,"), "--explain takes ids")
    assert rapgnn("predict", model, plants, "--out", tmp_path / "p.csv")[1].startswith("wrote")


def test_a_folder_whose_name_is_no_text_has_a_model_and_a_page(rapgnn, plants, tmp_path):
    odd = tmp_path / os.fsdecode(b"bad\xff")
    shutil.copytree(plants, odd)
    page = tmp_path / "page.html"
    code, _, err = rapgnn("fit", odd, "--out", tmp_path / "model", "--no-search", "--report", page)
    assert (code, page.exists(), (tmp_path / "model" / "MODEL.md").exists()) == (0, True, True), err


def test_a_saved_model_has_its_page(rapgnn, plants, tmp_path):
    pytest.importorskip("plotly")
    page = tmp_path / "later.html"
    assert rapgnn("fit", plants, "--out", tmp_path / "model")[0] == 0
    code, out, err = rapgnn("report", tmp_path / "model", plants, "--out", page)
    assert (code, f"wrote {page}" in out) == (0, True), err
    columns = [row[0] for row in ReadPage(page.read_text()).table("which-columns-matter", "Loss by column").rows]
    assert sorted(columns) == ["colour", "height", "leaves"]


@pytest.mark.parametrize("words", [("nowhere", "plants"), ("model", "plants", "--out", "page.txt")])
def test_bad_input_is_one_sentence(rapgnn, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    code, out, err = rapgnn("report", *words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert not list(tmp_path.glob("*.html"))


def test_what_is_missing_is_named_before_any_work(rapgnn, plants, tmp_path, monkeypatch):
    monkeypatch.setattr(library, "NEEDED", ("a_package_that_nobody_has",))
    code, _, err = rapgnn("fit", plants, "--out", tmp_path / "model", "--report", tmp_path / "model.html")
    assert (code, "pip install 'rapgnn[report]'" in err) == (2, True)
    assert not (tmp_path / "model").exists()
