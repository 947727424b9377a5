"""``rapgnn report`` and ``rapgnn fit --report``, as a user types them."""

import pytest

from html_pages import ReadPage
from rapgnn.report import page as library

pytest.importorskip("plotly")


def test_a_fit_writes_its_page(rapgnn, plants, tmp_path):
    page = tmp_path / "model.html"
    code, out, err = rapgnn("fit", plants, "--out", tmp_path / "model", "--report", page)
    assert (code, f"wrote {page}" in out) == (0, True), err
    found = ReadPage(page.read_text())
    columns = [row[0] for row in found.table("which-columns-matter", "Loss by column").rows]
    assert sorted(columns) == ["colour", "height", "leaves"]
    assert all(row[0].startswith("plant ") for row in found.table("least-sure-rows", "The").rows)
    assert "no split was given" in found.words["the-data"]


def test_a_saved_model_has_its_page(rapgnn, plants, tmp_path):
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
