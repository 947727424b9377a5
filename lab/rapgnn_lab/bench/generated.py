"""Generated graphs of the size of the large published ones, with a few nodes that have most of the edges; in memory, or
on disk."""

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from rapgnn import Graph, InputError
from rapgnn.memory import blocks
from rapgnn.scale.disk_graph import DiskGraph, is_sealed
from rapgnn_lab.store import packaged

CHUNK = 1 << 23  # edges that are drawn at a time
ROWS = 1 << 18  # whose features are moved together
EXPONENT = 0.4  # degrees fall like rank^-0.4: at ogbn-products' size the largest is about its 17,481


@dataclass(frozen=True)
class PowerLaw:
    """A graph whose expected degrees follow a power law (Chung and Lu, 2002), with features that tell the classes.

    Edges are directed, both directions counted, and some are listed twice; ``labels`` above 0 gives that many binary
    labels instead of classes.
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

    def generate(self) -> Graph:
        """Sample the graph, in time and memory that are linear in its size."""
        rng = np.random.default_rng(self.seed)
        classes = rng.integers(self.classes, size=self.nodes)
        means = rng.standard_normal((self.classes, self.features), dtype=np.float32)
        x = rng.standard_normal((self.nodes, self.features), dtype=np.float32)
        for some in blocks(self.nodes, ROWS):
            x[some] += 0.5 * means[classes[some]]
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
        """Both ends of every pair are drawn in proportion to a node's expected degree."""
        order, half = rng.permutation(self.nodes), self.edges // 2
        out = np.empty((2, 2 * half), dtype=np.int64)
        for some in blocks(half, CHUNK):
            for end in out:
                rank = rng.random(some.stop - some.start)
                np.power(rank, 1.0 / (1.0 - EXPONENT), out=rank)  # the inverse of the cumulated degrees
                rank *= self.nodes
                end[some] = order[rank.astype(np.int64)]
        out[:, half:] = out[::-1, :half]
        return out


SIZES, DISK_SIZES, LARGE = (
    {name: PowerLaw(**size) for name, size in sizes.items()} for sizes in packaged("bench/sizes.toml").values()
)


def share_of(size: PowerLaw, share: float) -> PowerLaw:
    """A share of a size: of its nodes, edges and rows."""
    if not 0 < share <= 1:
        raise InputError(f"the share of a size must lie above 0 and be at most 1, got {share:g}.")
    counts = {key: max(1, round(share * getattr(size, key))) for key in ("nodes", "edges", "train", "val", "test")}
    counts["test"] = min(counts["test"], counts["nodes"] - counts["train"] - counts["val"])
    return replace(size, **counts)


def large_size(dataset: str, share: float = 1.0) -> PowerLaw:
    """The size of one of ``LARGE``, or a share of it, named after it."""
    name = f"{dataset} size" if share == 1 else f"{share:g} of {dataset}' size"
    return replace(share_of(LARGE[dataset], share), name=name)


def write_power_law(size: PowerLaw, folder: Path) -> DiskGraph:
    """The graph on disk, in a folder of its own below this one; one that is there already is used again."""
    own = folder / hashlib.sha256(repr(size).encode()).hexdigest()[:8]
    return DiskGraph.open(own) if is_sealed(own) else DiskGraph.write(own, size.generate())
