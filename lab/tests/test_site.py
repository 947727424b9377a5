"""The built documentation in a browser: everybody can read it, and nothing is fetched from elsewhere."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("", "getting-started/", "configuration/", "shortcut/", "benchmarks/", "reproduction/", "reference/estimators/")
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")  # of the browser's driver, when it ends


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory, chromium) -> Iterator[str]:
    """The address of the site, built once (seconds) and served on this machine: its search needs a server."""
    pytest.importorskip("properdocs", reason="ProperDocs is not installed (make docs does it)")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "properdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_can_be_read_by_everybody(site, chromium, axe, scheme, width):
    with chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme) as context:
        page, asked = context.new_page(), []
        page.on("request", lambda request: asked.append(request.url))
        for name in PAGES:
            page.goto(site + name)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, name
            assert axe(page) == [], name
        assert [url for url in asked if not url.startswith((site, "data:"))] == []


QUESTIONS = {
    "own CSV": "getting-started",
    "DataFrames": "howto",
    "networkx": "howto",
    "new nodes": "howto serving",
    "serving": "serving",
    "imbalance": "howto",
    "threshold": "howto",
    "time split": "howto",
    "group split": "howto",
    "error bars": "howto",
    "prediction sets": "howto",
    "explain": "howto serving",
    "importances": "howto serving",
    "compare with a GCN": "howto",
    "larger than memory": "howto scale",
    "cluster": "howto cluster",
    "GPU": "howto gpu",
    "recommend links": "links howto",
    "database": "databases howto",
    "missing values": "howto",
}
"""What a practitioner asks, and the pages that answer it; written down before the pages."""

ASKED = """() => {  // the index may still be on its way: ask until there is an answer
    document.getElementById("properdocs-search-query").dispatchEvent(new Event("keyup"));
    return document.querySelectorAll("#properdocs-search-results a").length > 0;
}"""


def test_the_search_answers_what_practitioners_ask(site, chromium):
    with chromium.new_context() as context:
        page, missed = context.new_page(), {}
        for question, answers in QUESTIONS.items():
            page.goto(site)
            page.click('[data-bs-target="#properdocs_search_modal"]')
            page.locator("#properdocs-search-query").fill(question)
            page.wait_for_function(ASKED)
            links = page.eval_on_selector_all("#properdocs-search-results a", "all => all.map(a => a.href)")
            pages = [link.removeprefix(site).partition("/")[0] for link in links[:3]]
            if not set(pages) & set(answers.split()):
                missed[question] = pages
        assert missed == {}
