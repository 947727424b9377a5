"""What training asks of a representation, from the rows of a hop store: loaded where that fits, else read in parts."""

from collections.abc import Iterable, Iterator
from itertools import product

import numpy as np
import torch
from torch import Tensor

from rapgnn.fused import mixes
from rapgnn.graph.graph import Graph
from rapgnn.graph.operator import GraphOperator
from rapgnn.memory import blocks
from rapgnn.network.polynomial import PolynomialFilter
from rapgnn.network.propagation import (
    Propagation,
    coefficient_covariance,
    coefficients,
    expected_coefficients,
    stored_hops,
)
from rapgnn.network.rapgnn import RAPGNN
from rapgnn.network.representation import EmbeddedGraph, PolynomialRepresentation
from rapgnn.scale.hops import one_by_one
from rapgnn.scale.store import HopStore

PART_BYTES = 8 << 20  # of the hops that are read together


def is_random(spec: Propagation) -> bool:
    """Whether draws differ from one another."""
    return spec.weights.schedule != "fixed" and spec.weights.structure != "identity"


def mean_coefficients(spec: Propagation, channels: int) -> Tensor:
    """What the hops are added up with at inference, ``[J, K, d]``: the expectation, or the one draw there is."""
    if not is_random(spec):
        return coefficients(spec, [0], channels, dtype=torch.float32)[0]
    return expected_coefficients(spec).float()[:, :, None].expand(-1, -1, channels)


class StoredRows:
    """The hops of some nodes of a store, for one network.

    Args:
        store: filled.
        spec: whose hops are among the stored ones.
        nodes: any of the store's rows, in any order.
    """

    def __init__(self, store: HopStore, spec: Propagation, nodes: np.ndarray):
        self.store, self.spec, self.outputs = store, spec, len(spec.outputs)
        self.places, self.hops, self.channels = store.places(nodes), stored_hops(spec), store.of.channels
        self.mean = mean_coefficients(spec, self.channels)
        self._used = self.mean.flatten(0, 1).any(1).tolist()

    def __len__(self) -> int:
        return len(self.places)

    def read(self, rows: slice | np.ndarray | Tensor) -> Tensor:
        """``[rows, K, d]``."""
        rows = rows.cpu().numpy() if isinstance(rows, Tensor) else rows
        return self.store.read(self.places[rows], self.hops)

    def parts(self, size: int | None = None) -> Iterator[slice]:
        """All rows, so many at a time, or as many as may be read together."""
        return blocks(len(self), size or PART_BYTES // max(1, 4 * len(self.hops) * self.channels))

    def expected(self, hops: Tensor) -> Tensor:
        """The expectation ``[rows, J·d]`` of the rows that have these hops, ``[rows, K, d]``."""
        out = hops.new_zeros(len(hops), self.outputs, self.channels)
        for (j, k), used in zip(product(range(self.outputs), range(len(self.hops))), self._used, strict=True):
            if used:
                out[:, j].addcmul_(hops[:, k], self.mean[j, k])
        return out.flatten(1)

    def expectation(self) -> Tensor:
        """That of all rows."""
        parts = (self.expected(self.read(part)) for part in self.parts())
        return torch.cat([torch.zeros(0, self.outputs * self.channels), *parts])


class StoredFilter(PolynomialFilter):
    """The hops of rows that were stored.

    Args:
        rows: of which store.
        expect: rows of which only the expectation is wanted.
        device: where draws are made.
        load: keep them in memory; else each part is read when it is asked for.
    """

    def __init__(self, rows: StoredRows, expect: StoredRows, device: torch.device, load: bool):
        self.stored, self.spec, self.device, self.dtype = rows, rows.spec, device, torch.float32
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
        self.expected = expect.expectation().to(device)

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
        drawn = torch.cat(parts, dim=1)
        return drawn if out is None else out.copy_(drawn)


class StoredRepresentation(PolynomialRepresentation):
    """What the head sees of stored rows; means over rows are taken part by part."""

    filter: StoredFilter

    def draw_moments(self, counter: int) -> tuple[Tensor, Tensor]:
        if self.embedded.constant:
            return super().draw_moments(counter)
        c, every = self.filter.coefficients([counter])[0], torch.arange(len(self.index), device=self.index.device)
        drawn = (self.filter.draw_batch(every[part], c).double() for part in self.filter.stored.parts())
        return self._means((part, part.square()) for part in drawn)

    def channel_moments(self) -> tuple[Tensor, Tensor]:
        if self.embedded.constant or not len(self.index):
            return super().channel_moments()
        covariance, stored = coefficient_covariance(self.filter.spec), self.filter.stored
        own = torch.stack([covariance[j, :, j] for j in range(len(covariance))]).float()

        def moments(hops: Tensor) -> tuple[Tensor, Tensor]:
            weighted = (own.flatten(0, 1) @ hops).unflatten(1, own.shape[:2])  # [rows, J, K, d]
            variance = (weighted * hops[:, None]).sum(2).clamp_(min=0).flatten(1)
            mean = stored.expected(hops).double()
            return mean, mean.square() + variance.double()

        return self._means(moments(stored.read(part)) for part in stored.parts())

    def _means(self, pairs: Iterable[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        sums = [torch.stack([part.sum(0) for part in pair]) for pair in pairs]
        mean, square = torch.stack(sums).sum(0).to(self.index.device) / len(self.index)
        return mean, square


class StoredGraph(EmbeddedGraph):
    """A graph of which only a hop store is at hand.

    Args:
        model: whose hops they are.
        small: the labelled rows.
        numbers: the node that each row is.
        load: as in ``StoredFilter``.
    """

    def __init__(self, model: RAPGNN, small: Graph, store: HopStore, numbers: np.ndarray, load: bool):
        x, device = small.y.new_zeros(len(numbers), 1, dtype=torch.float32), small.y.device
        nothing = GraphOperator(one_by_one(1.0, device))
        super().__init__(model.spec, nothing, x, model.embedding, "polynomial", "hops are stored", x, None)
        self.store, self.numbers, self.device, self.load = store, numbers, device, load

    def rows(self, rows: Tensor, expect: Tensor | None = None) -> StoredRepresentation:
        held_out = rows[:0] if expect is None else expect
        stored = StoredFilter(self.nodes(rows), self.nodes(held_out), self.device, self.load)
        representation = StoredRepresentation(self, rows, stored)
        if self.constant and expect is not None:
            representation.keep_expectation(stored.expected)
        return representation

    def nodes(self, rows: Tensor) -> StoredRows:
        """The stored hops of some rows."""
        return StoredRows(self.store, self.spec, self.numbers[rows.cpu().numpy()])

    def expectation(self, rows: Tensor) -> Tensor:
        return self.nodes(rows).expectation().to(self.device)
