"""Every code block of README and docs runs, the notebook too; every public name has its line in the reference."""

import json
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import pytest

import rapgnn
from rapgnn.cli import main

ROOT = Path(__file__).resolve().parents[2]
PAGES = ["README.md", *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")))]


def blocks(page: str) -> list[tuple[str, str]]:
    """(language, code) of every fenced block, in order."""
    return re.findall(r"```(\w*)\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


def run_line(line: str, monkeypatch) -> None:
    """A command in this process; where it would change the machine, or run this suite, a look at what it names."""
    for words in (shlex.split(part, comments=True) for part in line.split(" && ")):
        match words:
            case ["make", *targets]:
                dry = subprocess.run(["make", "-n", *targets], cwd=ROOT, capture_output=True, text=True)
                assert dry.returncode == 0, dry.stderr
            case ["pip", "install", *arguments]:
                check_installable(arguments)
            case ["python", script]:
                runpy.run_path(str(ROOT / script), run_name="__main__")
            case ["rapgnn", *_]:
                monkeypatch.setattr("sys.argv", words)
                code = 0
                try:
                    main()
                except SystemExit as stop:
                    code = stop.code
                assert not code, f"{line!r} ended with exit code {code}"
            case _:
                pytest.fail(f"a block may hold rapgnn, make, pip install and python, not {line!r}")


def check_installable(arguments: list[str]) -> None:
    """The file of constraints is there, and so are the extras of this package."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for before, word in pairwise(["", *arguments]):
        if before in ("-c", "--constraint", "-r"):
            assert (ROOT / word).is_file(), word
        extras = re.fullmatch(r"(?:\.|rapgnn)\[(.+)\]", word)
        assert not extras or set(extras[1].split(",")) <= set(project["optional-dependencies"]), word


@pytest.mark.parametrize("page", PAGES)
def test_every_block_runs(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    found, printed = blocks(page), ""
    assert found or page in ("docs/reproduction.md", "docs/architecture.md")  # tables and a drawing alone
    absent = ""
    for language, code in found:
        assert language in ("python", "sh", "text"), f"{page} has a block in {language or 'no language'}"
        if language == "python" and "import FastAPI" in code and find_spec("fastapi") is None:
            absent = "fastapi is not installed: its block did not run here"
        elif language == "python":
            exec(compile(code, page, "exec"), names)
        elif language == "sh":
            for line in filter(str.strip, code.replace("\\\n", " ").splitlines()):
                capsys.readouterr()
                run_line(line, monkeypatch)
                printed = capsys.readouterr().out
        else:  # what the command before it prints
            assert without_numbers(code) == without_numbers(printed)
    if absent:
        pytest.skip(absent)


def without_numbers(text: str) -> list[str]:
    """The lines, whatever numbers and settings another processor may come to."""
    lines = re.sub(r"(?<=chosen on validation among ).*", "", text).splitlines()
    return [" ".join(re.sub(r"\d+(\.\d+)?", "#", line).split()) for line in lines]


class PlainApp:
    """Stands for FastAPI where that is not installed: the functions are called as they are."""

    def get(self, path: str):
        return lambda function: function

    post = get


def test_the_example_of_serving_answers_and_takes_new_nodes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = (ROOT / "examples" / "serve.py").read_text()
    *others, last = [block for language, block in blocks("docs/serving.md") if language == "python"]
    assert last == code
    for block in others[:2]:
        exec(compile(block, "serving.md", "exec"), {})
    new = {"id": "new", "age": 52.0, "town": "Bern"}
    if find_spec("fastapi") and find_spec("httpx"):
        from fastapi.testclient import TestClient

        client = TestClient(runpy.run_path(str(ROOT / "examples" / "serve.py"))["app"])
        assert client.post("/rows", json={"nodes": [new], "edges": [["new", "p3"]]}).json() == 401
        found = client.get("/rows/new").json()
        assert client.get("/rows/none").status_code == 404
    else:
        absent = type(sys)("fastapi")
        absent.FastAPI, absent.HTTPException = PlainApp, type("HTTPException", (Exception,), {})
        monkeypatch.setitem(sys.modules, "fastapi", absent)
        names = runpy.run_path(str(ROOT / "examples" / "serve.py"))
        assert names["add"]([new], [("new", "p3")]) == 401
        found = names["answer"]("new")
        with pytest.raises(absent.HTTPException):
            names["answer"]("none")
    assert set(found) == {"tea", "coffee"}
    assert sum(found.values()) == pytest.approx(1)


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
