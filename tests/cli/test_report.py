"""``rapgnn report`` and ``rapgnn fit --report``, as a user types them."""

import pytest

from html_pages import ReadPage
from rapgnn.experiments.reproduce.items import ITEMS
from rapgnn.report import library

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


def test_the_paper_is_written_from_a_folder(rapgnn, tmp_path):
    (tmp_path / "reproduce").mkdir()
    page = tmp_path / "report.html"
    code, out, err = rapgnn("report", "--results", tmp_path / "reproduce", "--out", page)
    assert (code, f"wrote {page} (0 of {len(ITEMS)} items" in out) == (0, True)
    assert "not measured yet" in err
    assert "reproduced" in ReadPage(page.read_text()).words[""]


@pytest.mark.parametrize("words", [("report", "--results", "nowhere"), ("report", "--out", "page.txt")])
def test_bad_input_is_one_sentence(rapgnn, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    code, out, err = rapgnn(*words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert not list(tmp_path.glob("*.html"))


def test_what_is_missing_is_named_before_any_work(rapgnn, plants, tmp_path, monkeypatch):
    monkeypatch.setattr(library, "NEEDED", ("a_package_that_nobody_has",))
    code, _, err = rapgnn("fit", plants, "--out", tmp_path / "model", "--report", tmp_path / "model.html")
    assert (code, "pip install 'rapgnn[report]'" in err) == (2, True)
    assert not (tmp_path / "model").exists()
