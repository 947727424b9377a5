"""OGB's molecules and its two large node graphs (Hu et al., 2020), from OGB's own CSV.gz folders."""

import contextlib
import hashlib
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from rapgnn.datasets.sources import FileSet, cache_dir, published
from rapgnn.datasets.tu import one_hot
from rapgnn.errors import InputError
from rapgnn.files import is_regular, open_regular, read_regular, remove_special, sha256, write_atomic
from rapgnn.graph.graph import Graph, make_graph, make_graphs

_URL = "http://snap.stanford.edu/ogb/data"
CHUNK = 2_000_000  # rows of a CSV file that are in memory at a time

# How many values each categorical feature can take, the last one of most standing for "anything else".
ATOM_CATEGORIES = (119, 5, 12, 12, 10, 6, 6, 2, 2)
BOND_CATEGORIES = (5, 6, 2)

# Datasets parsed once: plain arrays in the cache, without pickle, under a name that changes with the files.
# The SHA-256 of a cached file lies beside it: what does not match is parsed again and replaced.


Arrays = dict[str, np.ndarray]
VERSION = 1  # of what the parsers make of a file; raise it when that changes


def parsed(name: str, folder: Path, parse: Callable[[Path], Arrays]) -> Arrays:
    """What ``parse(folder)`` gives, or gave the last time the same files were read."""
    digest = hashlib.sha256(str(VERSION).encode())
    for path in sorted([*(folder / "raw").glob("*.csv.gz"), *(folder / "split").glob("*/*.csv.gz")]):
        digest.update(sha256(path).encode() if is_regular(path) else b"-")
    cached = cache_dir() / "parsed" / f"{name}-{digest.hexdigest()[:16]}.npz"
    noted = cached.with_name(f"{cached.name}.sha256")
    try:
        if read_regular(noted, 1 << 10).decode().strip() == sha256(cached):
            with cached.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
                return dict(arrays)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, KeyError):
        pass  # not there, or damaged: parsed again and replaced
    try:
        fresh = parse(folder)
    except (IndexError, TypeError) as error:
        raise InputError(f"the files in {folder} do not fit each other ({error}).") from error
    with contextlib.suppress(InputError, OSError):  # a cache that cannot be written costs time, not the data
        for path in (cached, noted):
            remove_special(path)
        write_atomic(cached, lambda temporary: np.savez(temporary, **fresh))  # type: ignore[arg-type]
        checksum = sha256(cached)
        write_atomic(noted, lambda temporary: temporary.write_text(f"{checksum}\n"))
    return fresh


MOLECULES = {
    name: FileSet(
        name,
        f"ogb/ogbg_{name}",
        published(f"ogb/ogbg_{name}"),
        f"{_URL}/graphproppred/csv_mol_download/{name.removeprefix('mol')}.zip",
        open=name == "moltox21",
    )
    for name in ("molesol", "moltox21", "molhiv", "molbace")
}


def read_molecules(name: str, folder: Path) -> Graph:
    """The molecules in ``folder``, parsed once and then loaded from a cache of plain arrays.

    Labels of 0, 1 and unknown are tasks to classify, any other numbers are targets of a regression.
    """
    part = parsed(name, folder, _parse_molecules)
    labels = part["labels"]
    binary = np.isin(labels[~np.isnan(labels)], (0, 1)).all()
    return make_graphs(
        one_hot(part["atoms"].astype(np.int64), ATOM_CATEGORIES, "atom"),
        part["edges"].astype(np.int64),
        part["sizes"],
        labels,
        part["train"],
        part["valid"],
        part["test"],
        edge_attr=one_hot(part["bonds"].astype(np.int64), BOND_CATEGORIES, "bond"),
        task="multilabel" if binary else "regression",
        name=name,
    )


def _parse_molecules(folder: Path) -> Arrays:
    sizes, counts = (_table(folder / f"raw/num-{part}-list.csv.gz", np.int64)[:, 0] for part in ("node", "edge"))
    atoms = _table(folder / "raw/node-feat.csv.gz", np.int64, len(ATOM_CATEGORIES))
    bonds = _table(folder / "raw/edge-feat.csv.gz", np.int64, len(BOND_CATEGORIES))
    pairs = _table(folder / "raw/edge.csv.gz", np.int64, 2)
    labels = _table(folder / "raw/graph-label.csv.gz", np.float64)
    same = len(atoms) == sizes.sum() and len(bonds) == len(pairs) == counts.sum() and min(counts, default=0) >= 0
    if not (same and len(sizes) == len(counts) == len(labels)):
        raise InputError(f"the files in {folder / 'raw'} differ in their numbers of atoms, bonds or graphs.")
    pairs = pairs + np.repeat(np.concatenate([[0], np.cumsum(sizes)[:-1]]), counts)[:, None]
    # OGB stores each bond once; both directions follow each other here, graph by graph.
    edges = np.stack([pairs, pairs[:, ::-1]], axis=1).reshape(-1, 2).T
    small = np.int16 if max(atoms.max(initial=0), bonds.max(initial=0)) < 1 << 15 else np.int64
    arrays = {"atoms": atoms.astype(small), "bonds": np.repeat(bonds, 2, axis=0).astype(small)}
    return arrays | {"edges": _narrow(edges), "sizes": sizes, "labels": labels} | _splits(folder)


