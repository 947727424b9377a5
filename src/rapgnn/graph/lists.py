"""Whatever a user holds many graphs in (a list of PyG ``Data``, networkx graphs, pairs of arrays) -> ``Graph``."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from rapgnn.errors import InputError, check_choice
from rapgnn.graph.convert import ONE_WAY, RawGraph, as_directed, is_networkx, only_one_way, unpack
from rapgnn.graph.graph import Graph
from rapgnn.graph.labels import blank_labels, label_column, split_classes, to_numbers, unseen_note, with_unseen
from rapgnn.graph.nodes import MOST_NODES, bare_count, is_table, make_features, split_rows
from rapgnn.graph.table import Encoding
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
    check_whole,
    rows_by_split,
    shape_of,
)
from rapgnn.sparse import SparseMatrix, row_block


def graph_set(
    graphs: Any,
    y: Any = None,
    *,
    task: str,
    classes: Sequence[Any] | None = None,
    encoding: Encoding | None = None,
    labelled: bool = True,
    trained: bool = False,
    splits: dict[str, Any] | None = None,
    directed: bool | None = None,
    name: str = "graphs",
    unseen_classes: bool = False,
) -> Graph:
    """The checked graphs, side by side.

    Args:
        graphs: a list or dataset of PyG ``Data``, of networkx graphs, or of tuples: (features, edge_index), and after
            them edge features (a table) or edge weights (one number per edge), or both in this order.
        y: a label per graph; None takes the graphs' own.
        task: ``"classification"`` (classes, or a table of 0, 1 and NaN) or ``"regression"``.
        splits: ``train``, ``val``, ``test`` as in ``make_graphs``; None: every labelled graph is for training.
        directed: as in ``unpack``.
        classes, encoding, labelled, trained, unseen_classes: as in ``node_graph``.
    """
    raws, sizes, whole = _read(graphs, directed)
    features, encoding, said = make_features(whole, whole.edge_index, int(sizes.sum()), encoding, trained)
    notes = [*whole.notes, *said]
    if not labelled:
        values = np.zeros(len(raws)) if task == "regression" else np.zeros(len(raws), dtype=np.int64)
    else:
        values = _labels(raws, y)
    kind, names = task, classes
    if task == "classification" and is_table(values):
        kind = "multilabel"
        names = tuple(range(np.asarray(values).shape[1])) if classes is None else classes
    elif task == "classification" and labelled:
        column = label_column(values)
        notes += blank_labels(values)
        if len(column) != len(raws):
            raise InputError(f"there are {len(raws)} graphs but {len(column)} labels.")
        if classes is None:
            values, names = split_classes(column, rows_by_split(splits, column.notna().to_numpy()))
        else:
            names = with_unseen(column, classes) if unseen_classes else classes
            values = to_numbers(column, names)
    given = splits or {"train": _known(values)}
    graph = make_graphs(
        features,
        whole.edge_index,
        sizes,
        values,
        **given,
        edge_weight=whole.edge_weight,
        edge_attr=whole.edge_attr,
        task=kind,
        name=name,
        classes=None if names is None else tuple(names),
        unseen_classes=trained,  # a model may be asked about graphs of one class
    )
    if trained or not labelled:
        none = torch.zeros(0, dtype=torch.int64)
        rows = dict.fromkeys(SPLITS, none) if not labelled or splits is None else {}
        outputs = graph.num_outputs if names is None else len(names)
        return replace(graph, **rows, num_outputs=outputs, encoding=encoding, notes=tuple(notes))
    return replace(graph, encoding=encoding, notes=(*notes, *graph.notes))


def from_pyg_list(
    graphs: Sequence[Any],
    task: str | None = None,
    name: str = "graphs",
    directed: bool | None = None,
    **splits: Any,
) -> Graph:
    """A list or dataset of PyTorch Geometric ``Data``, one label each, as a ``Graph``: features are taken as they are.

    Args:
        directed: as in ``from_pyg``.
        splits: ``train``, ``val``, ``test`` as in ``make_graphs``, and ``seed``.
    """
    for i, data in enumerate(_members(graphs)):
        edges = "edge_index" if getattr(data, "adj_t", None) is None else "adj_t"
        missing = [f for f in ("x", edges, "y") if getattr(data, f, None) is None]
        if missing:
            raise InputError(f"graph {i} has no {', '.join(missing)}.")
    raws, sizes, whole = _read(graphs, directed)
    given: dict[str, Any] = {"edge_weight": whole.edge_weight, "edge_attr": whole.edge_attr, **splits}
    given |= {"task": task, "name": name}
    graph = make_graphs(whole.x, whole.edge_index, sizes, _labels(raws, None), **given)
    return replace(graph, notes=(*whole.notes, *graph.notes))


def _read(graphs: Any, directed: bool | None) -> tuple[list[RawGraph], np.ndarray, RawGraph]:
    """Every graph as the user gave it, their numbers of nodes, and one big graph of all, without labels and splits."""
    members = _members(graphs)
    raws = [_unpacked(graph, i, directed) for i, graph in enumerate(members)]
    sizes = np.array([_size(raw, i) for i, raw in enumerate(raws)], dtype=np.int64)
    whole = _joined(raws, sizes)
    listed = directed is None and not any(is_networkx(graph) for graph in members)
    one_way = listed and only_one_way(whole.edge_index.numpy(), int(sizes.sum()))
    return raws, sizes, replace(whole, notes=(ONE_WAY,) if one_way else ())


def _members(graphs: Any) -> list[Any]:
    if isinstance(graphs, str | bytes | dict) or not hasattr(graphs, "__len__") or hasattr(graphs, "edge_index"):
        raise InputError(f"graphs must be a list of graphs, got {type(graphs).__name__}.")
    try:
        members = [graphs[i] for i in range(len(graphs))]
    except (TypeError, KeyError, IndexError, ValueError) as error:  # a set, a table, a single number
        raise InputError(f"graphs must be a list of graphs, got {type(graphs).__name__}.") from error
    if not members:
        raise InputError("the list of graphs is empty.")
    return members


def _unpacked(graph: Any, number: int, directed: bool | None) -> RawGraph:
    if isinstance(graph, tuple | list):
        if not 2 <= len(graph) <= 4:
            raise InputError(
                f"graph {number} must be (features, edge_index), and then edge features, edge weights or both."
            )
        attributes, weight = (*graph[2:], None, None)[:2]
        if len(graph) == 3 and attributes is not None and len(shape_of(attributes, f"edges of graph {number}")) == 1:
            attributes, weight = None, attributes
        return as_directed(RawGraph(graph[0], graph[1], weight, attributes), directed)
    try:
        return unpack(graph, directed)
    except InputError as error:
        raise InputError(f"graph {number}: {error}") from error


def _size(raw: RawGraph, number: int) -> int:
    stated = raw.num_nodes
    if stated is not None:
        stated = check_whole(f"num_nodes of graph {number}", stated, 0, MOST_NODES)
    if raw.x is not None:
        shape = shape_of(raw.x, f"the features of graph {number}")
        if len(shape) not in (1, 2) or stated not in (None, shape[0]):
            for_nodes = "" if stated is None else f" for {stated} nodes"
            raise InputError(f"the features of graph {number} have shape {tuple(shape)}{for_nodes}.")
        return int(shape[0])
    found = bare_count(raw.edge_index, f"edge_index of graph {number}", stated)
    return max(found, 1) if stated is None else found


def _joined(raws: list[RawGraph], sizes: np.ndarray) -> RawGraph:
    """One big graph of all; labels and splits are left out."""
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    edges, weights = [], []
    for i, part in enumerate(raws):
        try:
            edges.append(check_edges(part.edge_index, int(sizes[i])) + int(offsets[i]))
            m = edges[-1].shape[1]
            weights.append(torch.ones(m) if part.edge_weight is None else check_edge_weight(part.edge_weight, m))
        except InputError as error:
            raise InputError(f"graph {i}: {error}") from error
    x = _stacked([part.x for part in raws], "node", sizes)
    counts = np.array([e.shape[1] for e in edges])
    edge_attr = _stacked([part.edge_attr for part in raws], "edge", counts)
    weighted = any(part.edge_weight is not None for part in raws)  # in a graph without weights each is 1
    return RawGraph(x, torch.cat(edges, dim=1), torch.cat(weights) if weighted else None, edge_attr)


def _stacked(tables: list[Any], what: str, rows: np.ndarray) -> np.ndarray | None:
    """All graphs' features in one array; None where no graph has any."""
    having = [table is not None for table in tables]
    if not any(having):
        return None
    if not all(having):
        has, lacks = having.index(True), having.index(False)
        raise InputError(f"graph {has} has {what} features but graph {lacks} has none.")
    arrays = []
    for i, table in enumerate(tables):
        array = table.toarray() if sp.issparse(table) else as_array(table, f"the {what} features of graph {i}")
        array = array[:, None] if array.ndim == 1 else array
        if array.ndim != 2 or len(array) != rows[i]:
            raise InputError(f"graph {i} has {rows[i]} {what}s but {what} features of shape {array.shape}.")
        if arrays and array.shape[1] != arrays[0].shape[1]:
            raise InputError(f"graph 0 has {arrays[0].shape[1]} {what} features but graph {i} has {array.shape[1]}.")
        arrays.append(array)
    return np.concatenate(arrays)


