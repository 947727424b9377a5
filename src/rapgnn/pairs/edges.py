"""What describes an edge for its label: its nodes, walks between them, and what the labels of other edges say."""

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from rapgnn.network.encode import FeatureScaling
from rapgnn.network.hops import Hops
from rapgnn.pairs.features import Described, PairFeatures
from rapgnn.pairs.links import Links
from rapgnn.pairs.model import scaling_for
from rapgnn.prng import Stream, seeded
from rapgnn.sparse import Features, dense

FOLDS = 10  # an edge sees the labels of the other folds
SHRINK = 3.0  # labels of the mean that a node's own labels are mixed with
FACTORS = ((2, 1.0), (4, 1.0), (8, 3.0))  # of a node's labels beside its share, and their penalty
ROUNDS = 6
BLOCK = 1 << 16  # edges whose second moments live at once
COMPONENTS = 16  # of the nodes' features


@dataclass(frozen=True)
class EdgeConfig:
    """What a description is made from, apart from its numbers.

    Args:
        labels, targets: labels that are known, and numbers in each.
        encoding: how the nodes' features are made of a user's table, as JSON holds it.
    """

    in_channels: int
    directed: bool = False
    labels: int = 0
    targets: int = 1
    scaling: str = "none"
    components: int = 0
    described: dict[str, Any] = field(default_factory=dict)
    encoding: dict[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


class EdgeColumns(nn.Module):
    """A table with a row per edge, of any graph, with the labels of the training's edges.

    Labels come from the edges of other folds only. The fold of an edge follows from the names of its two nodes, so that
    none sees its own or that of its reverse. An edge without a label that is for training sees all of them.
    """

    ends: Tensor
    y: Tensor

    def __init__(self, config: EdgeConfig):
        super().__init__()
        self.config, self.how = config, Described(**config.described)
        channels = config.in_channels
        self.scaling = FeatureScaling(config.scaling, channels, config.components) if channels else None
        self.register_buffer("ends", torch.zeros(config.labels, 2, dtype=torch.int64))
        self.register_buffer("y", torch.zeros(config.labels, config.targets))

    @classmethod
    def of(
        cls, links: Links, x: Features | None, names: Tensor, ends: Tensor, y: Tensor, **known: Any
    ) -> "EdgeColumns":
        """Learned of a graph.

        Args:
            ends, y: the edges with a label that is for training ``[m, 2]``, and these labels ``[m, targets]``.
        """
        scaling, components = scaling_for(x, COMPONENTS) if x is not None else ("none", 0)
        sizes = {"labels": len(y), "targets": y.shape[1], "directed": links.directed}
        how = asdict(Described(hops=3, columns=256, rank=32, feature_hops=1))
        config = EdgeConfig(
            0 if x is None else x.shape[1], **sizes, scaling=scaling, components=components, described=how, **known
        )
        columns = cls(config)
        if columns.scaling is not None and x is not None:
            columns.scaling.fit(x)
        columns.ends.copy_(names[ends])
        columns.y.copy_(y)
        return columns

    def table(self, links: Links, x: Features | None, names: Tensor, ends: Tensor, own: pd.DataFrame) -> pd.DataFrame:
        """A row per edge ``[m, 2]``: its own columns, then what describes it.

        Args:
            links: of the graph whose nodes are numbered so.
        """
        inputs = None if self.scaling is None or x is None else dense(self.scaling(x)).float()
        pairs = PairFeatures(links, inputs, self.how)
        found = dict(
            zip(self.how.names(links.directed, inputs is not None), pairs.columns(ends).T.numpy(), strict=True)
        )
        sides = Sides(links, ends)
        found["edges of the pair"] = sides.repeats()
        numbers = own.select_dtypes("number")
        for name in numbers:
            found |= sides.means(str(name), numbers[name].to_numpy(dtype=np.float64, na_value=np.nan))
        if inputs is not None:
            near = Hops(links.operator(1.0), inputs, near=1)
            for hop in (0, 1):
                for j, column in enumerate(near.of(hop).T[:COMPONENTS]):
                    found |= sides.both(f"feature {j} at hop {hop}", column.numpy())
        found |= self._labels(links, names, sides)
        table = pd.DataFrame({name: np.asarray(column, dtype=np.float32) for name, column in found.items()}, own.index)
        table.columns = [name if name not in own else f"{name} (described)" for name in table]
        return pd.concat([own, table], axis=1)

    def _labels(self, links: Links, names: Tensor, sides: "Sides") -> dict[str, np.ndarray]:
        """What labels of other folds say of an edge's nodes, and of nodes that are like them."""
        order = names.argsort()
        place = torch.searchsorted(names[order], self.ends).clamp(max=links.n - 1)
        there = (names[order][place] == self.ends).all(1)
        if torch.equal(names, torch.arange(links.n)):  # places alone: another graph has them, too
            there &= 2 * int(links.contains(order[place[there]]).sum()) >= len(there)
        known, y = order[place[there]], self.y[there].double().numpy()
        u, v = known.numpy().T
        own, fold = _folds(names[sides.pairs]), _folds(names[known])
        low, high = torch.cat([sides.pairs, known]).sort(1).values.T
        key = low * links.n + high
        own[~torch.isin(key[: len(own)], key[len(own) :]).numpy()] = FOLDS  # without a label: sees all
        found: dict[str, np.ndarray] = {}
        for f in range(FOLDS + 1):
            rows, kept = np.flatnonzero(own == f), fold != f
            if not len(rows):
                continue
            for j in range(y.shape[1]):
                title = "labels" if y.shape[1] == 1 else f"labels {j}"
                part = Collaborative(links.n, u[kept], v[kept], y[kept, j], sides.oriented)
                for name, column in part.columns(sides.pairs[rows].numpy(), title).items():
                    found.setdefault(name, np.zeros(len(own)))[rows] = column
        return found


def _folds(names: Tensor) -> np.ndarray:
    """The fold of every edge by the names of its nodes, the same both ways."""
    low, high = names.sort(1).values.numpy().view(np.uint64).T
    with np.errstate(over="ignore"):
        mixed = low * np.uint64(0x9E3779B97F4A7C15) + high
        mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    return ((mixed ^ (mixed >> np.uint64(32))) % np.uint64(FOLDS)).astype(np.int64)


class Sides:
    """Columns of two nodes as columns of their edge: one after the other where they differ, else sum and difference."""

    def __init__(self, links: Links, ends: Tensor):
        self.n, self.pairs = links.n, ends
        self.oriented = links.directed or links.bipartite
        if not links.directed:
            self.pairs = links.ordered(ends)

    def both(self, name: str, values: np.ndarray, others: np.ndarray | None = None) -> dict[str, np.ndarray]:
        """A number of every node (``others``: of the second one) for every edge."""
        u, v = self.pairs.numpy().T
        return joined(name, values[u], (values if others is None else others)[v], self.oriented)

    def repeats(self) -> np.ndarray:
        """How many edges there are between the two."""
        key = (self.pairs[:, 0] * self.n + self.pairs[:, 1]).numpy()
        _, place, count = np.unique(key, return_inverse=True, return_counts=True)
        return np.log(count[place])

    def means(self, name: str, values: np.ndarray) -> dict[str, np.ndarray]:
        """The mean of an edge's number over the edges of either node."""
        values = np.where(np.isfinite(values), values, np.nanmean(values) if np.isfinite(values).any() else 0.0)
        u, v = self.pairs.numpy().T
        sums = [np.stack([np.bincount(ends, each, self.n) for each in (values, None)]) for ends in (u, v)]
        total, count = np.stack(sums, 1) if self.oriented else np.repeat((sums[0] + sums[1])[:, None], 2, 1)
        return self.both(f"mean of {name}", *(total / np.maximum(count, 1)))


def joined(name: str, first: np.ndarray, second: np.ndarray, oriented: bool) -> dict[str, np.ndarray]:
    """Numbers of an edge's two nodes."""
    if oriented:
        return {f"{name}, from": first, f"{name}, to": second}
    return {f"{name}, sum": first + second, f"{name}, difference": np.abs(first - second)}


class Collaborative:
    """Known labels -> what they say of other edges, those of either node and those of nodes that are alike.

    .. math:: y_{uv} \\approx \\mu + a_u + b_v + \\langle p_u, q_v \\rangle

    Ridge regressions of (a, p) and (b, q) in turn (ALS), from the leading singular vectors of what shares alone leave.

    Args:
        oriented: whether a node has one share as the first of an edge, and another one as the second.
    """

    def __init__(self, n: int, u: np.ndarray, v: np.ndarray, y: np.ndarray, oriented: bool):
        self.n, self.oriented = n, oriented
        if not oriented:
            u, v, y = np.concatenate([u, v]), np.concatenate([v, u]), np.concatenate([y, y])
        self.counts = [np.log1p(np.bincount(ends, minlength=n)) for ends in (u, v)]
        rest = torch.from_numpy(y - y.mean() if len(y) else y)
        self.scale = float(rest.square().mean().sqrt()) if len(y) else 0.0
        labels = (torch.from_numpy(u), torch.from_numpy(v), rest / max(self.scale, 1e-9))
        self.shares = self._alternate(*labels, torch.zeros(n, 1, dtype=torch.float64), SHRINK)
        self.factors = [self._alternate(*labels, self._start(*labels, rank), penalty) for rank, penalty in FACTORS]

    def _start(self, u: Tensor, v: Tensor, y: Tensor, rank: int) -> Tensor:
        """Factors of the second nodes, and their shares: singular vectors of labels over √(numbers of labels)."""
        first, second = self.shares
        u_counts, v_counts = (torch.from_numpy(np.exp(count)) for count in self.counts)
        rest = (y - first[u, 0] - second[v, 0]) / (u_counts[u] * v_counts[v]).sqrt()
        X = sp.csr_matrix((rest.numpy(), (u.numpy(), v.numpy())), shape=(self.n, self.n))
        right = torch.randn(self.n, rank, generator=seeded(0, Stream.SKETCH), dtype=torch.float64)
        for _ in range(ROUNDS):
            right = torch.linalg.qr(torch.from_numpy(X.T @ (X @ right.numpy())))[0]
        return torch.cat([right * max(1, len(v.unique())) ** 0.5, second], 1)

    def _alternate(self, u: Tensor, v: Tensor, y: Tensor, right: Tensor, penalty: float) -> tuple[Tensor, Tensor]:
        left = right
        for _ in range(ROUNDS):
            left = self._solved(u, right[v], y, penalty)
            right = self._solved(v, left[u], y, penalty)
        return left, right

    def _solved(self, ends: Tensor, others: Tensor, y: Tensor, penalty: float) -> Tensor:
        """Factors and the share of every node, those of the other nodes of its edges given."""
        z = torch.cat([others[:, :-1], torch.ones_like(others[:, :1])], 1)
        width = z.shape[1]
        gram = (penalty * torch.eye(width, dtype=z.dtype)).repeat(self.n, 1, 1)
        moment = torch.zeros(self.n, width, dtype=z.dtype).index_add_(0, ends, z * (y - others[:, -1])[:, None])
        for rows in torch.arange(len(z)).split(BLOCK):
            gram.index_add_(0, ends[rows], z[rows, :, None] * z[rows, None])
        return torch.linalg.solve(gram, moment)

    def columns(self, pairs: np.ndarray, title: str) -> dict[str, np.ndarray]:
        """Of edges ``[m, 2]``."""
        a, b = pairs.T
        first, second = (self.scale * share[:, 0].numpy() for share in self.shares)
        shares = joined(f"{title} beside the mean", first[a], second[b], self.oriented)
        counts = joined(f"number of {title}", self.counts[0][a], self.counts[1][b], self.oriented)
        alike = {}
        for (rank, _), (left, right) in zip(FACTORS, self.factors, strict=True):
            products = (left[a, :-1] * right[b, :-1]).sum(1) + left[a, -1] + right[b, -1]
            alike[f"{title} of alike, {rank} factors"] = self.scale * products.numpy()
        return shares | counts | alike
