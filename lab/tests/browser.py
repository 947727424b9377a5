"""A real browser without a window, for tests of pages; what a page says in it."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
CONTRAST = """() => {
  const rgb = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const behind = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const c = rgb(getComputedStyle(e).backgroundColor);
      if (c.length === 3 || c[3] === 1) return c;
    }
    return [255, 255, 255];
  };
  const bad = [];
  for (const e of document.querySelectorAll("body *")) {
    if (e.closest(".plot, script, [hidden], noscript") || !e.checkVisibility()) continue;
    if (![...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim())) continue;
    const [a, b] = [light(rgb(getComputedStyle(e).color)), light(behind(e))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) bad.push(`${e.tagName}.${e.className} ${ratio.toFixed(2)}: ${e.textContent.trim().slice(0, 40)}`);
  }
  for (const e of document.querySelectorAll(".plot text")) {
    const [a, b] = [light(rgb(getComputedStyle(e).fill)), light(behind(e.closest(".plot")))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const onBar = e.classList.contains("bartext-inside") || e.closest(".heatmap-label");
    if (ratio < 4.5 && !onBar && !e.closest(".modebar")) bad.push(`plot text ${ratio.toFixed(2)}: ${e.textContent}`);
  }
  return [...new Set(bad)];
}"""


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

    def low_contrast(self) -> list[str]:
        """Texts whose contrast to what is behind them is below 4.5."""
        return self.page.evaluate(CONTRAST)

    def overhang(self) -> int:
        """Pixels that the page is wider than the window."""
        return self.page.evaluate("() => document.documentElement.scrollWidth - window.innerWidth")


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """The installed Chromium; tests that need it are skipped where there is none."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("no Chromium is installed (CONTRIBUTING.md says how)")
    with api.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()


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
