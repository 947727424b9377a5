"""Whatever a user holds many graphs in (a list of PyG ``Data``, pairs of arrays) -> ``Graph``."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from rapgnn.errors import InputError
from rapgnn.graph.convert import ONE_WAY, RawGraph, as_directed, only_one_way, unpack
from rapgnn.graph.graph import Graph, build_graph, count_nodes
from rapgnn.graph.validate import as_array, check_edge_weight, check_edges, shape_of


def graph_set(
    graphs: Any,
    y: Any = None,
    *,
    splits: dict[str, Any] | None = None,
    directed: bool | None = None,
    labelled: bool = True,
    **how: Any,
) -> Graph:
    """The checked graphs, side by side.

    Args:
        graphs: a list or dataset of PyG ``Data``, or of tuples: (features, edge_index), and after
            them edge features (a table) or edge weights (one number per edge), or both in this order.
        y: a label per graph; None takes the graphs' own.
        splits: ``train``, ``val``, ``test``, masks or graph numbers; None: every labelled graph is for training.
        directed: as in ``unpack``.
        labelled, how: as in ``build_graph``.
    """
    raws, raw = _read(graphs, directed)
    raw = replace(raw, y=_labels(raws, y) if labelled else None, **(splits or {}))
    how.setdefault("name", "graphs")
    return build_graph(raw, labelled=labelled, divide=False, **how)


def from_pyg_list(
    graphs: Sequence[Any],
    task: str | None = None,
    name: str = "graphs",
    directed: bool | None = None,
    seed: int = 0,
    **splits: Any,
) -> Graph:
    """A list or dataset of PyTorch Geometric ``Data``, one label each, as a ``Graph``: features are taken as they are.

    Args:
        directed: as in ``from_pyg``.
        splits, seed: as in ``make_graphs``.
    """
    for i, data in enumerate(_members(graphs)):
        edges = "edge_index" if getattr(data, "adj_t", None) is None else "adj_t"
        missing = [f for f in ("x", edges, "y") if getattr(data, f, None) is None]
        if missing:
            raise InputError(f"graph {i} has no {', '.join(missing)}.")
    how: dict[str, Any] = {"as_given": True, "task": task or "classification", "name": name, "seed": seed}
    return graph_set(graphs, splits=splits, directed=directed, **how)


def _read(graphs: Any, directed: bool | None) -> tuple[list[RawGraph], RawGraph]:
    """Every graph as the user gave it, and all of them side by side, without labels and splits."""
    members = _members(graphs)
    raws = [_unpacked(graph, i, directed) for i, graph in enumerate(members)]
    raw = _joined(raws)
    one_way = directed is None and only_one_way(raw.edge_index.numpy(), raw.num_nodes or 0)
    return raws, replace(raw, notes=(ONE_WAY,) if one_way else ())


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


def _joined(raws: list[RawGraph]) -> RawGraph:
    sizes, edges, weights, begin = list[int](), list[Tensor](), list[Tensor](), 0
    for i, part in enumerate(raws):
        try:
            n = count_nodes(replace(part, y=None))  # its label is not one of a node
            sizes.append(n if part.x is not None or part.num_nodes is not None else max(n, 1))
            edges.append(check_edges(part.edge_index, sizes[-1]) + begin)
            begin += sizes[-1]
            m = edges[-1].shape[1]
            weights.append(torch.ones(m) if part.edge_weight is None else check_edge_weight(part.edge_weight, m))
        except InputError as error:
            raise InputError(f"graph {i}: {error}") from error
    x = _stacked([part.x for part in raws], "node", sizes)
    edge_attr = _stacked([part.edge_attr for part in raws], "edge", [e.shape[1] for e in edges])
    weighted = any(part.edge_weight is not None for part in raws)  # in a graph without weights each is 1
    weight = torch.cat(weights) if weighted else None
    total = np.array(sizes, dtype=np.int64)
    return RawGraph(x, torch.cat(edges, dim=1), weight, edge_attr, num_nodes=begin, sizes=total)


def _stacked(tables: list[Any], what: str, rows: list[int]) -> np.ndarray | None:
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
    if y is not None:
        return y
    rows = []
    for number, part in enumerate(raws):
        what = f"the label of graph {number}"
        shape_of(part.y, what)
        own = part.y if part.y is None or not isinstance(part.y, Tensor) else as_array(part.y, what)
        rows.append([] if own is None else np.asarray(own).reshape(-1).tolist())  # words stay words
        if not rows[-1]:
            raise InputError(f"graph {number} has no label: give y, or a label to every graph.")
    if len({len(row) for row in rows}) > 1:
        raise InputError("the graphs differ in their number of labels.")
    return [row[0] for row in rows] if len(rows[0]) == 1 else rows
