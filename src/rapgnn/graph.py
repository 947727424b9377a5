"""The one way a graph is represented inside, and the door at which it is checked, once."""

import hashlib
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from rapgnn.errors import InputError
from rapgnn.operators import BACKBONES, adjacency
from rapgnn.spmm import Features, SparseMatrix

SPLITS = ("train", "val", "test")


@dataclass(frozen=True)
class Graph:
    """A graph with node features, labels and splits.

    Shapes:
        x ``[n, c]`` dense or sparse; edge_index ``[2, m]``, an edge (u, v) carries a message from u to v;
        y ``[n]`` class numbers (-1: unknown) or ``[n, t]`` 0 and 1 (NaN: unknown); train, val, test node numbers.
    """

    name: str
    x: Features
    edge_index: Tensor
    y: Tensor
    train: Tensor
    val: Tensor
    test: Tensor
    num_outputs: int
    edge_weight: Tensor | None = None

    @property
    def num_nodes(self) -> int:
        return self.x.shape[0]

    @property
    def num_features(self) -> int:
        return self.x.shape[1]

    @property
    def task(self) -> str:
        return "node-classification" if self.y.dim() == 1 else "node-multilabel"

    def rows(self, split: str) -> Tensor:
        return getattr(self, split)

    def operator(self, backbone: str, self_loops: bool = False, dtype: torch.dtype = torch.float32) -> SparseMatrix:
        """The backbone's propagation matrix S of this graph."""
        A = adjacency(self.edge_index, self.edge_weight, self.num_nodes, self_loops)
        return SparseMatrix(BACKBONES[backbone].operator(A), dtype=dtype, device=self.x.device)

    def fingerprint(self) -> str:
        """Eight hexadecimal digits that tell this graph, its labels and splits from others."""
        digest = hashlib.sha256(str(tuple(self.x.shape)).encode())
        for part in (self.edge_index, self.y, self.train, self.val):
            digest.update(part.cpu().numpy().tobytes())
        return digest.hexdigest()[:8]

    def to(self, device: torch.device | str) -> "Graph":
        moved = {f: getattr(self, f).to(device) for f in ("x", "y", *SPLITS)}
        return replace(self, **moved)

    def normalized_features(self) -> "Graph":
        """Each node's features divided by their sum of magnitudes; all-zero rows stay zero."""
        if isinstance(self.x, SparseMatrix):
            total = np.asarray(abs(self.x.scipy()).sum(axis=1)).ravel()
            total[total == 0] = 1.0
            return replace(self, x=SparseMatrix(sp.diags(1.0 / total) @ self.x.scipy(), device=self.x.device))
        return replace(self, x=self.x / self.x.abs().sum(1, keepdim=True).clamp(min=torch.finfo(self.x.dtype).tiny))


def make_graph(
    x: Any,
    edge_index: Any,
    y: Any,
    train: Any,
    val: Any,
    test: Any,
    edge_weight: Any = None,
    *,
    name: str = "graph",
    sparse: bool | None = None,
) -> Graph:
    """Check everything a user can get wrong, and build a ``Graph``.

    Args:
        x: features, dense (array, tensor) or scipy sparse.
        edge_index: two rows, senders and receivers.
        y: class numbers, or a 0/1 matrix with a column per label (NaN where unknown).
        train, val, test: boolean masks over the nodes, or node numbers.
        edge_weight: one finite number per edge.
        sparse: keep the features sparse; None decides by their share of zeros.
    """
    features = _features(x, sparse)
    n = features.shape[0]
    edges = _edges(edge_index, n)
    weight = None if edge_weight is None else _edge_weight(edge_weight, edges.shape[1])
    labels = _labels(y, n)
    rows = {split: _rows(mask, n, split) for split, mask in zip(SPLITS, (train, val, test), strict=True)}
    _check_splits(labels, rows)
    outputs = labels.shape[1] if labels.dim() == 2 else int(labels.max()) + 1
    return Graph(name, features, edges, labels, **rows, num_outputs=outputs, edge_weight=weight)


def from_pyg(data: Any, name: str = "graph") -> Graph:
    """A PyTorch Geometric ``Data`` with masks as a ``Graph``."""
    missing = [f for f in ("x", "edge_index", "y", "train_mask") if getattr(data, f, None) is None]
    if missing:
        raise InputError(f"the graph has no {', '.join(missing)}; node classification needs all of them.")
    weight = getattr(data, "edge_weight", None)
    none = torch.zeros(data.x.shape[0], dtype=torch.bool)
    val, test = (getattr(data, f"{s}_mask", None) for s in ("val", "test"))
    x = data.x
    if isinstance(x, Tensor) and x.layout != torch.strided:
        coo = x.to_sparse_coo().coalesce()
        x = sp.csr_matrix((coo.values().cpu().numpy(), coo.indices().cpu().numpy()), shape=tuple(x.shape))
    return make_graph(
        x,
        data.edge_index,
        data.y,
        data.train_mask,
        none if val is None else val,
        none if test is None else test,
        weight,
        name=name,
    )


def _numpy(value: Any, what: str) -> np.ndarray:
    try:
        array = value.detach().cpu().numpy() if isinstance(value, Tensor) else np.asarray(value)
    except (TypeError, ValueError) as error:
        raise InputError(f"{what} cannot be read as an array: {error}.") from error
    if array.dtype.kind not in "biuf":
        raise InputError(f"{what} must be numbers, got values of type {array.dtype}.")
    return array


