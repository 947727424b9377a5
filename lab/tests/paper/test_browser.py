"""Both pages in a real browser: everything is drawn, nothing is loaded, and all can be read and reached."""

from itertools import pairwise
from pathlib import Path

import pytest

from browser import chromium, opened  # noqa: F401 (a fixture)
from measured_items import measure_into
from rapgnn import RAPNodeClassifier
from rapgnn.datasets.catalog import BlockModel
from rapgnn_lab.paper.page import write_report
from samples import FAST

pytest.importorskip("plotly")
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")  # of the browser's driver, when it ends


@pytest.fixture(scope="module")
def pages(tmp_path_factory, chromium) -> dict[str, Path]:  # noqa: F811
    folder = tmp_path_factory.mktemp("pages")
    measure_into(folder / "reproduce")
    write_report(folder / "reproduce", folder / "paper.html")
    graph = BlockModel(nodes=300, classes=3, features=12, signal=3.0, train=10, val=60, test=100, seed=1).generate()
    RAPNodeClassifier(**FAST).fit(graph).report(folder / "model.html", graph)
    return {"paper": folder / "paper.html", "model": folder / "model.html"}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["paper", "model"])
def test_a_page_is_whole_on_a_laptop_and_a_phone(pages, chromium, name, scheme):  # noqa: F811
    with opened(chromium, pages[name], scheme=scheme) as found:
        count, drawn = found.plots()
        assert count >= 8
        assert drawn == count
        assert found.said == []
        assert [url for url in found.asked if not url.startswith(("file:", "blob:", "data:"))] == []
        assert found.page.evaluate("() => document.documentElement.dataset.plots") == "drawn"
        assert found.low_contrast() == []
        assert found.overhang() <= 0
        found.page.set_viewport_size({"width": 360, "height": 800})
        found.page.evaluate("() => document.querySelectorAll('details').forEach((fold) => { fold.open = true; })")
        found.page.wait_for_timeout(300)
        assert found.overhang() <= 0
        assert found.low_contrast() == []
        assert found.said == []


def test_everything_can_be_reached_and_switched_by_keys(pages, chromium):  # noqa: F811
    with opened(chromium, pages["paper"]) as found:
        page = found.page
        page.keyboard.press("Tab")
        assert page.evaluate("() => document.activeElement.className") == "skip"
        wanted = page.evaluate(
            "() => [...document.querySelectorAll('nav a, .controls input, summary, .scroll')]"
            ".filter((e) => e.checkVisibility()).length"
        )
        reached = set()
        for _ in range(wanted + 400):
            page.keyboard.press("Tab")
            place = page.evaluate(
                "() => { const e = document.activeElement; if (!e || e === document.body) return null;"
                " return e.matches('nav a, .controls input, summary, .scroll')"
                " ? [...document.querySelectorAll('*')].indexOf(e) : -1; }"
            )
            if place is None:
                break
            if place >= 0:
                reached.add(place)
        assert len(reached) == wanted

        box = page.locator("#depth-costs input[name=shown]").first
        name = box.get_attribute("value")
        hidden = f"() => document.getElementById('depth-costs-0').data.find((t) => t.name === {name!r}).visible"
        kind = "() => document.getElementById('depth-costs-0')._fullLayout.yaxis.type"
        assert page.evaluate(hidden) is not False
        box.focus()
        page.keyboard.press("Space")
        page.wait_for_timeout(200)
        assert page.evaluate(hidden) is False
        assert page.evaluate(kind) == "log"
        page.locator("#depth-costs input[name=log]").focus()
        page.keyboard.press("Space")
        page.wait_for_timeout(200)
        assert page.evaluate(kind) == "linear"
        assert found.said == []


def test_plots_follow_the_colours_of_the_page_and_print_dark_on_light(pages, chromium):  # noqa: F811
    ink = "() => getComputedStyle(document.querySelector('.plot text')).fill"
    with opened(chromium, pages["model"]) as found:
        light = found.page.evaluate(ink)
        found.page.emulate_media(color_scheme="dark")
        found.page.wait_for_timeout(1500)
        dark = found.page.evaluate(ink)
        assert dark != light
        found.page.evaluate("() => window.dispatchEvent(new Event('beforeprint'))")
        found.page.wait_for_timeout(1500)
        assert found.page.evaluate(ink) == light
        assert found.said == []


def test_every_plot_has_words_for_those_who_do_not_see_it(pages, chromium):  # noqa: F811
    with opened(chromium, pages["model"]) as found:
        said = found.page.evaluate(
            "() => [...document.querySelectorAll('.plot')].map((p) => p.getAttribute('aria-label'))"
        )
        assert all(len(words) > 20 for words in said)
        headings = found.page.evaluate(
            "() => [...document.querySelectorAll('h1, h2, h3')].map((h) => Number(h.tagName[1]))"
        )
        assert headings[0] == 1
        assert all(b - a <= 1 for a, b in pairwise(headings))
