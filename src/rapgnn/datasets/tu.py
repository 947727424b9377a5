"""MUTAG, PTC and PROTEINS (Morris et al., 2020), from the TU text files."""

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from rapgnn.datasets.sources import FileSet, Package, published
from rapgnn.errors import InputError
from rapgnn.files import read_regular
from rapgnn.graph.graph import Graph, make_graphs
from rapgnn.sparse import SparseMatrix

_URL = "https://www.chrsmrrs.com/graphkerneldatasets"
_WHEEL = "84cfe4c4d4bec6e09d984da22a56083b6f3408d24f29d1e272254b9f29631dc1"
_GRAKEL = Package("grakel==0.1.11", "3.10", "macosx_10_9_universal2", _WHEEL, "grakel/tests/data/MUTAG")

TU = {
    name: FileSet(name, f"tu/{title}/raw", published(f"tu/{title}/raw"), f"{_URL}/{title}.zip", package)
    for name, title, package in (("mutag", "MUTAG", _GRAKEL), ("ptc", "PTC_MR", None), ("proteins", "PROTEINS", None))
}


def read_tu(name: str, folder: Path, attributes: bool = False) -> Graph:
    """The graphs in ``folder``; node labels become 0/1 features, edge labels 0/1 edge features.

    Args:
        attributes: append the real-valued node attributes (PROTEINS has one), each with mean 0 and variance 1.
    """
    listed = list(folder.glob("*_A.txt"))
    if len(listed) != 1:
        raise InputError(f"{folder} must hold one file that ends in _A.txt, it holds {len(listed)}.")
    title = listed[0].name.removesuffix("_A.txt")

    def table(part: str, kind: type = int) -> np.ndarray:
        return _numbers(folder / f"{title}_{part}.txt", kind)

    indicator = table("graph_indicator")[:, 0]
    if (np.diff(indicator) < 0).any() or indicator.min(initial=1) < 1:
        raise InputError(f"{folder / title}_graph_indicator.txt must list the nodes graph by graph, from 1 on.")
    labels = table("graph_labels")[:, 0]
    if indicator.max(initial=0) > len(labels):
        raise InputError(f"{title} has {len(labels)} graph labels but a node of graph {indicator.max()}.")
    sizes = np.bincount(indicator - 1, minlength=len(labels))
    x = _one_hot(table("node_labels"), len(indicator), "node")
    if attributes:
        if not (folder / f"{title}_node_attributes.txt").is_file():
            raise InputError(f"{name} has no node attributes: only proteins has.")
        values = table("node_attributes", float)
        values = (values - values.mean(0)) / np.maximum(values.std(0), 1e-12)
        x = np.hstack([x.scipy().toarray(), values])
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


def _numbers(path: Path, kind: type) -> np.ndarray:
    try:
        text = read_regular(path).decode()
        empty = np.zeros((0, 1), dtype=kind)
        return np.loadtxt(io.StringIO(text), dtype=kind, delimiter=",", ndmin=2) if text.strip() else empty
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).splitlines()[0].rstrip(".")
        raise InputError(f"cannot read {path}: {reason}.") from error


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
