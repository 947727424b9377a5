"""The table of ``rapgnn compare``: 80 columns, honest deviations, and all that ``--epochs`` cuts."""

import json
import statistics

import pytest

from commands import SBM


def compared(rapgnn, tmp_path, *arguments):
    report = tmp_path / "c.json"
    methods = ("--methods", "rap,end-to-end,pretrained-embedding", "--hidden", 8)
    code, out, err = rapgnn("compare", SBM, *methods, *arguments, "--json", report)
    assert code == 0, err
    return json.loads(report.read_text()), out


def test_epochs_cut_phase_one_too(rapgnn, tmp_path):
    records, out = compared(rapgnn, tmp_path, "--seeds", 1, "--epochs", 3)
    assert [r["config"]["pretrain_epochs"] for r in records] == [3, 3, 3]
    assert records[2]["epochs"] == [3]
    assert "3 epochs after 3 of phase 1" in out
    records, _ = compared(rapgnn, tmp_path, "--seeds", 1, "--epochs", 3, "--set", "pretrain_epochs=5")
    assert records[0]["config"]["pretrain_epochs"] == 5


def test_one_seed_has_no_deviation_and_several_have_that_of_a_sample(rapgnn, tmp_path):
    _, out = compared(rapgnn, tmp_path, "--seeds", 1, "--epochs", 3)
    assert "±" not in out
    records, out = compared(rapgnn, tmp_path, "--seeds", 3, "--epochs", 3)
    for record in records:
        shown = f"{100 * record['mean']:.2f} ± {100 * statistics.stdev(record['values']):.2f}"
        assert shown in out
        assert record["std"] == pytest.approx(statistics.pstdev(record["values"]))
    assert "sample standard deviation of 3 runs" in out
    lines = [line for line in out.splitlines() if not line.startswith("wrote ")]  # a path has its own length
    assert max(map(len, lines)) <= 80
