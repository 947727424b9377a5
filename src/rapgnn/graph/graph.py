"""The one way a graph is represented inside, and the door at which it is checked, once."""

import hashlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from rapgnn.errors import InputError
from rapgnn.graph.backbones import BACKBONES, adjacency
from rapgnn.graph.operator import EdgeTypes, Structure, distinct_rows
from rapgnn.graph.table import Encoding
from rapgnn.graph.tasks import TASKS, Task
from rapgnn.graph.validate import (
    SPLITS,
    check_edge_weight,
    check_edges,
    check_features,
    check_labels,
    check_rows,
    check_splits,
    labelled_rows,
)
from rapgnn.sparse import Features, SparseMatrix, indicator, row_block


@dataclass(frozen=True)
class Graph:
    """A graph, or many graphs side by side, with node features, labels and splits.

    Labels and splits belong to rows: to nodes, or, with ``ptr``, to graphs.

    Shapes:
        x ``[n, c]`` dense or sparse; edge_index ``[2, m]``, an edge (u, v) carries a message from u to v;
        y ``[rows]`` class numbers (-1: unknown), ``[rows, t]`` 0 and 1 or numbers (NaN: unknown); train, val, test row
        numbers; edge_attr ``[m, e]``; ptr ``[G + 1]``, where each graph's nodes begin, edges in the same order.

    Args:
        task: a name from ``TASKS``.
        folds: whether the dataset is evaluated by cross-validation; its splits are then one fold of it.
        classes: what the class numbers (or label columns) are called, where the data say it.
        ids: what the rows are called, likewise.
        encoding: how features were made of a user's table, so that another table can be read the same way.
        notes: what was decided for the user on the way in.
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
    edge_attr: Features | None = None
    ptr: Tensor | None = None
    task: str = "node-classification"
    folds: bool = False
    classes: tuple[Any, ...] | None = None
    ids: np.ndarray | None = None
    encoding: Encoding | None = None
    notes: tuple[str, ...] = ()

    @property
    def num_nodes(self) -> int:
        return self.x.shape[0]

    @property
    def num_rows(self) -> int:
        """Number of nodes, or of graphs."""
        return self.num_nodes if self.ptr is None else len(self.ptr) - 1

    @property
    def num_features(self) -> int:
        return self.x.shape[1]

    @property
    def num_edge_features(self) -> int:
        return 0 if self.edge_attr is None else self.edge_attr.shape[1]

    @property
    def rule(self) -> Task:
        """The task's metric, loss and reading."""
        return TASKS[self.task]

    @property
    def labelled(self) -> Tensor:
        """The rows that have a label."""
        return labelled_rows(self.y)

    def rows(self, split: str) -> Tensor:
        return getattr(self, split)

    def structure(self, backbone: str, self_loops: bool = False, eps: float = 0.0) -> Structure:
        """The graph as the backbone's layers see it."""
        return build_structure(
            self.x, self.edge_index, backbone, self.edge_weight, self.edge_attr, self.ptr, self_loops, eps
        )

    def fingerprint(self) -> str:
        """Eight hexadecimal digits that tell this graph, its labels and splits from others."""
        digest = hashlib.sha256(f"{tuple(self.x.shape)} {self.task}".encode())
        parts = [self.edge_index, self.y, self.train, self.val, self.edge_weight, self.ptr]
        for features in (self.x, self.edge_attr):
            sparse = isinstance(features, SparseMatrix)
            parts += [features.crow, features.col, features.values] if sparse else [features]
        for part in parts:
            digest.update(b"-" if part is None else part.cpu().numpy().tobytes())
        return digest.hexdigest()[:8]

    def to(self, device: torch.device | str) -> "Graph":
        names = ("x", "y", "ptr", "edge_attr", *SPLITS)
        return replace(self, **{f: getattr(self, f).to(device) for f in names if getattr(self, f) is not None})

    def normalized_features(self) -> "Graph":
        """Each node's features divided by their sum of magnitudes; all-zero rows stay zero."""
        if isinstance(self.x, SparseMatrix):
            total = np.asarray(abs(self.x.scipy()).sum(axis=1)).ravel()
            total[total == 0] = 1.0
            return replace(self, x=SparseMatrix(sp.diags(1.0 / total) @ self.x.scipy(), device=self.x.device))
        return replace(self, x=self.x / self.x.abs().sum(1, keepdim=True).clamp(min=torch.finfo(self.x.dtype).tiny))


