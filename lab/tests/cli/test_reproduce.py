"""``rapgnn reproduce`` and ``rapgnn paper``, as a user types them."""

import json
from dataclasses import replace

import pytest

from commands import refused
from rapgnn.errors import InputError
from small_items import METHODS, small_item

ITEMS = "rapgnn_lab.paper.items.ITEMS"


@pytest.fixture(autouse=True)
def _items(monkeypatch):
    found = {name: small_item(name, methods) for name, methods in (("meadow", METHODS[:2]), ("wood", METHODS[:1]))}
    monkeypatch.setattr(ITEMS, found)


def test_tables_are_printed_and_files_written(rapgnn, tmp_path):
    out, file = tmp_path / "out", tmp_path / "all.json"
    code, said, err = rapgnn("reproduce", "--out", out, "--json", file)
    assert code == 0, err
    records = json.loads(file.read_text())
    assert [(r["item"], r["method"]) for r in records] == [("meadow", "rap"), ("meadow", "end-to-end"), ("wood", "rap")]
    for record in records:
        assert f"{100 * record['mean']:.2f} ± {100 * record['std']:.2f}" in said
    assert said.index("The meadow") < said.index("The wood")
    assert {path.name for path in out.iterdir()} == {
        *("README.md", "claims.json", "cells.json.gz", "meadow.json", "meadow.md", "wood.json", "wood.md")
    }


def test_one_item_is_measured_and_what_is_there_is_said(rapgnn, tmp_path):
    words = ["reproduce", "wood", "--out", tmp_path, "--device", "cpu"]
    assert rapgnn(*words)[0] == 0
    assert not (tmp_path / "meadow.json").exists()
    before = json.loads((tmp_path / "wood.json").read_text())
    code, _, err = rapgnn(*words)
    assert code == 0
    assert "1 of 1 cells were there from an earlier run" in err
    assert json.loads((tmp_path / "wood.json").read_text()) == before
    code, _, err = rapgnn(*words, "--again")
    assert (code, "earlier run" in err) == (0, False)
    after = json.loads((tmp_path / "wood.json").read_text())
    assert after[0]["values"] == before[0]["values"]
    assert after[0]["fit_seconds"] != before[0]["fit_seconds"]
    assert rapgnn(*words, "--quiet")[2] == ""


def test_the_list_says_how_much_is_there(rapgnn, tmp_path):
    file = tmp_path / "list.json"
    words = ["reproduce", "--list", "--out", tmp_path / "out", "--json", file]
    assert rapgnn(*words)[0] == 0
    assert not (tmp_path / "out").exists()
    listed = [(r["item"], r["there"], r["cells"]) for r in json.loads(file.read_text())]
    assert listed == [("meadow", 0, 2), ("wood", 0, 1)]
    assert rapgnn("reproduce", "wood", "--out", tmp_path / "out")[0] == 0
    said = rapgnn(*words)[1]
    assert all(text in said for text in ("1 of 2", "1 of 1", "The wood"))  # a cell of the other item is this one's too


def test_bad_input_is_refused_before_work(rapgnn, tmp_path):
    (tmp_path / "file").write_text("")
    out = tmp_path / "out"
    refused(rapgnn("reproduce", "lake", "--out", out), "'lake'", "meadow, wood")
    refused(rapgnn("reproduce", "--out", tmp_path / "file"), "file")
    refused(rapgnn("reproduce", "--out", out, "--json", tmp_path), "folder")
    refused(rapgnn("reproduce", "--out", out, "--device", "abacus"), "device")
    refused(rapgnn("paper", "--results", tmp_path / "nowhere"), "nowhere")
    refused(rapgnn("paper", "--results", tmp_path, "--out", tmp_path / "page.txt"), ".html")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_the_paper_is_written_from_a_folder(rapgnn, tmp_path):
    pytest.importorskip("plotly")
    (tmp_path / "reproduce").mkdir()
    page = tmp_path / "report.html"
    code, out, err = rapgnn("paper", "--results", tmp_path / "reproduce", "--out", page)
    assert (code, str(page) in out, "not measured yet" in err) == (0, True, True)
    assert "reproduced" in page.read_text()


def test_what_cannot_be_measured_fails_and_the_rest_is_done(rapgnn, tmp_path, monkeypatch):
    def refuse(scale, graphs):
        raise InputError("cannot get cora.")

    broken = replace(small_item("wood"), cells=refuse)
    monkeypatch.setattr(ITEMS, {"meadow": small_item("meadow", METHODS[:1]), "wood": broken})
    code, said, err = rapgnn("reproduce", "--out", tmp_path)
    assert code == 1
    assert "wood is not complete: cannot get cora." in err
    assert "The meadow" in said
    refused(rapgnn("reproduce", "wood", "--out", tmp_path, "--quiet"), "cannot get cora.")
