"""What training asks of a representation, from the rows of a hop store: loaded where that fits, else read in parts."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
import torch
from torch import Tensor

from rapgnn.fused import mixes
from rapgnn.network.engine import EmbeddedGraph
from rapgnn.network.polynomial import PolynomialFilter
from rapgnn.network.propagation import (
    Propagation,
    coefficient_covariance,
    coefficients,
    expected_coefficients,
    stored_hops,
)
from rapgnn.network.representation import PolynomialRepresentation
from rapgnn.scale.store import HopStore

PART_BYTES = 8 << 20  # of the hops that are read together


def mean_coefficients(spec: Propagation, channels: int, constant: bool) -> Tensor:
    """What the hops are added up with at inference, ``[J, K, d]``: the expectation, or the one draw there is."""
    if constant:
        return coefficients(spec, [0], channels, dtype=torch.float32)[0]
    return expected_coefficients(spec).float()[:, :, None].expand(-1, -1, channels)


class StoredRows:
    """The hops of some nodes of a store, for one network.

    Args:
        store: filled.
        spec: whose hops are among the stored ones.
        nodes: any of the store's rows, in any order.
        constant: whether every draw of the weights is the same.
    """

    def __init__(self, store: HopStore, spec: Propagation, nodes: np.ndarray, constant: bool = False):
        self.store, self.spec, self.constant = store, spec, constant
        self.places, self.hops, self.channels = store.places(nodes), stored_hops(spec), store.of.channels
        self.mean = mean_coefficients(spec, self.channels, constant)
        self._used = self.mean.flatten(0, 1).any(1).tolist()

    def __len__(self) -> int:
        return len(self.places)

    def read(self, rows: slice | np.ndarray | Tensor) -> Tensor:
        """``[rows, K, d]``."""
        rows = rows.cpu().numpy() if isinstance(rows, Tensor) else rows
        return self.store.read(self.places[rows], self.hops)

    def parts(self) -> Iterator[slice]:
        """All rows, as many at a time as may be read together."""
        return self.parts_of(max(1, PART_BYTES // max(1, 4 * len(self.hops) * self.channels)))

    def parts_of(self, size: int) -> Iterator[slice]:
        """All rows, so many at a time."""
        for start in range(0, len(self), size):
            yield slice(start, min(len(self), start + size))

    def expected(self, rows: slice) -> Tensor:
        """The expectation of some rows, ``[rows, J·d]``."""
        return self.expected_of(self.read(rows))

    def expected_of(self, hops: Tensor) -> Tensor:
        """The same, of hops that were read."""
        out = hops.new_zeros(len(hops), self.outputs, self.channels)
        for (j, k), used in zip(product(range(self.outputs), range(len(self.hops))), self._used, strict=True):
            if used:
                out[:, j].addcmul_(hops[:, k], self.mean[j, k])
        return out.flatten(1)

    @property
    def outputs(self) -> int:
        """J."""
        return len(self.spec.outputs)


class StoredFilter(PolynomialFilter):
    """The hops of rows that were stored.

    Args:
        rows: of which store.
        device: where draws are made.
        load: keep them in memory; else each part is read when it is asked for.
    """

    def __init__(self, rows: StoredRows, expect: StoredRows | None, device: torch.device | str, load: bool):
        self.stored, self.spec, self.device, self.dtype = rows, rows.spec, torch.device(device), torch.float32
        self.load, self._by_row = load, None
        self._fused = load and mixes(torch.empty(0, dtype=torch.float32, device=device))
        shape = rows.channels, len(rows.hops), len(rows)
        if self._fused:
            self._by_row = torch.empty(shape[::-1], device=device)
            self.hops = self._by_row.permute(2, 1, 0)
        elif load:
            self.hops = torch.empty(shape, device=device)
        for part in rows.parts() if load else ():
            self.hops[:, :, part] = rows.read(part).to(device).permute(2, 1, 0)
        parts = () if expect is None else (expect.expected(part).to(device) for part in expect.parts())
        self.expected = torch.cat([torch.zeros(0, rows.outputs * rows.channels, device=device), *parts])

    @property
    def channels(self) -> int:
        return self.stored.channels

    def _rows(self, rows: Tensor) -> Tensor:
        return super()._rows(rows) if self.load else self.stored.read(rows).to(self.device)

    def combine(self, c: Tensor, rows: Tensor | None = None, out: Tensor | None = None) -> Tensor:
        if self.load or rows is not None:
            return super().combine(c, rows, out)
        every = torch.arange(len(self.stored), device=self.device)
        parts = [super(StoredFilter, self).combine(c, every[part].expand(len(c), -1)) for part in self.stored.parts()]
        found = torch.cat(parts, dim=1)
        return found if out is None else out.copy_(found)

    def draw_parts(self, c: Tensor) -> Iterator[Tensor]:
        """The representation of one draw, some rows at a time."""
        every = torch.arange(len(self.stored), device=self.device)
        for part in self.stored.parts():
            yield self.draw_batch(every[part], c)

    def moment_parts(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Expectation and variance, some rows at a time."""
        covariance = coefficient_covariance(self.spec)
        own = torch.stack([covariance[j, :, j] for j in range(len(covariance))]).float()
        for part in self.stored.parts():
            hops = self.stored.read(part)
            weighted = (own.flatten(0, 1) @ hops).unflatten(1, own.shape[:2])  # [rows, J, K, d]
            yield self.stored.expected_of(hops), (weighted * hops[:, None]).sum(2).clamp_(min=0).flatten(1)


