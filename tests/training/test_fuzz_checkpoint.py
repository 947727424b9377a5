"""Saved models that a disk damaged or a person tampered with, with and without new hashes."""

import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from safetensors.torch import load, save

from fuzzing import REFUSED, Tally, examples, finite, outcome
from rapgnn import RAPNodeClassifier
from rapgnn.training.checkpoint import INDEX, index_digest
from samples import FAST, node_data
from strategies import damaged


@pytest.fixture(scope="module")
def fitted() -> RAPNodeClassifier:
    """A model of a table with numbers and words, so that there is much to tamper with."""
    return fit_table()


@pytest.fixture(scope="module")
def model(fitted, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    fitted.save(folder)
    return folder


@pytest.fixture(scope="module")
def truth(fitted) -> np.ndarray:
    return fitted.predict_proba(TABLE, **EDGES)


def inputs() -> tuple[pd.DataFrame, dict]:
    data = node_data()
    table = pd.DataFrame({"size": data.x[:, 0] * 1000, "kind": np.array(["p", "q"])[(data.x[:, 1] > 0).int()]})
    return table, {"edge_index": data.edge_index}


def fit_table(**changes) -> RAPNodeClassifier:
    data, (table, edges) = node_data(), inputs()
    masks = {f"{s}_mask": data[f"{s}_mask"] for s in ("train", "val", "test")}
    names = np.array(["ant", "bee", "cat"])[data.y.numpy()]
    return RAPNodeClassifier(**FAST | {"num_layers": 2, "jumping": "last"} | changes).fit(
        table, names, **edges, **masks
    )


TABLE, EDGES = inputs()


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
    path = next(folder.glob("*.safetensors"))
    return (folder / INDEX).read_bytes(), path.read_bytes(), path.name


def test_the_untouched_model_is_loaded(model, truth, tmp_path):
    found = tampered(tmp_path, *parts(model))
    assert found is not REFUSED
    np.testing.assert_array_equal(found, truth)


@st.composite
def written_anew(draw: st.DrawFn, index: bytes) -> bytes:
    """The same index as another program would write it."""
    told = list(json.loads(index).items())
    versions = draw(st.sampled_from([{}, None, {"rapgnn": "none"}]))
    told = dict(draw(st.permutations(told))) | {"versions": versions}
    return json.dumps(told, indent=draw(st.sampled_from([None, 1, 8]))).encode()


def test_a_damaged_index_is_refused_unless_it_says_the_same(model, truth, tmp_path):
    tally = Tally()

    @examples("index bytes")
    @given(data=st.data())
    def one(data):
        index, weights, name = parts(model)
        changed = data.draw(damaged(index, b"[]") if data.draw(st.integers(0, 3)) else written_anew(index))
        try:
            told, whole = json.loads(changed), json.loads(index)
            same = isinstance(told, dict) and {**told, "versions": 0} == {**whole, "versions": 0}
        except (ValueError, RecursionError):
            same = False
        found = tally.count(tampered(tmp_path, changed, weights, name))
        assert (found is not REFUSED) == same
        if same:
            np.testing.assert_array_equal(found, truth)

    one()
    tally.check(accepted=0.1, refused=0.5)


def places(value: object, path: tuple = ()) -> list[tuple]:
    """The paths of everything inside a JSON value."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(p for key, item in inside for p in places(item, (*path, key)))]


ODD_VALUES = [None, True, False, 0, -1, 3, 10**6, 2**31, 2**63, 10**30, 10**400, 0.5, -1e-3, 1e308, float("nan")]
ODD_VALUES += [
    float("inf"),
    "",
    "x",
    "w" * 500,
    "../x",
    "/etc/passwd",
    "a\x00b",
    [],
    [1],
    [[]],
    {},
    {"a": 1},
    ["a", "a"],
]
ODD_VALUES += [
    "node-multilabel",
    "graph-regression",
    "structural",
    "given",
    "random",
    "gine",
    "mlp",
    "full",
    "cat",
    "mean",
]


def test_tampering_with_the_index(model, tmp_path):
    """Hashes that are made anew do not save the tamperer: what is loaded then predicts finite numbers."""
    tally = Tally()

    @examples("index values")
    @given(data=st.data())
    def one(data):
        index, weights, name = parts(model)
        told = json.loads(index)
        path = data.draw(st.sampled_from([p for p in places(told) if p and p[0] != "versions"]))
        way, value = (
            data.draw(st.sampled_from(["set", "set", "set", "remove", "add"])),
            data.draw(st.sampled_from(ODD_VALUES)),
        )
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
        if anew and isinstance(told.get("schema"), dict):
            schema = json.dumps(told["schema"], sort_keys=True).encode()
            told["schema_hash"] = (
                hashlib.sha256(schema).hexdigest()[:16] if path[0] == "schema" else told.get("schema_hash")
            )
            weights = save(load(weights), {"index": index_digest(told)})
            told["sha256"] = hashlib.sha256(weights).hexdigest() if path[0] != "sha256" else told.get("sha256")
        found = tally.count(tampered(tmp_path, json.dumps(told).encode(), weights, name))
        if not anew or (way != "add" and path[0] in ("format", "version", "weights", "sha256", "schema_hash")):
            assert found is REFUSED

    one()
    tally.check(accepted=0.05, refused=0.5)


@st.composite
def other_numbers(draw: st.DrawFn, weights: bytes, index: bytes) -> bytes:
    """A whole file of the same tensors, one of them with other finite numbers in it, or none."""
    tensors = load(weights)
    floats = sorted(name for name, tensor in tensors.items() if tensor.is_floating_point() and tensor.numel())
    changed = draw(st.sampled_from(floats))
    tensors[changed] = tensors[changed] * draw(st.sampled_from([1.0, 0.5, 1.25]))
    return save(tensors, {"index": index_digest(json.loads(index))})


def test_damaged_weights(model, truth, tmp_path):
    tally = Tally()

    @examples("weights")
    @given(data=st.data())
    def one(data):
        index, weights, name = parts(model)
        whole = data.draw(st.integers(0, 3)) == 0
        changed = data.draw(other_numbers(weights, index) if whole else damaged(weights, b"{}"))
        assume(whole or changed != weights)
        anew = data.draw(st.booleans())
        if anew:
            told = json.loads(index) | {"sha256": hashlib.sha256(changed).hexdigest()}
            index = json.dumps(told).encode()
        found = tally.count(tampered(tmp_path, index, changed, name))
        assert anew or found is REFUSED or changed == weights
        if anew and whole:
            assert found is not REFUSED
        if changed == weights:
            np.testing.assert_array_equal(found, truth)

    one()
    tally.check(accepted=0.05, refused=0.5)


@pytest.mark.parametrize("changes", [{"num_layers": 3}, {"seed": 1}, {"jumping": "cat"}, {"embedding": "fixed-random"}])
def test_the_weights_of_another_model_are_refused(model, tmp_path, changes):
    changes = {"settings": FAST["settings"] | changes} if "embedding" in changes else changes
    fit_table(**changes).save(tmp_path / "other")
    index, _, name = parts(model)
    _, weights, _ = parts(tmp_path / "other")
    told = json.loads(index) | {"sha256": hashlib.sha256(weights).hexdigest()}
    assert tampered(tmp_path / "s", json.dumps(told).encode(), weights, name) is REFUSED
