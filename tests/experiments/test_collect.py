"""The stored settings are those the searches chose, and the choice is made again from the committed trials."""

import json
from pathlib import Path

import pytest

from rapgnn.errors import InputError
from rapgnn.experiments.tune.choose import TIE, TRIALS, choose, decide, rank_trials, read_trials
from rapgnn.experiments.tune.collect import TARGET, collect, format_tuned, main, read_choices

ROOT = Path(__file__).resolve().parents[2]
TUNE = ROOT / "results" / "tune"
GRAPHS = ("mutag", "ptc", "proteins", "molesol", "moltox21", "molhiv", "molbace")


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


def test_a_tie_break_goes_with_its_embedding_alone():
    tie = {"dataset": "cora", "method": "rap", "embedding": "identity", "tie_break_val_mean": 0.81}
    rows = collect([tie, choice(0.8), choice(0.8, embedding="identity")])
    assert {row["embedding"]: row["tie_break"] for row in rows} == {"identity": 0.81, "pretrained": 0.0}


def test_among_embeddings_that_validation_cannot_tell_apart_the_simplest_is_chosen():
    rows = collect([choice(0.80), choice(0.79, embedding="identity"), choice(0.70, embedding="fixed-random")])
    assert [row["embedding"] for row in rows if row["chosen"]] == ["identity"]  # within √(0.8 · 0.2 / 500) = 0.018
    rows = collect([choice(0.80), choice(0.78, embedding="identity")])
    assert [row["embedding"] for row in rows if row["chosen"]] == ["pretrained"]
    errors = [
        choice(v, dataset="molesol", metric="rmse", embedding=e) for v, e in ((0.9, "identity"), (0.8, "learnable"))
    ]
    assert [row["embedding"] for row in collect(errors) if row["chosen"]] == ["learnable"]


def test_the_papers_space_has_a_column_of_its_own():
    rows = collect([choice(0.9), choice(0.7, space="faithful")])
    assert {row["column"]: row["val_mean"] for row in rows} == {"best": 0.9, "faithful": 0.7}


def test_the_command_checks_and_writes(tmp_path, capsys):
    folder, target = tmp_path / "results" / "tune", tmp_path / TARGET
    folder.mkdir(parents=True)
    target.parent.mkdir(parents=True)
    (folder / "a.json").write_text(json.dumps([choice(0.8)]))
    assert main(["--check", "--root", str(tmp_path)]) == 1
    assert not target.exists()
    assert main(["--root", str(tmp_path)]) == 0
    assert main(["--check", "--root", str(tmp_path)]) == 0
    (folder / "b.json").write_text(json.dumps([choice(0.9)]))
    assert main(["--check", "--root", str(tmp_path)]) == 1
    (folder / "a.json").unlink()
    (folder / "b.json").unlink()
    capsys.readouterr()
    assert main(["--root", str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("dataset", GRAPHS)
def test_the_committed_trials_give_the_committed_choice(dataset):
    """End-to-End's best trial was taken as it is; RAP-GNN's is one of the four best."""
    for method, top in (("end-to-end", 1), ("rap", 4)):
        (chosen,) = json.loads((TUNE / f"graphs-{dataset}-{method}.json").read_text())
        trials = read_trials([ROOT / TRIALS], dataset, method)
        ranked = rank_trials(trials, chosen["embedding"], higher=chosen["metric"] != "rmse")
        assert len(ranked) == chosen["trials"]
        (trial,) = [t for t in ranked[:top] if t["settings"] == chosen["settings"]]
        assert chosen["val_values"][0] == trial["value"]


def test_among_equals_the_narrowest_is_taken():
    wide, narrow = {"hidden_channels": 256}, {"hidden_channels": 32}
    best, close = {"val_mean": 0.8, "settings": wide}, {"val_mean": 0.8 - TIE / 2, "settings": narrow}
    far = {"val_mean": 0.8 - 2 * TIE, "settings": narrow}
    assert decide([best, close, far], higher=True) is close
    assert decide([best, far], higher=True) is best
    assert decide([best, far], higher=False) is far


def test_choosing_runs_the_best_trials_on_further_seeds(small_graph):
    settings = {"embedding": "fixed-random", "hidden_channels": 8, "epochs": 5, "num_layers": 2}
    trials = [
        {"value": value, "settings": settings | {"hidden_channels": width}}
        for value, width in ((0.2, 8), (0.9, 16), (0.8, 32))
    ]
    found = choose(small_graph, "rap", "fixed-random", trials, top=2, seeds=2)
    assert found["settings"]["hidden_channels"] in (16, 32)
    assert len(found["val_values"]) == 3
    assert found["val_values"][0] in (0.9, 0.8)
    assert found["val_mean"] == pytest.approx(sum(found["val_values"]) / 3)
    assert (found["trials"], found["metric"]) == (3, "accuracy")
    as_it_is = choose(small_graph, "rap", "fixed-random", trials, seeds=0)
    assert (as_it_is["val_values"], as_it_is["settings"]["hidden_channels"]) == ([0.9], 16)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"method": "sgc"}, "method 'sgc' is unknown"),
        ({"embedding": "identity"}, "no trial of rap"),
        ({"top": 0}, "top must be at least 1"),
    ],
)
def test_a_choice_that_cannot_be_made_is_refused(fields, said, small_graph):
    trials = [{"value": 0.5, "settings": {"embedding": "fixed-random"}}]
    given = {"method": "rap", "embedding": "fixed-random", "trials": trials} | fields
    with pytest.raises(InputError, match=said):
        choose(small_graph, **given)


def test_a_missing_file_of_trials_is_named(tmp_path):
    with pytest.raises(InputError, match=r"none\.db"):
        read_trials([tmp_path / "none.db"], "cora", "rap")