def _features(x: Any, sparse: bool | None) -> Features:
    if sp.issparse(x):
        matrix: Any = sp.csr_matrix(x, dtype=np.float32, copy=True)
        values = matrix.data
    else:
        matrix = values = _numpy(x, "the node features").astype(np.float32, copy=True)
    if len(matrix.shape) != 2 or matrix.shape[0] == 0:
        raise InputError(f"node features must be a table with a row per node, got shape {tuple(matrix.shape)}.")
    bad = int((~np.isfinite(values)).sum())
    if bad:
        raise InputError(f"node features hold {bad} NaN or infinite values: remove or impute them first.")
    filled = np.count_nonzero(values) / max(1, matrix.shape[0] * matrix.shape[1])
    if sparse if sparse is not None else filled < 0.25:
        return SparseMatrix(matrix)
    return torch.from_numpy(np.ascontiguousarray(matrix.toarray() if sp.issparse(matrix) else matrix))


def _edges(edge_index: Any, n: int) -> Tensor:
    edges = _numpy(edge_index, "edge_index")
    if edges.ndim != 2 or edges.shape[0] != 2:
        raise InputError(f"edge_index must have two rows, senders and receivers, got shape {edges.shape}.")
    if edges.size and edges.dtype.kind not in "iu":
        raise InputError(f"edge_index must hold node numbers, got values of type {edges.dtype}.")
    outside = (edges < 0) | (edges >= n)
    if outside.any():
        raise InputError(f"edge_index names node {edges[outside][0]}, but the nodes are numbered 0 to {n - 1}.")
    return torch.from_numpy(np.ascontiguousarray(edges.astype(np.int64)))


def _edge_weight(edge_weight: Any, m: int) -> Tensor:
    weight = _numpy(edge_weight, "edge weights").astype(np.float32).reshape(-1)
    if len(weight) != m:
        raise InputError(f"there are {m} edges but {len(weight)} edge weights.")
    if not np.isfinite(weight).all():
        raise InputError("edge weights hold NaN or infinite values: remove or impute them first.")
    return torch.from_numpy(weight)


def _labels(y: Any, n: int) -> Tensor:
    labels = _numpy(y, "labels")
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim not in (1, 2) or len(labels) != n:
        raise InputError(f"there are {n} nodes but labels of shape {labels.shape}.")
    if labels.ndim == 2:
        known = labels[~np.isnan(labels)] if labels.dtype.kind == "f" else labels
        if not np.isin(known, (0, 1)).all():
            raise InputError("a table of labels must hold only 0, 1 and NaN (unknown).")
        return torch.from_numpy(labels.astype(np.float32))
    if labels.dtype.kind == "f":
        labels = np.where(np.isnan(labels), -1, labels)
        if not np.isfinite(labels).all() or (labels != np.round(labels)).any():
            raise InputError("class labels must be whole numbers; these look like regression targets.")
    labels = labels.astype(np.int64)
    if labels.max(initial=-1) < 0:
        raise InputError("no node has a label (every label is -1 or missing).")
    return torch.from_numpy(np.maximum(labels, -1))


def _rows(mask: Any, n: int, split: str) -> Tensor:
    array = _numpy(mask, f"the {split} split")
    if array.ndim != 1:
        raise InputError(f"the {split} split must be one mask or one list of node numbers, got shape {array.shape}.")
    if array.dtype == bool:
        if len(array) != n:
            raise InputError(f"there are {n} nodes but the {split} mask has {len(array)} entries.")
        return torch.from_numpy(np.flatnonzero(array))
    if n > 2 and len(array) == n and np.isin(array, (0, 1)).all():
        raise InputError(f"the {split} split holds {n} zeros and ones: give a mask as booleans.")
    if array.size and (array.dtype.kind == "f" or array.min() < 0 or array.max() >= n):
        raise InputError(f"the {split} split must name nodes 0 to {n - 1}.")
    return torch.from_numpy(np.unique(array).astype(np.int64))


def _check_splits(labels: Tensor, rows: dict[str, Tensor]) -> None:
    if not len(rows["train"]):
        raise InputError("no labelled nodes: the training split is empty.")
    for one, other in combinations(SPLITS, 2):
        shared = np.intersect1d(rows[one].numpy(), rows[other].numpy())
        if len(shared):
            raise InputError(
                f"{len(shared)} nodes are in both the {one} and the {other} split, node {shared[0]} first."
            )
    if labels.dim() == 2:
        for split, index in rows.items():
            if len(index) and bool(labels[index].isnan().all()):
                raise InputError(f"no labelled nodes: every label of the {split} split is NaN.")
        return
    for split, index in rows.items():
        unknown = int((labels[index] < 0).sum())
        if unknown:
            raise InputError(f"{unknown} nodes of the {split} split have no label.")
    trained = set(labels[rows["train"]].tolist())
    wanted = trained.union(*(labels[rows[s]].tolist() for s in ("val", "test")))
    missing = next((c for c in range(max(wanted) + 1) if c not in trained), None)
    if missing is not None:
        raise InputError(
            f"class {missing} does not occur in the training split, so it cannot be learned (the first class is 0)."
        )
