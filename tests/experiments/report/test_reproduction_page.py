"""The page of the paper's reproduction: its numbers are those of the records, and what is missing is said."""

import json
import re
from pathlib import Path

import pytest

from html_pages import ReadPage, numbers
from measured_items import THERE, measure_into
from rapgnn.errors import InputError
from rapgnn.experiments.report.measured import read_measured
from rapgnn.experiments.report.page import make_page, write_report
from rapgnn.experiments.report.plots import FIGURES
from rapgnn.experiments.report.tables import item_tables
from rapgnn.experiments.reproduce.claims.verdicts import CLAIMS
from rapgnn.experiments.reproduce.items import ITEMS
from rapgnn.experiments.reproduce.outputs import describe
from rapgnn.report.parts import Table

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


def test_a_table_says_what_the_records_say(folder, page):
    table = page.table("table1", "Cora")
    assert table.header[:5] == ["", "faithful", "best", "paper", "difference"]
    checked = 0
    for r in records_of(folder, "table1"):
        column = "best" if r["column"] == "best" else "faithful"
        shown = table.cell(r["title"], column)
        spread = f" ± {100 * r['std']:.2f}" if len(r["seeds"]) > 1 else ""
        assert shown == f"{100 * r['mean']:.2f}{spread}"
        if column == "faithful" and "paper_mean" in r:
            assert table.cell(r["title"], "paper") == f"{100 * r['paper_mean']:.2f} ± {100 * r['paper_std']:.2f}"
            assert float(table.cell(r["title"], "difference")) == pytest.approx(
                100 * (r["mean"] - r["paper_mean"]), abs=0.006
            )
            checked += 1
    assert checked == 6


def test_a_difference_is_green_only_where_the_papers_figure_is_reached(folder, page):
    table, at = page.table("table1", "Cora"), 4
    tones = {cells[0]: tone[at] for cells, tone in zip(table.rows, table.tones, strict=True)}
    found = [r for r in records_of(folder, "table1") if r["column"] == "faithful" and "paper_mean" in r]
    reached = {r["title"]: r["mean"] >= r["paper_mean"] - r["paper_std"] for r in found}
    assert {title: tones[title] == "good" for title in reached} == reached
    assert set(tones.values()) <= {"good", "bad", "mixed", "number"}


def test_every_claim_has_its_verdict_on_top(folder, page):
    claims = json.loads((folder / "claims.json").read_text())
    table = page.table("claims", "Every claim")
    assert next(iter(page.sections)) == "claims"
    assert table.rows == [
        [" ".join(text.split()) for text in (c["says"], c["verdict"], f"figures{c['figures']}")] for c in claims
    ]
    assert len(claims) == len(CLAIMS)


def test_links_lead_to_places_of_the_page(page):
    assert len(set(page.ids)) == len(page.ids)
    links = {given["href"] for tag, given in page.tags if tag == "a" and given["href"].startswith("#")}
    assert len(links) > 10
    assert {link[1:] for link in links} <= set(page.ids)


def test_plots_hold_the_measured_times(folder, page):
    drawn = page.plots["depth-costs-0"]["data"]
    times = [r for r in records_of(folder, "depth") if r["kind"] == "time"]
    assert {t["name"] for t in drawn} == {r["title"] for r in times}
    for trace in drawn:
        mine = sorted((r for r in times if r["title"] == trace["name"]), key=lambda r: r["num_layers"])
        assert numbers(trace["x"]) == [r["num_layers"] for r in mine]
        assert numbers(trace["y"]) == [r["train_ms_per_epoch"] for r in mine]
    assert page.plots["depth-costs-0"]["layout"]["yaxis"]["type"] == "log"
    assert sum(name.startswith("depth-costs") for name in page.plots) == 4


