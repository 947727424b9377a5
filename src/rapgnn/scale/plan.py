r"""What a run on a graph larger than memory will cost, before it is started: seconds, memory and disk of every layout.

In memory, column blocks from disk, column blocks on several machines. A hop of a block of w columns reads all edges,
and for every edge a row of w numbers:

.. math:: t = \max(\text{bytes of the edges} / \text{read}, m · t_{edge}(n w, w)) + 5 · 4 n w / \text{memory}

The five passes over the block are those of ``StreamedMatrix.product``: both diagonals, and the product's way into the
other buffer. The last hop visits the edges of the kept rows alone. Rates are measured on this machine, in seconds.
"""

import hashlib
import json
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rapgnn.datasets.sources import cache_dir
from rapgnn.device import hardware
from rapgnn.errors import InputError
from rapgnn.files import read_regular, write_atomic
from rapgnn.graph.backbones import compress
from rapgnn.memory import even_width, show_size
from rapgnn.network.hops import BLOCK_BYTES
from rapgnn.scale.disk_graph import DiskGraph
from rapgnn.scale.hops import ROW_BYTES, SLACK
from rapgnn.scale.matrix import ENTRIES, PRODUCT_BYTES
from rapgnn.sparse import SparseMatrix

BASE = 192 << 20  # bytes of a process with torch loaded, before any data
PASSES = 5
START = 10.0  # seconds until the processes of several machines have begun and found each other


@dataclass(frozen=True)
class Problem:
    """A graph and what is wanted of it.

    Args:
        nodes, edges, features: n, m (every direction counts) and c.
        layers: L, so that the hops 0 to L are kept.
        rows: nodes whose hops are kept: those that training needs.
        weighted: whether edges have weights.
    """

    nodes: int
    edges: int
    features: int
    layers: int
    rows: int
    weighted: bool = False

    def __post_init__(self) -> None:
        for name, least in (("nodes", 1), ("edges", 0), ("features", 1), ("layers", 1), ("rows", 0)):
            if getattr(self, name) < least:
                raise InputError(f"{name} must be at least {least}, got {getattr(self, name)}.")
        if self.rows > self.nodes:
            raise InputError(f"there are {self.nodes} nodes, so at most as many rows are kept, got {self.rows}.")

    @staticmethod
    def of(graph: DiskGraph, layers: int) -> "Problem":
        """The sizes of a graph on disk; its training and validation rows are kept."""
        rows = len(np.union1d(graph.train, graph.val))
        return Problem(graph.num_nodes, graph.num_edges, graph.num_features, layers, rows, graph.weighted)

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

    def __str__(self) -> str:
        sizes = f"{self.nodes:,} nodes, {self.edges:,} edges, {self.features} features, {self.layers} layers"
        return f"{sizes}, hops of {self.rows:,} rows kept"


WIDTHS = (1, 4, 16, 64)
TABLES = tuple(1 << bits for bits in (20, 24, 27, 29))  # bytes of the dense matrix that is multiplied
EDGES, DEGREE = 1 << 20, 20
BUFFER = 1 << 27
NETWORK = 1.25e9  # bytes a second: 10 Gbit


@dataclass(frozen=True)
class Rates:
    """What a machine does in a second, with all its cores.

    Args:
        machine: which one, in words.
        cores: that it has.
        product: rows (bytes of the dense matrix, its width, seconds per edge) of a product with a sparse matrix whose
            columns are drawn at random.
        memory: bytes copied, read and written counted once each.
        disk_read, disk_write: bytes, past the page cache.
        page_faults: bytes of fresh memory that are touched.
        count: edges counted by their sender.
        sort: edges put in order of their receiver.
        checksum: bytes.
        files: small files written and flushed to disk.
        network: bytes between two machines; not measured.
    """

    machine: str
    cores: int
    product: tuple[tuple[float, int, float], ...]
    memory: float
    disk_read: float
    disk_write: float
    page_faults: float
    count: float
    sort: float
    checksum: float
    files: float
    network: float = NETWORK

    def per_edge(self, table: float, width: int) -> float:
        """Seconds for one edge of a product with a matrix of ``width`` columns and ``table`` bytes.

        Between the measured points on straight lines of the logarithms, beyond them as at the nearest; in the width
        beyond them in proportion.
        """
        widths = sorted({row[1] for row in self.product})
        by_width = []
        for w in widths:
            points = sorted((row[0], row[2]) for row in self.product if row[1] == w)
            sizes, logarithms = np.log([p[0] for p in points]), np.log([p[1] for p in points])
            by_width.append(float(np.interp(np.log(max(1.0, table)), sizes, logarithms)))
        seconds = float(np.exp(np.interp(np.log(width), np.log(widths), by_width)))
        return seconds * max(1.0, width / widths[-1])

    @staticmethod
    def from_dict(values: Any) -> "Rates":
        """From the fields of others; anything else is refused."""
        try:
            rates = Rates(**values | {"product": tuple(map(tuple, values["product"]))})
            numbers = [value for name, value in vars(rates).items() if name not in ("machine", "product")]
            if rates.product and min(*numbers, *(number for row in rates.product for number in row)) > 0:
                return rates
        except (TypeError, KeyError):
            pass
        raise InputError("the rates are damaged: measure them again (`measure`).")


