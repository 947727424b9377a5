"""The one way a graph is represented inside, and how it is made from checked arrays."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rapgnn.errors import InputError, check_choice
from rapgnn.graph.labels import split_rows, unseen_note
from rapgnn.graph.operator import GraphOperator, build_operator
from rapgnn.graph.table import Encoding
from rapgnn.graph.tasks import TASKS, Objective
from rapgnn.graph.validate import (
    SPLITS,
    as_array,
    check_edge_features,
    check_edge_weight,
    check_edges,
    check_features,
    check_labels,
    check_rows,
    check_splits,
    check_targets,
    labelled_rows,
)
from rapgnn.sparse import Features, SparseMatrix, row_block, row_sums, without_zeros

KINDS = ("classification", "regression")  # of tasks; a table of 0 and 1 tells many labels from classes
GRAPH_TASKS = ("classification", "multilabel", "regression")


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
        read_as: reads the user's folder again, with other fields of ``Reading``: as a trained model reads it.
        notes: what was decided for the user on the way in.
        part: what the nodes are in a whole graph, where this one is a part or a changed copy of it.
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
    read_as: "Callable[..., Graph] | None" = field(default=None, compare=False, repr=False)
    part: "Part | None" = field(default=None, compare=False, repr=False)

    @property
    def num_nodes(self) -> int:
        """n, over all graphs."""
        return self.x.shape[0]

    @property
    def num_rows(self) -> int:
        """Number of nodes, or of graphs."""
        return self.num_nodes if self.ptr is None else len(self.ptr) - 1

    @property
    def num_features(self) -> int:
        """Width of the node features."""
        return self.x.shape[1]

    @property
    def num_edge_features(self) -> int:
        """Width of the edge features, 0 where there are none."""
        return 0 if self.edge_attr is None else self.edge_attr.shape[1]

    @property
    def objective(self) -> Objective:
        """The task's metric, loss and reading of scores."""
        return TASKS[self.task]

    @property
    def labelled(self) -> Tensor:
        """The rows that have a label."""
        return labelled_rows(self.y)

    def rows(self, split: str) -> Tensor:
        """The rows of ``"train"``, ``"val"`` or ``"test"``."""
        return getattr(self, split)

    def operator(self, backbone: str, self_loops: bool = False, eps: float = 0.0) -> GraphOperator:
        """The graph as the backbone's layers see it, on x's device."""
        return build_operator(
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
        """The graph with features, labels and splits on ``device``.

        Edges and their weights stay on the CPU: layers see only the operator, which is built where x lies, and the
        edges travel there for that moment only.
        """
        names = ("x", "y", "ptr", "edge_attr", *SPLITS)
        return replace(self, **{f: getattr(self, f).to(device) for f in names if getattr(self, f) is not None})

    def normalized_features(self) -> "Graph":
        """Each node's features divided by their sum of magnitudes; all-zero rows stay zero."""
        if isinstance(self.x, SparseMatrix):
            x = self.x
            total = row_sums(x.crow, x.values.abs())
            share = torch.repeat_interleave(1 / total.masked_fill_(total == 0, 1), x.crow.diff(), output_size=x.nnz)
            arrays = without_zeros(x.crow, x.col, share.mul_(x.values), x.values != 0)
            return replace(self, x=SparseMatrix.from_csr(*arrays, x.shape))
        return replace(self, x=self.x / self.x.abs().sum(1, keepdim=True).clamp(min=torch.finfo(self.x.dtype).tiny))


# What is decided about a whole graph once, for parts and changed copies of it.


class Known:
    """Which nodes of a whole graph a model knows from its training: decided once, for all parts of it.

    Args:
        graph: the whole.
    """

    def __init__(self, graph: Graph):
        self.graph = graph
        self.found: dict[int, tuple[Any, Tensor, bool]] = {}

    def of(self, seen: Any, find: Callable[[Graph], Tensor]) -> tuple[Tensor, bool]:
        """Which of the seen nodes each node is, -1: none; and whether there is any.

        Args:
            seen: who asks, and stays beside the answer, so that no other gets its place.
        """
        if id(seen) not in self.found:
            numbers = find(self.graph)
            self.found[id(seen)] = seen, numbers, bool((numbers >= 0).any())
        return self.found[id(seen)][1:]


@dataclass(frozen=True)
class Part:
    """What the nodes of a part are in the whole graph.

    Args:
        nodes: their numbers; -1: none of them.
        known: what is decided about the whole.
    """

    nodes: Tensor
    known: Known


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
    task: str = "classification",
) -> Graph:
    """Check everything a user can get wrong, and build a ``Graph``.

    Args:
        x: features, dense (array, tensor) or scipy sparse.
        edge_index: two rows, senders and receivers.
        y: class numbers, or a 0/1 matrix with a column per label (NaN where unknown); for a regression numbers, one
            column or several (NaN where unknown).
        train, val, test: boolean masks over the nodes, or node numbers.
        edge_weight: one finite number per edge.
        sparse: keep the features sparse; None decides by their share of zeros.
        unseen_classes: accept class numbers that no split has too. (Classes that only validation or test rows have are
            accepted with a note; they count as errors in the score.)
        task: ``"classification"`` (classes, or a table of 0, 1 and NaN) or ``"regression"``.
    """
    check_choice("task", task, KINDS)
    features = check_features(x, sparse)
    n = features.shape[0]
    edges = check_edges(edge_index, n)
    weight = None if edge_weight is None else check_edge_weight(edge_weight, edges.shape[1])
    labels = check_targets(y, n, "nodes") if task == "regression" else check_labels(y, n)
    kind = task if labels.dim() == 1 or task == "regression" else "multilabel"
    rows: dict[str, Any] = {
        split: check_rows(mask, n, split) for split, mask in zip(SPLITS, (train, val, test), strict=True)
    }
    check_splits(labels, rows, unseen_classes=unseen_classes)
    notes = tuple(unseen_note(labels, rows))
    return Graph(
        name, features, edges, labels, **rows, **_outputs(labels), edge_weight=weight, notes=notes, task=f"node-{kind}"
    )


