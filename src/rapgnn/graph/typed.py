"""Graphs with several types of nodes and relations: what a user has of each, and the one ``Graph`` that comes of it.

The rows of such a graph (its labels, splits and ids) are the nodes of one type, the target. Every relation counts in
both directions, each a relation of its own. A graph of one type and one relation is a graph without types.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
import torch
from torch import Tensor

from rapgnn.errors import InputError, check_choice, shown
from rapgnn.graph.convert import RawGraph, as_directed, as_table, entries_of, unpack
from rapgnn.graph.graph import Graph, build_graph, make_features
from rapgnn.graph.relations import ALSO, ALWAYS, BESIDE, Relation, Types
from rapgnn.graph.rows import split_blocks
from rapgnn.graph.table import Encoding
from rapgnn.graph.validate import SPLITS, as_array, check_edge_weight, check_whole, shape_of
from rapgnn.sparse import Features, SparseMatrix

SNAPSHOTS, SNAPSHOT_EDGES = (12, 40), 4_000_000  # points in time: the fewest and most, and edges of all together
NO_EDGES = np.zeros((2, 0), dtype=np.int64)


@dataclass(frozen=True)
class NodeType:
    """One type of nodes.

    Args:
        columns: a table with a row per node, encoded as every user's table is.
        x: features as given (array, tensor, sparse), instead.
        count: the number of nodes, where there is neither.
        ids: what the nodes are called.
        time: since when each node is there, in seconds; NaN: always.
    """

    columns: pd.DataFrame | None = None
    x: Any = None
    count: int | None = None
    ids: np.ndarray | None = None
    time: Any = None


def typed_graph(
    types: Mapping[str, NodeType],
    relations: Sequence[Relation],
    target: str,
    *,
    y: Any = None,
    train: Any = None,
    val: Any = None,
    test: Any = None,
    time: Any = None,
    task: str = "classification",
    known: dict[str, Any] | None = None,
    seed: int = 0,
    name: str = "graph",
    notes: tuple[str, ...] = (),
    plain: bool = True,
    **how: Any,
) -> Graph:
    """The graph whose rows are the nodes of one type; everything a user can get wrong is checked.

    Args:
        types: the types of nodes by name.
        relations: between them; one that is given without its reverse gets it.
        target: the type that is predicted for.
        y, train, val, test: labels and splits of its nodes, as ``build_graph`` takes them.
        time: of its nodes, in seconds: each is predicted as of its time; None: the type's own times, if it has any.
        known: what a trained model knows of types, from ``Types.described``.
        plain: whether one type with one relation is a graph without types.
        how: as in ``build_graph``: ``classes``, ``encoding``, ``trained``, ``labelled``.
    """
    types = {str(name): one for name, one in types.items()}
    check_choice("target", target, types)
    if known is not None and known["target"] != target:
        raise InputError(f"the model is for nodes of type {known['target']}, not of type {target}.")
    edges = [_checked(one, types) for one in relations]
    counts = {name: _count(name, one, edges) for name, one in types.items()}
    own, row = types[target], {"y": y, "train": train, "val": val, "test": test}
    clock = _times(own.time if time is None else time, counts[target], f"the times of {target}")
    plain = plain and len(types) == 1 and len(edges) <= 1 and clock is None and known is None
    raw = RawGraph(x=_given(own), num_nodes=counts[target], ids=own.ids, notes=notes, **row)
    if plain:
        first = edges[0] if edges else Relation(target, "", target, NO_EDGES)
        raw = as_directed(replace(raw, edge_index=first.edge_index, edge_weight=first.weight), None)
        return build_graph(raw, task=task, seed=seed, name=name, **how)
    if clock is not None and known is None and all(row[split] is None for split in SPLITS):
        raw = _split_by_time(raw, clock)
    edges = _with_reverse(edges, types, None if known is None else known["relations"])
    for one in edges:
        _check_ends(one, counts)
    times = {name: _times(one.time, counts[name], f"the times of {name}") for name, one in types.items()}
    late = {name: given for name, given in times.items() if given is not None}
    last = None if clock is None or known is not None else _last_training(raw, clock)
    features, encodings = dict[str, Features](), dict[str, Encoding | None]()
    for kind, one in types.items():
        seen = None if last is None or kind not in late else late[kind] <= last
        x, encodings[kind], said = _encoded(kind, one, counts[kind], seen, known)
        raw = replace(raw, notes=(*raw.notes, *said))
        if x is not None:
            features[kind] = x
    edges = tuple(_as_of(one, late) for one in edges)
    raw = replace(raw, x=np.ones((counts[target], 1)), edge_index=NO_EDGES)
    how["encoding"] = Encoding("given")
    graph = build_graph(raw, task=task, seed=seed, name=name, **how)
    names = {name: np.asarray(one.ids) for name, one in types.items() if one.ids is not None}
    about = Types(target, counts, features, edges, encodings, names, late, clock)
    if known is not None:
        about = replace(about, cuts=tuple(known["cuts"]), step=known["step"])
    elif clock is not None:
        most = int(np.clip(SNAPSHOT_EDGES // max(1, sum(one.edge_index.shape[1] for one in edges)), *SNAPSHOTS))
        cuts, step = _cuts(clock[graph.train.numpy()], most)
        about = replace(about, cuts=cuts, step=step)
        note = (
            f"every row sees the facts of the last of {len(cuts)} points in time that is not later than the row itself."
        )
        graph = replace(graph, notes=(*graph.notes, note))
    return with_types(replace(graph, encoding=None), about)


def with_types(graph: Graph, types: Types) -> Graph:
    """The graph of other types, whose rows have the features of the target, or else the numbers of their neighbours."""
    x = types.features.get(types.target)
    counts = types.counts[types.target]
    return replace(graph, x=neighbour_counts(types.relations, types.target, counts) if x is None else x, typed=types)


def _given(one: NodeType) -> Any:
    return one.columns if one.columns is not None else one.x


def _checked(one: Relation, types: Mapping[str, NodeType]) -> Relation:
    """A relation with arrays."""
    for end in (one.source, one.target):
        if end not in types:
            raise InputError(
                f"relation {shown(one.name)} names the type {shown(end)}, but the types are {', '.join(types)}."
            )
    if ALSO in one.key or BESIDE in one.key:
        raise InputError(f"relation {shown(one.key)}: names must not hold {ALSO!r} or {BESIDE!r}.")
    ends = as_array(one.edge_index, f"the edges of {one.key}")
    if ends.size == 0:
        ends = NO_EDGES
    if ends.ndim != 2 or len(ends) != 2 or ends.dtype.kind not in "iu":
        raise InputError(f"the edges of {one.key} must be whole numbers in two rows, got shape {ends.shape}.")
    m = ends.shape[1]
    weight = None if one.weight is None else check_edge_weight(one.weight, m).numpy()
    return replace(one, edge_index=ends.astype(np.int64), weight=weight, time=_times(one.time, m, one.key))


def _times(given: Any, count: int, what: str) -> np.ndarray | None:
    """Times as numbers, ``ALWAYS`` where there is none; None: there are none at all."""
    if given is None:
        return None
    times = as_array(given, what).astype(np.float64).reshape(-1)
    if len(times) != count:
        raise InputError(f"{what}: there are {len(times)} times for {count} of them.")
    return np.where(np.isnan(times), ALWAYS, times)


def _count(name: str, one: NodeType, edges: Sequence[Relation]) -> int:
    """How many nodes a type has: by its table or features, by what is stated, by its edges."""
    given = _given(one)
    if given is not None and (one.columns is None or one.columns.shape[1]):
        count = shape_of(given, f"the features of {name}")[0]
        if one.count is not None and one.count != count:
            raise InputError(f"{name} has {one.count} nodes but features of {count}.")
        return int(count)
    if one.count is not None:
        return check_whole(f"the count of {name}", one.count, 0, 1 << 40)
    if one.columns is not None or one.ids is not None:
        return len(one.ids if one.columns is None else one.columns)  # type: ignore[arg-type]
    ends = [r.edge_index[side] for r in edges for side, end in ((0, r.source), (1, r.target)) if end == name]
    return int(max((part.max(initial=-1) for part in ends), default=-1)) + 1


def _check_ends(one: Relation, counts: Mapping[str, int]) -> None:
    for ends, kind in zip(one.edge_index, (one.source, one.target), strict=True):
        if ends.size and (ends.min() < 0 or ends.max() >= counts[kind]):
            outside = ends[(ends < 0) | (ends >= counts[kind])][0]
            raise InputError(f"the edges of {one.key} name node {outside} of the {counts[kind]} of type {kind}.")


def _with_reverse(
    edges: Sequence[Relation], types: Mapping[str, NodeType], wanted: list[list[str]] | None
) -> list[Relation]:
    """The relations, each with its reverse unless that is given too, or is the same.

    Args:
        wanted: the relations that a trained model knows: those, empty where the data have none of their edges.
    """
    relations = {one.key: one for one in edges}
    if len(relations) < len(edges):
        raise InputError("there are two relations of one name between the same types: give each a name of its own.")
    there = {_edges(one): one.key for one in edges if one.edge_index.size}
    for one in edges:
        back = one.reverse
        other = there.get(_edges(back)) if wanted is None else None
        if other is None:
            other = relations.setdefault(back.key, back).key
        relations[one.key] = replace(one, back=other)
    if wanted is None:
        return list(relations.values())
    empty = [_checked(Relation(source, name, end, NO_EDGES), types) for source, name, end in wanted]
    return [relations.get(one.key, one) for one in empty]


def _edges(one: Relation) -> tuple[str, str, bytes]:
    """What relations of the same edges have in common."""
    source, target = one.edge_index
    return one.source, one.target, np.unique(source * (target.max(initial=0) + 1) + target).tobytes()


def _as_of(one: Relation, times: Mapping[str, np.ndarray]) -> Relation:
    """The relation whose edges are there no sooner than the nodes that send them."""
    if one.source not in times:
        return one
    sent = times[one.source][one.edge_index[0]]
    return replace(one, time=sent if one.time is None else np.maximum(one.time, sent))


def _encoded(
    name: str, one: NodeType, count: int, seen: np.ndarray | None, known: dict[str, Any] | None
) -> tuple[Features | None, Encoding | None, list[str]]:
    """Features, how they were made, and what is to be said about it; None: there are none.

    Args:
        seen: the rows that a table's means and categories may be learned of.
        known: what a trained model knows of types.
    """
    given, width = _given(one), None if known is None else known["widths"].get(name)
    if known is not None and width is None:
        return None, None, []
    if width == 0 or given is None or count == 0 or 0 in shape_of(given, f"the features of {name}"):
        if width:
            raise InputError(f"the model was trained with features of {name}, and these data have none.")
        return None, None, []
    encoding = None if known is None or known["encodings"][name] is None else known["encodings"][name]
    encoding = None if encoding is None else Encoding.from_dict(encoding)
    if known is None and isinstance(given, pd.DataFrame):
        try:
            encoding = Encoding.learn(given if seen is None or not seen.any() else given.loc[seen], impute=True)
        except InputError as error:  # nothing but names
            return None, None, [f"{name} has no features: {error}"]
        if encoding.kind != "table" or not encoding.width:
            return None, None, []
    raw = RawGraph(x=given)
    features, encoding, notes = make_features(raw, torch.zeros(2, 0), count, encoding, known is not None)
    if width is not None and features.shape[1] != width:
        raise InputError(f"the model was trained with {width} features of {name}, the data have {features.shape[1]}.")
    return features, encoding, [f"{name}: {note}" for note in notes]


def neighbour_counts(edges: Sequence[Relation], target: str, count: int) -> Tensor:
    """Of every node of a type, log(1 + the number of its neighbours) by each relation; a column of ones."""
    received = [one for one in edges if one.target == target]
    columns = [np.log1p(np.bincount(one.edge_index[1], minlength=count)) for one in received]
    return torch.from_numpy(np.column_stack([*columns, np.ones(count)]).astype(np.float32))


def flattened(graph: Graph) -> Graph:
    """A graph with types as one without: all nodes, the target's first, with features side by side and their type.

    What a model without types can make of it; refused where rows have a time.
    """
    types = graph.typed
    assert types is not None
    if types.clock is not None:
        raise InputError("rows that are predicted as of a time need a model with types: compare no others.")
    counts = {types.target: types.counts[types.target]} | types.counts
    first = dict(zip(counts, np.cumsum([0, *counts.values()]).tolist(), strict=False))
    given = {kind: types.features.get(kind, torch.zeros(count, 0)) for kind, count in counts.items()}
    tables = [x.scipy() if isinstance(x, SparseMatrix) else sp.csr_matrix(x.numpy()) for x in given.values()]
    marks = sp.block_diag([np.ones((count, 1)) for count in counts.values()])
    x: Any = sp.csr_matrix(sp.hstack([marks, sp.block_diag(tables)]))
    words = any(isinstance(one, SparseMatrix) for one in given.values())
    x = SparseMatrix(x) if words else torch.from_numpy(x.toarray()).float()
    ends = [one.edge_index + np.array([[first[one.source]], [first[one.target]]]) for one in types.relations]
    unknown = float("nan") if graph.y.is_floating_point() else -1
    more = torch.full((types.num_nodes - graph.num_rows, *graph.y.shape[1:]), unknown).to(graph.y)
    edges = torch.from_numpy(np.concatenate([NO_EDGES, *ends], axis=1))
    return replace(
        graph, x=x, y=torch.cat([graph.y, more]), edge_index=edges, encoding=None, ids=None, typed=None, read_as=None
    )


# Times.


def _split_by_time(raw: RawGraph, clock: np.ndarray) -> RawGraph:
    """Labelled rows divided by time, the last for testing; rows of one time stay together."""
    if raw.y is None:
        return raw
    labels = pd.DataFrame(as_table(raw.y) if not isinstance(raw.y, Tensor) else raw.y.cpu().numpy())
    known = np.flatnonzero(labels.notna().any(axis=1).to_numpy() & ~labels.isin([-1]).all(axis=1).to_numpy())
    rows = [known[part] for part in split_blocks(pd.factorize(clock[known], sort=True)[0])] if len(known) else [known]
    if not all(len(part) for part in rows):
        return raw
    sizes = " / ".join(str(len(part)) for part in rows)
    note = f"no split was given: the labelled rows were divided {sizes} by time (train / val / test)."
    return replace(raw, **dict(zip(SPLITS, rows, strict=True)), notes=(*raw.notes, note))


def _cuts(times: np.ndarray, most: int) -> tuple[tuple[float, ...], float]:
    """Points in time between which training rows are about as many, and the usual distance of two."""
    times = times[np.isfinite(times)]
    if not len(times):
        return (), 0.0
    cuts = np.unique(np.quantile(times, np.linspace(0, 1, most), method="lower"))
    step = np.quantile(np.diff(cuts), 0.5, method="lower") if len(cuts) > 1 else 0.0  # years are of 365 days or 366
    return tuple(cuts.tolist()), float(step)


def _last_training(raw: RawGraph, clock: np.ndarray) -> float | None:
    """The time of the last training row; None where no split says which these are."""
    if raw.train is None:
        return None
    rows = as_array(raw.train, "the train split")
    return float((clock[rows] if len(rows) else clock).max(initial=ALWAYS))


# What a user may hand in.


def is_typed(data: Any) -> bool:
    """Whether this is a PyG ``HeteroData``, a pair (nodes, relations), or both in one dictionary."""
    if hasattr(data, "node_types") and hasattr(data, "edge_types"):
        return not isinstance(data, type)
    if isinstance(data, dict):
        return any(isinstance(key, tuple) and len(key) == 3 for key in data)
    return isinstance(data, tuple) and len(data) == 2 and isinstance(data[0], dict)


def read_typed(
    data: Any, y: Any = None, *, target: str | None = None, mask_column: int | None = None, **given: Any
) -> tuple[dict[str, NodeType], list[Relation], str, dict[str, Any]]:
    """(types, relations, target, labels and splits) of whatever ``is_typed``.

    Args:
        y: labels of the target's nodes, or the name of its column that has them; None: those of a ``HeteroData``.
        target: may be left out where one type alone has labels.
        given: ``train``, ``val``, ``test``, ``time``; they win over what the data say.
    """
    given = {key: value for key, value in given.items() if value is not None}
    if isinstance(data, dict | tuple):
        types, relations = _of_tables(data)
        if target is None and len(types) == 1:
            target = next(iter(types))
        if target is None:
            raise InputError(f"say which nodes are predicted for: target= one of {', '.join(types)}.")
        check_choice("target", target, types)
        own = types[target].columns
        if isinstance(y, str) and own is not None:
            if y not in own:
                raise InputError(f"{target} has no column {shown(y)}: it has {', '.join(map(str, own.columns))}.")
            types[target], y = replace(types[target], columns=own.drop(columns=[y])), own[y]
        return types, relations, target, {"y": y, **given}
    if not data.node_types:
        raise InputError("this HeteroData has no nodes: give each type x or num_nodes, and each relation edge_index.")
    named = [kind for kind in data.node_types if getattr(data[kind], "y", None) is not None]
    if target is None and len(named) != 1:
        which = f"types with labels are {', '.join(named)}" if named else "no type has labels"
        raise InputError(f"say which nodes are predicted for: target= one of {', '.join(data.node_types)} ({which}).")
    target = str(named[0] if target is None else target)
    check_choice("target", target, data.node_types)
    types, store = {kind: _of_store(data[kind]) for kind in data.node_types}, data[target]
    relations = []
    for key in data.edge_types:
        one = data[key]
        ends, weight = getattr(one, "edge_index", None), getattr(one, "edge_weight", None)
        if ends is None and getattr(one, "adj_t", None) is not None:
            entries = entries_of(one.adj_t, "adj_t")  # its rows are receivers
            ends, weight = np.stack([entries.col, entries.row]), None if (entries.data == 1).all() else entries.data
        if ends is None:
            raise InputError(f"relation {' '.join(key)} has no edges, neither edge_index nor adj_t: give one of them.")
        source, name, end = key
        relations.append(Relation(source, name, end, ends, weight, getattr(one, "time", None)))
    alone = {"x": torch.zeros(types[target].count or 0, 1), "edge_index": torch.zeros(2, 0, dtype=torch.int64)}
    alone |= {f"{split}_mask": getattr(store, f"{split}_mask", None) for split in SPLITS}
    raw = unpack(SimpleNamespace(**alone, y=getattr(store, "y", None)), True, mask_column, y=y)
    splits = {split: getattr(raw, split) for split in SPLITS if getattr(raw, split) is not None}
    return types, relations, target, {"y": raw.y, **splits, **given}


def build_typed(data: Any, y: Any, given: dict[str, Any], types: dict[str, Any] | None = None, **how: Any) -> Graph:
    """The graph of whatever ``is_typed``.

    Args:
        given: what the user gave by name: ``target``, ``train``, ``val``, ``test``, ``time``, ``mask_column``.
        types: what a trained model knows of types.
        how: as in ``typed_graph``.
    """
    known = ("target", "mask_column", "time", *SPLITS)
    named = {name.removesuffix("_mask"): value for name, value in given.items()}
    if unknown := [name for name in named if name not in known]:
        raise InputError(f"{unknown[0]} is not for graphs with types: they take {', '.join(known)}.")
    if types is not None:
        named.setdefault("target", types["target"])
    kinds, relations, target, rows = read_typed(data, y, **named)
    return typed_graph(kinds, relations, target, known=types, **rows, **how)


def _of_store(store: Any) -> NodeType:
    x, time = getattr(store, "x", None), getattr(store, "time", None)
    count = store.num_nodes if x is None else shape_of(x, "the node features")[0]
    if count is None:
        raise InputError("a type of nodes has neither x nor num_nodes: give one of them.")
    return NodeType(x=x, count=int(count), time=time)


def _of_tables(data: dict[Any, Any] | tuple[Any, Any]) -> tuple[dict[str, NodeType], list[Relation]]:
    """Types and relations of tables, arrays and numbers of nodes by type, and edges by relation."""
    nodes = data[0] if isinstance(data, tuple) else {k: v for k, v in data.items() if not isinstance(k, tuple)}
    given = data[1] if isinstance(data, tuple) else {k: v for k, v in data.items() if isinstance(k, tuple)}
    types = {str(kind): _as_type(one) for kind, one in nodes.items()}
    if isinstance(given, Mapping):
        given = [Relation(str(a), str(name), str(b), ends) for (a, name, b), ends in given.items()]
    if not all(isinstance(one, Relation) for one in given):
        raise InputError("relations must be a list of Relation, or {(source, name, target): edge_index}.")
    return types, list(given)


def _as_type(one: Any) -> NodeType:
    one = as_table(one)
    if isinstance(one, NodeType):
        return one
    if isinstance(one, pd.DataFrame):
        return NodeType(columns=one)
    if isinstance(one, int | np.integer) and not isinstance(one, bool):
        return NodeType(count=int(one))
    if one is None or sp.issparse(one) or hasattr(one, "shape"):
        return NodeType(x=one)
    raise InputError(f"a type of nodes must be a NodeType, a table, an array or a number of nodes, got {shown(one)}.")
