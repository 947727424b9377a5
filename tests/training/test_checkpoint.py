"""Saved models: bitwise the same after loading; damage and tampering are refused; what is not ours stays as it is."""

import hashlib
import json
import os
import shutil
import stat
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from safetensors.torch import load, save

from disk_cases import full_disk
from fuzzing import REFUSED, alter, both_kinds, examples, finite, outcome
from rapgnn import Config, InputError, RAPNodeClassifier
from rapgnn.errors import OutputError
from rapgnn.graph.backbones import BACKBONES
from rapgnn.memory import PeakMemory
from rapgnn.training.checkpoint import INDEX, Schema, check_target, index_digest, load_checkpoint, save_checkpoint
from rapgnn.training.fit import fit_rap
from rapgnn.training.predict import model_on
from samples import FAST, GRAPH_CONFIG, collection, node_data
from strategies import damaged

CONFIG = Config(num_layers=3, hidden_channels=8, epochs=5, pretrain_epochs=3)


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
        {"graphs": True},
    ],
)
def test_a_loaded_model_predicts_bitwise_the_same(settings, small_graph, tmp_path):
    graph, config = small_graph, CONFIG
    if "graphs" in settings:
        graph, config = collection("regression"), GRAPH_CONFIG.update(epochs=3, jumping="cat")
    fitted = fit_rap(graph, config.update(**{k: v for k, v in settings.items() if k != "graphs"}), 3)
    save_checkpoint(tmp_path / "m", fitted.model, Schema.of(graph))
    assert sorted(path.suffix for path in (tmp_path / "m").iterdir()) == [".json", ".safetensors"]  # no pickle
    model, schema = load_checkpoint(tmp_path / "m", graph.task)
    assert schema.task == graph.task
    assert torch.equal(model_on(model, graph)(graph.test).scores, fitted.predict(graph.test).scores)
    assert not any(p.requires_grad for p in model.parameters())


def inputs() -> tuple[pd.DataFrame, dict]:
    data = node_data()
    table = pd.DataFrame({"size": data.x[:, 0] * 1000, "kind": np.array(["p", "q"])[(data.x[:, 1] > 0).int()]})
    return table, {"edge_index": data.edge_index}


TABLE, EDGES = inputs()


def fit_table(names=("ant", "bee", "cat"), **changes) -> RAPNodeClassifier:
    """A model of a table with numbers and words, so that there is much to tamper with."""
    data = node_data()
    masks = {f"{s}_mask": data[f"{s}_mask"] for s in ("train", "val", "test")}
    settings = FAST | {"num_layers": 2, "jumping": "last"} | changes
    return RAPNodeClassifier(**settings).fit(TABLE, np.array(names, dtype=object)[data.y.numpy()], **EDGES, **masks)


@pytest.fixture(scope="module")
def original(tmp_path_factory) -> tuple[Path, np.ndarray]:
    folder, fitted = tmp_path_factory.mktemp("original") / "model", fit_table()
    fitted.save(folder)
    return folder, fitted.predict_proba(TABLE, **EDGES)


@pytest.fixture
def saved(original, tmp_path) -> Path:
    return Path(shutil.copytree(original[0], tmp_path / "model"))


def weights_of(folder: Path) -> Path:
    return next(folder.glob("*.safetensors"))


