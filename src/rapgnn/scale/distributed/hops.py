"""The hops that a network needs of a graph that its workers share: ``rapgnn.scale.hops``, by all workers together."""

import contextlib
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rapgnn.files import TEMPORARY, write_atomic
from rapgnn.graph.backbones import BACKBONES
from rapgnn.graph.graph import Graph
from rapgnn.network.hops import BLOCK_BYTES
from rapgnn.network.rapgnn import RAPGNN
from rapgnn.scale.blocks import Budget, FirstHop, OnHop
from rapgnn.scale.disk_graph import DiskGraph
from rapgnn.scale.distributed.group import Workers
from rapgnn.scale.distributed.part import GraphPart
from rapgnn.scale.fit import labelled_graph
from rapgnn.scale.hops import description, exact, found_store
from rapgnn.scale.store import HopsOf, HopStore

# Hops of one block of columns on disk while it is computed, so that a run which is killed goes on from the last one.
# Every worker writes its rows of hop k: all of them, which the next hop needs, and the wanted ones, the result.
# File names carry the rows, so that any number of workers can go on from them.


NAME = re.compile(r"(whole|wanted)-(\d+)\.(\d+)-(\d+)\.npy")


class SavedHops:
    """The files of one block of columns. A kind is ``"whole"`` or ``"wanted"``.

    Args:
        folder: of this block of this graph, with these settings.
    """

    def __init__(self, folder: Path):
        self.folder = folder

    def write(self, kind: str, hop: int, rows: slice, values: np.ndarray) -> None:
        """Rows of one hop, counted among all nodes or among the wanted ones; the file is whole or absent."""
        if rows.start < rows.stop:
            write_atomic(self._path(kind, hop, rows), lambda temporary: np.save(temporary, values))

    def read(self, kind: str, hop: int, rows: slice, width: int) -> np.ndarray:
        """Rows of one hop, ``[rows, width]``, from the files of any workers; ``covers`` has said that they exist."""
        parts = [np.empty((0, width), dtype=np.float32)]
        at = rows.start
        for first, last, path in self._files(kind, hop):
            if first <= at < min(last, rows.stop):
                stop = min(last, rows.stop)
                parts.append(np.load(path, mmap_mode="r", allow_pickle=False)[at - first : stop - first])
                at = stop
        return np.concatenate(parts)

    def covers(self, kind: str, hop: int, rows: slice) -> bool:
        """Whether all these rows of a hop are there."""
        at = rows.start
        for first, last, _ in self._files(kind, hop):
            at = max(at, last) if first <= at else at
        return at >= rows.stop

    def last(self, own: slice, wanted: slice, hops: tuple[int, ...]) -> int:
        """The last hop from which these rows can go on, or the last of all; -1 where there is none.

        Args:
            own: the worker's rows, counted among all nodes.
            wanted: those of them that are wanted, counted among the wanted ones.
            hops: the k that are wanted, ascending.
        """
        missing = next((k for k in hops if not self.covers("wanted", k, wanted)), None)
        if missing is None:
            return hops[-1]
        return next((k for k in range(missing - 1, -1, -1) if self.covers("whole", k, own)), -1)

    def forget(self, hop: int, rows: slice) -> None:
        """Remove all rows of an earlier hop, which nobody needs any more; the wanted ones stay."""
        self._path("whole", hop, rows).unlink(missing_ok=True)

    def remove(self) -> None:
        """All files of the block, also those that a killed worker left unfinished, and the folder."""
        for path in list(self.folder.iterdir()) if self.folder.is_dir() else ():
            if NAME.fullmatch(path.name) or TEMPORARY.fullmatch(path.name):
                path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self.folder.rmdir()
            self.folder.parent.rmdir()

    def _path(self, kind: str, hop: int, rows: slice) -> Path:
        return self.folder / f"{kind}-{hop:05}.{rows.start}-{rows.stop}.npy"

    def _files(self, kind: str, hop: int) -> Iterator[tuple[int, int, Path]]:
        """(first row, last row, path) of a hop's files, in order."""
        found = []
        for path in self.folder.glob(f"{kind}-{hop:05}.*.npy"):
            match = NAME.fullmatch(path.name)
            if match:
                found.append((int(match[3]), int(match[4]), path))
        yield from sorted(found)


# S^k h⁰ of one block of columns, hop after hop, by all workers together.


OnOneHop = Callable[[int], None]


def growth_rate(part: GraphPart, steps: int = 16) -> float:
    """``GraphOperator.growth_rate`` of the whole graph: the same steps, with the largest entry of all workers."""
    magnitude = part.with_values(part.matrix.values.abs())
    ones = torch.ones(part.matrix.shape[0], 1, dtype=part.matrix.dtype, device=part.matrix.device)
    logarithm = 0.0
    for _ in range(steps):
        ones = magnitude.hop(ones)
        size = part.workers.largest(float(ones.max()) if len(ones) else 0.0)
        if size <= 0:
            return 1.0
        logarithm += math.log(size)
        ones = ones / size
    mantissa, exponent = math.frexp(math.exp(logarithm / steps))
    return math.ldexp(round(64 * mantissa) / 64, exponent)


