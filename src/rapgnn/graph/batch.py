"""Many graphs side by side as one ``Graph``, from arrays, checked."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from rapgnn.errors import InputError, check_choice
from rapgnn.graph.graph import Graph
from rapgnn.graph.labels import unseen_note
from rapgnn.graph.splits import split_rows
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
)
from rapgnn.sparse import SparseMatrix, row_block

GRAPH_TASKS = ("classification", "multilabel", "regression")


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
    classes: tuple[Any, ...] | None = None,
    unseen_classes: bool = False,
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
        classes: what the class numbers, or label columns, are called.
        unseen_classes: as in ``make_graph``.
    """
    features = x if isinstance(x, SparseMatrix) else check_features(x)
    n = features.shape[0]
    counts = as_array(sizes, "the graphs' sizes")
    if counts.ndim != 1 or counts.dtype.kind not in "iu" or (counts < 0).any() or counts.sum() != n:
        raise InputError(f"the graphs' sizes must be whole numbers that add up to the {n} nodes.")
    bounds = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    edges = check_edges(edge_index, n)
    home = np.searchsorted(bounds, edges.numpy(), side="right") - 1
    crossing = np.flatnonzero(home[0] != home[1])
    if len(crossing):
        u, v = edges[:, crossing[0]].tolist()
        raise InputError(f"edge ({u}, {v}) joins two different graphs.")
    weight = None if edge_weight is None else check_edge_weight(edge_weight, edges.shape[1])
    attributes = None if edge_attr is None else check_edge_features(edge_attr, edges.shape[1])
    order = np.argsort(home[0], kind="stable")
    if (np.diff(order) < 0).any():  # graph after graph, as the nodes are
        edges = edges[:, order]
        weight = None if weight is None else weight[torch.from_numpy(order)]
        if attributes is not None:
            attributes = row_block(attributes, torch.from_numpy(order))
    total = len(counts)
    kind = _kind(task, y)
    labels = check_targets(y, total, "graphs") if kind == "regression" else _class_labels(y, total, kind)
    if train is None and val is None and test is None:
        train, val, test = split_rows(labels, seed)
    given = zip(SPLITS, ([] if part is None else part for part in (train, val, test)), strict=True)
    rows = {split: check_rows(part, total, split, "graphs") for split, part in given}
    check_splits(labels, rows, "graphs", unseen_classes)
    outputs = labels.shape[1] if labels.dim() == 2 else int(labels.max()) + 1
    if classes is not None:
        outputs = max(outputs, len(classes))
    return Graph(
        name,
        features,
        edges,
        labels,
        **rows,  # type: ignore[arg-type]
        num_outputs=outputs,
        edge_weight=weight,
        edge_attr=attributes,
        ptr=torch.from_numpy(bounds),
        task=f"graph-{kind}",
        folds=folds,
        classes=classes,
        notes=tuple(unseen_note(labels, rows, classes)),
    )


def _kind(task: str | None, y: Any) -> str:
    if task is None:
        array = as_array(y, "labels")
        return "multilabel" if array.ndim == 2 and array.shape[1] > 1 else "classification"
    check_choice("graph task", task, GRAPH_TASKS)
    return task


def _class_labels(y: Any, total: int, kind: str) -> Tensor:
    if kind == "classification":
        return check_labels(y, total, "graphs")
    table = as_array(y, "labels")
    if table.ndim not in (1, 2) or len(table) != total:
        raise InputError(f"there are {total} graphs but labels of shape {table.shape}.")
    if table.ndim == 1 or table.shape[1] == 1:  # one column of labels is a table too
        twice = np.repeat(table.reshape(len(table), 1), 2, axis=1)
        return check_labels(twice, total, "graphs")[:, :1].contiguous()
    return check_labels(table, total, "graphs")