def change(folder: Path, **changes) -> None:
    path = folder / INDEX
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def without_bias(state):
    state.pop("head.bias")


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda f: (f / INDEX).unlink(), "holds no model"),
        (lambda f: (f / INDEX).write_text("{"), "not JSON"),
        (lambda f: (f / INDEX).write_text('{"format": "other"}'), "not a model"),
        (lambda f: (f / INDEX).write_text("[1]"), "not a model"),
        (lambda f: change(f, version=99), "99"),
        (lambda f: change(f, config=None), "config"),
        (lambda f: change(f, config={"unheard": 1}), "damaged"),
        (lambda f: change(f, schema={"task": "node-classification"}), "schema"),
        (lambda f: change(f, seed=5), "digest"),
        (lambda f: change(f, weights="../../etc/passwd"), "missing"),
        (lambda f: weights_of(f).unlink(), "missing"),
        (lambda f: weights_of(f).write_bytes(b"short"), "truncated"),
        (lambda f: weights_of(f).write_bytes((1 << 60).to_bytes(8, "little") + b"{}"), "truncated"),
    ],
)
def test_damage_is_refused_by_its_cause(saved, damage, words):
    damage(saved)
    with pytest.raises(InputError, match=words):
        load_checkpoint(saved)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (without_bias, "lack head.bias"),
        (lambda state: state.update(further=torch.ones(1)), "further"),
        (lambda state: state.update({"head.bias": torch.ones(1, 9)}), "shape"),
        (lambda state: state.update({"head.bias": state["head.bias"].double()}), "float64"),
        (lambda state: state["head.bias"].fill_(np.nan), "NaN"),
    ],
)
def test_tensors_that_are_not_the_models_are_named(saved, spoil, words):
    state = load(weights_of(saved).read_bytes())
    spoil(state)
    alter(saved, lambda index: None, state)
    with pytest.raises(InputError, match=words):
        load_checkpoint(saved)


def tampered(scratch: Path, index: bytes, weights: bytes, name: str) -> object:
    """What a folder with these files gives: a refusal, or probabilities."""
    shutil.rmtree(scratch, ignore_errors=True)
    (scratch / "model").mkdir(parents=True)
    (scratch / "model" / INDEX).write_bytes(index)
    (scratch / "model" / name).write_bytes(weights)
    (scratch / name).write_bytes(weights)  # outside the folder, where nothing may be read
    loaded = outcome(lambda: RAPNodeClassifier.load(scratch / "model"))
    if loaded is REFUSED:
        return REFUSED
    found = outcome(lambda: loaded.predict_proba(TABLE, **EDGES))
    if found is not REFUSED:
        finite(found, len(TABLE))
        assert set(loaded.predict(TABLE, **EDGES).ravel().tolist()) <= {*loaded.classes_.tolist(), 0, 1}
    return found


def parts(folder: Path) -> tuple[bytes, bytes, str]:
    path = weights_of(folder)
    return (folder / INDEX).read_bytes(), path.read_bytes(), path.name


def test_a_damaged_index_is_refused_unless_it_says_the_same(original, tmp_path):
    (index, weights, name), seen = parts(original[0]), []
    whole = json.loads(index)

    @examples(100)
    @given(data=st.data())
    def one(data):
        if data.draw(st.integers(0, 3)):
            changed = data.draw(damaged(index, b"[]"))
        else:  # as another program would write it
            anew = dict(data.draw(st.permutations(list(whole.items())))) | {"versions": {"rapgnn": "none"}}
            changed = json.dumps(anew, indent=data.draw(st.sampled_from([None, 8]))).encode()
        try:
            told = json.loads(changed)
            same = isinstance(told, dict) and {**told, "versions": 0} == {**whole, "versions": 0}
        except (ValueError, RecursionError):
            same = False
        seen.append(tampered(tmp_path, changed, weights, name))
        assert (seen[-1] is not REFUSED) == same
        if same:
            np.testing.assert_array_equal(seen[-1], original[1])

    one()
    both_kinds(seen, accepted=0.1, refused=0.5)