def build_structure(
    x: Features,
    edge_index: Tensor,
    backbone: str,
    edge_weight: Tensor | None = None,
    edge_attr: Features | None = None,
    ptr: Tensor | None = None,
    self_loops: bool = False,
    eps: float = 0.0,
) -> Structure:
    """The operator of the backbone on x's device, with the edge types where its messages use them."""
    rule, n = BACKBONES[backbone], x.shape[0]
    A = adjacency(edge_index, edge_weight, n, self_loops)
    operator = SparseMatrix(rule.operator(A, eps), dtype=x.dtype, device=x.device)
    if not rule.edges:
        return Structure(operator, ptr, eps=eps)
    if edge_attr is None:
        raise InputError(f"{backbone} needs edge features, and this graph has none: use gin.")
    first, kind = distinct_rows(edge_attr)
    (source, target), m = edge_index.cpu().numpy(), edge_index.shape[1]
    weight = np.ones(m) if edge_weight is None else edge_weight.cpu().numpy()
    sender = indicator(edge_index[0], n)
    receiver = sp.csr_matrix((weight, (target, np.arange(m))), shape=(n, m))
    edges = EdgeTypes(
        row_block(edge_attr, first),
        kind,
        *(SparseMatrix(matrix, dtype=x.dtype, device=x.device) for matrix in (sender, receiver)),
    )
    edge_ptr = None
    if ptr is not None:
        edge_ptr = edge_bounds(ptr, source).to(x.device)
    return Structure(operator, ptr, edges, edge_ptr, eps)


def edge_bounds(ptr: Tensor, source: np.ndarray) -> Tensor:
    """[G + 1]: where each graph's edges begin, given the graphs' nodes and the edges' senders."""
    graph_of_edge = np.searchsorted(ptr.cpu().numpy(), source, side="right") - 1
    if (np.diff(graph_of_edge) < 0).any():
        raise InputError("the edges must be listed graph by graph, in the order of the nodes.")
    return torch.from_numpy(np.searchsorted(graph_of_edge, np.arange(len(ptr))).astype(np.int64))


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
    unseen_classes: bool = False,
) -> Graph:
    """Check everything a user can get wrong, and build a ``Graph``.

    Args:
        x: features, dense (array, tensor) or scipy sparse.
        edge_index: two rows, senders and receivers.
        y: class numbers, or a 0/1 matrix with a column per label (NaN where unknown).
        train, val, test: boolean masks over the nodes, or node numbers.
        edge_weight: one finite number per edge.
        sparse: keep the features sparse; None decides by their share of zeros.
        unseen_classes: accept classes that only validation or test rows have; they count as errors in the score.
    """
    features = check_features(x, sparse)
    n = features.shape[0]
    edges = check_edges(edge_index, n)
    weight = None if edge_weight is None else check_edge_weight(edge_weight, edges.shape[1])
    labels = check_labels(y, n)
    rows = {split: check_rows(mask, n, split) for split, mask in zip(SPLITS, (train, val, test), strict=True)}
    check_splits(labels, rows, unseen_classes=unseen_classes)
    outputs = labels.shape[1] if labels.dim() == 2 else int(labels.max()) + 1
    task = "node-classification" if labels.dim() == 1 else "node-multilabel"
    return Graph(name, features, edges, labels, **rows, num_outputs=outputs, edge_weight=weight, task=task)  # type: ignore[arg-type]


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
