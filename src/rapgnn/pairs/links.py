"""The links of one graph, each once, and the matrices that are made of them."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from rapgnn.graph.graph import Graph
from rapgnn.graph.operator import GraphOperator
from rapgnn.sparse import SparseMatrix


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

    @classmethod
    def of_graph(cls, graph: Graph, directed: bool) -> "Links":
        """The links of a graph whose edges are listed both ways where they have no direction."""
        return cls.of(graph.num_nodes, graph.edge_index.T, graph.edge_weight, directed)
