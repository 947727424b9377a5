"""A browser without a window, and what axe-core says of a page."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
AXE = Path(__file__).resolve().parents[2] / "node_modules" / "axe-core" / "axe.min.js"
SERIOUS = """async () => (await axe.run({resultTypes: ["violations"]})).violations
  .filter((v) => ["serious", "critical"].includes(v.impact))
  .map((v) => `${v.id}, ${v.nodes.length} times: ${v.nodes[0].html.slice(0, 120)}`)"""


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """The installed Chromium; tests that need it are skipped where there is none."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if path is None:
        pytest.skip("no Chromium is installed (CONTRIBUTING.md says how)")
    with api.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def axe() -> Callable[[Any], list[str]]:
    """What axe-core calls serious or critical on an open page; skipped where it is not installed."""
    script = Path(os.environ.get("RAPGNN_AXE", AXE))
    if not script.is_file():
        pytest.skip("axe-core is not installed (npm install --no-save axe-core)")

    def findings(page: Any) -> list[str]:
        page.evaluate(f"() => {{ {script.read_text(encoding='utf-8')} }}")
        return page.evaluate(SERIOUS)

    return findings
