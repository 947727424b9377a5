"""The links of one graph, each once, and the matrices that are made of them; one relation of a graph with types as a
graph of its own, whose nodes are described by what the others bring."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from rapgnn.errors import InputError
from rapgnn.graph.backbones import mean
from rapgnn.graph.graph import Graph
from rapgnn.graph.operator import GraphOperator
from rapgnn.graph.relations import Relation, Types
from rapgnn.sparse import SparseMatrix

CHANCE, SMOOTHED = 32, 6  # random columns whose hops tell who is near by the other relations, and how many hops


@dataclass(frozen=True)
class Links:
    """The links of a graph with n nodes, each once.

    Args:
        ends: ``[m, 2]``, from and to; of an undirected graph the smaller number first.
        directed: whether (u, v) and (v, u) are two links.
    """

    n: int
    ends: Tensor
    weight: Tensor | None = None
    directed: bool = False

    @classmethod
    def of(cls, n: int, ends: Tensor, weight: Tensor | None, directed: bool) -> "Links":
        """Each link once and no loops; the weights of repeated ones add up."""
        ends = cls(n, ends, None, directed).ordered(ends)
        apart = ends[:, 0] != ends[:, 1]
        key, place = torch.unique(ends[apart, 0] * n + ends[apart, 1], return_inverse=True)
        if weight is not None:
            weight = torch.zeros(len(key)).index_add_(0, place, weight[apart].float().abs())
        return cls(n, torch.stack([key // max(1, n), key % max(1, n)], 1), weight, directed)

    def select(self, rows: Tensor) -> "Links":
        """Some of the links."""
        return Links(self.n, self.ends[rows], None if self.weight is None else self.weight[rows], self.directed)

    def without(self, pairs: Tensor) -> "Links":
        """The links that are none of these."""
        gone = Links.of(self.n, pairs, None, self.directed)
        return self.select((~gone.contains(self.ends)).nonzero()[:, 0])

    def ordered(self, pairs: Tensor) -> Tensor:
        """The pairs as links are: of (u, v) and (v, u) one, where there is no direction."""
        return pairs if self.directed else torch.stack([pairs.amin(1), pairs.amax(1)], 1)

    def key(self, pairs: Tensor) -> Tensor:
        """A number for every pair."""
        pairs = self.ordered(pairs)
        return pairs[:, 0] * self.n + pairs[:, 1]

    def contains(self, pairs: Tensor) -> Tensor:
        """Which pairs are links."""
        keys = self.key(self.ends)  # sorted, as the links are
        wanted = self.key(pairs)
        place = torch.searchsorted(keys, wanted).clamp(max=max(0, len(keys) - 1))
        return keys[place] == wanted if len(keys) else torch.zeros(len(pairs), dtype=torch.bool)

    @cached_property
    def out(self) -> sp.csr_matrix:
        """A with a row per sender, of ones; symmetric without direction."""
        u, v = self.ends.numpy().T
        one = sp.csr_matrix((np.ones(len(u), dtype=np.float32), (u, v)), shape=(self.n, self.n))
        return one if self.directed else (one + one.T).tocsr()

    @cached_property
    def into(self) -> sp.csr_matrix:
        """A with a row per receiver, of ones."""
        return self.out.T.tocsr()

    @cached_property
    def both(self) -> sp.csr_matrix:
        """A without direction, of ones."""
        if not self.directed:
            return self.out
        both = (self.out + self.out.T).tocsr()
        both.data[:] = 1
        return both

    def operator(self, loops: float = 0.0) -> GraphOperator:
        """S = D^-½ (A + loops I) D^-½ of the weighted links without direction."""
        A = self.both
        if self.weight is not None:
            u, v = self.ends.numpy().T
            A = sp.csr_matrix((self.weight.numpy(), (u, v)), shape=(self.n, self.n))
            A = (A + A.T).tocsr()
        A = A + sp.diags(np.full(self.n, loops, dtype=np.float32)) if loops else A
        degree = np.asarray(A.sum(1)).ravel()
        root = sp.diags(np.divide(1, np.sqrt(degree), out=np.zeros_like(degree), where=degree > 0))
        return GraphOperator(SparseMatrix(root @ A @ root))

    @cached_property
    def bipartite(self) -> bool:
        """Whether all nodes that links begin at are numbered before all that they end at: users, then items."""
        return bool(len(self.ends)) and int(self.ends[:, 0].max()) < int(self.ends[:, 1].min())

    @cached_property
    def sides(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """The ranges of numbers that both ends of a pair may have."""
        if not self.bipartite:
            return (0, self.n), (0, self.n)
        border = int(self.ends[:, 0].max()) + 1
        return (0, border), (border, self.n)


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
