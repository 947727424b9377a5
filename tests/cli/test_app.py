"""The command line as a whole: help, version, the installed command."""

import os
import resource
import subprocess
import sys

import pytest
import typer

from rapgnn import __version__
from rapgnn.cli import compare, data, hops, model, plan  # noqa: F401 (each adds its commands to the app)
from rapgnn.cli.shared import app


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


@pytest.mark.parametrize("command", ["fit", "predict", "evaluate", "report", "compare"])
def test_help_names_the_options_of_ones_own_files_in_a_group(rapgnn, command):
    group = rapgnn(command, "--help")[1].partition("─ Your own files ─")[2].partition("╰")[0]
    wanted = ["--nodes", "--edges", "--sep"] + (["--label", "--impute", "--group"] if command == "fit" else [])
    assert [option for option in wanted if option not in group] == []


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


def test_help_answers_at_once():
    """In processor time, whatever else the machine does; the usual time is a fifth of a second."""

    def used() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    times = []
    for _ in range(3):
        start = used()
        subprocess.run([sys.executable, "-m", "rapgnn", "--help"], check=True, capture_output=True, env=os.environ)
        times.append(used() - start)
    assert min(times) < 0.5


@pytest.mark.parametrize("module", ["rapgnn", "rapgnn.cli"])
def test_the_version_is_printed_by_the_installed_command(module):
    """A process of its own: the package as a module, and the function that the script calls."""
    ways = {"rapgnn": ["-m", "rapgnn"], "rapgnn.cli": ["-c", "from rapgnn.cli import main; main()"]}
    done = subprocess.run([sys.executable, *ways[module], "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"rapgnn {__version__}\n")
