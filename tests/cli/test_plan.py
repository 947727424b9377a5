"""``rapgnn plan`` and ``rapgnn data convert``."""

import json

import numpy as np
import pytest

import folders
from big_folders import plain
from commands import refused
from rapgnn.scale.disk_graph import DiskGraph
from rapgnn.scale.plan import Rates

TABLE = tuple((float(size), width, 1e-9 * width) for size in (2**20, 2**29) for width in (1, 64))
SIZES = ["--nodes", "111e6", "--edges", "1.6e9", "--features", "128", "--train-rows", "1.2e6"]


@pytest.fixture
def rates(tmp_path):
    path = tmp_path / "rates.json"
    found = Rates("a machine", 4, TABLE, 1e10, 1e9, 5e8, 2e9, 1e8, 5e7, 1e9, 100.0)
    path.write_text(json.dumps(vars(found)))
    return path


def test_tables_become_a_graph_on_disk(rapgnn, tmp_path):
    nodes, edges = plain(60)
    folder = folders.write(tmp_path / "g", "parquet", nodes=nodes, edges=edges)
    out, record = tmp_path / "disk", tmp_path / "record.json"
    code, text, err = rapgnn("data", "convert", folder, "--out", out, "--memory", "300MB", "--json", record)
    assert code == 0, err
    assert "num_nodes        60" in text
    assert "no split was given" in err
    found = DiskGraph.open(out)
    (said,) = json.loads(record.read_text())
    assert said["fingerprint"] == found.fingerprint
    assert said["num_edges"] == found.num_edges


def test_what_cannot_be_converted_is_refused(rapgnn, tmp_path):
    nodes, edges = plain(60)
    folder = folders.write(tmp_path / "g", "parquet", nodes=nodes, edges=edges.drop(columns="target"))
    refused(rapgnn("data", "convert", folder, "--out", tmp_path / "disk"), "no column named 'target'")
    refused(rapgnn("data", "convert", tmp_path / "nothing"), "is no folder")
    refused(rapgnn("data", "convert", folder, "--memory", "much"), "--memory", "8GiB")


def test_a_plan_by_sizes(rapgnn, tmp_path, rates):
    out = tmp_path / "plan.json"
    arguments = ["--machines", "8", "--memory", "64GiB", "--rates", rates, "--json", out]
    code, text, err = rapgnn("plan", *SIZES, *arguments)
    assert code == 0, err
    assert "111,000,000 nodes" in text
    assert "take " in text
    records = json.loads(out.read_text())
    assert [r["layout"] for r in records] == ["memory", "disk", "ray"]
    assert sum(r["chosen"] for r in records) == 1
    assert all(r["total_seconds"] == pytest.approx(sum(r["seconds"].values())) for r in records)


def test_a_plan_of_a_graph_on_disk(rapgnn, tmp_path, rates):
    nodes, edges = plain(60)
    folder = folders.write(tmp_path / "g", "parquet", nodes=nodes, edges=edges)
    assert rapgnn("data", "convert", folder, "--out", tmp_path / "disk")[0] == 0
    code, text, err = rapgnn("plan", tmp_path / "disk", "--machines", "2", "--rates", rates)
    assert code == 0, err
    assert text.startswith("60 nodes")
    assert "take in memory" in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["--nodes, --edges, --features"]),
        (["nothing", *SIZES[:2]], ["not both"]),
        (["nothing"], ["no graph on disk"]),
        ([*SIZES, "--network", "0"], ["--network"]),
        ([*SIZES, "--network", "inf"], ["--network"]),
        (["--nodes", "nan", *SIZES[2:]], ["--nodes", "nan"]),
        ([*SIZES[:6], "--train-rows", "1e400"], ["--train-rows", "inf"]),
        ([*SIZES, "--rates", "nothing.json"], ["no file of rates"]),
        ([*SIZES[:6], "--train-rows", "1e12"], ["at most as many rows"]),
    ],
)
def test_plans_that_cannot_be_made(rapgnn, arguments, words):
    refused(rapgnn("plan", *arguments), *words)


def test_this_machine_is_measured_once(rapgnn, monkeypatch, tmp_path):
    from rapgnn.scale import plan as rates

    monkeypatch.setattr(rates, "TABLES", (1 << 12, 1 << 14))
    monkeypatch.setattr(rates, "EDGES", 1 << 10)
    monkeypatch.setattr(rates, "BUFFER", 1 << 16)
    found = rates.known_rates()
    assert found == rates.known_rates()
    assert all(np.isfinite(seconds) and seconds > 0 for _, _, seconds in found.product)
    code, text, err = rapgnn("plan", *SIZES)
    assert code == 0, err
    assert found.machine in text
    assert "measuring" not in err
