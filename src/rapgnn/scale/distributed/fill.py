"""The hop store, filled by all workers: block after block of columns, worker 0 writes what all have computed."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from rapgnn.propagation.hops import BLOCK_BYTES
from rapgnn.scale.blocks import Budget, OnHop
from rapgnn.scale.distributed.part import GraphPart
from rapgnn.scale.distributed.saved import SavedHops
from rapgnn.scale.distributed.walk import walk
from rapgnn.scale.hops import found_store
from rapgnn.scale.start import FirstHop
from rapgnn.scale.store import HopsOf, HopStore

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
