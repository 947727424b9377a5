"""The walk of ``RAPNodeClassifier().fit(data)`` through the files of rapgnn: ``python tests/walk.py``.

A file is entered where another file calls into it. A return is a pair of files, counted once, where the file called was
entered before. The ground floor and properties (reading data) do not count. Three counts: every call; only functions
and constructors (methods of objects that are carried along are no place to look up); and rooms instead of files.
"""

import functools
import inspect
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data

import rapgnn

ROOT = Path(rapgnn.__file__).parent
CONSTRUCTORS = ("__init__", "__post_init__")
GROUND = {"errors", "sparse", "prng", "files", "device", "memory", "__init__"}


def example() -> Data:
    """300 nodes in three classes with masks."""
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=300)
    x = rng.random((300, 12)) + np.eye(12)[y]
    order = torch.from_numpy(rng.permutation(300))
    masks = {f"{split}_mask": (order // 100) == i for i, split in enumerate(("train", "val", "test"))}
    edges = torch.from_numpy(rng.integers(300, size=(2, 1500)))
    return Data(x=torch.from_numpy(x).float(), edge_index=edges, y=torch.from_numpy(y), **masks)


def _getters() -> set[CodeType]:
    classes = [c for n, m in sys.modules.items() if n.startswith("rapgnn") for c in vars(m).values()]
    found = set()
    for value in (v for c in classes if inspect.isclass(c) for v in vars(c).values()):
        getter = value.fget if isinstance(value, property) else getattr(value, "func", None)
        if isinstance(value, property | functools.cached_property) and hasattr(getter, "__code__"):
            found.add(getter.__code__)
    return found


def walk(action: Callable[[], Any], *, methods: bool = True, rooms: bool = False) -> tuple[list[str], list[str]]:
    """(files in the order they are entered, returns) while ``action`` runs."""
    skipped, entered, pairs, returns = _getters(), [], set(), []

    def place(frame: FrameType | None) -> str | None:
        if frame is None or not frame.f_code.co_filename.startswith(str(ROOT)):
            return None
        parts = Path(frame.f_code.co_filename).relative_to(ROOT).with_suffix("").parts
        plain = frame.f_code not in skipped and not frame.f_code.co_name.startswith("<")
        return None if parts[0] in GROUND or not plain else parts[0] if rooms else "/".join(parts)

    def watch(frame: FrameType, event: str, _: Any) -> None:
        here, name = place(frame), frame.f_code.co_qualname
        if event != "call" or here is None:
            return
        if not methods and "." in name and name.rpartition(".")[2] not in CONSTRUCTORS and here in entered:
            return
        caller = frame.f_back
        while caller is not None and place(caller) is None:
            caller = caller.f_back
        pair = (place(caller), here)
        if pair[0] == here or pair in pairs:
            return
        pairs.add(pair)
        if here in entered:
            returns.append(f"{pair[0]} -> {here} ({name})")
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
    data = example()
    fit = lambda: rapgnn.RAPNodeClassifier().fit(data)  # noqa: E731
    fit()  # imports are not part of the walk
    for title, how in {
        "every call": {},
        "functions and constructors": {"methods": False},
        "rooms": {"rooms": True},
    }.items():
        entered, returns = walk(fit, **how)
        print(f"{title}: {len(entered)} entered, {len(returns)} returns")
        print(*(f"  {line}" for line in returns), sep="\n")
