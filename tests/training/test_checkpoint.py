"""Saved models: the same predictions after loading, damage refused in one sentence, a killed save leaves one whole."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time

import pytest
import torch
from safetensors.torch import load, save

from rapgnn import Config, InputError
from rapgnn.training.checkpoint import INDEX, Schema, load_checkpoint, save_checkpoint
from rapgnn.training.fit import fit_rap
from rapgnn.training.predict import predictor_on
from samples import GRAPH_CONFIG, collection

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
    graph = collection("regression")
    fitted = fit_rap(graph, GRAPH_CONFIG.update(epochs=3, jumping="cat"), 0)
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


SAVER = """
import os, sys
from pathlib import Path
from rapgnn.training.checkpoint import load_checkpoint, save_checkpoint
folder = Path(sys.argv[1])
model, schema = load_checkpoint(folder)  # what the libraries take to load is paid once
for _ in sys.stdin:
    child = os.fork()
    if not child:
        while True:
            model.draw_counter += 1
            save_checkpoint(folder, model, schema)
    print(child, flush=True)
    print(os.waitpid(child, 0)[1], flush=True)
"""


def test_a_killed_save_leaves_the_old_model_or_the_new_one(saved, tmp_path):
    """kill -9 at many moments of saving over and over: whatever is left loads."""
    _, folder = saved
    command = [sys.executable, "-c", SAVER, str(folder)]
    counters = []
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        for attempt in range(12):
            process.stdin.write(b"save\n")
            child = int(process.stdout.readline())
            time.sleep(0.01 + 0.0065 * attempt)
            os.kill(child, signal.SIGKILL)
            assert int(process.stdout.readline()) == signal.SIGKILL
            counters.append(int(load_checkpoint(folder)[0].draw_counter))
        process.stdin.close()
    assert max(counters) > 0  # some saves came to their end
