"""The shape of the code: rooms that say what they are for, words for every public name, tests that mirror the rooms."""

import ast
import dataclasses
import inspect
import re
from importlib import import_module
from pathlib import Path

import pytest

import rapgnn
from rapgnn.network.config import RECORDS

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "rapgnn"
ROOMS = {"graph", "datasets", "network", "training", "scale", "search", "pairs", "estimators", "report", "cli"}
GROUND_FLOOR = {
    *("errors", "sparse", "prng", "files", "device", "memory", "plugins", "__init__", "__main__", "compare"),
    *("captured", "fused", "fused_kernel"),
}
FOLDERS = sorted({path.parent for path in SOURCE.rglob("*.py")} - {SOURCE})
LAB_FOLDERS = sorted({path.parent for path in (ROOT / "lab" / "rapgnn_lab").rglob("*.py")})
TESTS = sorted((ROOT / "tests").rglob("*.py"))


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("folder", [*FOLDERS, *LAB_FOLDERS], ids=named)
def test_every_folder_says_what_comes_in_and_what_goes_out(folder):
    words = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""
    assert len(words.splitlines()) >= 3, words
    assert re.search(r"\bIn: ", words)
    assert re.search(r"\bOut: ", words)


def test_every_module_is_in_a_room_or_on_the_ground_floor():
    assert {path.stem for path in SOURCE.glob("*.py")} == GROUND_FLOOR
    assert {path.name for path in SOURCE.iterdir() if path.is_dir() and list(path.glob("*.py"))} == ROOMS
    assert not list((ROOT / "src").glob("*.py"))


@pytest.mark.parametrize("name", rapgnn.__all__)
def test_every_public_name_says_what_it_is(name):
    """Functions and classes by their docstring; a constant by a comment beside it, or above it."""
    value = getattr(rapgnn, name)
    if callable(value):
        assert (inspect.getdoc(value) or "").strip()
        if inspect.isclass(value):
            assert value.__doc__ is not None  # not that of a class it comes from
            assert not value.__doc__.startswith(f"{name}(")  # nor the signature that dataclasses make
        return
    lines = inspect.getsource(import_module(f"rapgnn.{rapgnn._HOMES[name]}")).splitlines()
    (at,) = [i for i, line in enumerate(lines) if re.match(rf"{name}\b.*=", line)]
    below = next((i for i in range(at + 1, len(lines)) if lines[i] in (")", "}", "]")), at)
    assert lines[at - 1].startswith("#") or "  # " in lines[at] or lines[below + 1].startswith('"""'), lines[at]


def test_every_setting_has_its_line():
    """A docstring of one line or two right below the field."""
    body = ast.parse((SOURCE / "network" / "config.py").read_text()).body
    classes = {node.name: node.body for node in body if isinstance(node, ast.ClassDef)}
    lines = {}
    for record in RECORDS.values():
        body = classes[record.__name__]
        for field, below in zip(body, [*body[1:], None], strict=True):
            if isinstance(field, ast.AnnAssign) and field.target.id != "_":
                is_text = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
                lines[field.target.id] = below.value.value.strip() if is_text else ""
    assert list(lines) == [field.name for record in RECORDS.values() for field in dataclasses.fields(record)]
    assert [name for name, text in lines.items() if not text or not text.endswith(".")] == []


def imported(path: Path) -> set[str]:
    nodes = list(ast.walk(ast.parse(path.read_text())))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return names | {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}


def test_no_test_module_imports_another():
    assert len(TESTS) > 60
    stems = {path.stem for path in TESTS if path.stem.startswith("test_")} | {"conftest"}
    found = {named(path): {n for n in imported(path) if n.rpartition(".")[2] in stems} for path in TESTS}
    assert {name: names for name, names in found.items() if names} == {}


def test_tests_of_the_library_need_no_laboratory():
    found = {named(path) for path in TESTS for name in imported(path) if name.startswith("rapgnn_lab")}
    assert found == set()


def test_tests_mirror_the_rooms():
    """Every folder of tests is a room, or part of one."""
    folders = {path.parent.relative_to(ROOT / "tests") for path in TESTS if path.name.startswith("test_")} - {Path()}
    assert folders <= {folder.relative_to(SOURCE) for folder in FOLDERS}
