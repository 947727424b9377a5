"""Where the hops of a graph on disk are computed: in this process, by workers that share the rows, or on Ray.

A home is a row of ``HOMES``. All of them fill the same hop store with the same numbers.
"""

import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from rapgnn.errors import InputError, shown
from rapgnn.files import write_atomic
from rapgnn.network.rapgnn import RAPGNN
from rapgnn.scale.disk_graph import DiskGraph
from rapgnn.scale.hops import Budget, Hop, Hops
from rapgnn.scale.store import Columns, HopStore
from rapgnn.scale.workers import ALONE, Workers, joined


@dataclass(frozen=True)
class Home:
    """What computes hops.

    Args:
        hops: the hops of a network on a graph, within a budget.
        workers: the processes that share the work, this one among them; all of them do the same calls.
    """

    hops: Callable[[DiskGraph, RAPGNN, Budget], Hops] = Hops
    workers: Workers = ALONE


HERE = Home()


@contextmanager
def _of_torchrun(address: str, device: str) -> Iterator[Home]:
    with joined(device) as workers:
        yield Home(lambda graph, model, budget: WorkersHops(graph, model, budget, workers), workers)


@contextmanager
def _on_ray(address: str, device: str) -> Iterator[Home]:
    from rapgnn.scale.on_ray import RayHops

    yield Home(lambda graph, model, budget: RayHops(graph, model, budget, address=address or "auto"))


HOMES: dict[str, Callable[[str, str], AbstractContextManager[Home]]] = {
    "memory": lambda address, device: nullcontext(HERE),
    "ray": _on_ray,
    "torchrun": _of_torchrun,
}
"""{a user's word: (address, device) -> a context that gives the home}; the address is what follows in ray://address."""


def home_of(hops: str | Path) -> tuple[str, str, Path | None]:
    """What a user's word means: the home, its address, and the folder for the hops, where one is named."""
    word, _, address = str(hops).partition("://")
    if isinstance(hops, str) and word in HOMES:
        return word, address, None
    if not isinstance(hops, str | Path) or not str(hops) or "://" in str(hops):
        raise InputError(f"hops must be {', '.join(map(repr, HOMES))} or a folder, got {shown(hops)}.")
    near = get_close_matches(word, HOMES, n=1)
    if near and not isinstance(hops, Path) and os.sep not in hops and not Path(hops).exists():
        raise InputError(f'hops {shown(hops)} is no folder: did you mean "{near[0]}"? A new folder is "./{hops}".')
    return "memory", "", Path(hops)


def open_home(hops: str | Path, device: str = "cpu") -> AbstractContextManager[Home]:
    """The home that a user's word means, for as long as the context lasts."""
    word, address, _ = home_of(hops)
    return HOMES[word](address, device)


# Workers that share the rows: each computes its own of every hop, and the first one stores them.


class WorkersHops(Hops):
    """``Hops`` of several workers. A run that was killed goes on from the last hop that all of them have finished."""

    resumes = True

    def blocks(
        self, store: HopStore, missing: list[Columns], on_hop: Callable[[int], None]
    ) -> Iterator[tuple[Columns, Iterator[Hop]]]:
        for columns in missing:
            stored = [store.path(columns, hop) for hop in store.of.hops]
            whole = WholeHops(store.unfinished(columns), self.graph.num_nodes, self.workers, stored)
            yield columns, self.walk(columns, store.rows, whole, on_hop)

    def keep(self, store: HopStore, columns: Columns, hops: Iterator[Hop]) -> None:
        for hop, parts in hops:
            if self.workers.rank == 0:
                store.write(columns, hop, self.workers.receive(parts))
            else:
                self.workers.send(parts)
        if self.workers.rank == 0:
            store.finish(columns)
        self.workers.wait()
        store.refresh()
        shutil.rmtree(store.unfinished(columns), ignore_errors=True)


class WholeHops:
    """Whole hops of one block of columns, in files, from which several workers go on after some were killed.

    Every worker writes its rows, and the files' names say which, so that any number of workers can go on from them.

    Args:
        folder: of this block.
        nodes: of the whole graph.
        stored: the files of the store's hops, which the files here follow.
    """

    NAME = re.compile(r"(\d+)\.(\d+)-(\d+)\.npy")

    def __init__(self, folder: Path, nodes: int, workers: Workers, stored: Sequence[Path] = ()):
        self.folder, self.nodes, self.workers, self.stored = folder, nodes, workers, stored

    def write(self, hop: int, rows: slice, h: Tensor) -> None:
        """This worker's rows of a hop; the one before is removed when all workers have this one."""
        here, before = (self.folder / f"{k:05}.{rows.start}-{rows.stop}.npy" for k in (hop, hop - 1))
        if rows.start < rows.stop:
            write_atomic(here, lambda temporary: np.save(temporary, h.cpu().numpy()))
        self.workers.wait()
        before.unlink(missing_ok=True)

    def read(self, hop: int, rows: slice) -> Tensor:
        """Rows of a hop, from the files of any workers."""
        files = [(first, last, np.load(path, mmap_mode="r")) for k, first, last, path in self._files() if k == hop]
        h = np.empty((rows.stop - rows.start, files[0][2].shape[1]), dtype=np.float32)
        for first, last, array in files:
            a, b = max(first, rows.start), min(last, rows.stop)
            if a < b:
                h[a - rows.start : b - rows.start] = array[a - first : b - first]
        return torch.from_numpy(h)

    def last(self) -> int:
        """The last hop from which all workers can go on; -1: from the start."""
        ends: dict[int, int] = {}  # of each hop, how many rows the files have from the first one on
        for hop, first, last, _ in self._files():
            if first <= ends.get(hop, 0):
                ends[hop] = max(ends.get(hop, 0), last)
        whole = [hop for hop, end in ends.items() if end >= self.nodes]
        done = int(self.workers.smallest(max(whole, default=-1)))
        stored = all(path.is_file() for path in self.stored if int(path.stem.rpartition("-")[2]) <= done)
        return done if self.workers.smallest(done in whole and stored) else -1

    def _files(self) -> list[tuple[int, int, int, Path]]:
        """(hop, first row, end, path) of every file, in order."""
        names = [(self.NAME.fullmatch(path.name), path) for path in self.folder.glob("*.npy")]
        return sorted((int(name[1]), int(name[2]), int(name[3]), path) for name, path in names if name)
