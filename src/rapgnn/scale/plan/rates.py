"""How fast a machine is: sparse products by size and width, memory, disk. Measured in seconds, kept in the cache."""

import hashlib
import json
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rapgnn.datasets.sources import cache_dir
from rapgnn.device import hardware
from rapgnn.errors import InputError
from rapgnn.files import read_regular, write_atomic
from rapgnn.graph.csr import compress
from rapgnn.sparse import SparseMatrix

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
            sizes, seconds = np.log([p[0] for p in points]), np.log([p[1] for p in points])
            by_width.append(float(np.interp(np.log(max(1.0, table)), sizes, seconds)))
        found = float(np.exp(np.interp(np.log(width), np.log(widths), by_width)))
        return found * max(1.0, width / widths[-1])

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_dict(given: Any) -> "Rates":
        """From what ``to_dict`` gave; anything else is refused."""
        try:
            if set(given) != {f.name for f in fields(Rates)}:
                raise ValueError
            product = tuple((float(t), int(w), float(s)) for t, w, s in given["product"])
            rest = ("machine", "cores", "product")
            speeds = {name: float(value) for name, value in given.items() if name not in rest}
            if not product or min(s for _, _, s in product) <= 0 or min(*speeds.values(), given["cores"]) <= 0:
                raise ValueError
            return Rates(machine=str(given["machine"]), cores=int(given["cores"]), product=product, **speeds)
        except (TypeError, ValueError, KeyError) as error:
            raise InputError("the rates are damaged: measure them again (--measure).") from error


def known_rates(measure: bool = False, say: Callable[[str], None] = lambda line: None) -> Rates:
    """This machine's rates, measured the first time.

    Args:
        measure: again, even where they are known.
    """
    name = _machine()
    path = cache_dir() / f"rates-{hashlib.sha256(name.encode()).hexdigest()[:16]}.json"
    if not measure and path.is_file():
        try:
            return Rates.from_dict(json.loads(read_regular(path, 1 << 20)))
        except (OSError, ValueError):  # an InputError is one
            say(f"{path} is damaged: measured again")
    say("measuring this machine, about half a minute, kept for the next time")
    path.parent.mkdir(parents=True, exist_ok=True)
    found = measure_rates(path.parent)
    text = json.dumps(found.to_dict(), indent=1)
    write_atomic(path, lambda temporary: temporary.write_text(text))
    return found


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
    return Rates(_machine(), _cores(), tuple(product), memory, read, write, faults, counted, ordered, hashed, files)


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


def _seconds(run: Callable[[], object], repeats: int = 3) -> float:
    run()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _machine() -> str:
    return f"{hardware('cpu')}, {torch.get_num_threads()} threads, torch {torch.__version__}"