class StoredRepresentation(PolynomialRepresentation):
    """What the head sees of stored rows; sums over rows are taken part by part."""

    filter: StoredFilter

    def draw_moments(self, counter: int) -> tuple[Tensor, Tensor]:
        if self.embedded.constant:
            return super().draw_moments(counter)
        c = self.filter.coefficients([counter])[0]
        return _means((part, part.double().square()) for part in self.filter.draw_parts(c))

    def channel_moments(self) -> tuple[Tensor, Tensor]:
        if self.embedded.constant or not len(self.index):
            return super().channel_moments()
        pairs = self.filter.moment_parts()
        mean, square = _means((m.double(), m.double().square() + v.double()) for m, v in pairs)
        return mean.to(self.index.device), square.to(self.index.device)


def _means(pairs: Iterator[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """The means over the rows of all parts, in double precision."""
    count, totals = 0, None
    for pair in pairs:
        sums = [part.double().sum(0) for part in pair]
        totals = sums if totals is None else [a + b for a, b in zip(totals, sums, strict=True)]
        count += len(pair[0])
    assert totals is not None
    return totals[0] / count, totals[1] / count


@dataclass
class StoredGraph(EmbeddedGraph):
    """A graph of which only a hop store is at hand.

    Args:
        numbers: the node that each row is.
        store, device, load: as in ``StoredFilter``.
    """

    store: HopStore | None = None
    numbers: np.ndarray | None = None
    device: torch.device | str = "cpu"
    load: bool = True

    def rows(self, rows: Tensor, expect: Tensor | None = None) -> StoredRepresentation:
        held_out = None if expect is None else self.nodes(expect)
        stored = StoredFilter(self.nodes(rows), held_out, self.device, self.load)
        representation = StoredRepresentation(self, rows, stored)
        if self.constant and expect is not None:
            representation.keep_expectation(stored.expected)
        return representation

    def nodes(self, rows: Tensor) -> StoredRows:
        """The stored hops of some rows."""
        assert self.store is not None
        assert self.numbers is not None
        return StoredRows(self.store, self.spec, self.numbers[rows.cpu().numpy()], self.constant)

    def expectation(self, rows: Tensor) -> Tensor:
        chosen = self.nodes(rows)
        parts = [chosen.expected(part) for part in chosen.parts()]
        return torch.cat([torch.zeros(0, chosen.outputs * chosen.channels), *parts]).to(self.device)
