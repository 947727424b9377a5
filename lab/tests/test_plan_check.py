"""The cost model is checked against runs, and its pages are made of what was stored."""

import json

import pytest

from rapgnn.scale import plan as rates
from rapgnn_lab import plan_check
from rapgnn_lab.pages import PROBLEMS, TABLES


@pytest.fixture
def root(tmp_path, monkeypatch, capsys):
    (tmp_path / "results").mkdir()
    monkeypatch.setattr(rates, "TABLES", (1 << 12, 1 << 14))
    monkeypatch.setattr(rates, "EDGES", 1 << 10)
    monkeypatch.setattr(rates, "BUFFER", 1 << 16)
    assert plan_check.main(["--nodes", "500,2000", "--repeats", "1", "--root", str(tmp_path)]) == 0
    assert "2,000 nodes" in capsys.readouterr().out
    return tmp_path


def test_runs_are_stored_beside_what_was_predicted(root):
    (record,) = json.loads((root / "results" / "scale" / "plan.json").read_text())
    assert [run["nodes"] for run in record["runs"]] == [500, 2000]
    for run in record["runs"]:
        assert run["edges"] == 20 * run["nodes"]
        assert run["kept_bytes"] == run["predicted"]["kept"]
        assert run["blocks"] == run["predicted"]["blocks"]
        assert run["ratio_seconds"] == pytest.approx(run["predicted"]["total_seconds"] / run["seconds"])
    assert sorted(path.name for path in (root / "results").iterdir()) == ["scale"]


def test_pages_are_made_of_what_was_stored(root):
    said = {name: TABLES[name](root) for name in ("plan-check", *PROBLEMS)}
    assert "| 2,000 | 40,000 |" in said["plan-check"]
    for name, problem in PROBLEMS.items():
        assert f"{problem.nodes:,} nodes" in said[name]
        assert said[name].count("| in memory |") == 2
    path = root / "results" / "scale" / "plan.json"
    (record,) = json.loads(path.read_text())
    record["rates"]["product"] = [[t, w, 100 * s] for t, w, s in record["rates"]["product"]]
    path.write_text(json.dumps([record]))
    assert TABLES["plan-papers"](root) != said["plan-papers"]


@pytest.mark.parametrize("arguments", [["--nodes", "many"], ["--memory", "much"]])
def test_arguments_that_are_none(arguments, tmp_path, capsys):
    (tmp_path / "results").mkdir()
    assert plan_check.main([*arguments, "--root", str(tmp_path)]) == 2
    assert arguments[0] in capsys.readouterr().err
