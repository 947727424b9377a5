"""Folders that commands are tried on."""

from pathlib import Path

import numpy as np
import pytest

from folders import molecules


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


@pytest.fixture
def small_molecules(tmp_path: Path) -> Path:
    """Sixty small graphs in OGB's layout, regression unless the labels are replaced."""
    rng = np.random.default_rng(0)
    sizes, bonds = rng.integers(2, 6, 60), []
    for n in sizes:
        bonds.append([[i, i + 1] for i in range(n - 1)])
    atoms = np.zeros((sizes.sum(), 9), dtype=int)
    atoms[:, 0] = rng.integers(5, 9, sizes.sum())
    edges = [pair for one in bonds for pair in one]
    return molecules(
        tmp_path / "small",
        **{
            "raw/num-node-list": sizes,
            "raw/num-edge-list": sizes - 1,
            "raw/node-feat": atoms,
            "raw/edge": edges,
            "raw/edge-feat": np.stack([rng.integers(0, 4, len(edges)), *np.zeros((2, len(edges)), int)], axis=1),
            "raw/graph-label": sizes + 0.5,
            "split/scaffold/train": np.arange(40),
            "split/scaffold/valid": np.arange(40, 50),
            "split/scaffold/test": np.arange(50, 60),
        },
    )


@pytest.fixture
def readable_plot():
    """Checks that a file is an image with something on it."""

    def check(path: Path) -> None:
        import matplotlib.image

        image = matplotlib.image.imread(path)
        assert min(image.shape[:2]) > 200
        assert len({tuple(pixel) for pixel in image[::7, ::7, :3].reshape(-1, 3).tolist()}) > 5  # colours

    return check
