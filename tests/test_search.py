import json
import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
import torch

from rapgnn import Config, InputError, make_graph, make_graphs
from rapgnn.estimators.start import start_config
from rapgnn.experiments.tune.general import WIDEST
from rapgnn.experiments.tune.plot import TOO_FEW, importances
from rapgnn.experiments.tune.search import search
from rapgnn.experiments.tune.space import SPACES, default_space, suggest
from rapgnn.experiments.tune.study import trial_records
from rapgnn.experiments.tuned import best_settings, default_config, stored
from rapgnn.graph.graph import Graph
from rapgnn.layers.embedding import EMBEDDINGS
from rapgnn.training.methods import METHODS, fit
from test_cli import rapgnn, refused  # noqa: F401 - a fixture

optuna = pytest.importorskip("optuna")
FAST = "pretrained-embedding"  # the strategy whose trials take least
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
    many = replace(small_graph, ptr=torch.arange(301), task="graph-classification")
    graphs = [(small_graph, d) for d in ("cora", "citeseer", "pubmed", "sbm")]
    graphs += [(many, d) for d in ("mutag", "ptc", "proteins", "molesol", "moltox21", "molhiv", "molbace", "own")]
    for graph, dataset in graphs:
        for embedding in ("pretrained", "pretrained-gnn", "learnable", "fixed-random", "random", "identity"):
            trial = optuna.create_study().ask()
            settings = suggest(trial, method, embedding, space, replace(graph, name=dataset))
            start_config(graph, METHODS[method].trained).update(**settings)


