"""README and docs say what results/ says, and every result file that is quoted is there; the cost model's runs."""

import fnmatch
import json
import re
import shutil
from pathlib import Path

import pytest

from rapgnn.errors import InputError
from rapgnn.scale import plan as rates
from rapgnn_lab.pages import PROBLEMS, TABLES, find_pages, forget, main, render, rendered_pages
from rapgnn_lab.results import changed_files

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "results"
PAGES = [*find_pages(ROOT), RESULTS / "README.md"]


@pytest.fixture
def copy(tmp_path) -> Path:
    """The pages and their results, to be altered."""
    for page in find_pages(ROOT):
        target = tmp_path / page.relative_to(ROOT)
        target.parent.mkdir(exist_ok=True)
        shutil.copy(page, target)
    shutil.copytree(RESULTS, tmp_path / "results")
    return tmp_path


def test_the_pages_say_what_the_results_say():
    differ = [str(page.relative_to(ROOT)) for page in changed_files(rendered_pages(ROOT))]
    assert differ == [], "run python -m rapgnn_lab.pages"


def test_every_table_stands_on_a_page():
    text = "".join(page.read_text() for page in find_pages(ROOT))
    assert [name for name in TABLES if f"<!-- {name} -->" not in text] == []


@pytest.mark.parametrize(
    ("file", "key"),
    [
        ("reproduce/table1", "mean"),
        ("reproduce/table2", "strict_std"),
        ("reproduce/embeddings", "std"),
        ("reproduce/large", "infer_all_ms"),
        ("reproduce/estimators", "mean"),
        ("scale/disk", "convert_seconds"),
        ("bench-depth/pubmed", "peak_memory_mb"),
        ("bench-graphs/molhiv", "speedup_vs_end_to_end"),
        ("bench-auto/suite", "rival_seconds"),
        ("bench-memory/pubmed-h200", "peak_memory_mb"),
        ("bench-peers/planetoid", "seconds"),
        ("bench-scale/generated-h200", "predict_seconds"),
        ("bench-spmm/products", "ms"),
        ("bench-fit/generated", "fit_seconds"),
    ],
)
def test_a_changed_number_is_found(file, key, copy):
    alter(copy, file, key)
    forget()
    assert any(render(page, copy) != page.read_text() for page in find_pages(copy))  # the first one ends it


def alter(copy: Path, file: str, key: str) -> None:
    """Another number in a record that a page shows."""
    path = copy / "results" / f"{file}.json"
    records = json.loads(path.read_text())
    shown = {"bench-depth/pubmed": ("num_layers", 32), "bench-spmm/products": ("order", "given")}
    field, value = shown.get(file, ("", None))
    altered = next(r for r in reversed(records) if r.get(key) is not None and (not field or r[field] == value))
    altered[key] = 1.5 * altered[key] + 0.1
    path.write_text(json.dumps(records))


def test_changed_numbers_are_written(copy, capsys):
    alter(copy, "reproduce/table1", "mean")
    alter(copy, "bench-memory/pubmed-h200", "peak_memory_mb")
    before = {page: page.read_text() for page in find_pages(copy)}
    assert main(["--check", "--root", str(copy)]) == 1
    assert "differs from results/" in capsys.readouterr().out
    assert {page: page.read_text() for page in find_pages(copy)} == before  # a check changes nothing
    assert main(["--root", str(copy)]) == 0
    assert main(["--check", "--root", str(copy)]) == 0


def test_what_was_not_measured_is_said_to_be_so(copy):
    (copy / "results" / "reproduce" / "table1.json").unlink()
    path = copy / "results" / "reproduce" / "identity.json"
    path.write_text(json.dumps([r for r in json.loads(path.read_text()) if r["method"] != "identity"]))
    assert main(["--root", str(copy)]) == 0
    text = (copy / "docs" / "reproduction.md").read_text()
    assert "Not measured yet: `rapgnn reproduce table1`." in text
    assert "| Identity Weights | not searched | – | | 80.36 ± 0.40 | – |" in text


