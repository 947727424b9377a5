"""The one way a graph is represented inside, and how one is made of what a user gives, everything checked."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
import torch
from torch import Tensor

from rapgnn.errors import InputError, check_choice
from rapgnn.graph.convert import RawGraph, as_scipy, count_nodes, own_labels, read_list, unpack
from rapgnn.graph.labels import (
    AS_GIVEN,
    SHARES,
    blank_labels,
    fill_gaps,
    find_classes,
    label_column,
    make_split,
    to_numbers,
    unseen_note,
    with_unseen,
)
from rapgnn.graph.operator import GraphOperator, build_operator
from rapgnn.graph.relations import Types
from rapgnn.graph.scores import objective_for
from rapgnn.graph.table import Encoding, structural_features
from rapgnn.graph.tasks import KINDS, Objective
from rapgnn.graph.validate import (
    NEGATIVE,
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
    mostly_zero,
    shape_of,
)
from rapgnn.sparse import Features, SparseMatrix, row_block, row_sums, without_zeros

NO_FEATURES = "the graph has no node features: degrees and other structural features take their place."
SCALED = "the features differ in scale, so each got mean 0 and variance 1."


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
        typed: the types and relations, where there are several: the nodes above are then those of one type.
        scoring: a metric, or the name of one, that is trained for instead of the task's own.
        class_weight: how much a row of each class counts; their mean over the training rows is 1.
        sample_weight: how much each row counts ``[rows]``, where it is a training row; likewise.
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
    typed: Types | None = field(default=None, compare=False, repr=False)
    scoring: Any = None
    class_weight: tuple[float, ...] | None = None
    sample_weight: Tensor | None = None

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
        """The task's metric, loss and reading of scores, or those of a goal of the user's own."""
        return objective_for(self.task, self.scoring, self.class_weight)

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
        names = ("x", "y", "ptr", "edge_attr", "sample_weight", *SPLITS)
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
        self.graph, self.later = graph, list[Graph]()
        self._answers: dict[int, tuple[Any, list[Tensor], bool]] = {}

    def add(self, nodes: Graph) -> None:
        """Nodes that come after those that there are."""
        self.later.append(nodes)

    def any(self, seen: Any) -> bool:
        """Whether any of the seen nodes is there."""
        return self._of(seen)[2]

    def numbers(self, seen: Any, nodes: Tensor) -> Tensor:
        """Which of the seen ones these nodes are; -1: none.

        Args:
            seen: who knows, by its ``numbers_in(graph)``.
            nodes: their numbers in the whole; -1: none of its nodes.
        """
        _, (first, *later), _ = self._of(seen)
        nodes = nodes.to(first.device)
        numbers = torch.where(nodes >= 0, first[nodes.clamp(0, len(first) - 1)], -1)
        late = nodes >= len(first)
        if bool(late.any()):
            numbers[late] = torch.cat(later)[nodes[late] - len(first)]
        return numbers

    def _of(self, seen: Any) -> tuple[Any, list[Tensor], bool]:
        parts, there = self._answers[id(seen)][1:] if id(seen) in self._answers else ([], False)
        for graph in [self.graph, *self.later][len(parts) :]:
            parts.append(seen.numbers_in(graph))
            there = there or bool((parts[-1] >= 0).any())
        self._answers[id(seen)] = seen, parts, there  # who asks stays beside the answer: no other gets its place
        return self._answers[id(seen)]


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
        task: ``"classification"`` (classes, or a table of 0, 1 and NaN), ``"multilabel"`` (such a table, also of one
            column) or ``"regression"``.
    """
    raw = RawGraph(x, edge_index, edge_weight, None, y, train, val, test)
    return build_graph(raw, as_given=True, sparse=sparse, unseen_classes=unseen_classes, task=task, name=name)


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
    """The same of many graphs side by side, whose nodes and edges are numbered through.

    Args:
        sizes: number of nodes of each graph; 0 is a graph without nodes.
        y: one label per graph, as in ``make_graph``.
        train, val, test: masks or graph numbers; all None: a stratified split of 80, 10 and 10 percent by ``seed``.
        edge_attr: features of every edge.
        task: None tells classes from a table of 0 and 1 by the shape of y.
        folds: whether these graphs are evaluated by cross-validation.
    """
    raw = RawGraph(x, edge_index, edge_weight, edge_attr, y, train, val, test, sizes=sizes)
    return replace(build_graph(raw, as_given=True, task=task or "classification", name=name, seed=seed), folds=folds)


def from_pyg(
    data: Any,
    name: str = "graph",
    directed: bool | None = None,
    task: str = "classification",
    mask_column: int | None = None,
) -> Graph:
    """A PyTorch Geometric ``Data`` with masks as a ``Graph``: features and class numbers are taken as they are.

    Args:
        directed: False adds the reverse of edges that are listed one way; otherwise they count as listed.
        task: as in ``make_graph``.
        mask_column: which of several masks side by side counts.
    """
    raw = unpack(data, directed=directed, mask_column=mask_column)
    wanted = {"x": raw.x, "y": raw.y, "train_mask": raw.train}
    missing = [field for field, value in wanted.items() if value is None]
    if missing:
        raise InputError(f"the graph has no {', '.join(missing)}; training on nodes needs all of them.")
    return build_graph(raw, as_given=True, task=task, name=name)


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
    raws, raw = read_list(graphs, directed)
    raw = replace(raw, y=own_labels(raws, y) if labelled else None, **(splits or {}))
    how.setdefault("name", "graphs")
    return build_graph(raw, labelled=labelled, divide=False, **how)


