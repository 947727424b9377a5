"""Module names that earlier versions taught, kept importable: each is what its present home is, under the old name."""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

HOMES = {
    "rapgnn.operators": "rapgnn.graph.backbones",
    "rapgnn.polynomial": "rapgnn.propagation.polynomial",
    "rapgnn.spmm": "rapgnn.sparse",
    "rapgnn.stepwise": "rapgnn.propagation.stepwise",
    "rapgnn.structure": "rapgnn.graph.operator",
}
RENAMED = {"rapgnn.structure": {"Structure": "GraphOperator"}}


class FormerNames(MetaPathFinder, Loader):
    """Finds the modules of ``HOMES``."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname in HOMES else None

    def exec_module(self, module: ModuleType) -> None:
        home = import_module(HOMES[module.__name__])
        names = {name: value for name, value in vars(home).items() if not name.startswith("__")}
        renamed = RENAMED.get(module.__name__, {})
        vars(module).update(names | {old: names[new] for old, new in renamed.items()}, __doc__=home.__doc__)


def install() -> None:
    """Make the former names importable."""
    if not any(isinstance(finder, FormerNames) for finder in sys.meta_path):
        sys.meta_path.append(FormerNames())
