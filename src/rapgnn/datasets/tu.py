"""MUTAG, PTC and PROTEINS (Morris et al., 2020), from the TU text files."""

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from rapgnn.datasets.sources import Archive, FileSet, Package
from rapgnn.errors import InputError
from rapgnn.files import read_regular
from rapgnn.graph.graph import Graph
from rapgnn.graph.lists import make_graphs
from rapgnn.sparse import SparseMatrix

_URL = "https://www.chrsmrrs.com/graphkerneldatasets"


def _files(name: str, title: str, hashes: dict[str, str], package: Package | None = None) -> FileSet:
    return FileSet(
        name,
        f"tu/{title}/raw",
        {f"{title}_{part}.txt": (digest,) for part, digest in hashes.items()},
        archive=Archive(f"{_URL}/{title}.zip"),
        package=package,
    )


TU = {
    "mutag": _files(
        "mutag",
        "MUTAG",
        {
            "A": "d9656ca7493f3445d737c711710bb36fd432dddd1c0ea32e1d4713c86ebd28e2",
            "edge_labels": "4669ce755075ff86c3240709345745886400908fa637a49310459b9c267b3e56",
            "graph_indicator": "7d520a4d6c7961c0cdeabe076d8fe27e795b6d373485c9a2b744987e560a2056",
            "graph_labels": "a1518ea39ba3426bd42f57396b9c4baffe68e9adc718caeeab0119c6591a5f2c",
            "node_labels": "678f429965490e84dd27713017538c995fc05d1621beac910848b600015ee863",
        },
        Package(
            requirement="grakel==0.1.11",
            python_version="3.10",
            platform="macosx_10_9_universal2",
            sha256="84cfe4c4d4bec6e09d984da22a56083b6f3408d24f29d1e272254b9f29631dc1",
            folder="grakel/tests/data/MUTAG",
        ),
    ),
    "ptc": _files(
        "ptc",
        "PTC_MR",
        {
            "A": "f79523ff94dfbef539e5602a8ac1931a50a2800f33fa1d30e5e31725289b5202",
            "edge_labels": "acee2f93b52175a329009dc837bea9db7c2a121c2ef0b1587b38bbe6fc9b8177",
            "graph_indicator": "d52754f3cbc54e29324f884b4c17200c16e06db0c499afae300b4fa1bb6d794b",
            "graph_labels": "64210accbe4c6c027535b1294e0da652b1f539667f7a2d4bf5121dcd8b00a224",
            "node_labels": "cc50d1e1c5f4c98b2100cf50c5ddd88ff28b419a9180d531046b75ce22983235",
        },
    ),
    "proteins": _files(
        "proteins",
        "PROTEINS",
        {
            "A": "4c4b33e272fc95cac6d27ed6d5d12b9a852c8610e91fff59f8f0dbdd5a20df67",
            "graph_indicator": "8d4ff1e852a5c28561e9bffb44cf9490bc552b13a3b6156dd12dc7f44e9afc4a",
            "graph_labels": "c0ef9810c440775252872318d0c8adc385588e14bc4c47a2c34aa96ee3c7cdcd",
            "node_attributes": "54eef829abb37e458a5fbf3a3c581e48e5810e220463c2cd951856b9ceb08f07",
            "node_labels": "f758e8ad3d6e3c026b50833d75f6f90735b94eb3345e4243707f495ca8afea8d",
        },
    ),
}


def read_tu(name: str, folder: Path, attributes: bool = False) -> Graph:
    """The graphs in ``folder``, whose files have been verified.

    Node labels become 0/1 features, edge labels 0/1 edge features.

    Args:
        attributes: append the real-valued node attributes (PROTEINS has one), each with mean 0 and variance 1.
    """
    found = list(folder.glob("*_A.txt"))
    if len(found) != 1:
        raise InputError(f"{folder} must hold one file that ends in _A.txt, it holds {len(found)}.")
    title = found[0].name.removesuffix("_A.txt")

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
        path = folder / f"{title}_node_attributes.txt"
        if not path.is_file():
            raise InputError(f"{name} has no node attributes: only proteins has.")
        values = _numbers(path, float)
        values = (values - values.mean(0)) / np.maximum(values.std(0), 1e-12)
        x = np.hstack([x.scipy().toarray(), values])
    edges = table("A").reshape(-1, 2).T - 1
    edge_labels = folder / f"{title}_edge_labels.txt"
    edge_attr = _one_hot(_numbers(edge_labels, int), edges.shape[1], "edge") if edge_labels.is_file() else None
    classes = np.unique(labels, return_inverse=True)[1].reshape(-1)
    return make_graphs(x, edges, sizes, classes, edge_attr=edge_attr, name=name, folds=True)


def _one_hot(codes: np.ndarray, rows: int, what: str) -> SparseMatrix:
    if len(codes) != rows:
        raise InputError(f"there are {rows} {what}s but {len(codes)} {what} labels.")
    if not rows:
        return one_hot(np.zeros((0, 1), dtype=np.int64), [1], what)
    codes = codes - codes.min(axis=0)
    return one_hot(codes, [int(column.max()) + 1 for column in codes.T], what)


def _numbers(path: Path, kind: type) -> np.ndarray:
    try:
        text = read_regular(path).decode()
        if not text.strip():
            return np.zeros((0, 1), dtype=kind)
        return np.loadtxt(io.StringIO(text), dtype=kind, delimiter=",", ndmin=2)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}.") from error
    except ValueError as error:
        raise InputError(f"cannot read {path}: {str(error).splitlines()[0].rstrip('.')}.") from error


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