def build_graph(
    raw: RawGraph,
    *,
    classes: Sequence[Any] | None = None,
    encoding: Encoding | None = None,
    as_given: bool = False,
    labelled: bool = True,
    trained: bool = False,
    seed: int = 0,
    name: str = "graph",
    task: str = "classification",
    sparse: bool | None = None,
    unseen_classes: bool = False,
    divide: bool = True,
) -> Graph:
    """The checked graph: features made, labels numbered, splits chosen.

    Args:
        raw: see ``unpack``; with ``sizes`` labels and splits are those of graphs.
        classes: what a trained model calls its classes; None takes those of the rows in a split.
        encoding: how that model's features were made.
        as_given: features and class numbers are taken as they are.
        labelled: whether labels are needed.
        trained: whether this is for a model that is trained already: ``encoding`` None then means features as given.
        seed: of the split, where none is given.
        task, sparse: as in ``make_graph``.
        unseen_classes: as in ``make_graph``. (Labels that a trained model does not know come after its classes.)
        divide: split the labelled rows where no split is given; otherwise all of them are for training.
    """
    check_choice("task", task, KINDS)
    n, what = count_nodes(raw), "node" if raw.sizes is None else "graph"
    if n < 1:
        raise InputError("there are no nodes.")
    edges = check_edges(raw.edge_index, n)
    if as_given:
        features, notes = raw.x if isinstance(raw.x, SparseMatrix) else check_features(as_scipy(raw.x), sparse), []
    else:
        features, encoding, notes = make_features(raw, edges, n, encoding, trained)
    notes = [*raw.notes, *notes]
    if features.shape[0] != n:
        raise InputError(f"there are {n} nodes but features of shape {tuple(features.shape)}.")
    parts: dict[str, Any] = {"ids": raw.ids, "encoding": encoding}
    if raw.sizes is None:
        if raw.edge_attr is not None:
            notes.append("edge features are for many graphs; on one graph edge_attr is left out (edge_weight counts).")
        weight = None if raw.edge_weight is None else check_edge_weight(raw.edge_weight, edges.shape[1])
        parts |= {"edge_index": edges, "edge_weight": weight}
    else:
        attributes: Any = raw.edge_attr
        if isinstance(attributes, pd.DataFrame):
            attributes = None if encoding is None else encoding.encode_edges(attributes, notes)
        parts |= side_by_side(raw.sizes, n, edges, raw.edge_weight, attributes)
    count = n if raw.sizes is None else len(raw.sizes)
    none = torch.zeros(0, dtype=torch.int64)
    weight = parts["edge_weight"]
    notes += [NEGATIVE] if weight is not None and not trained and bool((weight < 0).any()) else []
    given = {split: getattr(raw, split) for split in SPLITS}
    if trained:  # of several masks side by side the one that training took counts
        given = {split: None if np.ndim(part) == 2 else part for split, part in given.items()}
    rows = {s: none if part is None else check_rows(part, count, s, f"{what}s") for s, part in given.items()}
    if not labelled and (raw.y is None or trained):
        outputs, y = 0 if classes is None else len(classes), torch.full((count,), -1)
        parts |= dict.fromkeys(SPLITS, none) | {"classes": None if classes is None else tuple(classes)}
        return Graph(
            name, features, y=y, num_outputs=outputs, notes=tuple(notes), task=f"{what}-classification", **parts
        )
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
        classes = tuple(range(y.shape[1])) if classes is None and not as_given else classes
    elif as_given:
        y = check_labels(raw.y, count, f"{what}s")
    else:
        y, classes, rows = _classes(raw, count, what, classes, rows)
        notes += blank_labels(raw.y)
    if not trained:
        if all(part is None for part in given.values()):
            rows = rows | {"train": labelled_rows(y)}
            if as_given or divide:
                rows, note = make_split(y, seed, f"{what}s", AS_GIVEN if as_given else SHARES)
                notes += [] if as_given else [note]
        check_splits(y, rows, f"{what}s", unseen_classes, classes)
        notes += unseen_note(y, rows, classes)
    outputs = len(classes) if classes is not None else y.shape[1] if y.dim() == 2 else int(y.max()) + 1
    parts |= rows | {"classes": None if classes is None else tuple(classes), "notes": tuple(notes)}
    return Graph(name, features, y=y, num_outputs=outputs, task=f"{what}-{task}", **parts)


def _classes(
    raw: RawGraph, n: int, what: str, classes: Sequence[Any] | None, rows: dict[str, Tensor]
) -> tuple[Tensor, Sequence[Any], dict[str, Tensor]]:
    """Class numbers, what they stand for, and the splits."""
    column = label_column(raw.y)
    if len(column) != n:
        raise InputError(f"there are {n} {what}s but {len(column)} labels.")
    if classes is not None:
        classes = with_unseen(column, classes)
        return torch.from_numpy(to_numbers(column, classes)), classes, rows
    rows = _with_rest(raw, torch.from_numpy(column.notna().to_numpy(copy=True)), rows)
    used = torch.cat(list(rows.values())).numpy()
    classes = find_classes(column.iloc[used] if len(used) else column)
    return torch.from_numpy(to_numbers(column, classes, unknown_classes=True)), classes, rows


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
    learn = learn and not mostly_zero(array)
    if learn and np.isfinite(array).all() and (scaled := Encoding.for_array(array)) is not None:
        encoding = scaled if encoding is None else replace(encoding, kind="table", columns=scaled.columns)
        notes = [*notes, SCALED]
    if encoding is not None and encoding.kind == "table":
        array = encoding.encode_array(array)
    return check_features(array), encoding, notes


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