@pytest.mark.parametrize(
    "text",
    ["<!-- speed -->\nno end\n", "<!-- /speed -->\n<!-- speed -->\n", "<!-- spede -->\n<!-- /spede -->\n"],
)
def test_broken_markers_are_refused(text, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(text)
    with pytest.raises(InputError, match="spe"):
        render(page, ROOT)


def test_missing_results_are_named_in_one_sentence(copy, tmp_path, capsys):
    (copy / "results" / "scale" / "disk.json").unlink()
    (tmp_path / "empty").mkdir()
    for root, name in ((copy, "results/scale/disk.json"), (tmp_path / "empty", "no folder results")):
        assert main(["--check", "--root", str(root)]) == 2
        error = capsys.readouterr().err
        assert (name in error, error.count("\n")) == (True, 1)


def braces(pattern: str) -> list[str]:
    """``a/{b,c}.json`` as ``a/b.json`` and ``a/c.json``."""
    found = re.fullmatch(r"(.*)\{(.*)\}(.*)", pattern)
    return [found[1] + middle + found[3] for middle in found[2].split(",")] if found else [pattern]


def named_in_readme() -> list[str]:
    """The files in the first column of results/README.md's table of files."""
    cells = re.findall(r"^\| (`[\w-]+/.*?) \|", (RESULTS / "README.md").read_text(), re.MULTILINE)
    return [pattern for cell in cells for name in re.findall(r"`([^`]+)`", cell) for pattern in braces(name)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_quoted_result_file_exists(page):
    """But for the old names in the table of commands."""
    lines = [line for line in page.read_text().splitlines() if "--json" not in line]
    quoted = re.findall(r"\bresults/[\w./*-]*\w", "\n".join(lines))
    assert [name for name in quoted if not list(ROOT.glob(name))] == []


def test_the_readme_names_every_file_and_no_other():
    files = {str(f.relative_to(RESULTS)) for f in RESULTS.rglob("*") if f.is_file()} - {"README.md"}
    patterns = named_in_readme()
    assert len(patterns) > 10
    assert [p for p in patterns if not fnmatch.filter(files, p)] == []
    assert [f for f in sorted(files) if not any(fnmatch.fnmatch(f, p) for p in patterns)] == []


@pytest.fixture
def root(tmp_path, monkeypatch, rapgnn):
    monkeypatch.setattr(rates, "TABLES", (1 << 12, 1 << 14))
    monkeypatch.setattr(rates, "EDGES", 1 << 10)
    monkeypatch.setattr(rates, "BUFFER", 1 << 16)
    options = ("--nodes", "500,2000", "--repeats", 1, "--folder", tmp_path)
    code, _, err = rapgnn("bench", "costs", *options, "--json", tmp_path / "results" / "scale" / "plan.json")
    assert code == 0, err
    return tmp_path


def test_runs_are_stored_beside_what_was_predicted(root):
    runs = json.loads((root / "results" / "scale" / "plan.json").read_text())
    assert [run["nodes"] for run in runs] == [500, 2000]
    for run in runs:
        assert run["edges"] == 20 * run["nodes"]
        assert run["kept_bytes"] == run["predicted"]["kept"]
        assert run["blocks"] == run["predicted"]["blocks"]
        assert run["ratio_seconds"] == pytest.approx(run["predicted"]["total_seconds"] / run["seconds"])
    assert [path.name for path in root.iterdir()] == ["results"]


def test_pages_are_made_of_what_was_stored(root):
    said = {name: TABLES[name](root) for name in ("plan-check", *PROBLEMS)}
    assert "| 2,000 | 40,000 |" in said["plan-check"]
    for name, problem in PROBLEMS.items():
        assert f"{problem.nodes:,} nodes" in said[name]
        assert said[name].count("| in memory |") == 2
    path = root / "results" / "scale" / "plan.json"
    first, *others = json.loads(path.read_text())
    first["rates"]["product"] = [[t, w, 100 * s] for t, w, s in first["rates"]["product"]]
    path.write_text(json.dumps([first, *others]))
    assert TABLES["plan-papers"](root) != said["plan-papers"]
