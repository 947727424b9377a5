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
from rapgnn.graph.graph import Graph, make_graph
from rapgnn.graph.lists import make_graphs

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
    fresh = parse(folder)
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
    if min(sizes.min(initial=0), counts.min(initial=0)) < 0:
        raise InputError(f"{folder} announces a negative number of atoms or bonds.")
    atoms = _table(folder / "raw/node-feat.csv.gz", np.int64, len(ATOM_CATEGORIES))
    bonds = _table(folder / "raw/edge-feat.csv.gz", np.int64, len(BOND_CATEGORIES))
    pairs = _table(folder / "raw/edge.csv.gz", np.int64, 2)
    labels = _table(folder / "raw/graph-label.csv.gz", np.float64)
    for what, rows, total in (("atoms", atoms, sizes.sum()), ("bonds", bonds, counts.sum())):
        if len(rows) != total:
            raise InputError(f"{folder} lists {len(rows)} {what} but announces {total}.")
    if len(pairs) != len(bonds) or len(sizes) != len(counts) or len(labels) != len(sizes):
        raise InputError(f"the files in {folder / 'raw'} differ in their numbers of bonds or of graphs.")
    graph_of_bond = np.repeat(np.arange(len(counts)), counts)
    outside = np.flatnonzero((pairs < 0).any(1) | (pairs >= sizes[graph_of_bond][:, None]).any(1))
    if len(outside):
        graph = graph_of_bond[outside[0]]
        raise InputError(
            f"graph {graph} of {folder} has {sizes[graph]} atoms but a bond between {pairs[outside[0]].tolist()}."
        )
    pairs = pairs + np.concatenate([[0], np.cumsum(sizes)[:-1]])[graph_of_bond][:, None]
    # OGB stores each bond once; both directions follow each other here, graph by graph.
    edges = np.stack([pairs, pairs[:, ::-1]], axis=1).reshape(-1, 2).T
    small = np.int16 if max(atoms.max(initial=0), bonds.max(initial=0)) < 1 << 15 else np.int64
    arrays = {
        "atoms": atoms.astype(small),
        "bonds": np.repeat(bonds, 2, axis=0).astype(small),
        "edges": np.ascontiguousarray(edges).astype(np.int32 if edges.size < 1 << 31 else np.int64),
        "sizes": sizes,
        "labels": labels,
    }
    return arrays | dict(_splits(folder, "graph", len(sizes)))


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
    n = int(_table(folder / "raw/num-node-list.csv.gz", np.int64)[0, 0])
    edges = _table(folder / "raw/edge.csv.gz", np.int64).T
    announced = int(_table(folder / "raw/num-edge-list.csv.gz", np.int64)[0, 0])
    if edges.shape[1] != announced:
        raise InputError(f"{folder} lists {edges.shape[1]} edges but announces {announced}.")
    if edges.min(initial=0) < 0 or edges.max(initial=-1) >= n:
        raise InputError(f"{folder / 'raw/edge.csv.gz'} names a node outside 0 to {n - 1}.")
    labels = _table(folder / "raw/node-label.csv.gz", np.float32)
    if len(labels) != n:
        raise InputError(f"{folder} has {n} nodes but {len(labels)} labels.")
    small = np.int32 if n < 1 << 31 else np.int64
    arrays: Arrays = {"edges": np.ascontiguousarray(edges).astype(small), "labels": labels}
    if (folder / "raw/node-feat.csv.gz").is_file():
        arrays["x"] = _table(folder / "raw/node-feat.csv.gz", np.float32)
    else:
        arrays["x"] = _mean_of_edges(folder / "raw/edge-feat.csv.gz", edges, n)
    if len(arrays["x"]) != n:
        raise InputError(f"{folder} has {n} nodes but {len(arrays['x'])} rows of features.")
    if (folder / "raw/node_species.csv.gz").is_file():
        species = _table(folder / "raw/node_species.csv.gz", np.int64)[:, 0]
        if len(species) != n:
            raise InputError(f"{folder} has {n} nodes but {len(species)} species.")
        arrays["species"] = np.unique(species, return_inverse=True)[1].reshape(-1)
    return arrays | dict(_splits(folder, "node", n))


def _mean_of_edges(path: Path, edges: np.ndarray, n: int) -> np.ndarray:
    """Every node's mean over the features of the edges it has, in either direction."""
    total: np.ndarray | None = None
    done = 0
    for chunk in _chunks(path, np.float64):
        ends = edges[:, done : done + len(chunk)]
        if ends.shape[1] != len(chunk):
            raise InputError(f"{path} has more rows than there are edges.")
        total = np.zeros((n, chunk.shape[1])) if total is None else total
        for side in ends:
            for column in range(chunk.shape[1]):
                total[:, column] += np.bincount(side, weights=chunk[:, column], minlength=n)
        done += len(chunk)
    if done != edges.shape[1]:
        raise InputError(f"{path} has {done} rows but there are {edges.shape[1]} edges.")
    degree = np.bincount(edges.ravel(), minlength=n)
    assert total is not None
    return (total / np.maximum(degree, 1)[:, None]).astype(np.float32)


def _splits(folder: Path, what: str, total: int) -> Iterator[tuple[str, np.ndarray]]:
    found = next((path for path in sorted((folder / "split").glob("*")) if path.is_dir()), None)
    if found is None:
        raise InputError(f"{folder / 'split'} holds no split.")
    for part in ("train", "valid", "test"):
        path = found / f"{part}.csv.gz"
        rows = _table(path, np.int64)[:, 0]
        outside = rows[(rows < 0) | (rows >= total)]
        if len(outside):
            raise InputError(f"{path} names {what} {outside[0]}, but the {what}s are numbered 0 to {total - 1}.")
        yield part, rows


def _table(path: Path, kind: type, columns: int = 1) -> np.ndarray:
    """A CSV file of numbers without a heading; empty cells are NaN. An empty file has ``columns`` columns."""
    return np.concatenate(list(_chunks(path, kind, columns)))


def _chunks(path: Path, kind: type, columns: int = 1) -> Iterator[np.ndarray]:
    if not path.is_file():
        raise InputError(f"{path} is missing.")
    try:
        with open_regular(path) as file:
            form = {"header": None, "skip_blank_lines": False, "compression": "gzip"}
            frames = pd.read_csv(file, chunksize=CHUNK, **form)
            for frame in frames:
                values = frame.to_numpy(dtype=kind if kind != np.int64 else None)
                if kind == np.int64 and values.dtype.kind != "i":
                    if values.dtype.kind != "f" or not (values == np.round(values)).all():
                        raise ValueError("it must hold whole numbers")
                    values = values.astype(np.int64)
                yield values
    except (EOFError, OSError, zlib.error, pd.errors.ParserError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: it is truncated or no gzip file ({error}).") from error
    except pd.errors.EmptyDataError:
        yield np.zeros((0, columns), dtype=kind)
    except (TypeError, ValueError) as error:
        raise InputError(f"cannot read {path}: {error}.") from error
