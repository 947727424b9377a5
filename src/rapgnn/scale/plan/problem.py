"""The sizes that a cost depends on, and the rows that workers must send each other."""

import math
from dataclasses import dataclass

import numpy as np

from rapgnn.errors import InputError
from rapgnn.scale.disk_graph import DiskGraph
from rapgnn.scale.distributed.ranges import row_bounds

SAMPLED = 2  # workers whose halo is counted
MOST_ENTRIES = 1 << 28  # edges that are read for it, of each
CHUNK = 1 << 22


@dataclass(frozen=True)
class Problem:
    """A graph and what is wanted of it.

    Args:
        nodes, edges, features: n, m (every direction counts) and c.
        layers: L, so that the hops 0 to L are kept.
        rows: nodes whose hops are kept: those that training needs.
        weighted: whether edges have weights.
        halo: for a number of workers, how many rows of others a worker needs at most; empty: that of a random graph.
    """

    nodes: int
    edges: int
    features: int
    layers: int
    rows: int
    weighted: bool = False
    halo: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        for name, least in (("nodes", 1), ("edges", 0), ("features", 1), ("layers", 1), ("rows", 0)):
            if getattr(self, name) < least:
                raise InputError(f"{name} must be at least {least}, got {getattr(self, name)}.")
        if self.rows > self.nodes:
            raise InputError(f"there are {self.nodes} nodes, so at most as many rows are kept, got {self.rows}.")

    @staticmethod
    def of(graph: DiskGraph, layers: int, machines: int = 1) -> "Problem":
        """The sizes of a graph on disk; its training and validation rows are kept."""
        rows = len(np.union1d(graph.train, graph.val))
        halo = ((machines, halo_rows(graph, machines)),) if machines > 1 else ()
        return Problem(graph.num_nodes, graph.num_edges, graph.num_features, layers, rows, graph.weighted, halo)

    @property
    def graph_bytes(self) -> int:
        """Of the edges on disk: what a hop reads."""
        return self.edges * (8 if self.weighted else 4) + 8 * (self.nodes + 1)

    @property
    def feature_bytes(self) -> int:
        """Of all features."""
        return 4 * self.nodes * self.features

    @property
    def kept_bytes(self) -> int:
        """Of the hops that are kept."""
        return 4 * self.rows * self.features * (self.layers + 1)

    def halo_of(self, machines: int) -> int:
        """Rows that one of so many workers needs of others."""
        return dict(self.halo).get(machines, random_halo(self.nodes, self.edges, machines))


def random_halo(nodes: int, edges: int, machines: int) -> int:
    """What a worker needs where the m edges end anywhere: the foreign nodes that one of its m/P edges comes from."""
    if machines < 2:
        return 0
    foreign = nodes - nodes / machines
    return round(foreign * -math.expm1(-edges / machines / nodes))


def halo_rows(graph: DiskGraph, machines: int) -> int:
    """The same on a given graph: the largest of some workers, counted.

    Of a worker with very many edges a part is read, and the rest is taken to be as in a random graph with as many
    different senders.
    """
    bounds = row_bounds(graph.indptr, machines)
    chosen = np.unique(np.linspace(0, machines - 1, min(machines, SAMPLED)).astype(int))
    return max((_counted(graph, int(bounds[w]), int(bounds[w + 1])) for w in chosen), default=0)


def _counted(graph: DiskGraph, first: int, last: int) -> int:
    begin, end = int(graph.indptr[first]), int(graph.indptr[last])
    seen = np.zeros(graph.num_nodes, dtype=bool)
    read = min(end, begin + MOST_ENTRIES)
    for start in range(begin, read, CHUNK):
        seen[graph.indices[start : min(read, start + CHUNK)]] = True
    seen[first:last] = False
    found, foreign = int(seen.sum()), graph.num_nodes - (last - first)
    if read == end or found == 0:
        return found
    rate = -math.log1p(-min(found / foreign, 1 - 1e-12)) * (end - begin) / (read - begin)
    return round(foreign * -math.expm1(-rate))
