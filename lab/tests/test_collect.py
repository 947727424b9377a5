"""The stored settings are those the searches chose, and what was chosen is the best of the recorded trials."""

import json
from pathlib import Path

import pytest

from rapgnn_lab.tuned import LOWER_IS_BETTER, TARGET, collect, format_tuned, main, read_choices, read_trials

ROOT = Path(__file__).resolve().parents[2]
TUNE = ROOT / "results" / "tune"


def choice(value: float, **fields) -> dict:
    settings = {"embedding": "pretrained", "hidden_channels": 64}
    record = {"dataset": "cora", "method": "rap", "embedding": "pretrained", "space": "wide", "trials": 1}
    return record | {"val_mean": value, "settings": settings} | fields


def test_the_committed_choices_give_the_committed_settings():
    assert format_tuned(collect(read_choices(ROOT))) == (ROOT / TARGET).read_text()


def test_the_best_search_counts_and_errors_count_downwards():
    (row,) = collect([choice(0.7), choice(0.8, space="paper"), choice(0.75)])
    assert (row["val_mean"], row["space"]) == (0.8, "paper")
    (row,) = collect([choice(0.9, metric="rmse"), choice(0.8, metric="rmse"), choice(0.85, metric="rmse")])
    assert row["val_mean"] == 0.8
    rows = collect([choice(0.9), choice(0.7, space="faithful")])  # the paper's space has a column of its own
    assert {row["column"]: row["val_mean"] for row in rows} == {"best": 0.9, "faithful": 0.7}


def test_a_tie_break_goes_with_its_embedding_and_decides_among_equals():
    tie = {"dataset": "mutag", "method": "rap", "embedding": "identity", "tie_break_val_mean": 0.81}
    rows = collect([choice(0.8, dataset="mutag"), choice(0.8, dataset="mutag", embedding="identity"), tie])
    assert {row["embedding"]: row["tie_break"] for row in rows} == {"identity": 0.81, "pretrained": 0.0}
    assert [row["embedding"] for row in rows if row["chosen"]] == ["identity"]


def test_among_embeddings_that_validation_cannot_tell_apart_the_simplest_is_chosen():
    rows = collect([choice(0.80), choice(0.79, embedding="identity"), choice(0.70, embedding="fixed-random")])
    assert [row["embedding"] for row in rows if row["chosen"]] == ["identity"]  # within √(0.8 · 0.2 / 500) = 0.018
    rows = collect([choice(0.80), choice(0.78, embedding="identity")])
    assert [row["embedding"] for row in rows if row["chosen"]] == ["pretrained"]
    error = {"dataset": "molesol", "metric": "rmse"}
    rows = collect([choice(0.9, embedding="identity", **error), choice(0.8, embedding="learnable", **error)])
    assert [row["embedding"] for row in rows if row["chosen"]] == ["learnable"]


def test_the_command_checks_and_writes(tmp_path, capsys):
    folder, target = tmp_path / "results" / "tune", tmp_path / TARGET
    folder.mkdir(parents=True)
    target.parent.mkdir(parents=True)
    (folder / "a.json").write_text(json.dumps([choice(0.8)]))
    assert main(["--check", "--root", str(tmp_path)]) == 1
    assert not target.exists()
    assert main(["--root", str(tmp_path)]) == 0
    assert main(["--check", "--root", str(tmp_path)]) == 0
    (folder / "a.json").unlink()
    assert main(["--root", str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.fixture(scope="module")
def trials() -> list[dict]:
    return read_trials(ROOT)


def _ranked(trials: list[dict], choice: dict) -> list[dict]:
    sign = -1 if choice.get("metric") in LOWER_IS_BETTER else 1
    return sorted((t for t in trials if t["value"] is not None), key=lambda t: -sign * t["value"])


def test_faithful_settings_are_the_best_of_the_recorded_trials(trials):
    """The best mean of those that had the most seeds."""
    chosen = json.loads((TUNE / "faithful.json").read_text())
    assert len(chosen) == 51
    for choice in chosen:
        study = "{dataset}/{method}/{embedding}/faithful".format(**choice)
        mine = [t for t in trials if t["study"] == study]
        most = max(len(t["val_values"]) for t in mine if t["value"] is not None)
        best = _ranked([t for t in mine if len(t["val_values"]) == most], choice)[0]
        assert best["value"] == pytest.approx(choice["val_mean"])
        (trial,) = [t for t in mine if t["trial"] == choice["trial"]]
        assert trial["settings"] == choice["settings"]
        assert trial["value"] == pytest.approx(choice["val_mean"])


def test_the_other_settings_are_among_the_best_of_the_recorded_trials(trials):
    """Further seeds decided among the five best of a search, on sets of graphs among the four best."""
    compared = 0
    for choice in json.loads((TUNE / "chosen.json").read_text()):
        mine = [t for t in trials if t["study"] == choice["study"]]
        if len(mine) > choice["trials"]:
            continue  # several searches have this name
        compared, best = compared + 1, _ranked(mine, choice)[:5]
        (trial,) = [t for t in best if t["trial"] == choice["trial"]]
        assert trial["settings"] == choice["settings"]
        assert choice["val_values"][: len(trial["val_values"])] == trial["val_values"]
    assert compared == 30
    for path in sorted(TUNE.glob("graphs-*.json")):
        (choice,) = json.loads(path.read_text())
        prefix = "{dataset}/{method}/".format(**choice)
        mine = [t for t in trials if t["study"].startswith(prefix) and not t["study"].endswith("/faithful")]
        mine = [t for t in mine if t["settings"]["embedding"] == choice["embedding"]]
        different = {json.dumps(t["settings"], sort_keys=True): t for t in mine}
        assert len(different) == choice["trials"]
        best = _ranked(list(different.values()), choice)[: 1 if choice["method"] == "end-to-end" else 4]
        (trial,) = [t for t in best if t["settings"] == choice["settings"]]
        assert choice["val_values"][0] == trial["value"]
