"""Folders that commands are tried on."""

from pathlib import Path

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def _own_cache(cache) -> None:
    """No command sees the cache of the person who runs the tests."""


@pytest.fixture
def folder(tmp_path: Path):
    """Write a good graph folder with some arrays replaced."""

    def write(**changes: object) -> Path:
        rng = np.random.default_rng(0)
        n = 40
        y = np.arange(n) % 3
        nodes = {"x": rng.random((n, 4)), "y": y}
        nodes |= {f"{s}_mask": (np.arange(n) // 10) == i for i, s in enumerate(("train", "val", "test"))}
        edges = {"source": rng.integers(n, size=90), "target": rng.integers(n, size=90)}
        for key, value in changes.items():
            (edges if key in ("source", "target", "weight") else nodes)[key] = value
        np.savez(tmp_path / "nodes.npz", **nodes)
        np.savez(tmp_path / "edges.npz", **edges)
        return tmp_path

    return write
