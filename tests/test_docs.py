"""Every code block of README and docs runs, the notebook too; every public name has its line in the reference."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import matplotlib as mpl
import pytest

import rapgnn
from rapgnn.cli import main

mpl.use("Agg")
ROOT = Path(__file__).resolve().parents[1]
PAGES = ["README.md", *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")))]


def blocks(page: str) -> list[tuple[str, str]]:
    """(language, code) of every fenced block, in order."""
    return re.findall(r"```(\w*)\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


def run_line(line: str, monkeypatch) -> None:
    words = shlex.split(line, comments=True)
    if words[0] == "make":  # the suite itself is one of the targets: see that it exists and what it would do
        dry = subprocess.run(["make", "-n", *words[1:]], cwd=ROOT, capture_output=True, text=True)
        assert dry.returncode == 0, dry.stderr
        return
    assert words[0] == "rapgnn", f"a block may hold rapgnn and make, not {line!r}"
    monkeypatch.setattr("sys.argv", words)
    code = 0
    try:
        main()
    except SystemExit as stop:
        code = stop.code
    assert not code, f"{line!r} ended with exit code {code}"


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.filterwarnings("ignore::rapgnn.estimators.base.InputNotice")
def test_every_block_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    found = blocks(page)
    assert found or page == "docs/results.md"
    for language, code in found:
        assert language in ("python", "sh"), f"{page} has a block in {language or 'no language'}"
        if language == "python":
            exec(compile(code, page, "exec"), names)
        else:
            for line in filter(str.strip, code.replace("\\\n", " ").splitlines()):
                run_line(line, monkeypatch)


def test_the_notebook_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    notebook = json.loads((ROOT / "examples" / "own-graph.ipynb").read_text())
    names: dict[str, object] = {}
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert cells
    for cell in cells:
        exec(compile("".join(cell["source"]), "own-graph.ipynb", "exec"), names)
    assert names["score"] > 0.9  # type: ignore[operator]


def test_every_public_name_is_in_the_reference():
    text = (ROOT / "docs" / "api.md").read_text()
    assert [name for name in rapgnn.__all__ if not re.search(rf"`[^`]*\b{name}\b", text)] == []


@pytest.mark.parametrize("page", [*PAGES, "results/README.md"])
def test_every_linked_file_exists(page):
    links = re.findall(r"\]\(([^)#]+)\)", (ROOT / page).read_text())
    local = [link for link in links if not link.startswith("http")]
    assert [link for link in local if not ((ROOT / page).parent / link).exists()] == []


def test_help_answers_at_once():
    """Generous against a busy machine; the usual time is a fifth of a second."""
    import time

    times = []
    for _ in range(3):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", "rapgnn", "--help"], check=True, capture_output=True, env=os.environ)
        times.append(time.perf_counter() - start)
    assert min(times) < 0.5
