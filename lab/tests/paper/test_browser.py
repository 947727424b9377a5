"""All pages in a real browser without a window: all is drawn, nothing loaded, and all can be read and reached."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from measured_items import measure_into
from rapgnn import RAPLinkPredictor, RAPNodeClassifier
from rapgnn.datasets.catalog import BlockModel
from rapgnn.report import parts
from rapgnn.report.page import Page
from rapgnn_lab.paper.page import write_report
from samples import FAST


@dataclass
class Opened:
    """A page in the browser, with all that was said on its console and asked for from a network."""

    page: Any
    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def plots(self) -> tuple[int, int]:
        """How many plots there are, and how many are drawn."""
        count = "() => document.querySelectorAll('.plot').length"
        marks = "(p) => p.querySelector('.overplot path, .overplot image')"
        drawn = f"() => [...document.querySelectorAll('.plot')].filter({marks}).length"
        return self.page.evaluate(count), self.page.evaluate(drawn)

    def overhang(self) -> int:
        """Pixels that the page is wider than the window."""
        return self.page.evaluate("() => document.documentElement.scrollWidth - window.innerWidth")


@contextmanager
def opened(chromium: Any, path: Path, width: int = 1280, scheme: str = "light") -> Iterator[Opened]:
    """Open a file, and wait until its plots are drawn."""
    context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    try:
        found = Opened(context.new_page())
        found.page.on("console", lambda message: found.said.append(f"{message.type}: {message.text}"))
        found.page.on("pageerror", lambda error: found.said.append(str(error)))
        found.page.on("request", lambda request: found.asked.append(request.url))
        found.page.goto(path.as_uri())
        found.page.wait_for_selector("html[data-plots]", state="attached", timeout=120_000)
        yield found
    finally:
        context.close()


pytest.importorskip("plotly")
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")  # of the browser's driver, when it ends


@pytest.fixture(scope="module")
def pages(tmp_path_factory, chromium) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    measure_into(folder / "reproduce")
    write_report(folder / "reproduce", folder / "paper.html")
    graph = BlockModel(nodes=300, classes=3, features=12, signal=3.0, train=10, val=60, test=100, seed=1).generate()
    RAPNodeClassifier(**FAST).fit(graph).report(folder / "model.html", graph)
    RAPLinkPredictor(search=False).fit(graph).report(folder / "links.html", graph)
    drawn = parts.lines({"a": ([1, 2], [3, 40]), "b": ([1, 2], [5, 6])}, "x", "y", hover="%{y}")
    costs = parts.Figure("costs", [parts.Panel(drawn, "Costs", "They rise.")])
    Page("Plots", sections=[parts.Section("Costs", [costs])]).write(folder / "plots.html")
    return {name: folder / f"{name}.html" for name in ("paper", "model", "links", "plots")}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["paper", "model", "links"])
def test_a_page_is_whole_on_a_laptop_and_a_phone(pages, chromium, name, scheme):
    with opened(chromium, pages[name], scheme=scheme) as found:
        count, drawn = found.plots()
        images = found.page.evaluate("() => [...document.images].map((image) => image.naturalWidth)")
        assert (len(images) if name == "paper" else count) >= (0 if name == "links" else 5)
        assert drawn == count
        assert all(images)
        assert found.said == []
        assert [url for url in found.asked if not url.startswith(("file:", "blob:", "data:"))] == []
        assert found.page.evaluate("() => document.documentElement.dataset.plots") == "drawn"
        assert found.overhang() <= 0
        found.page.set_viewport_size({"width": 360, "height": 800})
        found.page.evaluate("() => document.querySelectorAll('details').forEach((fold) => { fold.open = true; })")
        found.page.wait_for_timeout(300)
        assert found.overhang() <= 0
        assert found.said == []


@pytest.mark.parametrize("name", ["paper", "model", "links"])
def test_axe_has_nothing_serious_to_say(pages, chromium, axe, name):
    with opened(chromium, pages[name]) as found:
        found.page.evaluate("() => document.querySelectorAll('details').forEach((fold) => { fold.open = true; })")
        assert axe(found.page) == []


def test_everything_can_be_reached_and_switched_by_keys(pages, chromium):
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
        assert found.said == []
    with opened(chromium, pages["plots"]) as found:
        page = found.page
        box = page.locator("#costs input[name=shown]").first
        name = box.get_attribute("value")
        hidden = f"() => document.getElementById('costs-0').data.find((t) => t.name === {name!r}).visible"
        assert page.evaluate(hidden) is not False
        box.focus()
        page.keyboard.press("Space")
        page.wait_for_timeout(200)
        assert page.evaluate(hidden) is False
        assert found.said == []


def test_plots_follow_the_colours_of_the_page_and_print_dark_on_light(pages, chromium):
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


def test_every_plot_has_words_for_those_who_do_not_see_it(pages, chromium):
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