def known_rates(measure: bool = False, say: Callable[[str], None] = lambda line: None) -> Rates:
    """This machine's rates, measured the first time, or again."""
    name = _machine()
    path = cache_dir() / f"rates-{hashlib.sha256(name.encode()).hexdigest()[:16]}.json"
    if not measure and path.is_file():
        try:
            return Rates.from_dict(json.loads(read_regular(path, 1 << 20)))
        except (OSError, ValueError):  # an InputError is one
            say(f"{path} is damaged: measured again")
    say("measuring this machine, about half a minute, kept for the next time")
    path.parent.mkdir(parents=True, exist_ok=True)
    rates = measure_rates(path.parent)
    write_atomic(path, lambda temporary: temporary.write_text(json.dumps(vars(rates), indent=1)))
    return rates


def measure_rates(folder: Path) -> Rates:
    """Measure them; ``folder`` is on the disk that is meant."""
    rng = np.random.default_rng(0)
    product = [(float(table), width, _product(table, width, rng)) for table in TABLES for width in WIDTHS]
    one, other = torch.zeros(BUFFER // 4), torch.ones(BUFFER // 4)
    memory = 2 * BUFFER / _seconds(lambda: one.copy_(other))
    faults = BUFFER / _seconds(lambda: torch.empty(BUFFER // 4).fill_(1.0))
    senders = rng.integers(BUFFER // 8, size=EDGES).astype(np.int32)
    total = np.zeros(BUFFER // 8, dtype=np.int64)
    counted = EDGES / _seconds(lambda: np.add.at(total, senders, 1))
    edges = torch.from_numpy(rng.integers(EDGES // DEGREE, size=(2, EDGES)))
    ordered = EDGES / _seconds(lambda: compress(edges, None, EDGES // DEGREE))
    block = other.numpy()[: BUFFER // 16].data
    hashed = len(block) * 4 / _seconds(lambda: hashlib.sha256(block).digest())
    write, read = _disk(folder, other.numpy())
    with tempfile.TemporaryDirectory(dir=folder, prefix=".rapgnn-rates-") as inside:
        small = Path(inside) / "small"
        files = 1 / _seconds(lambda: write_atomic(small, lambda temporary: temporary.write_bytes(b"0" * 4096)))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return Rates(_machine(), cores, tuple(product), memory, read, write, faults, counted, ordered, hashed, files)


def _product(table: int, width: int, rng: np.random.Generator) -> float:
    """Seconds per edge, median of some runs."""
    columns = max(1, table // (4 * width))
    rows = EDGES // DEGREE
    col = np.sort(rng.integers(columns, size=(rows, DEGREE)), axis=1).ravel().astype(np.int32)
    crow = torch.arange(0, rows * DEGREE + 1, DEGREE, dtype=torch.int32)
    matrix = SparseMatrix.from_csr(crow, torch.from_numpy(col), torch.ones(len(col)), (rows, columns))
    x = torch.ones(columns, width)
    return _seconds(lambda: matrix @ x) / len(col)


def _disk(folder: Path, block: np.ndarray) -> tuple[float, float]:
    """Bytes a second written, and read again past the page cache where the system lets it be emptied."""
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".rapgnn-rates-") as file:
        start = time.perf_counter()
        file.write(block.data)
        file.flush()
        os.fsync(file.fileno())
        write = block.nbytes / (time.perf_counter() - start)
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        file.seek(0)
        start = time.perf_counter()
        while file.read(1 << 22):
            pass
        return write, block.nbytes / (time.perf_counter() - start)


def _seconds(run: Callable[[], object]) -> float:
    """The median of three calls, after one that warms up."""
    run()
    times = []
    for _ in range(3):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def _machine() -> str:
    return f"{hardware('cpu')}, {torch.get_num_threads()} threads, torch {torch.__version__}"


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
    width: int
    blocks: int
    memory: int
    fits: bool
    read: int
    kept: int
    seconds: dict[str, float]
    machines: int = 1
    read_per_hop: int = 0
    moved: int = 0
    moved_per_hop: int = 0

    @property
    def total(self) -> float:
        """All seconds."""
        return sum(self.seconds.values())

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return vars(self) | {"total_seconds": self.total}


def best(layouts: list[Cost]) -> Cost | None:
    """The fastest that fits; where a simpler one is hardly slower, that one. None: no machine has the memory."""
    fitting = [cost for cost in layouts if cost.fits]
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
    return Cost("memory", width, blocks, memory, memory <= machines.memory, read, p.kept_bytes, seconds)


def from_disk(p: Problem, machines: Machines, rates: Rates, columns: int | None = None, tasks: int = 1) -> Cost:
    """One machine's blocks of columns one after another, the edges read from disk for every hop of every block.

    Args:
        columns: that this machine has; None: all.
        tasks: blocks at the same time.
    """
    columns, memory = columns or p.features, machines.memory
    entries = min(ENTRIES["cpu"], max(1, p.edges))
    held = BASE + 24 * p.nodes + entries * (20 + 8 * p.weighted) + PRODUCT_BYTES["cpu"] + ROW_BYTES
    beside = SLACK + 16 * entries + 2 * PRODUCT_BYTES["cpu"] + 2 * ROW_BYTES  # set aside when the width is chosen
    width = even_width(-(-columns // tasks), (memory // tasks - held - beside) // (8 * p.nodes))
    blocks = -(-columns // width)
    needed = tasks * (held + 8 * p.nodes * width)
    cached = memory - needed >= p.graph_bytes  # the system keeps the edges in memory that is left
    hops = p.layers - 1 + (p.rows / p.nodes if 2 * p.rows <= p.nodes else 1.0)  # the last one visits the kept rows
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
    fits, again = needed + tasks * beside <= memory, 0 if cached else blocks * p.graph_bytes
    return Cost("disk", width, blocks, needed, fits, read, kept, seconds, read_per_hop=again)


def on_ray(p: Problem, machines: Machines, rates: Rates) -> Cost:
    """The same blocks, shared out over machines that each see the whole graph; the kept rows travel to the driver.

    A task has one core, and every core of a machine has a task. The workers of torchrun cost about the same.
    """
    share = -(-p.features // machines.count)
    one = from_disk(p, machines, rates, share, min(share, rates.cores))
    used = -(-p.features // share)
    moved = p.kept_bytes * (used - 1) // used + p.graph_bytes * (used - 1)
    write = p.kept_bytes * (1 / rates.disk_write + 1 / rates.checksum)
    seconds = one.seconds | {"write": write, "move": moved / rates.network / max(1, used - 1), "start": START}
    read = {"read": used * one.read, "read_per_hop": used * one.read_per_hop}
    return replace(one, layout="ray", machines=used, **read, moved=moved, kept=p.kept_bytes, seconds=seconds)


# A plan for people: a table of layouts, and what to type.


LAYOUTS: dict[str, tuple[Callable[[Problem, Machines, Rates], Cost], str, str]] = {
    "memory": (in_memory, "in memory", "rapgnn fit FOLDER --out model"),
    "disk": (from_disk, "column blocks from disk", "rapgnn fit FOLDER --memory {memory} --out model"),
    "ray": (on_ray, "column blocks on Ray", "rapgnn fit FOLDER --cluster auto --out model"),
}
"""{name: (its cost, what it is, the command)}, the simplest first; the last one needs several machines."""


def costs(problem: Problem, machines: Machines, rates: Rates) -> list[Cost]:
    """Every layout that so many machines can run."""
    layouts = list(LAYOUTS.values())[: 3 if machines.count > 1 else 2]
    return [cost(problem, machines, rates) for cost, _, _ in layouts]


def show_seconds(seconds: float) -> str:
    """A time for people."""
    for size, unit in ((86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s" if seconds >= 1 else f"{1000 * seconds:.0f} ms"


def plan_rows(layouts: list[Cost]) -> list[dict[str, str]]:
    """One row per layout, words by column."""
    return [
        {
            "layout": LAYOUTS[cost.layout][1],
            "machines": str(cost.machines),
            "memory per machine": show_size(cost.memory) + ("" if cost.fits else " (too much)"),
            "columns per block": f"{cost.width} in {cost.blocks} block{'s' * (cost.blocks != 1)}",
            "read": show_size(cost.read),
            "moved": show_size(cost.moved) if cost.moved else "-",
            "kept": show_size(cost.kept),
            "time": show_seconds(cost.total),
        }
        for cost in layouts
    ]


def advice(layouts: list[Cost], machines: Machines) -> str:
    """Which layout to take, in a sentence."""
    memory, chosen = show_size(machines.memory), best(layouts)
    if chosen is None:
        least = min(layouts, key=lambda cost: cost.memory)
        needs = f"{LAYOUTS[least.layout][1]} needs the least, {show_size(least.memory)} per machine"
        return f"no layout fits into {memory}: {needs}."
    _, title, command = LAYOUTS[chosen.layout]
    return f"take {title}, {show_seconds(chosen.total)}: {command.format(memory=memory)}"
