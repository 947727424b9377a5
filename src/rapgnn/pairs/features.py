"""What a pair of nodes is known by: degrees, common neighbours, walks between them, and their features."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
import torch
from scipy.sparse.csgraph import connected_components
from torch import Tensor
from torch.nn.functional import normalize

from rapgnn.network.hops import Hops
from rapgnn.pairs.links import Links
from rapgnn.prng import Stream, seeded

PAIR_BLOCK = 1 << 15  # pairs whose neighbours or hops live at once
COUNT_BLOCK = 1 << 12  # pairs whose rows of S^k live at once
COLUMN_BLOCK = 64  # random columns whose hops live at once
WALKED = 256  # nodes whose rows of S^k live at once
PROBED = 256  # ends of links whose surroundings are looked at
DENSE = 1024  # nodes up to which all eigenvectors are computed
ROUNDS = 3  # of the subspace iteration, two products each
FIRST = 8  # eigenvectors that are looked at alone, too
TELEPORT = 0.15  # of personalised PageRank
TINY = 1e-24
RIDGES = (0.1, 0.3, 1.0)  # penalties of rows of S that are regressed on one another
ROUNDING = 1e-5  # share of the lengths up to which an inner product is rounding, which trees would learn from


@dataclass(frozen=True)
class Described:
    """How pairs are described.

    Args:
        hops: walks between the two nodes are up to twice as long.
        most_steps: additions up to which all walks between all nodes (of the smaller side) are counted.
        columns: that estimate the walks whose rows are not short, leading eigenvectors and random ±1 columns.
        most_ends: mean number of nodes where walks may end, up to which they are counted exactly, by rows of S^k.
        rank: leading eigenvectors of S.
        feature_hops: up to which those of the nodes' features count.
        seed: of the columns.
    """

    hops: int = 4
    most_steps: float = 4e9
    columns: int = 512
    most_ends: float = 500.0
    rank: int = 64
    feature_hops: int = 3
    seed: int = 0

    @property
    def lengths(self) -> range:
        """Of the walks."""
        return range(2, 2 * self.hops + 1)

    @property
    def alike(self) -> list[tuple[int, int]]:
        """Which hops of the features are compared."""
        last = self.feature_hops
        return [(i, j) for i in range(last + 1) for j in range(i, min(last, i + 1) + 1)]

    def names(self, directed: bool, features: bool) -> list[str]:
        """What the columns are called."""
        walks = [f"{what} of {length}" for length in self.lengths for what in ("walks", "walks by degree")]
        cosines = [f"cosine of walks {k}" for k in range(1, self.hops + 1)]
        alike = [f"cosine of features {i} {j}" for i, j in self.alike] if features else []
        ridges = [f"ridge regression of S, {penalty:g}" for penalty in RIDGES]
        return [*NEIGHBOURS, *(DIRECTED if directed else ()), *walks, *cosines, *SPECTRAL, *ridges, *alike]


NEIGHBOURS = (
    *("fewer links", "more links", "common neighbours", "Adamic-Adar", "resource allocation", "Salton"),
    *("smaller component", "larger component", "the same component"),
)
DIRECTED = ("links from u", "links to u", "links from v", "links to v", "reverse link", "paths", "paths back")
SPECTRAL = (
    "personalised PageRank",
    "leading part of S",
    "leading part of A",
    "first components",
    "cosine of components",
)


def short_hops(links: Links, most: float, hops: int) -> list[float]:
    """Mean number of nodes where walks of 1, 2, … steps from an end of a link may end, while it is at most so much."""
    ends = links.ends.flatten()
    rows = links.both[ends[torch.linspace(0, max(0, len(ends) - 1), min(PROBED, len(ends))).long()].numpy()]
    sizes = list[float]()
    while len(sizes) < hops and rows.shape[0] and rows.nnz <= most * rows.shape[0]:
        sizes.append(rows.nnz / rows.shape[0])
        rows = (rows @ links.both).tocsr()
    return sizes


class PairFeatures:
    """The columns that describe pairs of nodes, one graph's links and features given.

    Args:
        links: those that count; a pair that is to be predicted is none of them.
        inputs: features of the nodes ``[n, c]``, scaled; None: there are none.
    """

    def __init__(self, links: Links, inputs: Tensor | None = None, how: Described | None = None):
        self.links, self.inputs, self.how = links, inputs, how or Described()
        self.operator = links.operator()
        self.degree = torch.from_numpy(np.diff(links.both.indptr).astype(np.float32))

    @cached_property
    def hops(self) -> Tensor:
        """The features at hops 0, 1, … side by side, rows of each of length one; along links with the node itself."""
        if self.inputs is None:
            return torch.zeros(self.links.n, 0)
        hops = Hops(self.links.operator(1.0), self.inputs, near=self.how.feature_hops)
        return torch.cat([normalize(hops.of(k), dim=1) for k in range(self.how.feature_hops + 1)], 1)

    @cached_property
    def spectrum(self) -> tuple[Tensor, Tensor]:
        """The leading eigenvectors of S and their values: subspace iteration (Halko, Martinsson, Tropp, 2011)."""
        n, S = self.links.n, self.operator.matrix
        rank = max(1, min(self.how.rank * (1 + self.links.bipartite), n // 8))  # of users and items twice: ±
        if n <= DENSE:
            values, vectors = torch.linalg.eigh(torch.from_numpy(S.scipy().toarray()))
            return _leading(vectors, values, rank)
        basis = torch.randn(n, rank + 8, generator=seeded(self.how.seed, Stream.SKETCH))
        for _ in range(max(ROUNDS, self.how.hops**2 // 5)):  # more where walks spread slowly
            basis = torch.linalg.qr(S @ (S @ basis).contiguous())[0]
        values, turn = torch.linalg.eigh(basis.T @ (S @ basis.contiguous()))
        return _leading(basis @ turn, values, rank)

    @cached_property
    def components(self) -> tuple[np.ndarray, np.ndarray]:
        """The connected component of every node, and how many nodes that has."""
        label = connected_components(self.links.both, directed=False)[1]
        return label, np.bincount(label)[label]

    @cached_property
    def exact(self) -> int:
        """Hops up to which rows of S^k are short."""
        return len(short_hops(self.links, self.how.most_ends, self.how.hops))

    def columns(self, pairs: Tensor) -> Tensor:
        """The description of every pair ``[m, 2]``; that of (u, v) is that of (v, u) where links have no direction."""
        pairs = self.links.ordered(pairs)
        walks = self.walks(pairs)
        root = (self.degree[pairs[:, 0]] * self.degree[pairs[:, 1]]).sqrt()
        products = [column for walk in walks[: len(self.how.lengths)] for column in (walk, walk * root)]
        share = torch.tensor([TELEPORT * (1 - TELEPORT) ** length for length in self.how.lengths])
        rank = share @ walks[: len(self.how.lengths)]
        walked = torch.stack([*products, *walks[len(self.how.lengths) :], rank], 1)
        rest = [
            torch.cat([part(block) for block in pairs.split(PAIR_BLOCK)] or [part(pairs)])
            for part in (self._neighbours, self._spectral, self._alike)
        ]
        rest[1][:, -len(RIDGES) :].add_(walks[int(self.links.bipartite), :, None] / self._cuts).mul_(root[:, None])
        return torch.cat([rest[0], walked, *rest[1:]], 1)

    @property
    def _cuts(self) -> Tensor:
        """What S² or S³ is divided by where the ridge regressions are beyond the leading eigenvectors."""
        return self.spectrum[1].square().amin() + torch.tensor(RIDGES)

    def _neighbours(self, pairs: Tensor) -> Tensor:
        A, (u, v) = self.links.both, pairs.numpy().T
        degree = self.degree.numpy()
        weights = np.stack([np.ones_like(degree), 1 / np.log(np.maximum(degree, 2)), 1 / np.maximum(degree, 1)], 1)
        common = np.asarray(A[u].multiply(A[v]).tocsr() @ weights)
        label, size = self.components
        few, many = (np.stack([degree[ends], size[ends]]) for ends in (u, v))
        if not self.links.bipartite:  # there pairs are ordered: how many items a user has, and how many users an item
            few, many = np.minimum(few, many), np.maximum(few, many)
        columns = [*np.log1p([few[0], many[0]]), *common.T, common[:, 0] / np.sqrt(np.maximum(few[0] * many[0], 1))]
        columns += [*np.log([few[1], many[1]]), label[u] == label[v]]
        if self.links.directed:
            out, into = self.links.out, self.links.into
            sent, got = (np.log1p(np.diff(B.indptr)) for B in (out, into))
            paths = [_row_products(B[u], C[v]) for B, C in ((out, into), (into, out))]
            back = np.asarray(out[v, u]).ravel() if len(u) else np.zeros(0)
            columns += [sent[u], got[u], sent[v], got[v], back, *paths]
        return torch.from_numpy(np.stack(columns, 1).astype(np.float32))

    def walks(self, pairs: Tensor) -> Tensor:
        """(S^k)_uv for every length k, then the cosines of rows u and v of S, S², …: ``[lengths + hops, m]``."""
        found = torch.zeros(len(self.how.lengths) + self.how.hops, len(pairs))
        links = self.links
        starts = min(high - low for low, high in links.sides)
        if starts * links.both.nnz * 2 * self.how.hops <= self.how.most_steps:
            self._follow(pairs, found)
            return found
        if self.exact:
            self._count(pairs, found)
        if self.exact < self.how.hops:
            self._estimate(pairs, found)
        return found

    def _follow(self, pairs: Tensor, found: Tensor) -> None:
        """Rows of S, S², … of all nodes that pairs begin at (of users and items the fewer), one block after another."""
        (low, border), (_, high) = self.links.sides
        begin, end = pairs.T if not self.links.bipartite or border - low <= high - border else pairs.flip(1).T
        nodes, place = torch.unique(begin if self.links.bipartite else pairs.T, return_inverse=True)
        place, last = place.flatten()[: len(pairs)], len(self.how.lengths)
        order, own = place.argsort(), torch.ones(self.how.hops + 1, self.links.n)
        for first in range(0, len(nodes), WALKED):
            block = nodes[first : first + WALKED]
            at = torch.searchsorted(place[order], torch.tensor([first, first + len(block)]))
            rows, own_place = order[at[0] : at[1]], torch.arange(len(block))
            walk = torch.zeros(self.links.n, len(block))
            walk[block, own_place] = 1
            for length in range(1, 2 * self.how.hops + 1):
                walk = self.operator.matrix @ walk
                if length > 1:
                    found[length - 2, rows] = walk[end[rows], place[rows] - first]
                if length % 2 == 0:
                    own[length // 2][block] = walk[block, own_place]
        root = (own[1:, begin] * own[1:, end]).clamp(min=TINY).sqrt()
        found[last:] = found[0 : 2 * self.how.hops - 1 : 2] / root

    def _count(self, pairs: Tensor, found: Tensor) -> None:
        S, last = self.operator.matrix.scipy(), len(self.how.lengths)
        for rows in torch.arange(len(pairs)).split(COUNT_BLOCK):
            nodes, place = torch.unique(pairs[rows], return_inverse=True)
            u, v = place.numpy().T
            before, here = None, S[nodes.numpy()]
            for k in range(1, self.exact + 1):
                if before is not None:
                    here = (before @ S).tocsr()
                    both = _row_products(before[u], here[v]), _row_products(here[u], before[v])
                    found[2 * k - 3, rows] = torch.from_numpy((both[0] + both[1]) / 2)
                product = _row_products(here[u], here[v])
                own = np.asarray(here.multiply(here).sum(1)).ravel()
                found[2 * k - 2, rows] = torch.from_numpy(product)
                found[last + k - 1, rows] = torch.from_numpy(product / np.sqrt(np.maximum(own[u] * own[v], TINY)))
                before = here

    def _estimate(self, pairs: Tensor, found: Tensor) -> None:
        """⟨(S^i Z)_u, (S^j Z)_v⟩ ≈ (S^(i+j))_uv for Z = [V, (I - V Vᵀ) R], as Z Zᵀ ≈ I.

        V are the leading eigenvectors, so that random columns R estimate what these leave, which is little (Hutch++).
        """
        n, K, start, last = self.links.n, self.how.hops, self.exact + 1, len(self.how.lengths)
        own = torch.zeros(K + 1, n)
        for Z in self._probes():
            walk = Hops(self.operator, Z, near=K)
            for k in range(start, K + 1):
                here, before = walk.of(k), walk.of(k - 1)
                own[k] += here.square().sum(1)
                for rows in torch.arange(len(pairs)).split(PAIR_BLOCK):
                    u, v = pairs[rows].T
                    if k > 1:
                        both = (before[u] * here[v]).sum(1) + (here[u] * before[v]).sum(1)
                        found[2 * k - 3, rows] += both / 2
                    found[2 * k - 2, rows] += (here[u] * here[v]).sum(1)
        u, v = pairs.T
        for k in range(start, K + 1):
            found[last + k - 1] = found[2 * k - 2] / (own[k][u] * own[k][v]).clamp(min=TINY).sqrt()

    def _probes(self) -> Iterator[Tensor]:
        n, columns = self.links.n, self.how.columns
        V, generator = self.spectrum[0], seeded(self.how.seed, Stream.PROBES)
        yield from V.split(COLUMN_BLOCK, 1)
        width = max(COLUMN_BLOCK, columns - V.shape[1])
        for first in range(0, width, COLUMN_BLOCK):
            R = torch.randint(0, 2, (n, min(COLUMN_BLOCK, width - first)), generator=generator).float() * 2 - 1
            yield (R - V @ (V.T @ R)) / width**0.5

    def _spectral(self, pairs: Tensor) -> Tensor:
        vectors, values = self.spectrum
        u, v = pairs.T
        product, size = vectors[u] * vectors[v], vectors.square().sum(1)
        length = (size[u] * size[v]).sqrt()
        sums = torch.stack([product @ values, product[:, :FIRST] @ values[:FIRST], product.sum(1)], 1)
        sums = torch.where(sums.abs() > ROUNDING * length[:, None], sums, 0.0)
        part, first, alike = sums.T
        alike = alike / length.clamp(min=ROUNDING / self.links.n)
        power = values[:, None] ** (2 + self.links.bipartite)  # walks from side to side are odd
        gains = power / (values.square()[:, None] + torch.tensor(RIDGES)) - power / self._cuts
        return torch.stack(
            [part, part * (self.degree[u] * self.degree[v]).sqrt(), first, alike, *(product @ gains).T], 1
        )

    def _alike(self, pairs: Tensor) -> Tensor:
        if self.inputs is None:
            return torch.zeros(len(pairs), 0)
        one, other = (self.hops[ends].unflatten(1, (self.how.feature_hops + 1, -1)) for ends in pairs.T)
        both = torch.einsum("mic,mjc->mij", one, other)
        return torch.stack([(both[:, i, j] + both[:, j, i]) / 2 for i, j in self.how.alike], 1)


def _leading(vectors: Tensor, values: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """The leading eigenvectors; rows that are nothing but rounding are zero."""
    order = values.abs().argsort(descending=True)[:rank]
    rows = vectors[:, order]
    return rows * (rows.norm(dim=1, keepdim=True) > ROUNDING / max(1, len(rows)) ** 0.5), values[order]


def _row_products(one: sp.csr_matrix, other: sp.csr_matrix) -> np.ndarray:
    return np.asarray(one.multiply(other).sum(1), dtype=np.float32).ravel()
