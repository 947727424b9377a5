"""Saved models: the same predictions after loading, damage refused in one sentence, a killed save leaves one whole."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time

import pandas as pd
import pytest
import torch
from safetensors.torch import load, save

from rapgnn import Config, InputError
from rapgnn.training.checkpoint import INDEX, Schema, load_checkpoint, save_checkpoint
from rapgnn.training.fit import fit_rap
from rapgnn.training.predict import predictor_on

SBM = "sbm:nodes=300,classes=3,features=12,signal=3,train=10,val=60,test=100,seed=1"
CONFIG = Config(num_layers=3, hidden_channels=8, epochs=5, pretrain_epochs=3)


@pytest.fixture
def saved(small_graph, tmp_path):
    fitted = fit_rap(small_graph, CONFIG, 3)
    save_checkpoint(tmp_path / "model", fitted.model, Schema.of(small_graph))
    return fitted, tmp_path / "model"


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"head": "ridge"},
        {"inference": "mean", "num_samples": 4},
        {"inference": "sample"},
        {"embedding": "pretrained-gnn", "backbone": "sage"},
        {"schedule": "fixed"},
        {"head": "mlp", "batch_norm": True, "standardize": True},
        {"embedding": "random"},
    ],
)
def test_a_loaded_model_predicts_bitwise_the_same(settings, small_graph, tmp_path):
    fitted = fit_rap(small_graph, CONFIG.update(**settings), 3)
    save_checkpoint(tmp_path / "m", fitted.model, Schema.of(small_graph))
    model, _ = load_checkpoint(tmp_path / "m", "node-classification")
    again = predictor_on(model, small_graph)(small_graph.test)
    assert torch.equal(again.probabilities, fitted.predict(small_graph.test).probabilities)
    assert not any(p.requires_grad for p in model.parameters())


def test_graph_models_are_saved_too(tmp_path):
    from test_graph_tasks import CONFIG as GRAPHS
    from test_graph_tasks import collection

    graph = collection("regression")
    fitted = fit_rap(graph, GRAPHS.update(epochs=3, jumping="cat"), 0)
    save_checkpoint(tmp_path / "m", fitted.model, Schema.of(graph))
    model, schema = load_checkpoint(tmp_path / "m")
    assert schema.task == "graph-regression"
    assert torch.equal(predictor_on(model, graph)(graph.test).scores, fitted.predict(graph.test).scores)


def test_nothing_in_the_folder_is_pickle(saved):
    names = sorted(path.suffix for path in saved[1].iterdir())
    assert names == [".json", ".safetensors"]
    assert json.loads((saved[1] / INDEX).read_text())["seed"] == 3


def damage_index(folder, **changes):
    path = folder / INDEX
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda f: (f / INDEX).unlink(), "holds no model"),
        (lambda f: (f / INDEX).write_text("{"), "not JSON"),
        (lambda f: (f / INDEX).write_text('{"format": "other"}'), "not a model of rapgnn"),
        (lambda f: (f / INDEX).write_text("[1]"), "not a model of rapgnn"),
        (lambda f: damage_index(f, version=99), "newer rapgnn"),
        (lambda f: damage_index(f, config=None), "config is missing"),
        (lambda f: damage_index(f, config={"backbone": "none"}), "is damaged"),
        (lambda f: damage_index(f, config={"unheard": 1}), "is damaged"),
        (lambda f: damage_index(f, schema={"task": "node-classification"}), "the schema is not what it should be"),
        (lambda f: damage_index(f, schema_hash="0"), "does not match its hash"),
        (lambda f: damage_index(f, weights="../../etc/passwd"), "is missing"),
        (lambda f: next(f.glob("*.safetensors")).unlink(), "is missing"),
        (lambda f: next(f.glob("*.safetensors")).write_bytes(b"short"), "truncated or altered"),
    ],
)
def test_damage_is_refused_in_one_sentence(saved, damage, words):
    damage(saved[1])
    with pytest.raises(InputError, match=words) as error:
        load_checkpoint(saved[1])
    assert "\n" not in str(error.value)
    assert str(error.value).endswith(".") or str(error.value).endswith(").")


def test_weights_that_keep_no_digest_of_their_index_are_loaded(saved, small_graph):
    """As older versions wrote them."""
    fitted, folder = saved
    path = next(folder.glob("*.safetensors"))
    path.write_bytes(save(load(path.read_bytes())))
    damage_index(folder, sha256=hashlib.sha256(path.read_bytes()).hexdigest())
    model, _ = load_checkpoint(folder)
    again = predictor_on(model, small_graph)(small_graph.test)
    assert torch.equal(again.probabilities, fitted.predict(small_graph.test).probabilities)


def test_the_wrong_task_and_the_wrong_data_are_refused(saved):
    from rapgnn import load_dataset

    with pytest.raises(InputError, match="not for graph-regression"):
        load_checkpoint(saved[1], "graph-regression")
    _, schema = load_checkpoint(saved[1])
    with pytest.raises(InputError, match="12 node features, the data have 5"):
        schema.check(load_dataset("sbm:nodes=200,classes=3,features=5,train=5,val=20,test=20"))
    with pytest.raises(InputError, match="data are for node-multilabel"):
        schema.check(load_dataset("sbm:nodes=200,classes=3,features=12,labels=2,train=5,val=20,test=20"))
    with pytest.raises(InputError, match="knows 3 classes, the data have 4"):
        schema.check(load_dataset("sbm:nodes=200,classes=4,features=12,train=5,val=20,test=20"))


def test_another_graph_can_be_predicted(saved):
    from rapgnn import load_dataset

    model, schema = load_checkpoint(saved[1])
    other = load_dataset("sbm:nodes=150,classes=3,features=12,signal=3,train=5,val=20,test=40,seed=9")
    schema.check(other)
    assert predictor_on(model, other)(other.test).probabilities.shape == (40, 3)


def test_a_killed_save_leaves_the_old_model_or_the_new_one(saved, tmp_path):
    """kill -9 at many moments of saving over and over: whatever is left loads."""
    _, folder = saved
    script = tmp_path / "saver.py"
    script.write_text(
        "import sys, torch\n"
        "from pathlib import Path\n"
        "from rapgnn.training.checkpoint import load_checkpoint, save_checkpoint\n"
        "folder = Path(sys.argv[1])\n"
        "model, schema = load_checkpoint(folder)\n"
        "print('ready', flush=True)\n"
        "n = 0\n"
        "while True:\n"
        "    n += 1\n"
        "    model.draw_counter.fill_(n)\n"
        "    save_checkpoint(folder, model, schema)\n"
    )
    for attempt in range(6):
        with subprocess.Popen([sys.executable, str(script), str(folder)], stdout=subprocess.PIPE) as process:
            assert process.stdout.readline() == b"ready\n"
            time.sleep(0.01 + 0.013 * attempt)
            os.kill(process.pid, signal.SIGKILL)
        load_checkpoint(folder)


@pytest.fixture
def rapgnn(monkeypatch, capsys):
    from rapgnn.cli import main

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["rapgnn", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        out, err = capsys.readouterr()
        return int(stop.value.code or 0), out, err

    return call


def test_fit_evaluate_predict_from_the_shell(rapgnn, tmp_path):
    model, table, report = tmp_path / "model", tmp_path / "p.csv", tmp_path / "e.json"
    quick = ("--epochs", 5, "--hidden", 8, "--layers", 2, "--set", "pretrain_epochs=3")
    code, out, err = rapgnn("fit", SBM, "--out", model, *quick)
    assert code == 0, err
    assert "test" in out
    code, out, err = rapgnn("evaluate", model, SBM, "--json", report)
    assert code == 0, err
    assert json.loads(report.read_text())[0]["test"] > 0.3
    code, out, err = rapgnn("predict", model, SBM, "--out", table, "--samples", 8)
    assert code == 0, err
    frame = pd.read_csv(table)
    assert list(frame.columns) == ["id", "label", "probability", "spread"]
    assert len(frame) == 300
    assert (frame.spread > 0).any()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("evaluate", "nowhere", SBM), "holds no model"),
        (("predict", "nowhere", SBM, "--out", "p.txt"), "must end in .csv, .parquet"),
        (("fit", SBM, "--out", "file"), "it is a file"),
        (("fit", SBM, "--out", "full"), "holds other files"),
    ],
)
def test_bad_commands_are_refused(rapgnn, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    (tmp_path / "full").mkdir()
    (tmp_path / "full/thing").write_text("")
    code, _, err = rapgnn(*arguments)
    assert code == 2
    assert words in err
    assert len(err.strip().splitlines()) == 1