def _nodes(x, y=None, weight=None) -> Graph:
    rng = np.random.default_rng(3)
    n = len(x) if isinstance(x, np.ndarray) else x.shape[0]
    y = np.arange(n) % 3 if y is None else y
    return make_graph(x, rng.integers(n, size=(2, 4 * n)), y, *np.split(np.arange(n), [n // 2, 3 * n // 4]), weight)


def _graphs(x, edges: bool = False, **labels) -> Graph:
    rng = np.random.default_rng(4)
    ends = np.concatenate([rng.integers(4 * i, 4 * i + 4, (2, 6)) for i in range(40)], axis=1)
    kinds = np.eye(3)[rng.integers(0, 3, ends.shape[1])] if edges else None
    return make_graphs(x, ends, np.full(40, 4), edge_attr=kinds, **({"y": np.arange(40) % 2} | labels))


def _kinds() -> dict[str, Graph]:
    rng = np.random.default_rng(2)
    real, words = rng.standard_normal((160, 5)), (rng.random((60, 30)) < 0.1).astype(float)
    labels = rng.integers(0, 2, (60, 2)).astype(float)
    return {
        "sparse 0/1": _nodes(words),
        "non-negative": _nodes(rng.random((60, 5))),
        "signed": _nodes(real[:60]),
        "signed, sparse": _nodes(words * rng.choice([-1.0, 1.0], words.shape), labels),
        "negative edges": _nodes(rng.random((60, 5)), weight=rng.standard_normal(240)),
        "graphs": _graphs(np.eye(4)[rng.integers(0, 4, 160)]),
        "graphs with edges": _graphs(np.eye(4)[rng.integers(0, 4, 160)], edges=True, folds=True),
        "signed graphs": _graphs(real),
        "signed graphs with edges": _graphs(real, edges=True, y=rng.standard_normal(40), task="regression"),
    }


KINDS = _kinds()


def _draws(graph: Graph, method: str, embedding: str | None, count: int) -> list[dict]:
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=count))
    return [suggest(study.ask(), method, embedding, "any", graph) for _ in range(count)]


@pytest.mark.parametrize("kind", KINDS)
def test_the_space_for_any_graph_holds_what_the_graph_admits(kind):
    graph = KINDS[kind]
    assert default_space(graph) == "any"
    for method in METHODS:
        for embedding in (None, *EMBEDDINGS):
            for s in _draws(graph, method, embedding, 15):
                c = METHODS[method].configure(start_config(graph, METHODS[method].trained).update(**s))
                assert embedding in (None, c.embedding)
                assert (c.backbone in ("gin", "gine")) == (graph.ptr is not None) or "backbone" not in s
                assert c.backbone != "gine" or graph.edge_attr is not None
                before = EMBEDDINGS[c.embedding].trained == "before"
                assert any(name.startswith("pretrain") for name in s) == (before and method != "end-to-end")
                assert ("lr" in s) == (c.head != "ridge" and method != "pretrained-embedding")
                if c.jumping == "cat" and c.embedding != "identity" and "num_layers" in s:
                    assert c.hidden_channels * (c.num_layers + 1) <= WIDEST
    drawn = _draws(graph, "rap", None, 60)
    assert {s["embedding"] for s in drawn} == {"pretrained", "pretrained-gnn", "fixed-random", "identity"}
    assert {s["head"] for s in drawn} == {"linear", "mlp", "ridge"}
    assert {s["jumping"] for s in drawn} == {"last", "cat"}
    assert any(s.get("activation") == "identity" for s in drawn) == ("signed" in kind or kind == "negative edges")
    assert any(s["backbone"] == "gine" for s in drawn) == kind.endswith("with edges")


@pytest.mark.parametrize("kind", KINDS)
def test_every_point_for_any_graph_has_the_exact_shortcut(kind):
    graph = replace(KINDS[kind], folds=False)
    quick = {"epochs": 2, "pretrain_epochs": 2}
    for settings in _draws(graph, "rap", None, 6):
        fitted = fit("rap", graph, start_config(graph).update(**settings | quick), 0)
        assert fitted.engine == "polynomial", settings
        assert fitted.predict(graph.val).scores.isfinite().all()
    for method in ("end-to-end", "fixed-full"):
        for settings in _draws(graph, method, None, 1):
            fit(method, graph, start_config(graph, METHODS[method].trained).update(**settings | quick), 0)


@pytest.fixture(scope="module")
def shared_study(small_graph, tmp_path_factory):
    """A search by two processes: (its record, the database, what the parent was told)."""
    database, told = tmp_path_factory.mktemp("workers") / "w.db", []
    found = search(
        small_graph,
        FAST,
        database,
        trials=8,
        seeds=1,
        confirm=2,
        workers=2,
        on_trial=lambda done, value: told.append((done, value)),
    )
    return found, database, told


def test_workers_share_one_study(shared_study):
    found, database, told = shared_study
    records = trial_records(database)
    assert len({r["study"] for r in records}) == 1
    assert 8 <= len(records) <= 9  # one too many at most
    assert [r["state"] for r in records] == ["COMPLETE"] * len(records)
    assert len({json.dumps(r["settings"]) for r in records}) == len(records)  # not one random sequence twice
    assert found["trials"] == len(records)
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert told[-1] == (len(records), max(r["value"] for r in records))
    assert len(found["val_values"]) == 6


def test_a_finished_search_has_nothing_to_do(shared_study, small_graph, monkeypatch):
    found, database, _ = shared_study
    monkeypatch.setattr("rapgnn.experiments.tune.trials.run", None)  # not even the runs that decide among the best
    assert search(small_graph, FAST, database, trials=8, seeds=1, confirm=2) == found


def test_killed_workers_lose_only_what_they_ran(small_graph, tmp_path):
    said, killed = [], []
    others = {child.pid for child in multiprocessing.active_children()}  # joblib keeps its workers

    def kill(done: int, value: float) -> None:
        running = [child.pid for child in multiprocessing.active_children() if child.pid not in others]
        if not killed and done >= 1 and len(running) == 2:
            killed.extend(running)
            for pid in running:
                os.kill(pid, signal.SIGKILL)

    kept = {"trials": 8, "seeds": 8, "confirm": 1}  # long trials: none of the workers is done before it is killed
    found = search(small_graph, FAST, tmp_path / "k.db", workers=2, on_trial=kill, say=said.append, **kept)
    assert len(killed) == len(said) == 2
    assert "-9" in said[0]
    states = [r["state"] for r in trial_records(tmp_path / "k.db")]
    assert found["trials"] == states.count("COMPLETE") == 8
    assert states.count("RUNNING") <= 2


def test_a_time_budget_ends_workers(small_graph, tmp_path):
    others = multiprocessing.active_children()
    found = search(small_graph, FAST, tmp_path / "m.db", trials=100_000, seeds=1, confirm=1, minutes=1e-6, workers=2)
    assert 1 <= found["trials"] <= 2  # nothing begins after the end, but one there must be
    assert set(multiprocessing.active_children()) <= set(others)


def test_importances_find_what_matters(small_graph):
    def objective(trial) -> float:
        settings = suggest(trial, "rap", None, "any", small_graph)
        return 10.0 * (settings["embedding"] == "identity") + 0.1 * settings["num_layers"]

    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.RandomSampler(seed=0))
    study.optimize(objective, n_trials=TOO_FEW - 1)
    assert importances(study) == {}
    study.optimize(objective, n_trials=40)
    found = importances(study)
    assert next(iter(found)) == "embedding"
    assert sum(found.values()) == pytest.approx(1.0)
    assert {"pretrain_lr", "ridge", "lr"} <= set(found)  # settings that only some trials have


