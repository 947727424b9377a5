"""A ``Graph`` from what a user gives: features made, labels numbered, splits chosen, everything checked.

One graph whose nodes have labels, or many graphs side by side that have one each.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
import torch
from torch import Tensor

from rapgnn.errors import InputError
from rapgnn.graph.convert import RawGraph, as_scipy, unpack
from rapgnn.graph.graph import Graph, make_graph, side_by_side
from rapgnn.graph.labels import (
    blank_labels,
    fill_gaps,
    label_column,
    make_split,
    split_classes,
    split_rows,
    to_numbers,
    unseen_note,
    with_unseen,
)
from rapgnn.graph.table import Encoding, structural_features
from rapgnn.graph.validate import (
    SPLITS,
    as_array,
    check_edge_weight,
    check_edges,
    check_features,
    check_labels,
    check_rows,
    check_splits,
    check_targets,
    check_whole,
    labelled_rows,
    shape_of,
)

MOST_NODES = 1 << 40
BARE_NODES = 1_000_000  # nodes up to which a graph may have no features, no labels and hardly any edges
FOLDS = 10
NO_EDGE_FEATURES = "edge features are for many graphs; on one graph edge_attr is left out (edge_weight would count)."
SCALED = "the features differ in scale, so each got mean 0 and variance 1."
NO_FEATURES = "the graph has no node features: degrees and other structural features take their place."


def from_pyg(data: Any, name: str = "graph", directed: bool | None = None, task: str = "classification") -> Graph:
    """A PyTorch Geometric ``Data`` with masks as a ``Graph``: features and class numbers are taken as they are.

    Args:
        directed: False adds the reverse of edges that are listed one way; otherwise they count as listed.
        task: as in ``make_graph``.
    """
    raw = unpack(data, directed=directed)
    wanted = {"x": raw.x, "y": raw.y, "train_mask": raw.train}
    missing = [field for field, value in wanted.items() if value is None]
    if missing:
        raise InputError(f"the graph has no {', '.join(missing)}; training on nodes needs all of them.")
    train, val, test = ([] if mask is None else mask for mask in (raw.train, raw.val, raw.test))
    graph = make_graph(as_scipy(raw.x), raw.edge_index, raw.y, train, val, test, raw.edge_weight, name=name, task=task)
    notes = [] if raw.edge_attr is None else [NO_EDGE_FEATURES]
    return replace(graph, notes=(*raw.notes, *notes, *graph.notes))


def node_graph(
    raw: RawGraph,
    *,
    classes: Sequence[Any] | None = None,
    encoding: Encoding | None = None,
    labelled: bool = True,
    trained: bool = False,
    seed: int = 0,
    name: str = "graph",
    task: str = "classification",
    unseen_classes: bool = False,
    divide: bool = True,
) -> Graph:
    """The checked graph.

    Args:
        raw: see ``unpack``; with ``sizes`` labels and splits are those of graphs.
        task: ``"classification"`` (classes, or a table of 0, 1 and NaN), ``"multilabel"`` (such a table, also of one
            column) or ``"regression"``.
        classes: what a trained model calls its classes; None takes those of the rows in a split.
        encoding: how that model's features were made.
        labelled: whether labels are needed.
        trained: whether this is for a model that is trained already: ``encoding`` None then means features as given.
        seed: of the split, where none is given.
        unseen_classes: number labels that a trained model does not know after its classes, instead of refusing them.
        divide: split the labelled rows where no split is given; otherwise all of them are for training.
    """
    n, what = count_nodes(raw), "node" if raw.sizes is None else "graph"
    if n < 1:
        raise InputError("there are no nodes.")
    edges = check_edges(raw.edge_index, n)
    features, encoding, notes = make_features(raw, edges, n, encoding, trained)
    notes = [*raw.notes, *notes]
    if features.shape[0] != n:
        raise InputError(f"there are {n} nodes but features of shape {tuple(features.shape)}.")
    parts: dict[str, Any] = {"ids": raw.ids, "encoding": encoding}
    if raw.sizes is None:
        notes += [] if raw.edge_attr is None else [NO_EDGE_FEATURES]
        weight = None if raw.edge_weight is None else check_edge_weight(raw.edge_weight, edges.shape[1])
        parts |= {"edge_index": edges, "edge_weight": weight}
    else:
        attributes: Any = raw.edge_attr
        if isinstance(attributes, pd.DataFrame):
            attributes = None if encoding is None else encoding.encode_edges(attributes, notes)
        parts |= side_by_side(raw.sizes, n, edges, raw.edge_weight, attributes)
    count = n if raw.sizes is None else len(raw.sizes)
    none = torch.zeros(0, dtype=torch.int64)
    given = {split: getattr(raw, split) for split in SPLITS}
    rows = {s: none if part is None else check_rows(part, count, s, f"{what}s") for s, part in given.items()}
    if not labelled and (raw.y is None or trained):
        outputs, y = 0 if classes is None else len(classes), torch.full((count,), -1)
        parts |= dict.fromkeys(SPLITS, none) | {"classes": None if classes is None else tuple(classes)}
        task = f"{what}-classification"
        return Graph(name, features, y=y, num_outputs=outputs, notes=tuple(notes), task=task, **parts)
    if raw.y is None:
        raise InputError("there are no labels: give y, missing (or -1, for classes) where it is unknown.")
    shape = shape_of(raw.y, "labels")
    if what == "graph" and (len(shape) not in (1, 2) or shape[0] != count):
        raise InputError(f"there are {count} graphs but labels of shape {shape}.")
    if task == "regression":
        y = check_targets(fill_gaps(raw.y), count, f"{what}s")
        rows = rows if trained else _with_rest(raw, ~y.isnan().all(1), rows)
    elif task == "multilabel" or (len(shape) == 2 and shape[1] > 1):
        y, task = check_labels(raw.y, count, f"{what}s", table=True), "multilabel"
        classes = tuple(range(y.shape[1])) if classes is None else classes
    else:
        y, classes, rows = _classes(raw, count, what, classes, rows, unseen_classes)
        notes += blank_labels(raw.y)
    if not trained:
        if all(part is None for part in given.values()):
            rows = rows | {"train": labelled_rows(y)}
            if divide:
                rows, note = make_split(y, seed, f"{what}s")
                notes.append(note)
        check_splits(y, rows, f"{what}s")
        notes += unseen_note(y, rows, classes)
    outputs = y.shape[1] if classes is None else len(classes)
    parts |= rows | {"classes": None if classes is None else tuple(classes), "notes": tuple(notes)}
    return Graph(name, features, y=y, num_outputs=outputs, task=f"{what}-{task}", **parts)


def _classes(
    raw: RawGraph, n: int, what: str, classes: Sequence[Any] | None, rows: dict[str, Tensor], unseen_classes: bool
) -> tuple[Tensor, Sequence[Any], dict[str, Tensor]]:
    """Class numbers, what they stand for, and the splits."""
    column = label_column(raw.y)
    if len(column) != n:
        raise InputError(f"there are {n} {what}s but {len(column)} labels.")
    known = torch.from_numpy(column.notna().to_numpy(copy=True))
    if classes is not None:
        classes = with_unseen(column, classes) if unseen_classes else classes
        return torch.from_numpy(to_numbers(column, classes)), classes, rows
    rows = _with_rest(raw, known, rows)
    for split in SPLITS:
        unknown = int((~known[rows[split]]).sum())
        if unknown:
            raise InputError(f"{unknown} {what}s of the {split} split have no label.")
    numbers, classes = split_classes(column, rows)
    return torch.from_numpy(numbers), classes, rows


def _with_rest(raw: RawGraph, known: Tensor, rows: dict[str, Tensor]) -> dict[str, Tensor]:
    """The splits; where only validation or test rows are given, all other labelled rows are for training."""
    if raw.train is not None or not any(len(rows[s]) for s in ("val", "test")):
        return rows
    rest = known.clone()
    rest[torch.cat([rows["val"], rows["test"]])] = False
    return rows | {"train": rest.nonzero()[:, 0]}


def make_features(
    raw: RawGraph, edges: Tensor, n: int, encoding: Encoding | None, trained: bool
) -> tuple[Any, Encoding | None, list[str]]:
    """The checked features, how they were made, and what is to be said about it."""
    kind = None if encoding is None else encoding.kind
    notes = [] if trained or encoding is None else encoding.notes
    if kind == "structural" or (raw.x is None and not trained):
        features = check_features(structural_features(edges.numpy(), n), sparse=False)
        return features, replace(encoding or Encoding("structural"), kind="structural"), [*notes, NO_FEATURES]
    if raw.x is None:
        raise InputError("the model was trained with node features, and this graph has none.")
    if isinstance(raw.x, pd.DataFrame):
        if encoding is None:
            encoding = Encoding.learn(raw.x)
            notes = encoding.notes
        if encoding.kind != "table":
            raise InputError("the model was trained on an array of features, not on a table with named columns.")
        return check_features(encoding.encode(raw.x, notes=notes)), encoding, notes
    x = as_scipy(raw.x)
    if sp.issparse(x):
        return check_features(x), None, []
    array = as_array(x, "the node features")
    array = array[:, None] if array.ndim == 1 else array
    learn = (encoding is None or kind == "given") and not trained and array.ndim == 2 and array.size > 0
    if learn and np.isfinite(array).all() and (scaled := Encoding.for_array(array)) is not None:
        encoding = replace(scaled, edge_columns=() if encoding is None else encoding.edge_columns)
        notes = [*notes, SCALED]
    if encoding is not None and encoding.kind == "table":
        array = encoding.encode_array(array)
    return check_features(array), encoding, notes


def count_nodes(raw: RawGraph) -> int:
    """The number of nodes, from the first thing that tells it: features, what is stated, labels, edges.

    One wrong number among the edges would make billions of nodes, so without features there must not be many more
    nodes than edges or labels.
    """
    stated = None if raw.num_nodes is None else check_whole("num_nodes", raw.num_nodes, 0, MOST_NODES)
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
    if n > BARE_NODES + 1000 * max(edges.size, *labels[:1], 0):
        raise InputError(f"edge_index with {edges.size // 2} edges cannot have {n} nodes: number the nodes from 0.")
    return n


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


def split_per_class(y: np.ndarray, train: float | int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Training rows per class, a number or a share; the rest is halved, validation at most 500."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))
    chosen = []
    for label in np.unique(y):
        mine = order[y[order] == label]
        chosen.append(mine[: train if isinstance(train, int) else max(1, round(train * len(mine)))])
    picked = np.concatenate(chosen)
    rest = order[~np.isin(order, picked)]
    val = min(500, len(rest) // 2)
    return picked, rest[:val], rest[val:]


def make_folds(graph: Graph, seed: int, count: int = FOLDS) -> list[Tensor]:
    """The labelled rows in ``count`` parts, every class in proportion."""
    from sklearn.model_selection import KFold, StratifiedKFold

    y = graph.y.cpu()
    known = torch.cat([graph.train, graph.val, graph.test]).cpu().sort().values.numpy()
    classes = y[torch.from_numpy(known)].numpy() if y.dim() == 1 else None
    least = len(known) if classes is None else int(np.unique(classes, return_counts=True)[1].min())
    if least < count:
        raise InputError(f"{count}-fold cross-validation needs {count} graphs of every class, the rarest has {least}.")
    splitter = (StratifiedKFold if classes is not None else KFold)(count, shuffle=True, random_state=seed)
    parts = splitter.split(known, classes)
    return [torch.from_numpy(known[held_out]).to(graph.y.device) for _, held_out in parts]
