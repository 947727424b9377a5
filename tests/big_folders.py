"""Folders that are converted to graphs on disk, and the comparison with the reader of small files."""

from pathlib import Path

import numpy as np
import pandas as pd

from rapgnn.datasets.columns import Reading
from rapgnn.datasets.tables import read_folder
from rapgnn.scale.disk_graph import ARRAYS, DiskGraph
from rapgnn.scale.tables.convert import convert_folder

MEMORY = 256 << 20


def plain(n: int = 40, seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Numbers only, ids in a random order, with loops, repeated edges and nodes without any."""
    rng = np.random.default_rng(seed)
    ids = rng.permutation(max(1000, 2 * n))[:n]
    nodes = pd.DataFrame({"id": ids, "a": rng.normal(size=n), "b": rng.integers(2, size=n)})
    nodes["label"] = rng.permutation(np.arange(n) % 3)
    ends = rng.integers(n - 5, size=(2, 3 * n))
    ends[:, -4:] = ends[:, :4]
    ends[1, 5:8] = ends[0, 5:8]
    return nodes, pd.DataFrame({"source": ids[ends[0]], "target": ids[ends[1]]})


def both(folder: Path, out: Path, reading: Reading | None = None) -> tuple[DiskGraph, DiskGraph]:
    reading = reading or Reading()
    expected = DiskGraph.write(out / "expected", read_folder(folder, folder.name, reading))
    return convert_folder(folder, out / "found", reading, MEMORY, threads=2), expected


def same(found: DiskGraph, expected: DiskGraph, tolerance: float = 0.0) -> None:
    for name in ARRAYS:
        one, other = getattr(found, name), getattr(expected, name)
        if other is None:
            assert one is None
            continue
        assert one.dtype == other.dtype, name
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance, err_msg=name)
    assert (found.task, found.classes, found.num_outputs) == (expected.task, expected.classes, expected.num_outputs)
    if not tolerance:
        assert found.fingerprint == expected.fingerprint
        assert found.encoding == expected.encoding
    assert set(found.notes) == set(expected.notes)
