"""Categorical features of published datasets: codes -> a sparse 0/1 matrix."""

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from rapgnn.errors import InputError
from rapgnn.sparse import SparseMatrix


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
