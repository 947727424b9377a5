"""Whatever a user holds a graph in (PyG, arrays, a sparse adjacency) -> its arrays, not yet checked."""

import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
import torch
from torch import Tensor

from rapgnn.errors import InputError, shown
from rapgnn.graph.validate import SPLITS, as_array, check_edge_weight, check_edges, check_whole, shape_of


@dataclass
class RawGraph:
    """The arrays of a graph as the user gave them, not yet checked; None where there is nothing.

    Args:
        sizes: number of nodes of each of many graphs, which lie side by side; labels and splits are then theirs.
    """

    x: Any = None
    edge_index: Any = None
    edge_weight: Any = None
    edge_attr: Any = None
    y: Any = None
    train: Any = None
    val: Any = None
    test: Any = None
    num_nodes: int | None = None
    sizes: np.ndarray | None = None
    ids: np.ndarray | None = None
    notes: tuple[str, ...] = ()


def unpack(data: Any, directed: bool | None = None, mask_column: int | None = None, **given: Any) -> RawGraph:
    """The pieces of a PyG ``Data``, or features with ``edge_index`` or ``adjacency``.

    Args:
        data: the graph, or the node features (None: there are none).
        directed: False adds the reverse of edges that are listed one way; True takes them as listed; None likewise, and
            says so where every edge is listed one way only.
        mask_column: the column of the masks, where they are tables.
        given: ``y``, ``edge_index``, ``adjacency``, ``edge_weight``, ``train``, ``val``, ``test``; they win over what
            ``data`` says.
    """
    if isinstance(data, type):
        raise InputError(f"the data must be a graph or its features, got the class {data.__name__}.")
    if not isinstance(directed, bool | None):
        raise InputError(f"directed must be True or False, got {shown(directed)}.")
    adjacency = given.pop("adjacency", None)
    given = {key: value for key, value in given.items() if value is not None}
    if hasattr(data, "edge_index"):
        raw = _from_pyg(data)
    elif all(hasattr(data, name) for name in ("num_classes", "__getitem__", "__len__")):
        if len(data) != 1:
            raise InputError(f"this dataset holds {len(data)} graphs; a node classifier takes one.")
        raw = _from_pyg(data[0])
    else:
        raw = RawGraph(x=as_table(data))
    if adjacency is not None:
        if "edge_index" in given:
            raise InputError("give edge_index or adjacency, not both.")
        given |= _from_adjacency(adjacency)
    raw = replace(raw, **given)
    raw = raw if mask_column is None else replace(raw, **_masks(raw, mask_column))
    if raw.edge_index is None:
        raise InputError(why_no_edges(data))
    return as_directed(raw, directed)


def _masks(raw: RawGraph, column: int) -> dict[str, Any]:
    """The splits, of tables of masks one column."""
    masks = {split: getattr(raw, split) for split in SPLITS}
    tables = {split: as_array(mask, split) for split, mask in masks.items() if np.ndim(mask) == 2}
    most = min((table.shape[1] for table in tables.values()), default=1) - 1
    column = check_whole("mask_column", column, 0, most)
    return masks | {split: table[:, column] for split, table in tables.items()}


def as_directed(raw: RawGraph, directed: bool | None) -> RawGraph:
    """The edges as listed, or both ways; what is no list of edges is left for the checks to come."""
    try:
        ends = as_array(raw.edge_index, "edge_index")
    except InputError:
        return raw
    if directed or ends.ndim != 2 or len(ends) != 2 or ends.dtype.kind not in "iu" or not ends.size:
        return raw
    ends, n = ends.astype(np.int64), int(ends.max()) + 1
    if ends.min() < 0 or n > 1 << 31:  # whose pairs have numbers of 64 bits
        return raw
    if directed is None:
        return replace(raw, notes=(*raw.notes, ONE_WAY)) if only_one_way(ends, n) else raw
    edges, copied = both_ways(ends, n)
    values = {"edge_weight": raw.edge_weight, "edge_attr": raw.edge_attr}
    for name, value in values.items():
        if value is not None:
            array = as_array(value, f"{name}")
            if not array.ndim or len(array) != ends.shape[1]:
                raise InputError(f"there are {ends.shape[1]} edges but {name} of shape {array.shape}.")
            values[name] = array[copied]
    return replace(raw, edge_index=edges, **values)


