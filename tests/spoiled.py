"""A small graph that is learned, and its parts as they must not be."""

import datetime
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import scipy.sparse as sp
import torch
from hypothesis import strategies as st

from samples import FAST

N, M = 30, 80
_RNG = np.random.default_rng(0)
Y = np.arange(N) % 3
NODES: dict[str, Any] = {
    "data": _RNG.normal(size=(N, 4)) + Y[:, None],
    "y": Y,
    "edge_index": _RNG.integers(N, size=(2, M)),
    "edge_weight": _RNG.random(M),
    "train": np.arange(N) < 18,
    "val": (np.arange(N) >= 18) & (np.arange(N) < 24),
    "test": np.arange(N) >= 24,
}
QUICK = {**FAST, "num_layers": 2}


def put(array: np.ndarray, value: Any, at: int = 3) -> np.ndarray:
    """A copy with one value changed."""
    new = np.array(array, dtype=np.result_type(array, type(value)) if not isinstance(value, str) else object)
    new.ravel()[at] = value
    return new


def dates(n: int) -> list[datetime.date]:
    return [datetime.date(2020, 1, 1 + i % 3) for i in range(n)]


X, E, W = NODES["data"], NODES["edge_index"], NODES["edge_weight"]
ZEROS, FEWER = np.zeros(N), X[:-1]  # one class is enough to score with; fewer nodes are enough to predict
NOTHING = [
    "abc", b"abc", 5, 2.5, object(), {}, {1, 2}, {"a": 1}, [[1.0, 2.0], [3.0]], [None], lambda: 0, nx.Graph, np.nan,
    np.array(3), [[[]]], "", [{}], torch.zeros(()), np.array(["a", "b"]), [10**400], iter([1]), 1j, dates(2),
]  # fmt: skip
BAD_FEATURES = [
    *NOTHING, [], np.zeros((0, 4)), np.zeros((N, 0)), X[..., None], put(X, np.nan), put(X, np.inf), X * 1j,
    X.astype(str), FEWER, X.astype(object) + 0j, np.full((N, 4), 10**30).tolist() * 2, sp.csr_matrix(X * 1j),
    sp.csr_matrix(put(X, np.nan)), torch.tensor(put(X, np.inf)), torch.tensor(X).to(torch.complex64),
    torch.tensor(put(X, np.nan)).to_sparse(), pd.DataFrame(), pd.DataFrame(put(X, np.inf)),
    pd.DataFrame({"a": [[1]] * N}), pd.DataFrame(X, columns=list("aabc")), X.T, X.tolist()[1:],
    pd.DataFrame({"a": [None] * N}), pd.DataFrame({"a": X[:, 0] * 1j}),
    pd.DataFrame({"a": [1.5, "b"] * 15, "b": dates(N)}), X * 1e39, np.arange(N).astype("M8[D]"),
    torch.zeros(N, 4, device="meta"), X[None],
]  # fmt: skip
BAD_EDGES = [
    *NOTHING, put(E, N), put(E, -1), put(E, 2**62), E.astype(float), E + 0.5, put(E, np.nan), E[:1], E[0], E.T,
    [*E.tolist(), [0]], [E[0].tolist(), E[1].tolist()[1:]], E.astype(str), E > 3, E * 1j, np.stack([E, E]),
    E.astype(object), E.astype(np.uint64) - 30, torch.tensor(E).to_sparse(), torch.tensor(E).float(),
    pd.DataFrame(E.T), {"source": E[0], "target": E[1]}, [], [[], []][:1],
]  # fmt: skip
BAD_LABELS = [
    *NOTHING, Y[:-1], np.full(N, np.nan), np.full(N, -1), Y + 0.5, put(Y, np.inf), Y * 1j, Y.astype("S1"), dates(N),
    Y * 1e300, [[int(v)] * (1 + i % 2) for i, v in enumerate(Y)], dict(enumerate(Y)), set(Y.tolist()), [{1}] * N,
    [1, "two", None] * 10, ZEROS, ["same"] * N, Y.reshape(N, 1, 1), pd.DataFrame({"y": Y}), Y.astype("m8[s]"),
    [True, 2, 3] * 10, [None] * N, np.eye(3)[Y] * 2, np.eye(3)[Y] + 0j, np.full((N, 3), np.nan), [[1, 2]] * N,
    [1.5, "a", "b"] * 10, [object()] * N, [""] * N, np.where(Y > 0, 1, -1), ["a" * 3000] * N, ["a\n\x00\u2028"] * N,
    pd.Series([pd.Timestamp(0)] * N), [np.zeros(2)] * (N - 1) + [np.zeros(3)], [b"a", b"b", b"c"] * 10,
    torch.tensor(Y).to(torch.cfloat),
]  # fmt: skip
BAD_ROWS = [
    *NOTHING, np.ones(N - 1, dtype=bool), np.ones(N + 1, dtype=bool), [N], [-1], [0.5, 1.0], [1, 1, 2.0],
    np.ones((N, 2), bool), ["train"] * N, Y % 2, [np.nan], [[0], [1, 2]], [2**63], pd.DataFrame({"a": [1]}),
    [None, 1], np.array([1 + 0j]), dates(3),
]  # fmt: skip
BAD_WEIGHTS = [
    *NOTHING, W[:-1], put(W, np.nan), put(W, -np.inf), W.astype(str), W * 1j, W.reshape(2, -1), put(W, 1e39), [1.0],
    np.ones(M + 1), [[1.0]] * (M - 1) + [[1.0, 2.0]], dates(M), torch.full((M,), float("inf")), np.ones((M, 2)),
]  # fmt: skip
SQUARE = np.ones((N, N))
BAD_ADJACENCY = [
    *NOTHING, SQUARE[:-1], SQUARE[:-1, :-1], np.ones((N + 1, N + 1)), put(SQUARE, np.nan), put(SQUARE, np.inf),
    SQUARE[0], SQUARE[None], sp.csr_matrix(SQUARE[:, :3]), sp.csr_matrix(SQUARE * 1j * 2), SQUARE.astype(str),
    torch.ones(N, N - 1).to_sparse(), [],
]  # fmt: skip
BAD = {"data": BAD_FEATURES, "y": BAD_LABELS, "edge_index": BAD_EDGES, "edge_weight": BAD_WEIGHTS}
BAD |= dict.fromkeys(("train", "val", "test"), BAD_ROWS)
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.binary(max_size=3) | st.dates(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=8,
)
