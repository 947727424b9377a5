r"""What each layout costs: in memory, column blocks from disk, column blocks on Ray, rows split over machines.

A hop of a block of w columns reads all edges, and for every edge a row of w numbers:

.. math:: t = \max(\text{bytes of the edges} / \text{read}, m · t_{edge}(n w, w)) + 5 · 4 n w / \text{memory}

The five passes over the block are those of ``StreamedMatrix.product``: both diagonals, and the product's way into the
other buffer. The last hop visits the edges of the kept rows alone.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from rapgnn.errors import InputError
from rapgnn.network.hops import BLOCK_BYTES
from rapgnn.scale.blocks import ROW_BYTES, SLACK
from rapgnn.scale.disk_graph import DiskGraph
from rapgnn.scale.distributed.part import row_bounds
from rapgnn.scale.plan.rates import Rates
from rapgnn.scale.streamed import ENTRIES, PRODUCT_BYTES

# The sizes that a cost depends on, and the rows that workers must send each other.


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


BASE = 192 << 20  # bytes of a process with torch loaded, before any data
PASSES = 5
START = 10.0  # seconds until the processes of several machines have begun and found each other
BUFFERS = 3  # of the seen rows that a worker with a part of the rows has in a hop
NAMES = ("memory", "disk", "ray", "rows")
TITLES = {
    "memory": "in memory",
    "disk": "column blocks from disk",
    "ray": "column blocks on Ray",
    "rows": "rows split (torch.distributed)",
}


@dataclass(frozen=True)
class Machines:
    """What there is to compute with: machines that are alike, each with so many bytes of memory."""

    count: int
    memory: int


@dataclass(frozen=True)
class Cost:
    """What a layout costs.

    Args:
        machines: how many it uses.
        width, blocks: columns of a block, and how many blocks a machine computes.
        memory: bytes that one machine needs.
        fits: whether it has them.
        read: bytes from disk, of all machines, in the whole run.
        read_per_hop: of one hop of all columns.
        moved, moved_per_hop: bytes between machines.
        kept: bytes of the hops that stay.
        seconds: by what they are spent on.
    """

    layout: str
    machines: int
    width: int
    blocks: int
    memory: int
    fits: bool
    read: int
    read_per_hop: int
    moved: int
    moved_per_hop: int
    kept: int
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def total(self) -> float:
        """All seconds."""
        return sum(self.seconds.values())

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return vars(self) | {"total_seconds": self.total}


def costs(problem: Problem, machines: Machines, rates: Rates) -> list[Cost]:
    """Every layout that so many machines can run."""
    found = [in_memory(problem, machines, rates), from_disk(problem, machines, rates)]
    if machines.count > 1:
        found += [on_ray(problem, machines, rates), by_rows(problem, machines, rates)]
    return found


def best(found: list[Cost]) -> Cost | None:
    """The fastest that fits; where a simpler one is hardly slower, that one. None: no machine has the memory."""
    fitting = [cost for cost in found if cost.fits]
    if not fitting:
        return None
    least = min(cost.total for cost in fitting)
    return next(cost for cost in fitting if cost.total <= 1.1 * least)


def in_memory(p: Problem, machines: Machines, rates: Rates) -> Cost:
    """The graph as ``rapgnn fit`` holds it: the edges, S, the features, two buffers and the kept rows."""
    width = max(1, min(p.features, BLOCK_BYTES // (4 * p.nodes)))
    blocks = -(-p.features // width)
    edge = (16 + 8 + 8) + (4 if p.weighted else 0)  # both ends, S, and what sorting them takes
    memory = BASE + edge * p.edges + 2 * p.feature_bytes + 8 * p.nodes * (width + 3) + p.kept_bytes
    read = p.graph_bytes + p.feature_bytes
    seconds = {
        "read": read / rates.disk_read,
        "sort": p.edges / rates.sort,
        "product": p.layers * blocks * p.edges * rates.per_edge(4 * p.nodes * width, width),
        "passes": (2 * p.layers + 2) * p.feature_bytes / rates.memory,
    }
    return Cost("memory", 1, width, blocks, memory, memory <= machines.memory, read, 0, 0, 0, p.kept_bytes, seconds)


def from_disk(p: Problem, machines: Machines, rates: Rates) -> Cost:
    """The hops of one block of columns after another, the edges read from disk for every hop of every block."""
    return _blocks(p, p.features, machines.memory, rates)


def on_ray(p: Problem, machines: Machines, rates: Rates) -> Cost:
    """The same blocks, shared out over machines that each see the whole graph; the kept rows travel to the driver.

    A task has one core, and every core of a machine has a task.
    """
    share = -(-p.features // machines.count)
    one = _blocks(p, share, machines.memory, rates, min(share, rates.cores))
    used = -(-p.features // share)
    moved = p.kept_bytes * (used - 1) // used + p.graph_bytes * (used - 1)
    write = p.kept_bytes * (1 / rates.disk_write + 1 / rates.checksum)
    seconds = one.seconds | {"write": write, "move": moved / rates.network / max(1, used - 1), "start": START}
    return replace(
        one,
        layout="ray",
        machines=used,
        read=used * one.read,
        read_per_hop=used * one.read_per_hop,
        moved=moved,
        kept=p.kept_bytes,
        seconds=seconds,
    )


def by_rows(p: Problem, machines: Machines, rates: Rates) -> Cost:
    """Every machine holds some of the rows, and gets those of others that they need before each hop."""
    count = machines.count
    own, edges, halo = -(-p.nodes // count), -(-p.edges // count), p.halo_of(count)
    seen = own + halo
    fixed = BASE + SLACK + 16 * edges + (4 * edges if p.weighted else 0) + 24 * seen
    width = _width(p.features, machines.memory - fixed, 4 * BUFFERS * seen)
    blocks = -(-p.features // width)
    memory = fixed + 4 * BUFFERS * seen * width
    moved = 4 * halo * count * p.features
    read = p.graph_bytes + p.feature_bytes
    seconds = {
        "read": read / count / rates.disk_read,
        "sort": edges / rates.sort,
        "product": p.layers * blocks * edges * rates.per_edge(4 * seen * width, width),
        "passes": PASSES * p.layers * 4 * seen * p.features / rates.memory,
        "move": p.layers * moved / count / rates.network,
        "write": p.kept_bytes / count * (1 / rates.disk_write + 1 / rates.checksum),
        "start": START,
    }
    fits = memory <= machines.memory
    return Cost("rows", count, width, blocks, memory, fits, read, 0, p.layers * moved, moved, p.kept_bytes, seconds)


def _blocks(p: Problem, columns: int, memory: int, rates: Rates, tasks: int = 1) -> Cost:
    """One machine's blocks of columns, so many at the same time."""
    entries = min(ENTRIES["cpu"], max(1, p.edges))
    held = BASE + 24 * p.nodes + entries * (20 + 8 * p.weighted) + PRODUCT_BYTES["cpu"] + ROW_BYTES
    beside = SLACK + 16 * entries + 2 * PRODUCT_BYTES["cpu"] + 2 * ROW_BYTES  # set aside when the width is chosen
    width = _width(-(-columns // tasks), memory // tasks - held - beside, 8 * p.nodes)
    blocks = -(-columns // width)
    needed = tasks * (held + 8 * p.nodes * width)
    cached = memory - needed >= p.graph_bytes  # the system keeps the edges in memory that is left
    hops = p.layers - 1 + _last(p)
    per_hop = p.edges * rates.per_edge(4 * p.nodes * width, width)
    reading = p.graph_bytes / (rates.memory / 2 if cached else rates.disk_read * tasks)  # tasks read side by side
    kept = 4 * p.rows * columns * (p.layers + 1)
    scan = 4 * p.nodes * columns
    seconds = {
        "degrees": p.edges / rates.count,
        "read": scan / rates.disk_read + (p.graph_bytes / rates.disk_read if cached else 0.0),
        "product": blocks * hops * max(reading, per_hop),
        "passes": (PASSES * hops + 4) * scan / rates.memory + 2 * scan / rates.page_faults,
        "write": kept * (1 / rates.disk_write + 1 / rates.checksum) + blocks * (p.layers + 2) / rates.files,
    }
    read = scan + p.graph_bytes * (1 if cached else round(blocks * hops))
    return Cost(
        "disk",
        1,
        width,
        blocks,
        needed,
        needed + tasks * beside <= memory,
        read,
        0 if cached else blocks * p.graph_bytes,
        0,
        0,
        kept,
        seconds,
    )


def _last(p: Problem) -> float:
    """The share of the edges that the last hop visits."""
    return p.rows / p.nodes if 2 * p.rows <= p.nodes else 1.0


def _width(columns: int, room: int, per_column: int) -> int:
    """Columns of a block, all blocks alike; one, where there is not even room for that."""
    width = max(1, min(columns, room // per_column))
    return -(-columns // -(-columns // width))


LAYOUTS: dict[str, Callable[[Problem, Machines, Rates], Cost]] = {
    "memory": in_memory,
    "disk": from_disk,
    "ray": on_ray,
    "rows": by_rows,
}
"""Every layout by name."""