def why_no_edges(data: Any) -> str:
    """Why something that was given as a graph has no edges, and what to do about it."""
    kind, several = type(data).__name__, isinstance(data, list | tuple) and len(data)
    if hasattr(data, "to_homogeneous"):
        types = ", ".join(map(str, getattr(data, "node_types", [])[:4])) or "none"
        return f"this is a {kind} with several types of nodes ({types}): convert it with to_homogeneous()."
    if isinstance(data, str | Path):
        return f"this is the text {shown(str(data))}: read it with load_dataset(...) first, and give the graph."
    if several and all(hasattr(one, "edge_index") or is_network(one) for one in data):
        return (
            f"this is a list of {len(data)} graphs, and a node classifier takes one: give one of them, or use "
            "RAPGraphClassifier for labels of whole graphs."
        )
    if hasattr(data, "edge_index"):
        return f"this {kind} has no edges, neither edge_index nor adj_t: give it one of them."
    beside = "this is a dictionary, and " if isinstance(data, dict) else ""
    return f"{beside}there are no edges: give edge_index or adjacency, a PyG Data, or a networkx graph."


def as_scipy(x: Any, what: str = "the node features") -> Any:
    """A sparse torch tensor as a scipy matrix; anything else as it is."""
    if not isinstance(x, Tensor) or x.layout == torch.strided:
        return x
    if x.dim() != 2 or x.is_complex():
        raise InputError(f"{what} must be a table of numbers, got {x.dtype} of shape {tuple(x.shape)}.")
    coo = x.detach().to_sparse_coo().coalesce().cpu()
    return sp.csr_matrix((as_array(coo.values(), what), coo.indices().numpy()), shape=tuple(x.shape))


def _from_pyg(data: Any) -> RawGraph:
    masks = {split: getattr(data, f"{split}_mask", None) for split in SPLITS}
    y = getattr(data, "y", None)
    if isinstance(y, Tensor) and y.dim() == 2 and y.shape[1] == 1:
        y = y[:, 0]
    weight = getattr(data, "edge_weight", None)
    x, edge_attr = getattr(data, "x", None), getattr(data, "edge_attr", None)
    given: dict[str, Any] = {**masks, "num_nodes": _stated_nodes(data, x)}
    raw = RawGraph(x, data.edge_index, weight, edge_attr, y, **given)
    transposed = getattr(data, "adj_t", None)
    if raw.edge_index is not None or transposed is None:
        return raw
    edges = _from_adjacency(transposed, "adj_t")
    edges["edge_index"] = edges["edge_index"][::-1].copy()  # its rows are receivers
    return replace(raw, **edges)


def _stated_nodes(data: Any, x: Any) -> Any:
    """The number of nodes where ``data`` states it, or where nothing else tells it."""
    if x is not None and hasattr(data, "keys"):  # PyG would guess it from the edges, wrongly where nodes have none
        return data["num_nodes"] if "num_nodes" in data else None  # noqa: SIM401 (it has no get)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return getattr(data, "num_nodes", None)
    except (TypeError, ValueError, IndexError, RuntimeError):  # its arrays are not what it takes them for
        return None


def _from_adjacency(adjacency: Any, what: str = "the adjacency") -> dict[str, Any]:
    """Entry (u, v) is the weight of the edge from u to v."""
    coo = entries_of(adjacency, what)
    rows, columns = coo.get_shape()
    if rows != columns:
        raise InputError(f"an adjacency has as many rows as columns, got shape {(rows, columns)}.")
    ends = np.stack([coo.row, coo.col]).astype(np.int64)
    edges: dict[str, Any] = {"edge_index": ends, "num_nodes": rows}
    return edges if (coo.data == 1).all() else edges | {"edge_weight": coo.data}


def entries_of(matrix: Any, what: str) -> sp.coo_matrix:
    """The entries of a matrix of scipy, torch, torch_sparse or numpy."""
    matrix = as_scipy(_from_triples(matrix, what), what)
    matrix = matrix if sp.issparse(matrix) else as_array(matrix, what)
    if len(matrix.shape) != 2:
        raise InputError(f"{what} must be a matrix, got shape {matrix.shape}.")
    return sp.coo_matrix(matrix)


def _from_triples(matrix: Any, what: str) -> Any:
    """A ``SparseTensor`` of torch_sparse (rows, columns and values) as a scipy matrix; anything else as it is."""
    if isinstance(matrix, Tensor) or sp.issparse(matrix) or not callable(getattr(matrix, "coo", None)):
        return matrix
    try:
        row, column, value = matrix.coo()
        shape = tuple(int(matrix.size(i)) for i in (0, 1))
        ends = [as_array(end, what) for end in (row, column)]
        values = np.ones(len(ends[0]), dtype=np.float32) if value is None else as_array(value, what)
        return sp.coo_matrix((values, (ends[0], ends[1])), shape=shape)
    except (TypeError, ValueError, AttributeError, IndexError) as error:
        raise InputError(f"{what} cannot be read as a sparse matrix of numbers.") from error


