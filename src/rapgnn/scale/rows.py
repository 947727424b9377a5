"""The hops of a store as training and prediction ask for them: a network's ``Hops``, or some rows at a time."""

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
import torch
from torch import Tensor

from rapgnn.graph.operator import GraphOperator
from rapgnn.memory import blocks
from rapgnn.network.hops import Hops
from rapgnn.network.propagation import Propagation, coefficients, expected_coefficients, stored_hops
from rapgnn.network.rapgnn import RAPGNN
from rapgnn.network.representation import EmbeddedGraph
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


class StoredHops(Hops):
    """The hops of a store, walked as those of a graph in memory.

    Args:
        store: filled.
        nodes: the node that each row is.
        device: where the hops go.
    """

    def __init__(self, store: HopStore, nodes: np.ndarray, device: torch.device):
        self.store, self.nodes, self.device = store, nodes, device

    def suits(self, spec: Propagation, h: object) -> bool:
        """The store was filled for this network."""
        return True

    def walk(self, spec: Propagation, wanted: Sequence[Tensor | None]) -> Iterator[tuple[slice, int, list[Tensor]]]:
        """As in memory, one block of columns after another."""
        numbers = [slice(None) if rows is None else rows.cpu().numpy() for rows in wanted]
        places = [self.store.places(self.nodes[rows]) for rows in numbers]
        for columns in sorted(self.store.blocks):
            for place, k in enumerate(stored_hops(spec)):
                hop = self.store.hop(columns, k)
                yield slice(*columns), place, [torch.from_numpy(hop[rows]).to(self.device) for rows in places]


def stored_graph(model: RAPGNN, store: HopStore, nodes: np.ndarray, device: torch.device) -> EmbeddedGraph:
    """The labelled rows as a graph of which only the hops are at hand."""
    nothing = torch.empty(0, model.embedding.out_channels, device=device)
    operator, hops = GraphOperator(one_by_one(1.0, device)), StoredHops(store, nodes, device)
    return EmbeddedGraph(
        model.spec, operator, nothing, model.embedding, "polynomial", "hops are stored", nothing, None, hops
    )


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

    def read(self, rows: slice) -> Tensor:
        """``[rows, K, d]``."""
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
