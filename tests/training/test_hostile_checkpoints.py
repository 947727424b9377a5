"""Folders that are not what they seem: what is not ours stays, what is too large is refused before it is read."""

import os
import resource
import stat
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load, save

from altered import alter
from rapgnn import InputError, RAPGraphClassifier, RAPNodeClassifier
from rapgnn.errors import OutputError
from rapgnn.graph.backbones import BACKBONES
from rapgnn.training.checkpoint import INDEX, check_target, load_checkpoint, save_checkpoint
from samples import FAST, node_data

MEASURED = """
import resource, sys
from pathlib import Path
from rapgnn.errors import InputError
from rapgnn.training.checkpoint import load_checkpoint
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    load_checkpoint(Path(sys.argv[1]))
except InputError as error:
    print(error)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.fixture(params=["node", "graph"])
def saved(request, small_graph, molecules, tmp_path) -> Path:
    estimator, data = (RAPNodeClassifier, small_graph) if request.param == "node" else (RAPGraphClassifier, molecules)
    estimator(**FAST, num_layers=2).fit(data).save(tmp_path / "model")
    return tmp_path / "model"


@contextmanager
def small_files(most: int):
    """No file may become larger: the nearest thing to a full disk that needs no rights."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("content", ['{"format": "another program\'s"}', "[]", "{", ""])
def test_a_checkpoint_of_another_program_is_not_replaced(saved, tmp_path, content):
    other = tmp_path / "other"
    other.mkdir()
    (other / INDEX).write_text(content)
    (other / "model.safetensors").write_bytes(b"theirs")
    for attempt in (check_target, lambda folder: save_checkpoint(folder, *load_checkpoint(saved))):
        with pytest.raises(InputError, match="not a model of rapgnn"):
            attempt(other)
    assert sorted(p.name for p in other.iterdir()) == [INDEX, "model.safetensors"]
    assert (other / INDEX).read_text() == content


def test_files_of_a_user_beside_a_model_stay(saved):
    kept = {"notes.txt": b"a", "mine.safetensors": save({"a": torch.ones(2)}), "weights-x.safetensors": b"b"}
    kept |= {"weights-0123456789abcdef.safetensors": save({"a": torch.ones(2)}), ".rapgnn-mine": b"c"}
    for name, content in kept.items():
        (saved / name).write_bytes(content)
    model, schema = load_checkpoint(saved)
    model.draw_counter.fill_(77)
    save_checkpoint(saved, model, schema)
    assert {name: (saved / name).read_bytes() for name in kept} == kept
    assert len(list(saved.iterdir())) == 2 + len(kept)
    assert int(load_checkpoint(saved)[0].draw_counter) == 77


def test_a_small_file_cannot_ask_for_much_memory(small_graph, tmp_path):
    """Settings of a model of a gigabyte, beside tensors that have its widths and no numbers."""
    saved = tmp_path / "model"
    RAPNodeClassifier(**FAST, num_layers=2).fit(small_graph).save(saved)

    def widen(index: dict) -> None:
        index["config"] |= {"head": "mlp", "head_layers": 3, "hidden_channels": 16384}

    old = load(next(saved.glob("*.safetensors")).read_bytes())
    alter(saved, widen, old | {"wide": torch.zeros(16384, 0)})
    words = [sys.executable, "-c", MEASURED, str(saved)]
    sentence, megabytes = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    assert "is damaged" in sentence
    assert int(megabytes) < 100


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda state: state.pop("head.bias"), "lack head.bias"),
        (lambda state: state.update(further=torch.ones(1)), "'further', which the model has not"),
        (lambda state: state.update({"head.bias": torch.ones(1, 9)}), r"head.bias has the shape \[1, 9\]"),
        (lambda state: state.update({"head.bias": state["head.bias"].double()}), "torch.float64, not torch.float32"),
        (lambda state: state["head.bias"].fill_(np.nan), "NaN or infinite"),
    ],
)
def test_tensors_that_are_not_the_models_are_named(saved, change, words):
    state = load(next(saved.glob("*.safetensors")).read_bytes())
    change(state)
    alter(saved, lambda index: None, state)
    with pytest.raises(InputError, match=words):
        load_checkpoint(saved)


