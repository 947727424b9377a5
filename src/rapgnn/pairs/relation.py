"""One relation of a graph with types as a graph of its own, whose nodes are described by what the others bring."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch

from rapgnn.errors import InputError
from rapgnn.graph.backbones import mean
from rapgnn.graph.graph import Graph
from rapgnn.graph.relations import Relation, Types
from rapgnn.sparse import SparseMatrix

CHANCE, SMOOTHED = 32, 6  # random columns whose hops tell who is near by the other relations, and how many hops


class Named(NamedTuple):
    """A node of one of the two types."""

    type: str
    name: Any

    def __str__(self) -> str:
        return f"{self.type} {self.name}"


def relation_graph(graph: Graph, relation: Sequence[str]) -> Graph:
    """The graph of one relation: the nodes of its two types, the source's first, or of the one that it joins.

    Features are those of the nodes, the means over their neighbours by every other relation of one and two steps, and
    how many there are. The relation itself is in none of them.
    """
    types = graph.typed
    if types is None or len(relation) != 3:
        raise InputError("relation must be (source, name, target) of a graph with types of nodes, and this has none.")
    own = types.relation(" ".join(map(str, relation)))
    kinds = list(dict.fromkeys((own.source, own.target)))
    rest = [one for one in types.relations if own.key not in (one.key, one.back) and one.key != own.back]
    blocks = [sp.hstack(list(_columns(types, rest, kind)), format="csr") for kind in kinds]
    x: Any = sp.block_diag(blocks, format="csr")
    words = any(isinstance(one, SparseMatrix) for one in types.features.values())
    first = types.counts[own.source] if len(kinds) > 1 else 0
    ids = np.empty(x.shape[0], dtype=object)
    named = [Named(kind, name) for kind in kinds for name in types.ids.get(kind, np.arange(types.counts[kind]))]
    for i, name in enumerate(named):
        ids[i] = name
    ends = torch.from_numpy(own.edge_index + np.array([[0], [first]]))
    weight = None if own.weight is None else torch.from_numpy(np.asarray(own.weight)).float()
    none = torch.zeros(0, dtype=torch.int64)
    return replace(
        graph,
        x=SparseMatrix(x) if words else torch.from_numpy(x.toarray()).float(),
        y=torch.full((len(ids),), -1),
        edge_index=ends,
        edge_weight=weight,
        ids=ids,
        typed=None,
        encoding=None,
        read_as=None,
        **dict.fromkeys(("train", "val", "test"), none),
    )


def _columns(types: Types, rest: Sequence[Relation], kind: str) -> Iterator[sp.csr_matrix]:
    """What the nodes of a type are described by."""
    steps = [(one, types.operators((one.key,), mean)[one.target, one.source]) for one in rest]
    yield sp.csr_matrix(np.ones((types.counts[kind], 1)))
    if kind in types.features:
        yield _features(types, kind)
    for one, S in steps:
        if one.target == kind:
            yield sp.csr_matrix(np.log1p(np.diff(S.indptr))[:, None])
            near = [S @ M for other, M in steps if other.target == one.source and other.key != one.back]
            ends = [other.source for other, _ in steps if other.target == one.source and other.key != one.back]
            for end, M in zip([one.source, *ends], [S, *near], strict=True):
                if end in types.features:
                    yield M @ _features(types, end)
    if any(one.target == kind for one in rest):
        yield sp.csr_matrix(_nearness(types, steps)[kind])


def _nearness(types: Types, steps: Sequence[tuple[Relation, sp.csr_matrix]]) -> dict[str, np.ndarray]:
    """Random columns of all nodes after a few steps: nodes that are near by the other relations have similar ones."""
    draw = np.random.default_rng(0)
    z = {kind: draw.standard_normal((count, CHANCE)) for kind, count in types.counts.items()}
    for _ in range(SMOOTHED):
        after = {kind: x / 2 for kind, x in z.items()}
        for one, S in steps:
            after[one.target] += S @ z[one.source] / (2 * sum(other.target == one.target for other, _ in steps))
        z = after
    return {kind: x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-9) for kind, x in z.items()}


def _features(types: Types, kind: str) -> sp.csr_matrix:
    x = types.features[kind]
    return x.scipy() if isinstance(x, SparseMatrix) else sp.csr_matrix(x.numpy())
