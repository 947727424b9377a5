"""The frame of a page: what goes in comes out, escaped, and nothing is loaded from elsewhere."""

import base64
import gzip
import re

import pytest

from html_pages import ReadPage
from rapgnn.report import page as library
from rapgnn.report import parts as plots
from rapgnn.report.page import Page
from rapgnn.report.parts import Cell, Facts, Figure, More, Notice, Panel, Prose, Section, Table, slug

pytest.importorskip("plotly")
BAD = "<b onclick=x>&\"'</script>"


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    r, g, b = (v / 12.92 if v <= 0.03928 else ((v + 0.055) / 1.055) ** 2.4 for v in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(a: str, b: str) -> float:
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.fixture
def page() -> Page:
    drawn = plots.lines({BAD: ([1, 2], [3, 4]), "b": ([1, 2], [5, float("nan")])}, "x", "y", hover=BAD)
    figure = Figure("lines", [Panel(drawn, BAD, BAD)], table=Table(["", "n"], [[BAD, 1]], BAD))
    cells = [[Cell(BAD, "good", title=BAD), Cell("rapgnn", code=True)]]
    parts = [Prose(BAD), Notice(BAD), Facts([(BAD, BAD)]), Table([BAD, "c"], cells, BAD), More(BAD, [figure])]
    return Page(BAD, BAD, [Section("Here", parts)], BAD, {"said": BAD})


def test_words_stay_words_everywhere(page):
    found = ReadPage(page.render())  # refuses elements that do not close
    assert "b" not in [tag for tag, _ in found.tags]
    assert not any(name.startswith("on") for _, given in found.tags for name in given)
    cells = [cell for t in found.sections["here"] for row in t.rows for cell in row]
    assert cells.count(BAD) == 2


def test_nothing_is_loaded(page):
    text = page.render()
    outside = re.sub(r'<script type="text/plain" id="library">.*?</script>', "", text, flags=re.DOTALL)
    assert not re.search(r"""(src|srcset)\s*=|url\(|@import|https?://""", outside)
    assert "default-src 'none'" in text


def test_plotly_is_in_the_page_whole(page):
    from plotly.offline import get_plotlyjs

    packed = ReadPage(page.render()).scripts["library"]
    assert gzip.decompress(base64.b64decode(packed)).decode() == get_plotlyjs()
    assert len(packed) < 2_500_000
    assert "library" not in ReadPage(Page("a", sections=[Section("b", [Prose("c")])]).render()).scripts


def test_a_legend_has_a_box_for_every_line(page):
    found = ReadPage(page.render())
    boxes = [given for tag, given in found.tags if tag == "input"]
    assert [(given["name"], given["value"]) for given in boxes] == [("shown", BAD), ("shown", "b")]
    assert found.plots["lines-0"]["data"][1]["y"] == [5, None]


def test_the_toolbar_of_a_plot_has_a_place_of_its_own(page):
    margin = ReadPage(page.render()).plots["lines-0"]["layout"]["margin"]
    assert margin["t"] >= 30  # its buttons are 26 pixels high


def test_every_colour_can_be_told_from_its_page():
    for light, dark in plots.PALETTE.items():
        assert contrast(light, "#ffffff") >= 3
        assert contrast(dark, "#14181d") >= 3
    assert contrast(plots.INK, "#ffffff") >= 7


def test_a_heading_is_the_name_of_its_place():
    assert slug("How good it is?") == "how-good-it-is"


def test_what_is_missing_is_named(page, monkeypatch):
    monkeypatch.setattr(library, "NEEDED", ("a_package_that_nobody_has",))
    with pytest.raises(Exception, match=r"pip install 'rapgnn\[report\]'"):
        page.render()
