"""Generated graphs of the size of the large published ones, with a few nodes that have most of the edges."""

from dataclasses import dataclass

import numpy as np
import torch

from rapgnn.errors import InputError
from rapgnn.graph.graph import Graph

CHUNK = 1 << 23  # edges that are drawn at a time
EXPONENT = 0.4  # degrees fall like rank^-0.4: at ogbn-products' size the largest is about its 17,481


@dataclass(frozen=True)
class PowerLaw:
    """A graph whose expected degrees follow a power law (Chung and Lu, 2002), with features that tell the classes.

    Args:
        nodes: number of nodes, in random order.
        edges: directed edges, both directions counted; some are listed twice.
        features: number of float32 features.
        classes: number of classes; ``labels`` above 0 gives that many binary labels instead.
        train, val, test: rows of the splits.
        name: of the graph.
        seed: decides everything.
    """

    nodes: int
    edges: int
    features: int = 100
    classes: int = 47
    labels: int = 0
    train: int = 1000
    val: int = 1000
    test: int = 1000
    name: str = "power-law"
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.nodes, self.features, self.classes, self.train) < 1 or self.edges < 0:
            raise InputError("a generated graph needs nodes, features, classes and training rows.")
        if self.train + self.val + self.test > self.nodes:
            raise InputError(f"{self.nodes:,} nodes are fewer than the rows of the splits.")

    def generate(self) -> Graph:
        """Sample the graph, in time and memory that are linear in its size."""
        rng = np.random.default_rng(self.seed)
        classes = rng.integers(self.classes, size=self.nodes)
        means = rng.standard_normal((self.classes, self.features), dtype=np.float32)
        x = rng.standard_normal((self.nodes, self.features), dtype=np.float32)
        x += 0.5 * means[classes]
        y = torch.from_numpy(classes)
        if self.labels:
            y = torch.from_numpy((rng.random((self.nodes, self.labels)) < 0.3).astype(np.float32))
        rows = rng.permutation(self.nodes)[: self.train + self.val + self.test]
        splits = np.split(rows, [self.train, self.train + self.val])
        return Graph(
            self.name,
            torch.from_numpy(x),
            torch.from_numpy(self._edges(rng)),
            y,
            *(torch.from_numpy(np.sort(part)) for part in splits),
            num_outputs=self.labels or self.classes,
            task="node-multilabel" if self.labels else "node-classification",
        )

    def _edges(self, rng: np.random.Generator) -> np.ndarray:
        """Both ends of an edge are drawn in proportion to a node's expected degree."""
        half = self.edges // 2
        out = np.empty((2, 2 * half), dtype=np.int64)
        order = rng.permutation(self.nodes)
        for start in range(0, half, CHUNK):
            stop = min(half, start + CHUNK)
            for end in range(2):
                rank = rng.random(stop - start)
                np.power(rank, 1.0 / (1.0 - EXPONENT), out=rank)  # the inverse of the cumulated degrees
                rank *= self.nodes
                out[end, start:stop] = order[rank.astype(np.int64)]
        out[0, half:], out[1, half:] = out[1, :half], out[0, :half]
        return out


SIZES = {
    "tiny": PowerLaw(2_000, 20_000, train=200, val=200, test=200),
    "small": PowerLaw(20_000, 200_000, train=2_000, val=1_000, test=2_000),
    "medium": PowerLaw(60_000, 1_000_000, train=5_000, val=2_000, test=5_000),
    "large": PowerLaw(200_000, 5_000_000, train=16_000, val=4_000, test=16_000),
    "products": PowerLaw(2_449_029, 123_718_280, train=196_615, val=39_323, test=2_213_091),
}
"""The sizes of ``bench scale``; the last one is ogbn-products'."""


def proteins_size(share: float = 1.0) -> PowerLaw:
    """ogbn-proteins' numbers of nodes, edges, features and labels, or a share of its nodes and edges."""
    if not 0 < share <= 1:
        raise InputError(f"the share of ogbn-proteins' size must lie above 0 and be at most 1, got {share:g}.")
    nodes, edges, train, val, test = (
        max(1, round(share * whole)) for whole in (132_534, 79_122_504, 86_619, 21_236, 24_679)
    )
    test = min(test, nodes - train - val)
    name = "ogbn-proteins size" if share == 1 else f"{share:g} of ogbn-proteins' size"
    return PowerLaw(nodes, edges, features=8, labels=112, classes=2, train=train, val=val, test=test, name=name)
