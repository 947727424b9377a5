"""Weight matrices in numbers: how much of one lies on its diagonal, and the matrix itself in a few kilobytes."""

import base64

import numpy as np
from torch import Tensor

from rapgnn.experiments.run import Record

LEVELS = 127  # of each sign


def diagonal_share(matrix: Tensor) -> float:
    """The share of the squared entries on the diagonal: 1 for a diagonal matrix, about 1/d for a random one."""
    total = float(matrix.double().square().sum())
    return float(matrix.double().diagonal().square().sum()) / total if total else 0.0


def diagonal_size(matrix: Tensor) -> float:
    """The mean magnitude of the entries on the diagonal, divided by that of all others."""
    size, on = matrix.double().abs(), matrix.double().diagonal().abs()
    others = (float(size.sum()) - float(on.sum())) / max(1, size.numel() - on.numel())
    return float(on.mean()) / others if others else float("inf")


def describe_matrix(before: Tensor, after: Tensor) -> Record:
    """A trained matrix beside its start values.

    Shapes:
        ``[d, d]`` both.
    """
    d = len(after)
    return {
        "diagonal_share": diagonal_share(after),
        "start_diagonal_share": diagonal_share(before),
        "random_diagonal_share": 1 / d,
        "diagonal_size": diagonal_size(after),
        "start_diagonal_size": diagonal_size(before),
        "moved": float((after - before).double().norm() / before.double().norm()),
        "matrix": pack(after),
    }


def pack(matrix: Tensor) -> Record:
    """Every entry as one of 255 levels, in base64; an entry is off by half a ``step`` at most."""
    values = matrix.detach().double().cpu().numpy()
    step = float(np.abs(values).max(initial=0.0)) / LEVELS
    levels = np.round(values / step if step else values).astype(np.int8)
    return {"shape": list(values.shape), "step": step, "levels": base64.b64encode(levels.tobytes()).decode()}


def unpack(packed: Record) -> np.ndarray:
    """The matrix that was packed, about."""
    levels = np.frombuffer(base64.b64decode(packed["levels"]), dtype=np.int8)
    return packed["step"] * levels.reshape(packed["shape"]).astype(np.float64)
