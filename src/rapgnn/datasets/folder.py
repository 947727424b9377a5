"""A user's own graph: a folder with ``nodes.npz`` and ``edges.npz``.

``nodes.npz`` holds ``x`` (nodes × features), ``y`` and the masks ``train_mask``, ``val_mask``, ``test_mask``;
``edges.npz`` holds ``source``, ``target`` and, where edges are weighted, ``weight``.
"""

import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from rapgnn.errors import InputError
from rapgnn.graph import Graph, make_graph


def read_folder(folder: Path, name: str) -> Graph:
    """The graph in ``folder``, checked."""
    nodes = _arrays(folder / "nodes.npz", ("x", "y", "train_mask"))
    edges = _arrays(folder / "edges.npz", ("source", "target"))
    if edges["source"].shape != edges["target"].shape:
        raise InputError(f"{folder / 'edges.npz'}: source and target differ in length.")
    none = np.zeros(0, dtype=np.int64)
    return make_graph(
        nodes["x"],
        np.stack([edges["source"], edges["target"]]),
        nodes["y"],
        nodes["train_mask"],
        nodes.get("val_mask", none),
        nodes.get("test_mask", none),
        edges.get("weight"),
        name=name,
    )


def _arrays(path: Path, needed: tuple[str, ...]) -> dict[str, Any]:
    if not path.is_file():
        raise InputError(f"{path} is missing: a graph folder holds nodes.npz and edges.npz.")
    try:
        if not zipfile.is_zipfile(path):
            raise ValueError("it is not an npz archive")
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(f"cannot read {path}: {error}.") from error
    missing = [name for name in needed if name not in arrays]
    if missing:
        raise InputError(f"{path} has no array named {missing[0]!r}; it holds {', '.join(arrays) or 'nothing'}.")
    return arrays
