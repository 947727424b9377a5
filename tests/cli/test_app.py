"""The command line as a whole: help, version; progress where output is piped; advice works where it is printed."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import typer

import rapgnn as library
from commands import refused
from folders import tables, write
from rapgnn import __version__
from rapgnn.cli import compare, data, hops, model, plan, shared  # noqa: F401 (each adds its commands to the app)
from rapgnn.cli.shared import ARGUMENT, app, with_flags
from rapgnn.datasets.columns import OPTIONS


def _commands() -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = [()]
    for path in found:
        command = typer.main.get_command(app)
        for name in path:
            command = command.commands[name]
        found += [(*path, name) for name in getattr(command, "commands", {})]
    return found


def test_every_file_of_commands_is_part_of_the_app():
    assert {("compare",), ("fit",), ("report",), ("data", "info")} <= set(_commands())
    assert len(_commands()) >= 13


@pytest.mark.parametrize("command", _commands(), ids=" ".join)
def test_help_begins_with_one_screen_and_holds_an_example(rapgnn, monkeypatch, command):
    monkeypatch.setenv("COLUMNS", "80")
    code, text, _ = rapgnn(*command, "--help")
    assert code == 0
    assert "Usage" in text
    assert f"Example: {' '.join(('rapgnn', *command))}" in text
    assert len(text.partition("─ Your own files ─")[0].splitlines()) <= 44


def test_the_datasets_are_listed(rapgnn):
    code, text, _ = rapgnn("data", "list")
    assert code == 0
    assert all(name in text for name in ("cora", "citeseer", "pubmed", "sbm"))


def test_help_imports_nothing_heavy():
    names = "('torch', 'scipy', 'matplotlib', 'numpy')"
    commands = "from rapgnn.cli import compare, data, model"
    heavy = f"import sys; {commands}; print([m for m in {names} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", heavy], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("module", ["rapgnn", "rapgnn.cli"])
def test_the_version_is_printed_by_the_installed_command(module):
    """A process of its own: the package as a module, and the function that the script calls."""
    ways = {"rapgnn": ["-m", "rapgnn"], "rapgnn.cli": ["-c", "from rapgnn.cli import main; main()"]}
    done = subprocess.run([sys.executable, *ways[module], "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"rapgnn {__version__}\n")


def test_a_line_now_and_then():
    lines, now = [], [0.0]
    track = shared.Track(write=lines.append, clock=lambda: now[0])
    track.start("cora", 100)
    for _ in range(100):
        now[0] += shared.LINE_SECONDS / 40
        track.advance()
    assert len(lines) == 2
    assert lines[0] == "rapgnn: cora: 40 of 100, 10 s\n"
    track.start("short", None)
    track.set(3, "short: best 0.5")
    assert len(lines) == 2
    now[0] += shared.LINE_SECONDS
    track.set(4, "short: best 0.6")
    assert lines[2] == "rapgnn: short: best 0.6: 4, 10 s\n"


def test_piped_output_gets_lines_and_quiet_none(capsys, monkeypatch):
    monkeypatch.setattr(shared, "LINE_SECONDS", 0.0)
    for quiet in (False, True):
        shared.set_quiet(quiet)
        with shared.show_progress() as track:
            track.start("work", 2)
            track.advance()
    shared.set_quiet(False)
    assert capsys.readouterr().err == "rapgnn: work: 1 of 2, 0 s\n"


def test_quiet_is_quiet(rapgnn, plants, tmp_path):
    """Only scores that are asked for are printed."""
    out, quiet = tmp_path / "model", "--quiet"
    assert rapgnn("fit", plants, "--out", out, "--no-search", quiet) == (0, "", "")
    assert rapgnn("fit", plants, "--out", tmp_path / "disk", "--memory", "1GiB", quiet) == (0, "", "")
    assert rapgnn("data", "convert", plants, "--out", tmp_path / "graph", quiet) == (0, "", "")
    assert rapgnn("predict", out, plants, "--out", tmp_path / "p.csv", quiet) == (0, "", "")
    code, said, err = rapgnn("evaluate", out, plants, quiet)
    assert (code, said.split()[1], err) == (0, "accuracy", "")


def test_a_threshold_of_three_classes_is_refused_by_a_saved_model_too(rapgnn, plants, tmp_path):
    assert rapgnn("fit", plants, "--out", tmp_path / "m", "--no-search", "--quiet")[0] == 0
    refused(rapgnn("predict", tmp_path / "m", plants, "--threshold", "0.3", "--out", tmp_path / "p.csv"), "two classes")


SOURCE = Path(library.__file__).parent
READERS = [path for room in ("graph", "datasets", "scale/tables") for path in sorted((SOURCE / room).glob("*.py"))]
OTHERS = [path for path in sorted(SOURCE.rglob("*.py")) if path not in READERS and path.parent.name != "cli"]


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
    assert named - {"data_dir", "memory", "relation"} <= set(OPTIONS)  # these are no options of tables


def _options(command: object) -> set[str]:
    parts = getattr(command, "commands", {}).values()
    return {flag for one in command.params for flag in one.opts}.union(*map(_options, parts))


def test_every_option_and_command_that_is_named_exists():
    app_ = typer.main.get_command(app)
    said = [text for path in OTHERS for text in sentences(path)]
    named = {f"--{match[1].replace('_', '-')}" for text in said for match in ARGUMENT.finditer(text)}
    commands = [text for path in sorted(SOURCE.rglob("*.py")) if path.stem != "sources" for text in sentences(path)]
    named |= {word for text in commands for word in re.findall(r"(?<![\w-])--[a-z][\w-]+", text)}
    assert named - _options(app_) <= {"--validation"}  # of links, in Python alone
    words = {word for text in commands for word in re.findall(r"\brapgnn ([a-z]+)(?= [A-Z{-])", text)}
    assert words <= {*app_.commands, "fit"}


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


def _cell(name, value):
    return lambda nodes, edges: (nodes if name in nodes else edges).loc.__setitem__((3, name), value)


def _named(old, new):
    def change(*frames):
        for frame in frames:
            frame.columns = [new if name == old else name for name in frame]

    return change


def _with(name, value):
    return lambda nodes, edges: (nodes if name == "split" else edges).insert(1, name, value)


ADVISED = {  # what is wrong with a folder, and the values with which every argument that the sentence names is the cure
    "gap": (_cell("height", np.nan), {"impute": True, "ignore": "height"}),
    "infinite": (_cell("height", np.inf), {"ignore": "height"}),
    "label": (_named("label", "species"), {"label": "species"}),
    "id": (_named("id", "plant"), {"id": "plant"}),
    "end": (_cell("source", "plant 999"), {"drop_unknown_edges": True}),
    "source": (_named("source", "who"), {"source": "who"}),
    "target": (_named("target", "whom"), {"target": "whom"}),
    "weight": (_with("weight", "heavy"), {"ignore": "weight"}),
    "split": (_with("split", "later"), {"ignore": "split"}),
    "encoding": (_cell("colour", "x\x81"), {"encoding": "latin-1"}),
    "separator": (_cell("colour", "blue, or green"), {"sep": "#"}),
}


@pytest.mark.parametrize("fault", ADVISED)
def test_advice_works_where_it_is_printed(rapgnn, tmp_path, fault):
    change, cures = ADVISED[fault]
    change(*(frames := tables()))
    for stem, frame in zip(("nodes", "edges"), frames, strict=True):
        sep, encoding = "#" if fault == "separator" else ",", "latin-1" if fault == "encoding" else "utf-8"
        frame.to_csv(tmp_path / f"{stem}.csv", index=False, sep=sep, encoding=encoding)
    estimator = library.RAPNodeClassifier(num_layers=1, search=False, settings={"head": "ridge"})
    with pytest.raises(library.InputError) as refusal:
        estimator.fit(tmp_path)
    assert {match[1] for match in ARGUMENT.finditer(str(refusal.value))} == set(cures)
    code, _, err = rapgnn("data", "info", tmp_path)
    assert code == 2
    for name, value in cures.items():
        estimator.fit(tmp_path, **{name: value})
        flag = f"--{name.replace('_', '-')}"
        assert re.search(rf"{flag}(?! of)\b", err)
        assert rapgnn("data", "info", tmp_path, flag, *([] if value is True else [value]))[0] == 0
