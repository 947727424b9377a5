"""Whatever a user holds a graph in (PyG, networkx, arrays, a sparse adjacency) -> its arrays, not yet checked."""

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from rapgnn.errors import InputError, check_choice, shown
from rapgnn.graph.validate import SPLITS, as_array


@dataclass
class RawGraph:
    """The arrays of a graph as the user gave them, not yet checked; None where there is nothing."""

    x: Any = None
    edge_index: Any = None
    edge_weight: Any = None
    edge_attr: Any = None
    y: Any = None
    train: Any = None
    val: Any = None
    test: Any = None
    num_nodes: int | None = None
    ids: np.ndarray | None = None


def unpack(data: Any, **given: Any) -> RawGraph:
    """The pieces of a PyG ``Data``, a networkx graph, or features with ``edge_index`` or ``adjacency``.

    Args:
        data: the graph, or the node features (None: there are none).
        given: ``y``, ``edge_index``, ``adjacency``, ``edge_weight``, ``train``, ``val``, ``test``; they win over what
            ``data`` says.
    """
    if isinstance(data, type):
        raise InputError(f"the data must be a graph or its features, got the class {data.__name__}.")
    adjacency = given.pop("adjacency", None)
    given = {key: value for key, value in given.items() if value is not None}
    if _is_networkx(data):
        raw = _from_networkx(data, given.get("y"))
        given.pop("y", None)
    elif hasattr(data, "edge_index"):
        raw = _from_pyg(data)
    elif _is_dataset(data):
        if len(data) != 1:
            raise InputError(f"this dataset holds {len(data)} graphs; a node classifier takes one.")
        raw = _from_pyg(data[0])
    else:
        raw = RawGraph(x=data)
    if adjacency is not None:
        if "edge_index" in given:
            raise InputError("give edge_index or adjacency, not both.")
        given |= _from_adjacency(adjacency)
    raw = replace(raw, **given)
    if raw.edge_index is None:
        raise InputError("there are no edges: give edge_index or adjacency, a PyG Data, or a networkx graph.")
    return raw


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
    return RawGraph(x, data.edge_index, weight, edge_attr, y, **masks, num_nodes=_stated_nodes(data, x))


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


def _from_adjacency(adjacency: Any) -> dict[str, Any]:
    """Entry (u, v) is the weight of the edge from u to v."""
    adjacency = as_scipy(adjacency, "the adjacency")
    if not sp.issparse(adjacency):
        adjacency = as_array(adjacency, "the adjacency")
    if len(adjacency.shape) != 2 or adjacency.shape[0] != adjacency.shape[1]:
        raise InputError(f"an adjacency has as many rows as columns, got shape {adjacency.shape}.")
    coo = sp.coo_matrix(adjacency)
    ends = np.stack([coo.row, coo.col]).astype(np.int64)
    edges: dict[str, Any] = {"edge_index": ends, "num_nodes": adjacency.shape[0]}
    return edges if (coo.data == 1).all() else edges | {"edge_weight": coo.data}


def _is_networkx(data: Any) -> bool:
    named = type(data).__module__.startswith("networkx.") and hasattr(data, "edges")
    return named or (hasattr(data, "adjacency") and hasattr(data, "nodes"))


def _is_dataset(data: Any) -> bool:
    return hasattr(data, "num_classes") and hasattr(data, "__getitem__") and hasattr(data, "__len__")


def _from_networkx(graph: Any, y: Any) -> RawGraph:
    """Node attributes ``x``, ``y`` (or ``label``) and ``split``, edge attribute ``weight``; y may be a dictionary."""
    nodes = list(graph.nodes)
    place = {node: i for i, node in enumerate(nodes)}
    source, target, weights = [], [], []
    for u, v, attributes in graph.edges(data=True):
        both = [(u, v)] if graph.is_directed() or u == v else [(u, v), (v, u)]
        for a, b in both:
            source.append(place[a])
            target.append(place[b])
            weights.append(attributes.get("weight", 1.0))
    edges = np.array([source, target], dtype=np.int64).reshape(2, -1)
    attributes = [graph.nodes[node] for node in nodes]
    x = None
    without = [node for node, a in zip(nodes, attributes, strict=True) if "x" not in a]
    if without and len(without) < len(nodes):
        raise InputError(f"node {shown(without[0])} has no attribute x, but others have: give it to all or to none.")
    if attributes and not without:
        try:
            x = np.array([np.atleast_1d(np.asarray(a["x"], dtype=np.float64)) for a in attributes])
        except (ValueError, TypeError) as error:
            raise InputError("the node attribute x must be numbers, as many for every node.") from error
    if isinstance(y, dict):
        unknown = next((node for node in y if node not in place), None)
        if unknown is not None:
            raise InputError(f"y names node {shown(unknown)}, which the graph does not have.")
        y = [y.get(node) for node in nodes]
    elif y is None:
        field = next((f for f in ("y", "label") if any(f in a for a in attributes)), None)
        y = None if field is None else [a.get(field) for a in attributes]
    masks: dict[str, Any] = {}
    if any("split" in a for a in attributes):
        splits = np.array([str(a.get("split") or "") for a in attributes])
        for word in np.unique(splits[splits != ""]).tolist():
            check_choice("split", word, SPLITS)
        masks = {split: splits == split for split in SPLITS}
    ids = np.empty(len(nodes), dtype=object)
    ids[:] = nodes
    weight = as_array(weights, "the edge attribute weight")
    weight = None if (weight == 1.0).all() else weight
    return RawGraph(x, edges, weight, None, y, **masks, num_nodes=len(nodes), ids=ids)