@torch.no_grad()
def walk(
    part: GraphPart,
    start: Callable[[], Tensor],
    width: int,
    hops: tuple[int, ...],
    rows: np.ndarray,
    *,
    scale: float = 1.0,
    save_in: Path | None = None,
    on_hop: OnOneHop = lambda hop: None,
) -> Tensor:
    """This worker's part of the wanted rows, ``[hops, rows, width]``, on the CPU.

    Args:
        start: gives this worker's rows of h⁰, ``[rows, width]``; not called where a later hop is on disk.
        hops: the k that are wanted, ascending.
        rows: nodes that are wanted, ascending, each once.
        scale: what each step is divided by.
        save_in: where finished hops are kept, so that a run that was killed goes on; None keeps none.
        on_hop: told every hop that is finished, the one it goes on from first.
    """
    own, depth = part.rows, hops[-1]
    mine = slice(*np.searchsorted(rows, [own.start, own.stop]).tolist())
    picked = torch.from_numpy(rows[mine].astype(np.int64) - own.start).to(part.matrix.device)
    kept = torch.empty(len(hops), len(picked), width)
    saved = None if save_in is None else SavedHops(save_in)
    done = _agreed(part, saved, mine, hops)
    if saved is not None and done >= 0:
        for i, k in enumerate(hops):
            if k <= done:
                kept[i] = torch.from_numpy(saved.read("wanted", k, mine, width))
        on_hop(done)
    if done == depth:
        return kept
    h = start() if saved is None or done < 0 else torch.from_numpy(saved.read("whole", done, own, width))
    h = h.to(part.matrix.device)
    for k in range(done + 1, depth + 1):
        if k:
            h = part.hop(h)
            h = h.div_(scale) if scale != 1.0 else h
        if k in hops:
            kept[hops.index(k)] = h[picked].cpu()
        if saved is not None:
            if k in hops:
                saved.write("wanted", k, mine, kept[hops.index(k)].numpy())
            if k < depth:
                saved.write("whole", k, own, h.cpu().numpy())
            part.workers.wait()  # only when all have hop k may the one before be removed
            saved.forget(k - 1, own)
        on_hop(k)
    return kept


def _agreed(part: GraphPart, saved: SavedHops | None, wanted: slice, hops: tuple[int, ...]) -> int:
    """The last hop that every worker can go on from; -1: from the start."""
    if saved is None:
        return -1
    done = int(part.workers.smallest(saved.last(part.rows, wanted, hops)))
    there = done == hops[-1] or (done >= 0 and saved.covers("whole", done, part.rows))
    return done if part.workers.smallest(there) else -1


# The hop store, filled by all workers: block after block of columns, worker 0 writes what all have computed.


BUFFERS = 4  # of the seen rows that are alive in a hop: the last one, what is sent, what has arrived, the product


def block_width(part: GraphPart, channels: int, budget: Budget) -> int:
    """How many columns travel together: as many as fit at the worker that has the least room.

    Args:
        budget: its limit is each worker's, whose part of the graph is in memory by now.
    """
    column = 4 * max(1, part.matrix.shape[1])
    if budget.limit is None:
        most = BLOCK_BYTES // column
    else:
        what = f"for one column of the {part.matrix.shape[1]:,} nodes that worker {part.workers.rank} sees"
        most = budget.room(0, what, BUFFERS * column) // (BUFFERS * column)
    return max(1, min(channels, int(part.workers.smallest(most))))


def create_together(part: GraphPart, folder: Path, of: HopsOf, rows: np.ndarray) -> HopStore:
    """The store, made or opened by worker 0 and then seen by all; the folder must be one that all workers share."""
    part.workers.at_first(lambda: found_store(folder, of, rows) or HopStore.create(folder, of, rows))
    return HopStore.open(folder, verify=False, complete=False)


def fill_together(
    store: HopStore,
    part: GraphPart,
    first: FirstHop,
    width: int,
    *,
    save: bool = True,
    on_hop: OnHop = lambda done, of: None,
) -> None:
    """Compute and store every block that is missing.

    Args:
        store: from ``create_together``, opened by every worker.
        width: columns of a block, the same for every worker.
        save: keep every finished hop in the store's folder until the block is done, so that a run that was killed goes
            on from it.
        on_hop: told how many hops of how many are done, over all blocks.
    """
    workers, of = part.workers, store.of
    own, depth = OwnRows(first, part.rows), of.hops[-1] + 1
    blocks = store.missing(width)
    for number, (start, stop) in enumerate(blocks):
        folder = store.folder / f"unfinished-{start:06d}-{stop:06d}"
        kept = walk(
            part,
            lambda columns=(start, stop): own.columns(*columns),
            stop - start,
            of.hops,
            store.rows,
            scale=of.operator_scale,
            save_in=folder if save else None,
            on_hop=lambda hop, before=number * depth: on_hop(before + hop + 1, len(blocks) * depth),
        )
        if workers.rank == 0:
            store.write_block(start, stop, (_of_all(part, hop) for hop in kept))
        else:
            for hop in kept:
                workers.send(hop, to=0)
        workers.wait()
        if workers.rank == 0:
            SavedHops(folder).remove()


