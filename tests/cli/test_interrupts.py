"""Ctrl-C, full disks and failed commands, as a shell sees them: one line, the right exit code, nothing left behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from commands import QUICK, SBM, begin, refused
from rapgnn import load_model

LONG = "sbm:nodes=20000,features=200,train=2000,val=2000"
SETTINGS = ["--epochs", "1000000", "--layers", "30", "--hidden", "64", "--embedding", "learnable", "--head", "linear"]


def start(*words: object, **options) -> subprocess.Popen:
    return begin("-m", "rapgnn", *map(str, words), stdout=subprocess.PIPE, **options)


def interrupt(process: subprocess.Popen, after: float = 0.0) -> list[str]:
    """Ctrl-C after a while: what is said beside progress."""
    time.sleep(after)
    os.killpg(process.pid, signal.SIGINT)
    try:
        _, err = process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # a test that fails leaves nothing behind
        raise
    # Python itself ends by the signal where the key was pressed inside exec(); shells call that 130 as well.
    assert process.returncode in (130, -signal.SIGINT), err.decode()
    return [line for line in err.decode().splitlines() if line.strip() and "0:0" not in line]


@pytest.mark.parametrize(
    "after",
    [0.5, 2.0, *(pytest.param(0.25 + 0.1 * n, marks=pytest.mark.slow) for n in range(40))],
)
def test_ctrl_c_is_one_line(tmp_path, after):
    """In the middle of imports, of loading, and of training."""
    process = start("fit", LONG, *SETTINGS, "--out", tmp_path / "new" / "model")
    assert interrupt(process, after) == ["rapgnn: interrupted."]
    assert not (tmp_path / "new").exists()


def test_ctrl_c_in_a_download(tmp_path):
    """The host never answers."""
    began = tmp_path / "began"
    script = (
        "import pathlib, sys, time\nfrom rapgnn.datasets import sources\nfrom rapgnn.cli import main\n"
        f"def silent(*given):\n    pathlib.Path({str(began)!r}).touch()\n    time.sleep(30)\n"
        "sources._from_host = silent\nsys.argv = ['rapgnn', 'data', 'get', 'citeseer']\nmain()\n"
    )
    process = begin("-c", script, env=os.environ | {"RAPGNN_CACHE": str(tmp_path / "cache")})
    for _ in range(600):
        if began.exists():
            break
        time.sleep(0.05)
    assert began.exists()
    assert interrupt(process)[-1] == "rapgnn: interrupted."
    assert not (tmp_path / "cache").exists()


@pytest.fixture
def listening():
    """This process hears Ctrl-C, also where it was started in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("listening")
def test_a_keyboard_interrupt_that_a_library_turns_into_another_error(rapgnn, monkeypatch):
    """As numpy does when it is loaded: what counts is that the key was pressed."""

    def load(*given: object, **options: object) -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt as error:
            raise ImportError("cannot load") from error

    monkeypatch.setattr("rapgnn.cli.shared.load", load)
    code, _, err = rapgnn("data", "info", SBM)
    assert (code, err) == (130, "rapgnn: interrupted.\n")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize(
    "words",
    [
        ("fit", "--layers", "0"),
        ("fit", "--set", "nonsense=1"),
        ("fit", "--device", "nonsense"),
        ("fit", "--seed", "-1"),
        ("compare", "--methods", "rap,nonsense"),
    ],
    ids=" ".join,
)
def test_options_are_checked_before_data_are_loaded(rapgnn, tmp_path, monkeypatch, words):
    from rapgnn.cli import shared

    monkeypatch.setattr(shared, "load", lambda *given, **options: pytest.fail("loaded"))
    command, *options = words
    out = {"fit": ["--out", tmp_path / "m"], "compare": []}[command]
    refused(rapgnn(command, "cora", *out, *options))
    assert not list(tmp_path.iterdir())


def test_fit_says_that_it_replaces_a_model(rapgnn, tmp_path):
    words = ["fit", SBM, "--out", tmp_path / "m", "--embedding", "identity", "--head", "ridge", "--layers", "2"]
    for replaced in (False, True):
        code, _, err = rapgnn(*words)
        assert code == 0
        assert (f"rapgnn: replaces the model in {tmp_path / 'm'}" in err.splitlines()) == replaced


@pytest.mark.parametrize("command", ["fit", "compare", "predict", "evaluate"])
def test_a_failed_command_leaves_no_folder(rapgnn, tmp_path, command):
    new = tmp_path / "new"
    words = {
        "fit": ["nowhere", "--out", new / "m", "--json", new / "a.json"],
        "compare": ["nowhere", "--json", new / "a.json"],
        "predict": ["nowhere", "nowhere", "--out", new / "a.csv"],
        "evaluate": ["nowhere", "nowhere", "--json", new / "a.json"],
    }[command]
    refused(rapgnn(command, *words))
    assert not list(tmp_path.iterdir())


def test_a_full_disk_at_the_end_loses_nothing_that_was_there(rapgnn, tmp_path, monkeypatch):
    """JSON is written last: the old one stays."""
    kept = tmp_path / "a.json"
    kept.write_text("old")
    write = Path.write_text

    def full(self: Path, *given: object, **options: object) -> int:
        write(self, "half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    code, _, err = rapgnn("compare", SBM, "--methods", "rap", *QUICK, "--json", kept)
    assert code == 1
    said = [line for line in err.splitlines() if line.strip() and "0:0" not in line]
    assert said == [f"rapgnn: cannot write {kept}: No space left on device."]
    assert kept.read_text() == "old"
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".rapgnn")]


@pytest.mark.parametrize(("output", "code"), [("nobody reads", 0), ("full", 1)])
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_output_that_goes_nowhere_costs_no_work(rapgnn, plants, tmp_path, monkeypatch, stream, output, code):
    """As in ``rapgnn fit ... | head -1``."""
    read, write = os.pipe()
    os.close(read)
    with Path("/dev/full").open("w") if output == "full" else os.fdopen(write, "w") as nowhere:
        monkeypatch.setattr(sys, stream, nowhere)
        found, _, err = rapgnn("fit", plants, "--out", tmp_path / "model", "--no-search")
    assert load_model(tmp_path / "model").predict(plants).shape == (90,)
    assert found == (code if stream == "stdout" else 0)
    assert ("cannot write the output: No space left" in err) == (found == 1)


def test_a_shell_that_closes_all_streams_has_its_model(plants, tmp_path):
    command = f"{sys.executable} -m rapgnn fit {plants} --out {tmp_path / 'model'} --no-search <&- >&- 2>&-"
    assert subprocess.run(command, shell=True).returncode == 0
    assert load_model(tmp_path / "model").predict(plants).shape == (90,)