@pytest.mark.parametrize(("kind", "trials"), [("sparse 0/1", 3), ("signed graphs with edges", TOO_FEW + 2)])
def test_the_plot_is_written(kind, trials, tmp_path):
    from rapgnn.experiments.tune.plot import plot_study

    graph = KINDS[kind]
    direction, storage = "maximize" if graph.objective.higher else "minimize", f"sqlite:///{tmp_path / 'p.db'}"
    study = optuna.create_study(study_name="s", storage=storage, direction=direction)
    for trial in (study.ask() for _ in range(trials)):
        study.tell(trial, 1.0 / suggest(trial, FAST, None, "any", graph)["hidden_channels"])
    best = {"study": "s", "trial": 0, "dataset": "d", "method": FAST, "space": "any"}
    for suffix, begins in ((".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")):
        plot_study(tmp_path / "p.db", best, graph.task, tmp_path / f"p{suffix}")
        assert (tmp_path / f"p{suffix}").read_bytes().startswith(begins)


TINY = "sbm:nodes=60,classes=2,features=4,train=5,val=20,test=20"


def test_tune_saves_the_best_model(rapgnn, tmp_path):  # noqa: F811
    out, records, plot = tmp_path / "model", tmp_path / "t.json", tmp_path / "t.png"
    arguments = ("--trials", 1, "--seeds", 1, "--storage", tmp_path / "t.db", "--out", out, "--json", records)
    code, text, err = rapgnn("tune", TINY, *arguments, "--plot", plot)
    assert code == 0, err
    assert plot.stat().st_size > 1000
    best = json.loads(records.read_text())[0]
    assert best["space"] == "any"
    assert json.loads((out / "checkpoint.json").read_text())["config"]["embedding"] == best["embedding"]
    scores = [line for line in text.splitlines() if line.split()[0] in ("train", "val", "test")]
    assert len(scores) == 3
    code, text, err = rapgnn("evaluate", out, TINY)
    assert code == 0, err
    assert text.splitlines() == scores
    assert best["saved"]["val"] == best["val_values"][0]  # seed 0 is that of the search


def test_tune_refuses_in_one_sentence(rapgnn, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "other").write_text("")
    (tmp_path / "file").write_text("")
    refused(rapgnn("tune", TINY, "--workers", 0), "workers", "at least 1")
    refused(rapgnn("tune", TINY, "--out", "full"), "other files")
    refused(rapgnn("tune", TINY, "--out", "file"), "it is a file")
    refused(rapgnn("tune", TINY, "--out", "/proc/x"), "cannot write")
    refused(rapgnn("tune", TINY, "--plot", "t.txt"), ".png")
    refused(rapgnn("tune", TINY, "--method", "end-to-end", "--out", "m"), "random layers")
    refused(rapgnn("tune", TINY, "--embedding", "magic"), "'magic'")
    assert not (tmp_path / "tune.db").exists()
    with pytest.raises(InputError, match="workers"):
        search(KINDS["signed"], "rap", tmp_path / "t.db", trials=1, workers=0)


def test_a_killed_search_resumes(tmp_path, monkeypatch):
    """kill -9 in the middle loses at most the trial that was running."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    database = tmp_path / "k.db"
    graph = "sbm:nodes=200,classes=3,features=8,train=5,val=40,test=60"
    command = [sys.executable, "-m", "rapgnn", "tune", graph, "--seeds", "1", "--storage", str(database)]
    command += ["--method", FAST]
    quiet = {"stderr": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
    process = subprocess.Popen([*command, "--trials", "200"], **quiet)
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