def places(value: object, path: tuple = ()) -> list[tuple]:
    """The paths of everything inside a JSON value."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(p for key, item in inside for p in places(item, (*path, key)))]


ODD_VALUES = [
    None, True, 0, -1, 3, 10**6, 2**63, 10**400, 0.5, -1e-3, 1e308, float("nan"), float("inf"), "", "x", "w" * 500,
    "../x", "/etc/passwd", "a\x00b", [], [1], {}, {"a": 1}, ["a", "a"], "node-multilabel", "graph-regression",
    "structural", "given", "random", "gine", "mlp", "full", "cat", "mean",
]  # fmt: skip


def test_tampering_with_the_index(original, tmp_path):
    """Hashes that are made anew do not save the tamperer: what is loaded then predicts finite numbers."""
    (index, weights, name), seen = parts(original[0]), []

    @examples(150)
    @given(data=st.data())
    def one(data):
        told = json.loads(index)
        path = data.draw(st.sampled_from([p for p in places(told) if p and p[0] != "versions"]))
        way, value = data.draw(st.sampled_from(["set", "set", "remove", "add"])), data.draw(st.sampled_from(ODD_VALUES))
        at = told
        for key in path[:-1]:
            at = at[key]
        if way == "remove":
            del at[path[-1]]
        elif way == "add" and isinstance(at, list):
            at.append(value)
        elif way == "add":
            at["unheard of"] = value
        else:
            at[path[-1]] = f"../{name}" if path == ("weights",) and data.draw(st.booleans()) else value
        assume(json.dumps(told, sort_keys=True) != json.dumps(json.loads(index), sort_keys=True))
        anew = data.draw(st.booleans())
        if anew and path[0] != "digest":
            told["digest"] = index_digest(told)
        seen.append(tampered(tmp_path, json.dumps(told).encode(), weights, name))
        if not anew or (way != "add" and path[0] in ("format", "version", "weights", "sha256", "digest")):
            assert seen[-1] is REFUSED

    one()
    both_kinds(seen, accepted=0.02, refused=0.5)


def test_damaged_weights(original, tmp_path):
    """Other bytes are refused; a whole file of other finite numbers, with its hash, is another model."""
    (index, weights, name), seen = parts(original[0]), []

    def hashed(content: bytes) -> bytes:
        said = json.loads(index) | {"sha256": hashlib.sha256(content).hexdigest()}
        return json.dumps(said | {"digest": index_digest(said)}).encode()

    @examples(80)
    @given(changed=damaged(weights, b"{}"), anew=st.booleans())
    def one(changed, anew):
        assume(changed != weights)
        found = tampered(tmp_path, hashed(changed) if anew else index, changed, name)
        assert anew or found is REFUSED
        seen.append(found)

    one()
    assert sum(found is REFUSED for found in seen) > 0.5 * len(seen)
    tensors = load(weights)
    for key in sorted(key for key, tensor in tensors.items() if tensor.is_floating_point() and tensor.numel()):
        content = save(tensors | {key: tensors[key] + 0.25})
        assert tampered(tmp_path, index, content, name) is REFUSED
        assert tampered(tmp_path, hashed(content), content, name) is not REFUSED
    np.testing.assert_array_equal(tampered(tmp_path, index, weights, name), original[1])


@pytest.mark.parametrize("content", ['{"format": "another program\'s"}', "{", ""])
def test_a_checkpoint_of_another_program_is_not_replaced(saved, tmp_path, content):
    other = tmp_path / "other"
    other.mkdir()
    (other / INDEX).write_text(content)
    (other / "model.safetensors").write_bytes(b"theirs")
    for attempt in (check_target, lambda folder: save_checkpoint(folder, *load_checkpoint(saved))):
        with pytest.raises(InputError, match="not a model"):
            attempt(other)
    assert sorted(p.name for p in other.iterdir()) == [INDEX, "model.safetensors"]
    assert (other / INDEX).read_text() == content


def test_files_of_a_user_beside_a_model_stay_and_a_private_model_stays_private(saved):
    for path in saved.iterdir():
        path.chmod(0o600)
    kept = {"notes.txt": b"a", "mine.safetensors": save({"a": torch.ones(2)}), "weights-x.safetensors": b"b"}
    kept |= {"weights-0123456789abcdef.safetensors": save({"a": torch.ones(2)}), ".rapgnn-mine": b"c"}
    for name, content in kept.items():
        (saved / name).write_bytes(content)
    model, schema = load_checkpoint(saved)
    model.draw_counter.fill_(77)
    save_checkpoint(saved, model, schema)
    assert {name: (saved / name).read_bytes() for name in kept} == kept
    own = [path for path in saved.iterdir() if path.name not in kept]
    assert len(own) == 3
    assert {stat.S_IMODE(path.stat().st_mode) for path in own} == {0o600}
    assert int(load_checkpoint(saved)[0].draw_counter) == 77


def test_small_files_cannot_ask_for_much_memory(saved, small_graph, tmp_path):
    """Settings and widths of models of gigabytes, beside the tensors of a small one."""

    def widen(index: dict) -> None:
        index["config"] |= {"head": "mlp", "head_layers": 3, "hidden_channels": 16384}

    alter(saved, widen, load(weights_of(saved).read_bytes()) | {"wide": torch.zeros(16384, 0)})
    folders = [saved]

    def craft(crafted: dict, in_channels: int = 12, **settings) -> None:
        folders.append(tmp_path / str(len(folders)))
        RAPNodeClassifier(coefficients="fixed", search=False).set_params(settings=settings).fit(small_graph).save(
            folders[-1]
        )

        def change(index: dict) -> None:
            index["schema"]["in_channels"] = in_channels
            for member in index["members"]:
                member["config"] |= crafted

        alter(folders[-1], change)

    craft({"unit_inputs": 2}, in_channels=10**6, units=256)
    craft({"coefficients": "layers", "jumping": "cat", "num_layers": 100_000})
    craft({"unit_hops": 1000}, units=16)
    for folder in folders:
        with PeakMemory() as peak, pytest.raises(InputError, match="damaged"):
            load_checkpoint(folder)
        assert peak.megabytes is None or peak.megabytes < 100


def test_a_backbone_that_is_gone_is_named(saved, tmp_path, monkeypatch):
    monkeypatch.setitem(BACKBONES, "lazy", BACKBONES["gcn"])
    fit_table(backbone="lazy").save(tmp_path / "lazy")
    RAPNodeClassifier.load(tmp_path / "lazy")
    monkeypatch.delitem(BACKBONES, "lazy")
    with pytest.raises(InputError, match=r"'lazy'.*BACKBONES"):
        RAPNodeClassifier.load(tmp_path / "lazy")


@pytest.mark.parametrize("between", [False, True])
def test_a_full_disk_leaves_the_old_model(saved, tmp_path, between, monkeypatch):
    model, schema = load_checkpoint(saved)
    before, counter, write = sorted(saved.iterdir()), int(model.draw_counter), Path.write_text

    def full(self: Path, *given: object, **options: object) -> int:
        write(self, "half")
        raise OSError(28, "No space left on device")

    model.draw_counter.fill_(99)
    if between:  # the disk fills up between the two files
        monkeypatch.setattr(Path, "write_text", full)
    with full_disk(1 << 30 if between else 300), pytest.raises(OutputError, match=r"cannot write|No space left"):
        save_checkpoint(saved, model, schema)
    monkeypatch.undo()
    assert sorted(saved.iterdir()) == before
    assert int(load_checkpoint(saved)[0].draw_counter) == counter
    with full_disk(300), pytest.raises(OutputError):
        save_checkpoint(tmp_path / "new" / "model", model, schema)
    assert check_target(tmp_path / "new" / "model") is False
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", ["a\0b", "n" * 300, "d/" * 3000 + "x"])
def test_names_that_no_folder_can_have(saved, tmp_path, name):
    with pytest.raises(InputError, match="cannot write"):
        RAPNodeClassifier.load(saved).save(f"{tmp_path}/{name}")
    with pytest.raises(InputError, match="holds no model"):
        RAPNodeClassifier.load(f"{tmp_path}/{name}")


def test_pipes_in_a_model_folder_are_not_waited_for(saved, tmp_path):
    weights = weights_of(saved)
    weights.unlink()
    os.mkfifo(weights)
    with pytest.raises(InputError, match="regular file"):
        load_checkpoint(saved)
    (tmp_path / "pipes").mkdir()
    os.mkfifo(tmp_path / "pipes" / INDEX)
    for attempt in (load_checkpoint, check_target):
        with pytest.raises(InputError, match=r"no model|not a model"):
            attempt(tmp_path / "pipes")


@pytest.mark.parametrize("kind", [list, np.array, lambda names: pd.Series(names, dtype=object)])
def test_class_names_that_no_file_can_hold(kind):
    """Half a character pair: a name in memory, and nowhere else."""
    with pytest.raises(InputError, match="half a character"):
        fit_table(kind(["a\udc80", "bee", "c\ud800"]))