def is_network(data: Any) -> bool:
    """Whether this is a graph of networkx or igraph."""
    named = type(data).__module__.startswith("networkx.") and hasattr(data, "edges")
    return named or (hasattr(data, "adjacency") and hasattr(data, "nodes")) or hasattr(data, "vcount")


def as_table(value: Any) -> Any:
    """A table of another library (polars, pyarrow) as one of pandas; anything else as it is."""
    if isinstance(value, pd.DataFrame | pd.Series) or not hasattr(value, "to_pandas"):
        return value
    try:
        return value.to_pandas()
    except ImportError as error:
        raise InputError(
            "tables of other libraries need pyarrow: install it with pip install 'rapgnn[parquet]'."
        ) from error


def count_nodes(raw: RawGraph, bare: int = 1_000_000) -> int:
    """The number of nodes, from the first thing that tells it: features, what is stated, labels, edges.

    One wrong number among the edges would make billions of nodes, so without features there must not be many more
    nodes than edges or labels.

    Args:
        bare: nodes up to which a graph may have no features, no labels and hardly any edges.
    """
    stated = None if raw.num_nodes is None else check_whole("num_nodes", raw.num_nodes, 0, 1 << 40)
    if raw.x is not None:
        shape = shape_of(raw.x, "the node features")
        if not len(shape):
            raise InputError("the node features must have a row per node.")
        if stated is not None and stated != shape[0]:
            raise InputError(f"the features have {shape[0]} rows, but the graph has {stated} nodes.")
        return int(shape[0])
    labels = () if raw.y is None or raw.sizes is not None else shape_of(raw.y, "labels")
    if stated is None and labels:
        return labels[0]
    edges = as_array(raw.edge_index, "edge_index")
    if edges.dtype.kind == "f" and edges.size:
        raise InputError(f"edge_index must hold node numbers, got values of type {edges.dtype}.")
    n = int(edges.max(initial=-1)) + 1 if stated is None else stated
    if n > bare + 1000 * max(edges.size, *labels[:1], 0):
        raise InputError(f"edge_index with {edges.size // 2} edges cannot have {n} nodes: number the nodes from 0.")
    return n


# Edges that count one way or both ways.


ONE_WAY = "edges are taken as listed, one way: directed=False adds the reverse (directed=True keeps them, silently)."


def both_ways(ends: np.ndarray, n: int, directed: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """The edges with those reversed that are listed in one direction only, and which listed edge each comes from."""
    missing = np.zeros(0, dtype=np.int64) if directed else np.flatnonzero(~_listed(ends[::-1], ends, n))
    return np.concatenate([ends, ends[::-1, missing]], axis=1), np.concatenate([np.arange(ends.shape[1]), missing])


def only_one_way(ends: np.ndarray, n: int) -> bool:
    """Whether there are edges between different nodes, and none of them is listed in both directions."""
    ends = ends[:, ends[0] != ends[1]]
    return bool(ends.shape[1]) and not _listed(ends[::-1], ends, n).any()


def _listed(wanted: np.ndarray, edges: np.ndarray, n: int) -> np.ndarray:
    """Which edges are among others; by a hash table, which is faster than numpy's sorts."""
    return pd.Index(wanted[0] * n + wanted[1]).isin(edges[0] * n + edges[1])


# A list of PyG ``Data``, of networks, or of pairs of arrays.


def read_list(graphs: Any, directed: bool | None) -> tuple[list[RawGraph], RawGraph]:
    """Every graph as the user gave it, and all of them side by side, without labels and splits."""
    members = members_of(graphs)
    raws = [_unpacked(graph, i, directed) for i, graph in enumerate(members)]
    raw = _joined(raws)
    one_way = directed is None and only_one_way(raw.edge_index.numpy(), raw.num_nodes or 0)
    return raws, replace(raw, notes=(ONE_WAY,) if one_way else ())


def members_of(graphs: Any) -> list[Any]:
    """The graphs of a list or dataset."""
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


def own_labels(raws: list[RawGraph], y: Any) -> Any:
    """A label per graph: those given, or the graphs' own."""
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
