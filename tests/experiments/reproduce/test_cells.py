"""A cell's key: what decides a number changes it, and nothing else does."""

import subprocess
import sys
from dataclasses import replace

import pytest

from rapgnn.experiments.reproduce.cells import Cell, cell_key
from rapgnn.experiments.reproduce.item import Graphs
from rapgnn.experiments.reproduce.source import (
    EXPERIMENTS,
    MODULES,
    NETWORKS,
    PACKAGE,
    ROOMS,
    SAVED,
    code_version,
    search_version,
    statements,
)
from rapgnn.experiments.reproduce.store import Store
from small_items import TINY

CELL = Cell("accuracy", "cora", {"method": "rap", "config": {"params": (0.0, 1.0), "lr": 0.1}}, {"column": "best"})


def test_what_decides_the_number_decides_the_key():
    keys = [
        cell_key(cell, checksum)
        for cell, checksum in [
            (CELL, "one"),
            (CELL, "other"),
            (replace(CELL, kind="time"), "one"),
            (replace(CELL, dataset="pubmed"), "one"),
            (replace(CELL, spec=CELL.spec | {"method": "identity"}), "one"),
            (replace(CELL, spec=CELL.spec | {"config": CELL.spec["config"] | {"lr": 0.1 + 1e-9}}), "one"),
        ]
    ]
    assert len(set(keys)) == len(keys)
    assert all(len(key) == 16 and int(key, 16) >= 0 for key in keys)


def test_labels_order_and_the_kind_of_list_do_not():
    other = {"config": {"lr": 0.1, "params": [0.0, 1.0]}, "method": "rap"}
    assert cell_key(replace(CELL, labels={}, spec=other), "one") == cell_key(CELL, "one")


@pytest.fixture
def package(tmp_path):
    """Folders like those of the package, with next to nothing in them."""
    paths = [f"{folder}/__init__.py" for folder in (*ROOMS, "experiments", "experiments/reproduce", "cli", ".")]
    paths += [
        f"{module}.py" for module in (*MODULES, *EXPERIMENTS, *NETWORKS, "estimators/average", "versions", "cli/app")
    ]
    for path in paths:
        (tmp_path / path).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / path).write_text('"""A module."""\n')
    return tmp_path


@pytest.mark.parametrize(
    ("path", "text", "changes"),
    [
        *((f"{room}/__init__.py", "\nCHANGED = 1\n", True) for room in ROOMS),
        *((f"{module}.py", "\nCHANGED = 1\n", True) for module in (*MODULES, *EXPERIMENTS)),
        ("layers/new.py", "CHANGED = 1\n", True),
        ("prng.py", "\n# a word\n\n\n", False),
        ("cli/app.py", "\nCHANGED = 1\n", False),
        ("experiments/reproduce/table1.py", "\nCHANGED = 1\n", False),
        ("__init__.py", "\nCHANGED = 1\n", False),
        ("versions.py", "\nCHANGED = 1\n", False),
    ],
)
def test_the_code_that_decides_numbers_is_part_of_the_key(package, path, text, changes):
    before = code_version.__wrapped__(package)
    with (package / path).open("a") as file:
        file.write(text)
    assert (code_version.__wrapped__(package) != before) == changes


@pytest.mark.parametrize("path", [*(f"{module}.py" for module in NETWORKS), "estimators/average.py"])
def test_networks_of_the_estimators_are_part_of_their_own_keys_alone(package, path):
    before = code_version.__wrapped__(package), search_version.__wrapped__(package)
    (package / path).write_text("CHANGED = 1\n")
    assert code_version.__wrapped__(package) == before[0]
    assert search_version.__wrapped__(package) != before[1]


@pytest.mark.parametrize("path", ["estimators/report/search.py", *(f"{module}.py" for module in SAVED)])
def test_reports_and_saved_models_are_part_of_no_key(package, path):
    before = code_version.__wrapped__(package), search_version.__wrapped__(package)
    (package / path).parent.mkdir(exist_ok=True, parents=True)
    (package / path).write_text("CHANGED = 1\n")
    assert (code_version.__wrapped__(package), search_version.__wrapped__(package)) == before


def test_no_method_of_the_paper_imports_the_networks_of_the_estimators():
    rooms = "rapgnn.experiments.run, rapgnn.training.methods, rapgnn.models.reservoirs, rapgnn.training.reservoirs"
    script = f"import sys, {rooms}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert "rapgnn.training.methods" in loaded
    names = {"rapgnn." + module.replace("/", ".") for module in NETWORKS}
    assert not names & set(loaded)


def test_the_sources_are_where_the_version_looks_for_them():
    assert (PACKAGE / "experiments" / "run.py").is_file()
    assert code_version() == code_version.__wrapped__(PACKAGE)


def test_words_are_no_statements():
    bare = 'x = "# no comment"\ndef f():\n    return "one"\nclass C:\n    y: int = 1'
    told = (
        '"""What it is."""\n\nx = "# no comment"  # why\n\n\ndef f():\n    """In two\n\n    lines."""\n    # so\n'
        '    return "one"\n\n\nclass C:\n    y: int = 1\n    """A field."""\n'
    )
    assert statements(told) == statements(bare) == bare
    assert statements(told.replace("one", "two")) != bare


def test_data_are_told_by_their_checksum(monkeypatch):
    graphs, graph = Graphs(), Graphs().get(TINY)
    monkeypatch.setattr("rapgnn.experiments.reproduce.item.load_dataset", lambda *given: graph)
    assert graphs.checksum("cora") == graph.fingerprint()
    assert graphs.checksum(TINY) == "generated"  # its name holds its parameters


def test_a_dataset_is_loaded_once():
    graphs = Graphs()
    assert graphs.get(TINY) is graphs.get(TINY)


def test_packed_cells_are_found_and_a_damaged_pack_is_said_to_be_so(tmp_path):
    store = Store(tmp_path)
    for key in ("a" * 16, "b" * 16):
        store.add({"key": key, "value": key[0]})
    path = store.pack()
    for cell in (tmp_path / "cells").glob("*.json"):
        cell.unlink()
    later = Store(tmp_path)
    assert later.find("a" * 16) == {"key": "a" * 16, "value": "a"}
    later.add({"key": "c" * 16, "value": "c"})
    later.pack()  # with what was packed before
    assert [Store(tmp_path).find(letter * 16)["value"] for letter in "abc"] == ["a", "b", "c"]
    assert Store(tmp_path, again=True).find("a" * 16) is None
    path.write_bytes(path.read_bytes()[:-20])
    said: list[str] = []
    assert Store(tmp_path, say=said.append).find("a" * 16) is None
    assert len(said) == 1
    assert "damaged" in said[0]
