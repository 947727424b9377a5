"""The stored settings are those the searches chose."""

import json
from pathlib import Path

from rapgnn_lab.tuned import TARGET, collect, format_tuned, main, read_choices

ROOT = Path(__file__).resolve().parents[2]


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
