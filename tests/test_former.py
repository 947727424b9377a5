"""Module names that earlier versions taught: each imports, and gives the very objects of its present home."""

import subprocess
import sys
from importlib import import_module

import pytest

from rapgnn import former
from rapgnn.graph.operator import GraphOperator

FORMER = ["rapgnn.operators", "rapgnn.polynomial", "rapgnn.spmm", "rapgnn.stepwise", "rapgnn.structure"]


def test_every_former_name_has_a_home():
    assert sorted(former.HOMES) == FORMER


@pytest.mark.parametrize("name", FORMER)
def test_a_former_module_is_what_its_home_is(name):
    old, home = import_module(name), import_module(former.HOMES[name])
    assert old.__doc__ == home.__doc__
    public = [key for key in vars(home) if not key.startswith("_")]
    assert len(public) > 3
    for key in public:
        assert getattr(old, key) is getattr(home, key), key


@pytest.mark.parametrize(
    ("module", "name", "home"),
    [
        ("operators", "BACKBONES", "graph.backbones"),
        ("polynomial", "PolynomialFilter", "propagation.polynomial"),
        ("spmm", "SparseMatrix", "sparse"),
        ("stepwise", "propagate", "propagation.stepwise"),
        ("structure", "build_operator", "graph.operator"),
    ],
)
def test_what_was_taught_of_each_is_still_there(module, name, home):
    assert getattr(import_module(f"rapgnn.{module}"), name) is getattr(import_module(f"rapgnn.{home}"), name)


def test_a_renamed_class_has_its_former_name_too():
    from rapgnn.structure import Structure

    assert Structure is GraphOperator


def test_other_names_are_not_found_and_installing_twice_changes_nothing():
    before = list(sys.meta_path)
    former.install()
    assert sys.meta_path == before
    with pytest.raises(ModuleNotFoundError):
        import_module("rapgnn.nowhere")


def test_the_former_names_cost_nothing_until_they_are_used():
    """In a process of its own: importing the package loads neither them nor torch."""
    said = "import sys, rapgnn; print(sorted(n for n in sys.modules if n == 'torch' or n.startswith('rapgnn.')))"
    done = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['rapgnn.former']"
