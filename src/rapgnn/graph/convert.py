"""Whatever a user holds a graph in (PyG, networkx, arrays, a sparse adjacency) -> ``Graph``."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
import torch
from torch import Tensor

from rapgnn.errors import InputError, check_choice, shown
from rapgnn.graph.batch import split_rows
from rapgnn.graph.graph import Graph
from rapgnn.graph.labels import find_classes, label_column, to_numbers, told
from rapgnn.graph.structural import structural_features
from rapgnn.graph.table import Encoding
from rapgnn.graph.validate import (
    SPLITS,
    as_array,
    check_edge_weight,
    check_edges,
    check_features,
    check_labels,
    check_rows,
    check_splits,
    check_whole,
    shape_of,
)

SHARES = (0.2, 0.2)  # validation and test, where no split is given
MOST_NODES = 1 << 40
BARE_NODES = 1_000_000  # nodes that neither features nor labels, and hardly any edge, vouch for
NO_FEATURES = "the graph has no node features: degrees and other structural features take their place."


@dataclass
class Parts:
    """What a user gave, taken apart and not yet checked; None where there is nothing."""

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


def take_apart(data: Any, **given: Any) -> Parts:
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
        parts = _from_networkx(data, given.get("y"))
        given.pop("y", None)
    elif hasattr(data, "edge_index"):
        parts = _from_pyg(data)
    elif _is_dataset(data):
        if len(data) != 1:
            raise InputError(f"this dataset holds {len(data)} graphs; a node classifier takes one.")
        parts = _from_pyg(data[0])
    else:
        parts = Parts(x=data)
    if adjacency is not None:
        if "edge_index" in given:
            raise InputError("give edge_index or adjacency, not both.")
        given |= _from_adjacency(adjacency)
    parts = replace(parts, **given)
    if parts.edge_index is None:
        raise InputError("there are no edges: give edge_index or adjacency, a PyG Data, or a networkx graph.")
    return parts


def node_graph(
    parts: Parts,
    *,
    classes: Sequence[Any] | None = None,
    encoding: Encoding | None = None,
    labelled: bool = True,
    trained: bool = False,
    seed: int = 0,
    name: str = "graph",
) -> Graph:
    """The checked graph.

    Args:
        parts: see ``take_apart``.
        classes: what a trained model calls its classes; None takes those of the training rows.
        encoding: how that model's features were made.
        labelled: whether labels are needed.
        trained: whether this is for a model that is trained already: ``encoding`` None then means features as given.
        seed: of the split, where none is given.
    """
    n = _count(parts)
    edges = check_edges(parts.edge_index, n)
    features, encoding, notes = make_features(parts, edges, n, encoding, trained)
    if features.shape[0] != n:
        raise InputError(f"there are {n} nodes but features of shape {tuple(features.shape)}.")
    weight = None if parts.edge_weight is None else check_edge_weight(parts.edge_weight, edges.shape[1])
    none = torch.zeros(0, dtype=torch.int64)
    given = {split: getattr(parts, split) for split in SPLITS}
    rows = {s: none if part is None else check_rows(part, n, s) for s, part in given.items()}
    common = {"edge_weight": weight, "ids": parts.ids, "encoding": encoding}
    if not labelled and (parts.y is None or trained):
        y = torch.full((n,), -1)
        outputs = 0 if classes is None else len(classes)
        return Graph(name, features, edges, y, none, none, none, outputs, notes=tuple(notes), **common)
    if parts.y is None:
        raise InputError("there are no labels: give y, -1 or missing where it is unknown.")
    if is_table(parts.y):
        y = check_labels(parts.y, n)
        classes = tuple(range(y.shape[1])) if classes is None else classes
        task = "node-multilabel"
    else:
        y, classes, rows = _classes(parts, n, classes, rows)
        task = "node-classification"
    if all(part is None for part in given.values()) and not trained:
        rows, said = make_split(y, seed)
        notes += said
    if not trained:
        check_splits(y, rows)
    return Graph(
        name,
        features,
        edges,
        y,
        **rows,
        num_outputs=len(classes),
        task=task,
        classes=tuple(classes),
        notes=tuple(notes),
        **common,
    )  # type: ignore[arg-type]


def make_split(y: Tensor, seed: int, what: str = "nodes") -> tuple[dict[str, Tensor], list[str]]:
    """A stratified split of the labelled rows by chance, and the sentence that reports it."""
    found = map(torch.from_numpy, split_rows(y, seed, SHARES))
    parts: dict[str, Tensor] = dict(zip(SPLITS, found, strict=True))
    sizes = " / ".join(str(len(parts[s])) for s in SPLITS)
    return parts, [f"no split was given: the labelled {what} were divided {sizes} (train / val / test), seed {seed}."]


def hold_out(graph: Graph, seed: int, share: float = 0.2) -> Graph:
    """The graph with a share of its training rows set apart for validation, where it has no validation rows."""
    if len(graph.val):
        return graph
    masked = torch.full_like(graph.y, -1) if graph.y.dim() == 1 else torch.full_like(graph.y, float("nan"))
    masked[graph.train] = graph.y[graph.train]
    train, val, _ = (torch.from_numpy(part) for part in split_rows(masked, seed, (share, 0.0)))
    if not len(val):
        return graph
    note = f"no validation rows were given: {len(val)} of the {len(graph.train)} training rows serve, seed {seed}."
    return replace(graph, train=train, val=val, notes=(*graph.notes, note))


def _classes(
    parts: Parts, n: int, classes: Sequence[Any] | None, rows: dict[str, Tensor]
) -> tuple[Tensor, Sequence[Any], dict[str, Tensor]]:
    """Class numbers, what they stand for, and the splits."""
    column = label_column(parts.y)
    if len(column) != n:
        raise InputError(f"there are {n} nodes but {len(column)} labels.")
    known = torch.from_numpy(column.notna().to_numpy(copy=True))
    if classes is not None:
        return torch.from_numpy(to_numbers(column, classes)), classes, rows
    train = rows["train"]
    if parts.train is None and any(len(rows[s]) for s in ("val", "test")):  # all other labelled rows are for training
        taken = torch.zeros(n, dtype=torch.bool)
        taken[torch.cat([rows["val"], rows["test"]])] = True
        train = (known & ~taken).nonzero()[:, 0]
        rows = rows | {"train": train}
    for split in SPLITS:
        unknown = int((~known[rows[split]]).sum())
        if unknown:
            raise InputError(f"{unknown} nodes of the {split} split have no label.")
    classes = find_classes(column.iloc[train.numpy()] if len(train) else column)
    numbers = torch.from_numpy(to_numbers(column, classes, strangers=True))
    for split in ("val", "test"):
        strange = rows[split][numbers[rows[split]] < 0]
        if len(strange):
            label = column.iloc[int(strange[0])]
            raise InputError(
                f"class {told(label)} of the {split} split does not occur in training, so it is not learned."
            )
    if len(classes) < 2:
        raise InputError(f"every training label is {told(column.dropna().iloc[0])}: there is nothing to tell apart.")
    return numbers, classes, rows


def make_features(
    parts: Parts, edges: Tensor, n: int, encoding: Encoding | None, trained: bool
) -> tuple[Any, Encoding | None, list[str]]:
    """The checked features, how they were made, and what is to be said about it."""
    wanted = None if encoding is None else encoding.kind
    if wanted == "structural" or (parts.x is None and not trained):
        return (
            check_features(structural_features(edges.numpy(), n), sparse=False),
            Encoding("structural"),
            [NO_FEATURES],
        )
    if parts.x is None:
        raise InputError("the model was trained with node features, and this graph has none.")
    if isinstance(parts.x, pd.DataFrame):
        encoding = encoding or Encoding.learn(parts.x)
        if encoding.kind != "table":
            raise InputError("the model was trained on an array of features, not on a table with named columns.")
        return check_features(encoding.encode(parts.x)), encoding, []
    x = _sparse(parts.x)
    if sp.issparse(x):
        return check_features(x), None, []
    array = as_array(x, "the node features")
    array = array[:, None] if array.ndim == 1 else array
    if encoding is None and not trained and array.ndim == 2 and array.size:
        encoding = Encoding.for_array(array) if np.isfinite(array).all() else None
        notes = ["the features differ in scale, so each got mean 0 and variance 1."] if encoding else []
    else:
        notes = []
    if encoding is not None and encoding.kind == "table":
        array = encoding.encode_array(array)
    return check_features(array), encoding, notes


def _count(parts: Parts) -> int:
    """The number of nodes, from the first thing that tells it."""
    stated = None if parts.num_nodes is None else check_whole("num_nodes", parts.num_nodes, 0, MOST_NODES)
    if parts.x is not None:
        shape = shape_of(parts.x, "the node features")
        if not len(shape) or shape[0] == 0:
            raise InputError("there are no nodes: the features have no rows.")
        if stated is not None and stated != shape[0]:
            raise InputError(f"the features have {shape[0]} rows, but the graph has {stated} nodes.")
        return int(shape[0])
    labels = () if parts.y is None else shape_of(parts.y, "labels")
    if stated is None and labels:
        return labels[0]
    n = bare_count(parts.edge_index, "edge_index", stated, labels[0] if labels else 0)
    if n < 1:
        raise InputError("there are no nodes.")
    return n


def bare_count(edge_index: Any, what: str, stated: int | None, vouched: int = 0) -> int:
    """The number of nodes without features: as stated, or up to the largest that an edge names.

    One wild number among the edges would make billions of nodes, so there must not be many more nodes than edges.
    """
    edges = as_array(edge_index, what)
    largest = edges.max(initial=-1)
    if edges.dtype.kind == "f" and edges.size:
        raise InputError(f"{what} must hold node numbers, got values of type {edges.dtype}.")
    n = int(largest) + 1 if stated is None else stated
    if n > BARE_NODES + 1000 * max(edges.size, vouched):
        raise InputError(f"{what} with {edges.size // 2} edges cannot have {n} nodes: number the nodes from 0.")
    return n


def is_table(y: Any) -> bool:
    """Whether every row has several labels."""
    shape = shape_of(y, "labels")
    return len(shape) == 2 and shape[1] > 1


def _sparse(x: Any, what: str = "the node features") -> Any:
    if not isinstance(x, Tensor) or x.layout == torch.strided:
        return x
    if x.dim() != 2 or x.is_complex():
        raise InputError(f"{what} must be a table of numbers, got {x.dtype} of shape {tuple(x.shape)}.")
    coo = x.detach().to_sparse_coo().coalesce().cpu()
    return sp.csr_matrix((as_array(coo.values(), what), coo.indices().numpy()), shape=tuple(x.shape))


def _from_pyg(data: Any) -> Parts:
    masks = {split: getattr(data, f"{split}_mask", None) for split in SPLITS}
    y = getattr(data, "y", None)
    if isinstance(y, Tensor) and y.dim() == 2 and y.shape[1] == 1:
        y = y[:, 0]
    weight = getattr(data, "edge_weight", None)
    x, edge_attr = getattr(data, "x", None), getattr(data, "edge_attr", None)
    return Parts(x, data.edge_index, weight, edge_attr, y, **masks, num_nodes=_stated_nodes(data, x))


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
    adjacency = _sparse(adjacency, "the adjacency")
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


def _from_networkx(graph: Any, y: Any) -> Parts:
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
        strange = next((node for node in y if node not in place), None)
        if strange is not None:
            raise InputError(f"y names node {shown(strange)}, which the graph does not have.")
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
    return Parts(x, edges, weight, None, y, **masks, num_nodes=len(nodes), ids=ids)
