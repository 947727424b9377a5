"""The page of the paper's reproduction: its numbers are those of the records, and what is missing is said."""

import json
import re
from pathlib import Path

import pytest

from html_pages import ReadPage
from measured_items import THERE, measure_into
from rapgnn.errors import InputError
from rapgnn.report.parts import Table
from rapgnn_lab.paper.claims.judged import CLAIMS, MISSING
from rapgnn_lab.paper.items import ITEMS
from rapgnn_lab.paper.page import item_tables, read_measured, write_report
from rapgnn_lab.paper.run import describe

pytest.importorskip("plotly")
RESULTS = Path(__file__).resolve().parents[3] / "results" / "reproduce"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("reproduce")
    measure_into(out)
    return out


@pytest.fixture(scope="module")
def page(folder) -> ReadPage:
    out = folder / "report.html"
    write_report(folder, out)
    return ReadPage(out.read_text())


def records_of(folder: Path, item: str) -> list[dict]:
    return json.loads((folder / f"{item}.json").read_text())


def test_a_difference_is_green_only_where_the_papers_figure_is_reached(folder, page):
    table = page.table("table1", "Cora")
    at = table.header.index("difference")
    tones = {cells[0]: tone[at] for cells, tone in zip(table.rows, table.tones, strict=True)}
    found = [r for r in records_of(folder, "table1") if r["column"] == "faithful" and "paper_mean" in r]
    reached = {r["title"]: r["mean"] >= r["paper_mean"] - r["paper_std"] for r in found}
    assert {title: tones[title] == "good" for title in reached} == reached
    assert set(tones.values()) <= {"good", "bad", "mixed", "number"}


def test_every_claim_stands_on_top_and_is_judged_by_what_the_items_measure(folder, page):
    claims = json.loads((folder / "claims.json").read_text())
    assert [claim["claim"] for claim in claims] == [claim.name for claim in CLAIMS]
    assert next(iter(page.sections)) == "claims"
    links = {given["href"][1:] for tag, given in page.tags if tag == "a" and given["href"].startswith("#")}
    assert links <= set(page.ids)
    assert len(set(page.ids)) == len(page.ids)
    assert page.table("claims", "Every claim").rows == [
        [" ".join(text.split()) for text in (c["says"], c["verdict"], f"figures{c['figures']}")] for c in claims
    ]
    judged = {claim["claim"] for claim in claims if claim["verdict"] != MISSING}
    ranks = {"rank-full", "rank-diagonal", "rank-end-to-end", "rank-above-end-to-end", "variance", "trained-weights"}
    assert judged >= ranks | {"q1-competitive", "q2-diagonal", "q3-inference", "q3-gap"}


def test_what_is_missing_is_said_and_how_to_measure_it(page):
    missing = [name for name in ITEMS if name not in THERE]
    assert f"{len(missing)} of {len(ITEMS)} items are not measured yet" in page.words["claims"]
    for name in missing:
        assert f"Not measured yet: rapgnn reproduce {name}." in page.words[name]
        assert page.sections[name] == []


@pytest.mark.parametrize("text", [None, '{"a": 1}', "[{"])
def test_bad_folders_are_refused(text, tmp_path):
    if text is not None:
        (tmp_path / "table1.json").write_text(text)
    with pytest.raises(InputError, match="table1" if text else "no folder"):
        read_measured(tmp_path if text else tmp_path / "nothing")


def test_the_committed_results_stand_on_the_page():
    """Every cell of every table of results/, as the item's Markdown prints it, in the same place."""
    measured = read_measured(RESULTS)
    for name, records in measured.items():
        lines = [line for line in describe(ITEMS[name], records).splitlines() if line.startswith("|")]
        lines = [line for line in lines if not re.match(r"\|[ -:|]+$", line)]
        cells = [[c.strip("* ") for c in line.strip("|").split("|")] for line in lines]
        parts = [part for part in item_tables(name, records) if isinstance(part, Table)]
        shown = [row for part in parts for row in ([*part.header], *([c.text for c in r] for r in part.rows))]
        assert [row[: len(want)] for row, want in zip(shown, cells, strict=True)] == cells
    assert len(measured) > 10