def make_graphs(
    x: Any,
    edge_index: Any,
    sizes: Any,
    y: Any,
    train: Any = None,
    val: Any = None,
    test: Any = None,
    *,
    edge_weight: Any = None,
    edge_attr: Any = None,
    task: str | None = None,
    name: str = "graphs",
    folds: bool = False,
    seed: int = 0,
) -> Graph:
    """Check everything a user can get wrong, and put the graphs side by side.

    Args:
        x: features of all nodes, graph after graph.
        edge_index: two rows, senders and receivers, numbered through all graphs.
        sizes: number of nodes of each graph; 0 is a graph without nodes.
        y: one label per graph: class numbers, a table of 0, 1 and NaN (unknown), or numbers.
        train, val, test: masks or graph numbers; all None: a stratified split of 80, 10 and 10 percent by ``seed``.
        edge_weight: one finite number per edge.
        edge_attr: features of every edge.
        task: one of ``GRAPH_TASKS``; None tells classes from a table of 0 and 1 by the shape of y.
        folds: whether these graphs are evaluated by cross-validation.
    """
    if task is not None:
        check_choice("graph task", task, GRAPH_TASKS)
    features = x if isinstance(x, SparseMatrix) else check_features(x)
    parts = side_by_side(sizes, features.shape[0], check_edges(edge_index, features.shape[0]), edge_weight, edge_attr)
    total = len(parts["ptr"]) - 1
    if task == "regression":
        labels, kind = check_targets(y, total, "graphs"), task
    else:
        labels = check_labels(y, total, "graphs", table=task == "multilabel")
        kind = "classification" if labels.dim() == 1 else "multilabel"
    if train is None and val is None and test is None:
        train, val, test = split_rows(labels, seed)
    given = zip(SPLITS, ([] if part is None else part for part in (train, val, test)), strict=True)
    rows: dict[str, Any] = {split: check_rows(part, total, split, "graphs") for split, part in given}
    check_splits(labels, rows, "graphs")
    notes = tuple(unseen_note(labels, rows))
    return Graph(
        name, features, y=labels, **rows, **parts, **_outputs(labels), task=f"graph-{kind}", folds=folds, notes=notes
    )


def _outputs(labels: Tensor) -> dict[str, Any]:
    return {"num_outputs": labels.shape[1] if labels.dim() == 2 else int(labels.max()) + 1}


def side_by_side(sizes: Any, n: int, edges: Tensor, edge_weight: Any, edge_attr: Any) -> dict[str, Any]:
    """``edge_index``, ``edge_weight`` and ``edge_attr``, checked and sorted graph by graph, and ``ptr``."""
    counts = as_array(sizes, "the graphs' sizes")
    if counts.ndim != 1 or counts.dtype.kind not in "iu" or (counts < 0).any() or counts.sum() != n:
        raise InputError(f"the graphs' sizes must be whole numbers that add up to the {n} nodes.")
    bounds = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    home = np.searchsorted(bounds, edges.numpy(), side="right") - 1
    crossing = np.flatnonzero(home[0] != home[1])
    if len(crossing):
        u, v = edges[:, crossing[0]].tolist()
        raise InputError(f"edge ({u}, {v}) joins two different graphs.")
    weight = None if edge_weight is None else check_edge_weight(edge_weight, edges.shape[1])
    features = None if edge_attr is None else check_edge_features(edge_attr, edges.shape[1])
    order = torch.from_numpy(np.argsort(home[0], kind="stable"))
    if bool((order.diff() < 0).any()):  # graph after graph, as the nodes are
        edges = edges[:, order]
        weight = None if weight is None else weight[order]
        features = None if features is None else row_block(features, order)
    return {"edge_index": edges, "edge_weight": weight, "edge_attr": features, "ptr": torch.from_numpy(bounds)}