def _labels(raws: list[RawGraph], y: Any) -> Any:
    if y is None:
        if any(part.y is None for part in raws):
            number = next(i for i, part in enumerate(raws) if part.y is None)
            raise InputError(f"graph {number} has no label: give y, or a label to every graph.")
        rows = [_own_labels(part.y, i) for i, part in enumerate(raws)]
        if len({len(row) for row in rows}) > 1:
            raise InputError("the graphs differ in their number of labels.")
        y = [row[0] for row in rows] if len(rows[0]) == 1 else rows
    shape = shape_of(y, "labels")
    if len(shape) not in (1, 2) or shape[0] != len(raws):
        raise InputError(f"there are {len(raws)} graphs but labels of shape {shape}.")
    return y


def _own_labels(y: Any, number: int) -> list[Any]:
    """A graph's labels, as many as there are; numbers and words stay what they are."""
    shape_of(y, f"the label of graph {number}")
    row = (as_array(y, f"the label of graph {number}") if isinstance(y, Tensor) else np.asarray(y)).reshape(-1).tolist()
    if not row:
        raise InputError(f"graph {number} has no label: give y, or a label to every graph.")
    return row


def _known(values: Any) -> np.ndarray:
    """The graphs that have a label."""
    array = np.asarray(values)
    if array.dtype.kind == "f":
        missing = np.isnan(array)
        return np.flatnonzero(~(missing.all(axis=1) if array.ndim == 2 else missing))
    return np.flatnonzero(array >= 0) if array.dtype.kind in "iu" and array.ndim == 1 else np.arange(len(array))


# Many graphs side by side as one ``Graph``, from arrays, checked.


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
