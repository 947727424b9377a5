"""Measuring writes records that say how they were made, and `--only` leaves the others as they are."""

import json
import shlex
from pathlib import Path

import pytest

from rapgnn.errors import InputError
from rapgnn.experiments.measure import JOBS, main, make_parser, measure

ROOT = Path(__file__).resolve().parents[2]
TINY = "sbm:nodes=120,train=5,val=20,test=20"
FAST = ("pretrained-embedding", "identity")  # the methods that take least
KEYS = {
    *("dataset", "task", "method", "backbone", "metric", "protocol", "mean", "std", "values", "val_mean", "val_values"),
    *("seeds", "fit_seconds", "total_seconds", "train_ms_per_epoch", "eval_ms_per_epoch", "peak_memory_mb"),
    *("engine", "engine_reason", "inference", "epochs", "device", "hardware", "threads", "date", "config", "versions"),
    "command",
}
OLD = "python scripts/measure.py "


@pytest.fixture
def repository(tmp_path) -> Path:
    (tmp_path / "results").mkdir()
    return tmp_path


def records(path: Path) -> list[dict]:
    return json.loads(path.read_text())


@pytest.mark.parametrize(
    ("job", "part", "extra"),
    [("compare", "pretrained-embedding", set()), ("embeddings", "fixed-random", {"search_trials"})],
)
def test_a_job_writes_its_record(job, part, extra, repository):
    path = measure(job, TINY, repository, only=[part], seeds=2)
    assert path == repository / "results" / job / "sbm.json"
    (record,) = records(path)
    assert set(record) == KEYS | extra
    assert JOBS[job].part_of(record) == part
    assert record["seeds"] == [0, 1]
    assert record["mean"] == pytest.approx(sum(record["values"]) / 2)
    assert record["command"] == f"python -m rapgnn.experiments.measure {job} {TINY} --only {part} --seeds 2"


def test_depth_measures_every_number_of_layers(repository, monkeypatch):
    monkeypatch.setattr("rapgnn.experiments.measure.DEPTHS", (1, 3))
    found = records(measure("depth", TINY, repository, only=["fixed-diagonal"], seeds=1))
    assert [(r["method"], r["config"]["num_layers"]) for r in found] == [("fixed-diagonal", 1), ("fixed-diagonal", 3)]
    assert {r["config"]["hidden_channels"] for r in found} == {64}


def test_the_recorded_command_makes_the_record_again(repository):
    (before,) = records(measure("compare", TINY, repository, only=["pretrained-embedding"], seeds=1))
    words = shlex.split(before["command"])[3:]
    assert main([*words, "--root", str(repository)]) == 0
    (after,) = records(repository / "results" / "compare" / "sbm.json")
    assert after["values"] == before["values"]
    assert after["command"] == before["command"]


def test_only_keeps_the_records_of_other_methods(repository):
    path = measure("compare", TINY, repository, only=FAST, seeds=1)
    kept = records(path)
    assert [r["method"] for r in kept] == [*FAST]
    kept[0] |= {"mean": -1.0}
    path.write_text(json.dumps(kept))
    measure("compare", TINY, repository, only=["identity"], seeds=2)
    after = records(path)
    assert after[0] == kept[0]  # as it was measured, whatever it says
    assert (after[1]["method"], after[1]["seeds"]) == ("identity", [0, 1])
    assert len(after) == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"job": "speed"}, "job 'speed' is unknown"),
        ({"only": ["learnable"]}, "part 'learnable' is unknown"),
        ({"protocol": "loose"}, "protocol 'loose' is unknown"),
        ({"seeds": 0}, "seeds must be at least 1"),
    ],
)
def test_what_cannot_be_measured_is_refused(options, said, repository):
    with pytest.raises(InputError, match=said):
        measure(**{"job": "compare", "dataset": TINY, "root": repository} | options)
    assert list((repository / "results").iterdir()) == []


def test_without_results_the_command_says_so(tmp_path, capsys):
    assert main(["compare", TINY, "--root", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert "no folder results" in error
    assert error.count("\n") == 1


def committed() -> list[tuple[Path, dict]]:
    files = [file for job in JOBS for file in sorted((ROOT / "results" / job).glob("*.json"))]
    return [(file, record) for file in files for record in records(file) if not record["command"].startswith("rapgnn ")]


def test_committed_commands_are_those_of_the_committed_records():
    """Under the command's present name they are accepted, or results/README.md says what replaces them."""
    explained = (ROOT / "results" / "README.md").read_text()
    pairs = committed()
    assert len(pairs) > 50
    for file, record in pairs:
        command = record["command"]
        if f"| `{command}` |" in explained:
            continue
        words = shlex.split(command.removeprefix(OLD) if command.startswith(OLD) else command)
        given = make_parser().parse_args(words if command.startswith(OLD) else words[3:])
        assert (given.job, given.datasets) == (file.parent.name, [file.stem])
        assert given.seeds is None or len(record["seeds"]) == given.seeds
        assert not given.only or JOBS[given.job].part_of(record) in given.only