def _of_all(part: GraphPart, own: Tensor) -> Iterator[Tensor]:
    """One hop's rows of one worker after another, at worker 0; rows ascend with the workers."""
    yield own
    for w in range(1, part.workers.size):
        yield part.workers.receive(w, own)


class OwnRows:
    """h⁰ of one worker's rows; only these rows of the features are read."""

    def __init__(self, first: FirstHop, rows: slice):
        self.first, self.range = first, rows
        self._sizes: Tensor | None = None

    @property
    def nonnegative(self) -> bool:
        """Whether no entry is below zero."""
        if self.first.embedding is not None:
            return self.first.nonnegative
        return all(not bool((self.first.graph.features[rows] < 0).any()) for rows in self._blocks())

    def columns(self, start: int, stop: int) -> Tensor:
        """``[rows, stop - start]``."""
        first, begin = self.first, self.range.start
        out = torch.empty(self.range.stop - begin, stop - start)
        if first.embedding is None and first.normalize and self._sizes is None:
            self._sizes = torch.cat([torch.zeros(0, 1), *(self._sizes_of(rows) for rows in self._blocks())])
        for rows in self._blocks():
            place = slice(rows.start - begin, rows.stop - begin)
            if first.embedding is not None:
                out[place] = first.rows(rows)[:, start:stop]
                continue
            out[place] = torch.from_numpy(np.array(first.graph.features[rows, start:stop], order="C"))
            if self._sizes is not None:
                out[place].div_(self._sizes[place])
        return out

    def _sizes_of(self, rows: slice) -> Tensor:
        """What normalised features are divided by, as in ``Graph.normalized_features``."""
        x = torch.from_numpy(np.array(self.first.graph.features[rows], order="C"))
        return x.abs().sum(1, keepdim=True).clamp(min=torch.finfo(x.dtype).tiny)

    def _blocks(self) -> Iterator[slice]:
        step = self.first.row_step
        for start in range(self.range.start, self.range.stop, step):
            yield slice(start, min(self.range.stop, start + step))


# What comes before the hops where these are computed by several workers or on Ray: the rows, and what is exact.


def labelled_rows(graph: DiskGraph, scoring: str | None = None, class_weight: Any = None) -> tuple[Graph, np.ndarray]:
    """``labelled_graph`` without a look at all features and weights, which no single worker has to read."""
    return labelled_graph(replace(graph, features=graph.features[:0], weights=None), scoring, class_weight)


@dataclass(frozen=True)
class Sign:
    """Stands for a matrix of which only this is known."""

    nonnegative: bool


def exact_with(model: RAPGNN, matrix: bool, h: bool) -> str:
    """Why the shortcut is exact, or a refusal, given whether S and h⁰ are free of negative entries."""
    return exact(model, Sign(matrix), Sign(h))  # type: ignore[arg-type]


@torch.no_grad()
def distributed_hops(
    workers: Workers,
    graph: DiskGraph,
    nodes: np.ndarray,
    model: RAPGNN,
    budget: Budget,
    folder: Path,
    on_hop: OnHop = lambda done, of: None,
    *,
    save: bool = True,
) -> tuple[HopStore, str]:
    """A store that has the hops of these nodes, and why the shortcut is exact; called by every worker.

    Args:
        nodes: ascending.
        model: the same on every worker; the operator's scale is taken from the graph where it has none.
        budget: its limit is each worker's, and decides how many columns travel together.
        folder: of the store, which all workers see.
        on_hop: told how many hops of how many are done, over all blocks of columns.
        save: keep every finished hop until its block is done, so that a run that was killed goes on from it.
    """
    config = model.config
    part = GraphPart.read(graph, workers, config.backbone, self_loops=config.self_loops, eps=config.eps)
    first = FirstHop(graph, model.embedding, config.normalize_features)
    if BACKBONES[config.backbone].includes_self and float(model.operator_scale) == 1.0:
        model.operator_scale.fill_(growth_rate(part))
    linear = model.spec.activation == "identity"
    h = linear or bool(workers.smallest(OwnRows(first, part.rows).nonnegative))
    reason = exact_with(model, bool(workers.smallest(part.matrix.nonnegative)), h)
    store = create_together(part, folder, description(graph, model, first), nodes)
    if store.missing():
        fill_together(store, part, first, block_width(part, first.channels, budget), save=save, on_hop=on_hop)
    return HopStore.open(folder, verify=False), reason


@torch.no_grad()
def share_state(workers: Workers, module: nn.Module) -> None:
    """Give every worker the parameters and buffers of worker 0."""
    for value in module.state_dict().values():
        found = workers.total((value if workers.rank == 0 else torch.zeros_like(value)).to(workers.device))
        value.copy_(found)
