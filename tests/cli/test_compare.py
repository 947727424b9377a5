"""``rapgnn compare`` as a user types it."""

import json

import numpy as np
import pytest

from commands import QUICK, SBM, refused
from folders import tu
from rapgnn.compare import USUAL

CONTRACT = {
    *("dataset", "task", "method", "backbone", "metric", "mean", "std", "values", "seeds", "fit_seconds"),
    *("train_ms_per_epoch", "eval_ms_per_epoch", "peak_memory_mb", "engine", "config", "versions"),
}


def test_compare_writes_the_contract(rapgnn, tmp_path):
    out = tmp_path / "new" / "c.json"
    code, text, _ = rapgnn("compare", SBM, *QUICK, "--seeds", 2, "--methods", "all", "--json", out)
    assert code == 0
    records = json.loads(out.read_text())
    assert [r["method"] for r in records] == [
        "fit",
        "rap",
        "end-to-end",
        "pretrained-embedding",
        "fixed-diagonal",
        "fixed-full",
        "random-full",
        "identity",
        "no-edges",
    ]
    for r in records:
        assert set(r) >= CONTRACT
        assert r["mean"] == pytest.approx(np.mean(r["values"]))
        assert r["std"] == pytest.approx(np.std(r["values"]))
        assert r["seeds"] == [0, 1]
        assert 0 <= r["mean"] <= 1
        assert r["fit_seconds"] > 0
    assert records[1]["engine"] == "polynomial"
    assert records[6]["engine"] == "stepwise"
    assert records[0]["config"]["candidates"] > 1
    assert "RAP-GNN" in text
    assert "full weight matrices mix channels" in text


def test_a_graph_without_validation_or_test_nodes_trains(rapgnn, folder, tmp_path):
    none = np.zeros(40, dtype=bool)
    path = folder(val_mask=none, test_mask=none)
    code, _, err = rapgnn("compare", path, *QUICK, "--methods", "rap,end-to-end", "--json", tmp_path / "r.json")
    assert code == 0, err
    assert json.loads((tmp_path / "r.json").read_text())[0]["mean"] is None


def test_a_folder_named_like_a_dataset_is_not_that_dataset(rapgnn, folder, tmp_path):
    own = folder().rename(tmp_path.parent / "cora")
    try:
        code, _, err = rapgnn("compare", own, *QUICK[:4], "--methods", "rap", "--json", tmp_path.parent / "c.json")
        assert code == 0, err
        record = json.loads((tmp_path.parent / "c.json").read_text())[0]
        assert record["dataset"] == "folder cora"
        assert record["config"]["num_layers"] == 8  # the general default, not the one tuned for Cora
    finally:
        own.rename(tmp_path)


def test_compare_reports_both_protocols(rapgnn, tmp_path):
    graphs = 30
    folder = tu(
        tmp_path / "t",
        A="".join(f"{2 * g + 1}, {2 * g + 2}\n{2 * g + 2}, {2 * g + 1}\n" for g in range(graphs)),
        graph_indicator="".join(f"{g + 1}\n" * 2 for g in range(graphs)),
        graph_labels="".join(f"{g % 2}\n" for g in range(graphs)),
        node_labels="".join(f"{g % 2}\n" * 2 for g in range(graphs)),
        edge_labels=None,
    )
    (folder / "TINY_edge_labels.txt").unlink(missing_ok=True)
    json_file = tmp_path / "t.json"
    code, out, err = rapgnn("compare", folder, *QUICK, "--methods", "rap,end-to-end", "--json", json_file)
    assert code == 0, err
    for record in json.loads(json_file.read_text()):
        assert len(record["values"]) == len(record["strict_values"]) == 10
        assert record["backbone"] == "gin"
    assert "strict" in out


def test_nothing_named_compares_what_a_user_wants_to_know(rapgnn, folder, tmp_path):
    code, out, err = rapgnn("compare", folder(), *QUICK, "--json", tmp_path / "r.json")
    assert code == 0, err
    records = {r["method"]: r for r in json.loads((tmp_path / "r.json").read_text())}
    assert tuple(records) == USUAL
    assert records["fit"]["train_ms_per_epoch"] is None  # nothing is trained in epochs
    assert "candidates tried on validation" in out


def test_features_made_of_edges_leave_nothing_without_them(rapgnn, tmp_path):
    rng = np.random.default_rng(0)
    (tmp_path / "bare").mkdir()
    ends = rng.integers(40, size=(120, 2))
    (tmp_path / "bare" / "edges.csv").write_text("source,target\n" + "".join(f"{i},{j}\n" for i, j in ends))
    (tmp_path / "bare" / "nodes.csv").write_text("id,label\n" + "".join(f"{i},{i % 2}\n" for i in range(40)))
    code, _, err = rapgnn("compare", tmp_path / "bare", "--methods", "fit,no-edges", "--seeds", 1)
    assert (code, "no-edges is left out" in err) == (0, True), err
    refused(rapgnn("compare", tmp_path / "bare", "--methods", "no-edges", "--seeds", 1, "--quiet"), "made of the edges")


def test_the_fit_of_a_comparison_is_that_of_the_estimator(small_graph):
    from rapgnn import RAPNodeClassifier
    from rapgnn.compare import run
    from rapgnn.network.config import Config

    record = run("fit", small_graph, Config(), [3])
    model = RAPNodeClassifier(seed=3).fit(small_graph)
    assert record["mean"] == pytest.approx(model.score(small_graph, split="test"))
