import json
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace

import pytest
import torch

from rapgnn import Config
from rapgnn.defaults import base_config, best_settings, default_config, stored
from rapgnn.methods import METHODS
from rapgnn.search import search, trial_records
from rapgnn.space import SPACES

optuna = pytest.importorskip("optuna")
SMALL = Config(hidden_channels=8, epochs=5, pretrain_epochs=5)


def test_every_trial_is_kept_and_a_search_goes_on(small_graph, tmp_path):
    database = tmp_path / "t.db"
    kept = {"trials": 3, "seeds": 1, "space": "wide", "confirm": 2, "embedding": "fixed-random"}
    first = search(small_graph, "rap", database, **kept)
    assert first["trials"] == 3
    more = search(small_graph, "rap", database, **{**kept, "trials": 5})
    assert more["trials"] == 5
    records = trial_records(database)
    assert [r["trial"] for r in records] == [0, 1, 2, 3, 4]
    assert all(r["settings"]["embedding"] == "fixed-random" for r in records)
    assert len(more["val_values"]) == 6  # one seed of the search, five that confirm


def test_another_graph_is_another_study(small_graph, tmp_path):
    from rapgnn.datasets.synthetic import BlockModel

    other = BlockModel(nodes=310, classes=3, features=12, train=10, val=60, test=100, seed=2).generate()
    for graph in (small_graph, other):
        search(graph, "rap", tmp_path / "t.db", trials=1, seeds=1, confirm=1, embedding="fixed-random")
    assert len({r["study"] for r in trial_records(tmp_path / "t.db")}) == 2


def test_a_time_budget_ends_a_search(small_graph, tmp_path):
    began = time.monotonic()
    found = search(
        small_graph, "rap", tmp_path / "m.db", trials=10_000, seeds=1, confirm=1, minutes=0.02, embedding="fixed-random"
    )
    assert 1 <= found["trials"] < 1000
    assert time.monotonic() - began < 60


def test_the_search_never_looks_at_test_labels(small_graph, tmp_path):
    hidden = small_graph.y.clone()
    hidden[small_graph.test] = 0
    found = [
        search(g, "rap", tmp_path / f"{i}.db", trials=3, seeds=1, confirm=1)
        for i, g in enumerate((small_graph, replace(small_graph, y=hidden)))
    ]
    assert found[0]["settings"] == found[1]["settings"]
    assert found[0]["val_values"] == found[1]["val_values"]


@pytest.mark.parametrize("method", list(METHODS))
@pytest.mark.parametrize("space", SPACES)
def test_every_strategy_has_a_space(method, space, small_graph):
    from rapgnn.space import suggest

    many = replace(small_graph, ptr=torch.arange(301), task="graph-classification")
    graphs = [(small_graph, d) for d in ("cora", "citeseer", "pubmed", "sbm")]
    graphs += [(many, d) for d in ("mutag", "ptc", "proteins", "molesol", "moltox21", "molhiv", "molbace", "own")]
    for graph, dataset in graphs:
        for embedding in ("pretrained", "pretrained-gnn", "learnable", "fixed-random", "random", "identity"):
            trial = optuna.create_study().ask()
            settings = suggest(trial, method, embedding, space, replace(graph, name=dataset))
            base_config(graph, method).update(**settings)


def test_a_killed_search_resumes(tmp_path):
    """kill -9 in the middle loses at most the trial that was running."""
    database = tmp_path / "k.db"
    graph = "sbm:nodes=200,classes=3,features=8,train=5,val=40,test=60"
    command = [sys.executable, "-m", "rapgnn", "tune", graph, "--seeds", "1", "--storage", str(database)]
    process = subprocess.Popen([*command, "--trials", "200"], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while _complete(database) < 2 and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = _complete(database)
    assert before >= 2
    out = tmp_path / "k.json"
    wanted = before + 1
    done = subprocess.run([*command, "--trials", str(wanted), "--json", str(out)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(out.read_text())[0]["trials"] == wanted


def _complete(database) -> int:
    if not database.exists():
        return 0
    try:
        with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as connection:
            return connection.execute("select count(*) from trials where state = 'COMPLETE'").fetchone()[0]
    except sqlite3.Error:
        return 0


def test_stored_defaults_are_valid_and_chosen_by_validation(small_graph):
    assert {"cora", "citeseer", "pubmed"} <= {s["dataset"] for s in stored()}
    for entry in stored():
        Config().update(**entry["settings"])
        assert entry["method"] in METHODS
    for dataset in ("cora", "citeseer", "pubmed"):
        values = {s["embedding"]: s["val_mean"] for s in stored() if (s["dataset"], s["method"]) == (dataset, "rap")}
        chosen = best_settings(dataset, "rap", "best")["embedding"]
        assert all(values[chosen] >= value for value in values.values())
    assert default_config(small_graph, "end-to-end").patience is not None
