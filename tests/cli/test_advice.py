"""Advice works where it is printed: the library names arguments, the command line flags that the command has."""

import ast
import re
from pathlib import Path

import numpy as np
import pytest
import typer

import rapgnn as library
from folders import tables, write
from rapgnn.cli import compare, data, hops, model, plan  # noqa: F401
from rapgnn.cli.shared import ARGUMENT, app, with_flags
from rapgnn.datasets.columns import OPTIONS

SOURCE = Path(library.__file__).parent
READERS = [path for room in ("graph", "datasets", "scale/tables") for path in sorted((SOURCE / room).glob("*.py"))]


def sentences(path: Path) -> list[str]:
    """What a module may say: its words, without docstrings."""
    tree = ast.parse(path.read_text())
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs
    ]


@pytest.mark.parametrize("path", READERS, ids=lambda path: path.stem)
def test_the_library_names_no_flags(path):
    flags = [word for text in sentences(path) for word in re.findall(r"(?<![\w-])--[a-z][\w-]+", text)]
    assert [flag for flag in flags if path.stem != "sources"] == []  # which runs pip


def test_every_argument_that_is_named_is_an_option_of_fit():
    named = {match[1] for path in READERS for text in sentences(path) for match in ARGUMENT.finditer(text)}
    assert {"ignore", "impute", "id"} <= named
    command = typer.main.get_command(app).commands["fit"]
    options = {flag for one in command.params for flag in one.opts}
    assert {name for name in named if f"--{name.replace('_', '-')}" not in options} == set()
    assert named - {"data_dir", "memory"} <= set(OPTIONS)


def test_the_command_line_says_its_flags(tmp_path, rapgnn, monkeypatch):
    nodes, edges = tables()
    nodes.loc[3, "height"] = np.nan
    folder = write(tmp_path, nodes=nodes, edges=edges)
    with pytest.raises(library.InputError, match="`impute=True`"):
        library.load_dataset(folder)
    code, _, err = rapgnn("fit", folder, "--out", tmp_path / "m")
    assert code == 2
    assert "--impute" in err
    assert "`" not in err
    monkeypatch.setattr("sys.argv", ["rapgnn", "predict", "m", "d"])
    assert with_flags("leave it out (`ignore`).") == "leave it out (--ignore of rapgnn fit)."
