"""The version says the same everywhere, and records say what they were made with."""

import platform
import re
from pathlib import Path

import torch

import rapgnn
from rapgnn.versions import hardware, versions

ROOT = Path(__file__).resolve().parents[1]


def test_the_version_is_the_same_everywhere():
    assert re.fullmatch(r"\d+\.\d+\.\d+", rapgnn.__version__)
    (cited,) = re.findall(r"(?m)^version: (\S+)$", (ROOT / "CITATION.cff").read_text())
    assert cited == rapgnn.__version__
    assert re.search(rf"(?m)^## .*\b{re.escape(rapgnn.__version__)}\b", (ROOT / "CHANGELOG.md").read_text())


def test_the_version_is_printed(rapgnn):
    from rapgnn import __version__

    assert rapgnn("--version") == (0, f"rapgnn {__version__}\n", "")


def test_records_name_their_versions():
    found = versions()
    assert found["python"] == platform.python_version()
    assert found["torch"] == torch.__version__
    assert set(found) == {"python", "rapgnn", "torch", "torch_geometric", "numpy", "scipy"}
    assert all(found.values())


def test_the_hardware_is_said_in_words():
    assert re.fullmatch(r"\S+ CPU, \d+ cores", hardware("cpu"))
