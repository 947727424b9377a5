"""Generated graphs of any size: the contextual stochastic block model."""

import math
from dataclasses import dataclass, fields

import numpy as np

from rapgnn.errors import InputError
from rapgnn.graph.graph import Graph, make_graph


@dataclass(frozen=True)
class BlockModel:
    """A contextual stochastic block model (Deshpande et al., 2018): classes decide edges and features.

    Args:
        nodes: number of nodes.
        classes: number of classes, equally likely.
        degree: average number of neighbours.
        homophily: probability that an edge joins two nodes of one class.
        features: number of real-valued features.
        signal: how far apart the classes are; the distance between two class means is signal · √(features / 8)
            standard deviations of the noise.
        labels: 2 or more: that many binary labels instead of classes (each label is on in a random half of the classes,
            flipped for one node in ten).
        train: training nodes per class; val, test: their numbers; what is left over has labels but no split.
        seed: decides everything.
    """

    nodes: int = 2000
    classes: int = 4
    degree: float = 10.0
    homophily: float = 0.7
    features: int = 64
    signal: float = 1.0
    labels: int = 0
    train: int = 20
    val: int = 400
    test: int = 800
    seed: int = 0

    def __post_init__(self) -> None:
        least = {"nodes": 1, "classes": 2, "features": 1, "labels": 0, "train": 1, "val": 0, "test": 0, "degree": 0}
        for name, low in least.items():
            if not getattr(self, name) >= low:
                raise InputError(f"sbm: {name} must be at least {low}, got {getattr(self, name)}.")
        if self.seed < 0 or self.labels == 1:
            raise InputError(f"sbm: seed must not be negative and labels not 1, got {self.seed} and {self.labels}.")
        if not (math.isfinite(self.degree) and math.isfinite(self.signal)):
            raise InputError(f"sbm: degree and signal must be finite, got {self.degree} and {self.signal}.")
        if not 0 <= self.homophily <= 1:
            raise InputError(f"sbm: homophily must lie in [0, 1], got {self.homophily}.")
        needed = self.classes * self.train + self.val + self.test
        if needed > self.nodes:
            raise InputError(
                f"sbm: {self.nodes} nodes are fewer than the {needed} the splits ask for; lower train, val or test."
            )

    @classmethod
    def parse(cls, text: str) -> "BlockModel":
        """From ``nodes=5000,degree=20,seed=1``."""
        kinds = {f.name: f.type for f in fields(cls)}
        given: dict[str, float | int] = {}
        for part in filter(None, text.split(",")):
            name, _, value = part.partition("=")
            if name not in kinds:
                raise InputError(f"sbm: unknown setting {name!r}: the settings are {', '.join(kinds)}.")
            try:
                given[name] = float(value) if kinds[name] in (float, "float") else int(float(value))
            except (ValueError, OverflowError):
                raise InputError(f"sbm: {name} must be a number, got {value!r}.") from None
        return cls(**given)  # type: ignore[arg-type]

    def generate(self) -> Graph:
        """Sample the graph; time and memory are linear in nodes and edges."""
        rng = np.random.default_rng(self.seed)
        classes = rng.permutation(np.arange(self.nodes) % self.classes)
        members = np.argsort(classes, kind="stable")
        starts = np.searchsorted(classes[members], np.arange(self.classes + 1))
        count = round(self.nodes * self.degree / 2)
        source = rng.integers(self.nodes, size=count)
        shift = rng.integers(1, self.classes, size=count)
        same = rng.random(count) < self.homophily
        block = np.where(same, classes[source], (classes[source] + shift) % self.classes)
        size = starts[block + 1] - starts[block]
        target = members[starts[block] + (rng.random(count) * size).astype(np.int64)]
        edges = np.concatenate([np.stack([source, target]), np.stack([target, source])], axis=1)
        means = rng.standard_normal((self.classes, self.features)) * (self.signal / np.sqrt(2 * self.features))
        x = rng.standard_normal((self.nodes, self.features), dtype=np.float32)
        x += means.astype(np.float32)[classes] * np.sqrt(self.features / 8)
        y = self._labels(rng, classes) if self.labels else classes
        order = rng.permutation(self.nodes)
        rank = np.empty(self.nodes, dtype=np.int64)  # how many of its own class come before it in the random order
        for c in range(self.classes):
            mine = order[classes[order] == c]
            rank[mine] = np.arange(len(mine))
        train = order[rank[order] < self.train]
        rest = order[rank[order] >= self.train]
        val, test = rest[: self.val], rest[self.val : self.val + self.test]
        return make_graph(x, edges, y, train, val, test, name="sbm", sparse=False)

    def _labels(self, rng: np.random.Generator, classes: np.ndarray) -> np.ndarray:
        on = np.stack([rng.permutation(self.classes) < self.classes / 2 for _ in range(self.labels)])
        flipped = rng.random((self.nodes, self.labels)) < 0.1
        return (on[:, classes].T ^ flipped).astype(np.float32)
