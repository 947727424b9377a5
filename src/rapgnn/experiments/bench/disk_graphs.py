"""Generated graphs that are written to disk part by part, so that they may be larger than memory."""

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from rapgnn.errors import InputError
from rapgnn.experiments.bench.generated import CHUNK, EXPONENT, SIZES, PowerLaw
from rapgnn.scale.disk_graph import DiskGraph, about
from rapgnn.scale.manifest import array_path, create_array, is_sealed, read_manifest, seal, unseal

BUCKET = 1 << 23  # edges that are sorted together
ROWS = 1 << 18  # whose features are drawn together

DISK_SIZES = {
    "products": SIZES["products"],
    "wide": PowerLaw(20_000_000, 200_000_000, 64, classes=16, train=200_000, val=50_000, test=1_000_000),
}
"""The sizes of ``bench disk``: ogbn-products', and one with more nodes, whose features alone are 5 GB."""


def shared_size(name: str, share: float) -> PowerLaw:
    """A share of one of ``DISK_SIZES``: of its nodes, edges and rows."""
    if not 0 < share <= 1:
        raise InputError(f"the share must lie above 0 and be at most 1, got {share:g}.")
    size = DISK_SIZES[name]
    parts = {key: max(1, int(share * getattr(size, key))) for key in ("nodes", "edges", "train", "val", "test")}
    return replace(size, **parts, name=name if share == 1 else f"{share:g} of {name}")


def write_power_law(size: PowerLaw, folder: Path) -> DiskGraph:
    """The graph of ``PowerLaw`` with the same degrees, in a folder; one that is there already is used again."""
    key = repr(size)
    if is_sealed(folder) and read_manifest(folder).get("source") == key:
        return DiskGraph.open(folder)
    folder.mkdir(parents=True, exist_ok=True)
    unseal(folder)
    rng = np.random.default_rng(size.seed)
    n, m = size.nodes, 2 * (size.edges // 2)
    classes = rng.integers(size.classes, size=n)
    means = rng.standard_normal((size.classes, size.features), dtype=np.float32)
    features = create_array(folder, "features", (n, size.features), np.float32, fortran=True)
    for column in range(size.features):
        for start in range(0, n, ROWS):
            mine = classes[start : start + ROWS]
            noise = rng.standard_normal(len(mine), dtype=np.float32)
            features[start : start + ROWS, column] = noise + 0.5 * means[mine, column]
    np.save(array_path(folder, "y"), classes)
    rows = rng.permutation(n)[: size.train + size.val + size.test]
    for name, part in zip(("train", "val", "test"), np.split(rows, [size.train, size.train + size.val]), strict=True):
        np.save(array_path(folder, name), np.sort(part))
    _write_edges(folder, size, m, rng)
    told = about(size.name, n, m, size.features, size.classes, False, "node-classification", None)
    seal(folder, {**told, "source": key})
    return DiskGraph.open(folder)


def _write_edges(folder: Path, size: PowerLaw, m: int, rng: np.random.Generator) -> None:
    """Edges go to one file per range of receivers; each range is then sorted by itself."""
    degree = np.zeros(size.nodes, dtype=np.int64)
    count = max(1, -(-m // BUCKET))
    width = -(-size.nodes // count)
    with tempfile.TemporaryDirectory(dir=folder) as work:
        for receiver, sender in _edges(size, m, rng):
            np.add.at(degree, receiver, 1)
            order = np.argsort(receiver // width, kind="stable")
            bounds = np.searchsorted((receiver // width)[order], np.arange(count + 1))
            pairs = np.stack([receiver[order], sender[order]], axis=1).astype(np.int32)
            for bucket in range(count):
                with (Path(work) / str(bucket)).open("ab") as file:
                    pairs[bounds[bucket] : bounds[bucket + 1]].tofile(file)
        indptr = np.zeros(size.nodes + 1, dtype=np.int64)
        np.cumsum(degree, out=indptr[1:])
        np.save(array_path(folder, "indptr"), indptr)
        indices = create_array(folder, "indices", (m,), np.int32)
        at = 0
        for bucket in range(count):
            path = Path(work) / str(bucket)
            pairs = np.fromfile(path, dtype=np.int32).reshape(-1, 2) if path.exists() else np.zeros((0, 2), np.int32)
            key = np.sort((pairs[:, 0].astype(np.int64) << 32) | pairs[:, 1])
            indices[at : at + len(key)] = (key & 0xFFFFFFFF).astype(np.int32)
            at += len(key)
            path.unlink(missing_ok=True)


def _edges(size: PowerLaw, m: int, rng: np.random.Generator) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(receivers, senders), some at a time; both ends are drawn in proportion to a node's expected degree."""
    order = rng.permutation(size.nodes)
    for start in range(0, m // 2, CHUNK // 2):
        ends = []
        for _ in range(2):
            rank = rng.random(min(m // 2, start + CHUNK // 2) - start)
            np.power(rank, 1.0 / (1.0 - EXPONENT), out=rank)
            rank *= size.nodes
            ends.append(order[rank.astype(np.int64)])
        yield np.concatenate(ends), np.concatenate(ends[::-1])