def test_matrices_go_into_the_page_as_they_were_packed(folder, page):
    for at, r in enumerate(records_of(folder, "weights")):
        z = page.plots[f"weights-matrices-{at}"]["data"][0]["z"]
        assert (z["bdata"], z["shape"]) == (r["matrix"]["levels"], "8, 8")


def test_what_is_missing_is_said(page):
    missing = [name for name in ITEMS if name not in THERE]
    assert f"{len(missing)} of {len(ITEMS)} items are not measured yet" in page.words["claims"]
    for name in missing:
        assert f"Not measured yet: rapgnn reproduce {name}." in page.words[name]
        assert page.sections[name] == []


def test_every_number_can_be_measured_again(page):
    table = page.table("how-to-measure-it-again", "Items")
    commands = {row[0]: row[2] for row in table.rows}
    assert list(commands) == list(ITEMS)
    assert commands["table1"] == "rapgnn reproduce table1 --quick"
    assert commands["table2"] == "rapgnn reproduce table2"
    assert "torch" in page.sections["hardware-and-versions"][0].rows[0][2]


def test_an_empty_folder_gives_a_page_that_says_so(tmp_path):
    write_report(tmp_path, tmp_path / "page.html")
    page = ReadPage((tmp_path / "page.html").read_text())
    assert f"{len(ITEMS)} of {len(ITEMS)} items are not measured yet" in page.words["claims"]
    assert page.plots == {}


def test_bad_folders_are_refused_in_one_sentence(tmp_path):
    with pytest.raises(InputError, match="there is no folder"):
        read_measured(tmp_path / "nothing")
    (tmp_path / "table1.json").write_text('{"a": 1}')
    with pytest.raises(InputError, match="holds no list of records"):
        read_measured(tmp_path)
    (tmp_path / "table1.json").write_text("[{")
    with pytest.raises(InputError, match="cannot be read"):
        read_measured(tmp_path)


def cost(dataset: str, method: str, **more) -> dict:
    sizes = {"num_layers": 4, "hidden_channels": 8, "backbone": "gcn", "kind": "time"}
    return {"dataset": dataset, "method": method, "title": method} | sizes | more


def test_memory_and_large_graphs_are_drawn_with_what_was_measured():
    records = [cost("pubmed", m, peak_memory_mb=v) for m, v in (("end-to-end", 300.0), ("rap", 7.5))]
    records.append(cost("pubmed", "end-to-end-pyg", note="does not fit into memory"))
    (figure,) = FIGURES["memory"](records)
    (panel,) = figure.panels
    assert list(panel.figure.data[0].x) == [300.0, 7.5]
    assert "rap 7.5 MB" in panel.says
    times = [
        cost("products", m, train_ms_per_epoch=v, paper_train_ms=9.0) for m, v in (("rap", 0.5), ("end-to-end", 8.0))
    ]
    (figure,) = FIGURES["large"](times)
    ours, paper = figure.panels[0].figure.data
    assert (list(ours.x), list(paper.x)) == ([0.5, 8.0], [9.0, 9.0])


@pytest.mark.parametrize("name", [name for name in ITEMS if (RESULTS / f"{name}.json").is_file()] or ["none"])
def test_the_committed_results_stand_on_the_page(name):
    """Every cell of every table of results/, as the item's Markdown prints it, in the same place."""
    if name == "none":
        pytest.skip("results/reproduce holds no item yet")
    measured = read_measured(RESULTS)
    records = measured.records[name]
    wanted = [line for line in describe(ITEMS[name], records).splitlines() if line.startswith("|")]
    cells = [
        [c.strip("* ") for c in line.strip("|").split("|")] for line in wanted if not re.match(r"\|[ -:|]+$", line)
    ]
    parts = [part for part in item_tables(ITEMS[name], records, measured.claims) if isinstance(part, Table)]
    shown = [row for part in parts for row in ([*part.header], *([c.text for c in r] for r in part.rows))]
    assert [row[: len(want)] for row, want in zip(shown, cells, strict=True)] == cells
    assert make_page(measured).sections
