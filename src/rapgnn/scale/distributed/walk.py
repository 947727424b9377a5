"""S^k h⁰ of one block of columns, hop after hop, by all workers together."""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from rapgnn.scale.distributed.part import GraphPart
from rapgnn.scale.distributed.saved import SavedHops

OnHop = Callable[[int], None]


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
    on_hop: OnHop = lambda hop: None,
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
