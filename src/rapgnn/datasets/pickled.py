"""Python 2 pickles of numpy arrays, scipy CSR matrices and dictionaries of lists, read without calling any of these.

Every name in such a file stands for something of this module, which takes the numbers and checks their sizes.
"""

import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from rapgnn.errors import InputError
from rapgnn.files import open_regular

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