def test_a_header_that_lies_about_its_size(saved):
    path = next(saved.glob("*.safetensors"))
    path.write_bytes((1 << 60).to_bytes(8, "little") + path.read_bytes()[8:])
    with pytest.raises(InputError, match="truncated or altered"):
        load_checkpoint(saved)


def test_a_backbone_that_is_gone_is_named(small_graph, tmp_path, monkeypatch):
    monkeypatch.setitem(BACKBONES, "lazy", BACKBONES["gcn"])
    RAPNodeClassifier(**FAST, num_layers=2, backbone="lazy").fit(small_graph).save(tmp_path / "model")
    RAPNodeClassifier.load(tmp_path / "model")
    monkeypatch.delitem(BACKBONES, "lazy")
    with pytest.raises(InputError, match="uses the backbone 'lazy', which is not registered: add it to BACKBONES"):
        RAPNodeClassifier.load(tmp_path / "model")


def test_a_full_disk_leaves_the_old_model(saved):
    model, schema = load_checkpoint(saved)
    before = sorted(saved.iterdir())
    counter = int(model.draw_counter)
    model.draw_counter.fill_(99)
    with small_files(300), pytest.raises(OutputError, match="cannot write"):
        save_checkpoint(saved, model, schema)
    assert sorted(saved.iterdir()) == before
    assert int(load_checkpoint(saved)[0].draw_counter) == counter


def test_a_disk_that_fills_up_between_the_two_files(saved, monkeypatch):
    model, schema = load_checkpoint(saved)
    before = sorted(saved.iterdir())
    write = Path.write_text

    def full(self: Path, *given: object, **options: object) -> int:
        write(self, "half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    model.draw_counter.fill_(99)
    with pytest.raises(OutputError, match="No space left"):
        save_checkpoint(saved, model, schema)
    assert sorted(saved.iterdir()) == before


def test_a_first_save_that_fails_leaves_no_folder(saved, tmp_path):
    with small_files(300), pytest.raises(OutputError):
        save_checkpoint(tmp_path / "new" / "model", *load_checkpoint(saved))
    assert not (tmp_path / "new").exists()
    assert check_target(tmp_path / "new" / "model") is False
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", ["a\0b", "n" * 300, "d/" * 3000 + "x"])
def test_names_that_no_folder_can_have(saved, tmp_path, name):
    model = RAPNodeClassifier if "node" in load_checkpoint(saved)[1].task else RAPGraphClassifier
    loaded = model.load(saved)
    with pytest.raises(InputError, match="cannot write"):
        loaded.save(f"{tmp_path}/{name}")
    with pytest.raises(InputError, match="holds no model"):
        model.load(f"{tmp_path}/{name}")


def test_pipes_in_a_model_folder_are_not_waited_for(saved, tmp_path):
    weights = next(saved.glob("*.safetensors"))
    weights.unlink()
    os.mkfifo(weights)
    with pytest.raises(InputError, match="not a regular file"):
        load_checkpoint(saved)
    (tmp_path / "pipes").mkdir()
    os.mkfifo(tmp_path / "pipes" / INDEX)
    with pytest.raises(InputError, match="holds no model"):
        load_checkpoint(tmp_path / "pipes")
    with pytest.raises(InputError, match="not a model of rapgnn"):
        check_target(tmp_path / "pipes")


def test_a_private_model_stays_private(saved):
    for path in saved.iterdir():
        path.chmod(0o600)
    model, schema = load_checkpoint(saved)
    model.draw_counter.fill_(77)
    save_checkpoint(saved, model, schema)
    assert {stat.S_IMODE(path.stat().st_mode) for path in saved.iterdir()} == {0o600}


@pytest.mark.parametrize("kind", [list, np.array, lambda names: pd.Series(names, dtype=object)])
def test_class_names_that_no_file_can_hold(kind):
    """Half a character pair: a name in memory, and nowhere else."""
    data = node_data()
    names = kind(np.array(["a\udc80", "bee", "c\ud800"], dtype=object)[data.y.numpy()])
    masks = {f"{split}_mask": data[f"{split}_mask"] for split in ("train", "val", "test")}
    with pytest.raises(InputError, match="half a character"):
        RAPNodeClassifier(**FAST, num_layers=2).fit(data.x, names, edge_index=data.edge_index, **masks)