def _narrow(edges: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(edges).astype(np.int32 if edges.max(initial=0) < 1 << 31 else np.int64)


NODE_GRAPHS = {
    name: FileSet(
        name,
        f"ogb/{name.replace('-', '_')}",
        dict.fromkeys(
            [
                *(f"raw/{part}.csv.gz" for part in ("edge", "num-node-list", "num-edge-list", "node-label", *more)),
                *(f"split/{split}/{part}.csv.gz" for part in ("train", "valid", "test")),
            ],
            (),
        ),
        f"{_URL}/nodeproppred/{name.removeprefix('ogbn-')}.zip",
        open=True,
        most=1 << 32,
    )
    for name, more, split in (
        ("ogbn-proteins", ("edge-feat", "node_species"), "species"),
        ("ogbn-products", ("node-feat",), "sales_ranking"),
    )
}


def read_node_graph(name: str, folder: Path, attributes: bool = False) -> Graph:
    """ogbn-proteins or ogbn-products in ``folder``: every edge in both directions, OGB's split.

    Where nodes have no features of their own (proteins) a node's are the mean of its edges', as in OGB's example.

    Args:
        attributes: append the species of every protein as 0/1 features. The split is by species, so a model learns
            nothing from them about the test nodes; they are here for those who want them.
    """
    part = parsed(name, folder, _parse_node_graph)
    x = part["x"]
    if attributes:
        if "species" not in part:
            raise InputError(f"{name} has no node attributes beside its features.")
        x = np.hstack([x, np.eye(int(part["species"].max()) + 1, dtype=np.float32)[part["species"]]])
    labels = part["labels"]
    if labels.shape[1] == 1:
        labels = labels[:, 0]
    edges = part["edges"].astype(np.int64)
    both = np.concatenate([edges, edges[::-1]], axis=1)
    rows = (part[split] for split in ("train", "valid", "test"))
    # The published split of products has classes that no training node has.
    return make_graph(x, both, labels, *rows, name=name, sparse=False, unseen_classes=True)


def _parse_node_graph(folder: Path) -> Arrays:
    n, m = (int(_table(folder / f"raw/num-{part}-list.csv.gz", np.int64)[0, 0]) for part in ("node", "edge"))
    edges = _table(folder / "raw/edge.csv.gz", np.int64).T
    if edges.shape[1] != m or edges.min(initial=0) < 0 or edges.max(initial=-1) >= n:
        raise InputError(f"{folder} announces {n} nodes and {m} edges, but lists others.")
    arrays: Arrays = {"edges": _narrow(edges), "labels": _table(folder / "raw/node-label.csv.gz", np.float32)}
    if (folder / "raw/node-feat.csv.gz").is_file():
        arrays["x"] = _table(folder / "raw/node-feat.csv.gz", np.float32)
    else:
        arrays["x"] = _mean_of_edges(folder / "raw/edge-feat.csv.gz", edges, n)
    if (folder / "raw/node_species.csv.gz").is_file():
        species = _table(folder / "raw/node_species.csv.gz", np.int64)[:, 0]
        arrays["species"] = np.unique(species, return_inverse=True)[1].reshape(-1)
    if any(len(arrays[name]) != n for name in arrays if name != "edges"):
        raise InputError(f"the files in {folder / 'raw'} differ in their numbers of nodes.")
    return arrays | _splits(folder)


def _mean_of_edges(path: Path, edges: np.ndarray, n: int) -> np.ndarray:
    """Every node's mean over the features of the edges it has, in either direction."""
    total, done = np.zeros((n, 0)), 0
    for chunk in _chunks(path, np.float64):
        total = total if total.size else np.zeros((n, chunk.shape[1]))
        ends = edges[:, done : done + len(chunk)]
        done += len(chunk)
        if done > edges.shape[1]:
            break
        for side in ends:
            for column in range(chunk.shape[1]):
                total[:, column] += np.bincount(side, weights=chunk[:, column], minlength=n)
    if done != edges.shape[1]:
        raise InputError(f"{path} has another number of rows than there are edges, {edges.shape[1]}.")
    degree = np.bincount(edges.ravel(), minlength=n)
    return (total / np.maximum(degree, 1)[:, None]).astype(np.float32)


def _splits(folder: Path) -> Arrays:
    named = next((path for path in sorted((folder / "split").glob("*")) if path.is_dir()), None)
    if named is None:
        raise InputError(f"{folder / 'split'} holds no split.")
    return {part: _table(named / f"{part}.csv.gz", np.int64)[:, 0] for part in ("train", "valid", "test")}


def _table(path: Path, kind: type, columns: int = 1) -> np.ndarray:
    """A CSV file of numbers without a heading; empty cells are NaN. An empty file has ``columns`` columns."""
    return np.concatenate(list(_chunks(path, kind, columns)))


def _chunks(path: Path, kind: type, columns: int = 1) -> Iterator[np.ndarray]:
    form = {"header": None, "skip_blank_lines": False, "compression": "gzip", "chunksize": CHUNK}
    try:
        with open_regular(path) as file:
            for frame in pd.read_csv(file, **form):
                values = frame.to_numpy()
                if kind is np.int64 and (values.dtype.kind not in "if" or (values != np.round(values)).any()):
                    raise ValueError("it must hold whole numbers")
                yield values.astype(kind)
    except pd.errors.EmptyDataError:
        yield np.zeros((0, columns), dtype=kind)
    except (EOFError, OSError, zlib.error, ValueError) as error:
        raise InputError(f"cannot read {path}: it is missing or damaged ({error}).") from error
