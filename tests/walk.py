"""The walk of ``RAPNodeClassifier().fit(data)`` through the files of rapgnn: ``python tests/walk.py``.

A file is entered where another file calls into it. A return is a pair of files, counted once, where the file called was
entered before. The ground floor and properties (reading data) do not count.
"""

import functools
import inspect
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import rapgnn
from rapgnn.datasets.catalog import BlockModel

ROOT = Path(rapgnn.__file__).parent
GROUND = {"errors", "sparse", "prng", "files", "device", "memory", "__init__"}


def _getters() -> set[CodeType]:
    classes = [c for n, m in sys.modules.items() if n.startswith("rapgnn") for c in vars(m).values()]
    found = set()
    for value in (v for c in classes if inspect.isclass(c) for v in vars(c).values()):
        getter = value.fget if isinstance(value, property) else getattr(value, "func", None)
        if isinstance(value, property | functools.cached_property) and hasattr(getter, "__code__"):
            found.add(getter.__code__)
    return found


def walk(action: Callable[[], Any]) -> tuple[list[str], list[str]]:
    """(files in the order they are entered, returns) while ``action`` runs."""
    skipped, entered, pairs, returns = _getters(), [], set(), []

    def place(frame: FrameType | None) -> str | None:
        if frame is None or not frame.f_code.co_filename.startswith(str(ROOT)):
            return None
        parts = Path(frame.f_code.co_filename).relative_to(ROOT).with_suffix("").parts
        plain = frame.f_code not in skipped and not frame.f_code.co_name.startswith("<")
        return None if parts[0] in GROUND or not plain else "/".join(parts)

    def watch(frame: FrameType, event: str, _: Any) -> None:
        here, caller = place(frame), frame.f_back
        if event != "call" or here is None:
            return
        while caller is not None and place(caller) is None:
            caller = caller.f_back
        pair = (place(caller), here)
        if pair[0] == here or pair in pairs:
            return
        pairs.add(pair)
        if here in entered:
            returns.append(f"{pair[0]} -> {here} ({frame.f_code.co_qualname})")
        else:
            entered.append(here)

    sys.setprofile(watch)
    try:
        action()
    finally:
        sys.setprofile(None)
    return entered, returns


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    graph = BlockModel(nodes=300, classes=3, features=12, train=20, val=60, test=100).generate()
    fit = lambda: rapgnn.RAPNodeClassifier().fit(graph)  # noqa: E731
    fit()  # imports are not part of the walk
    entered, returns = walk(fit)
    print(f"{len(entered)} entered, {len(returns)} returns", *(f"  {line}" for line in returns), sep="\n")
