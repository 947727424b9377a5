"""What the reservoir systems share: random matrices and layers, matrices of the graph, the reservoir, the encoder, the
network with a readout."""

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice, product
from typing import Any

import torch
from torch import Tensor, nn

from rapgnn.compare import Record
from rapgnn.errors import check_choice
from rapgnn.graph.backbones import Backbone, plain, symmetric
from rapgnn.graph.graph import Graph
from rapgnn.graph.operator import GraphOperator
from rapgnn.network.config import ACTIVATIONS
from rapgnn.network.encode import Standard
from rapgnn.network.heads import TargetScale
from rapgnn.network.network import graph_blocks
from rapgnn.network.weights import DISTRIBUTIONS
from rapgnn.prng import random_words
from rapgnn.sparse import Features, SparseMatrix, row_block

_SLOT_BITS = 20  # layer numbers below 2^20, the matrix's place in the layer above them
_STREAMS = 2  # of a matrix: its values, and which of them count
WEIGHT, BIAS = 0, 1  # slots

BOUNDS: dict[str, Callable[[int, int], float]] = {
    "uniform": lambda inputs, units: 1.0,
    "glorot": lambda inputs, units: math.sqrt(6.0 / max(1, inputs + units)),
}
"""Entries are drawn from U[-b, b]; b by the name of the distribution."""


def spectral_radius(matrix: Tensor) -> float:
    return float(torch.linalg.eigvals(matrix).abs().max()) if matrix.numel() else 0.0


MEASURES: dict[str, Callable[[Tensor], float]] = {
    "radius": spectral_radius,
    "absolute radius": lambda matrix: spectral_radius(matrix.abs()),
    "norm": lambda matrix: float(torch.linalg.matrix_norm(matrix, 2)) if matrix.numel() else 0.0,
}
"""What ``RandomMatrix.size`` is the value of: ρ(W), ρ(|W|) or ‖W‖₂."""


@dataclass(frozen=True)
class RandomMatrix:
    """A matrix with signs that is drawn, never trained: a pure function of (seed, layer).

    Args:
        connections: how many inputs each unit (column) is joined to; None: all of them.
        size: a factor; with ``measure`` the value that this measure of the matrix has.
        measure: a name from ``MEASURES``; None: entries are as drawn, times ``size``.

    A matrix whose measure is zero is not scaled. The numbers are the same on every device.
    """

    distribution: str = "glorot"
    connections: int | None = None
    size: float = 1.0
    measure: str | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        check_choice("matrix distribution", self.distribution, BOUNDS)
        if self.measure is not None:
            check_choice("matrix measure", self.measure, MEASURES)

    def draw(self, layer: int, rows: int, columns: int, slot: int = WEIGHT) -> Tensor:
        """The matrix ``[rows, columns]`` of a layer, dense; a sparse one holds zeros."""
        inputs = min(rows, self.connections or rows)
        bound = BOUNDS[self.distribution](inputs, columns)
        values = DISTRIBUTIONS["uniform"].sample(self._words(layer, slot, 0, rows * columns), -bound, bound)
        matrix = values.view(rows, columns).double()
        if inputs < rows:
            order = self._words(layer, slot, 1, rows * columns).view(rows, columns).argsort(dim=0, stable=True)
            chosen = order[:inputs]
            matrix = torch.zeros_like(matrix).scatter_(0, chosen, matrix.gather(0, chosen))
        measured = 1.0 if self.measure is None else MEASURES[self.measure](matrix)
        return (matrix * (self.size / measured if measured > 0 else 1.0)).float()

    def _words(self, layer: int, slot: int, part: int, count: int) -> Tensor:
        stream = layer + ((slot * _STREAMS + part) << _SLOT_BITS)
        return random_words(self.seed, torch.tensor([0]), torch.tensor([stream]), count)[0, 0]


class RandomLayer(nn.Module):
    r"""A random map of rows, with a non-linearity: :math:`h = σ(x W + b)`. Nothing is trained.

    Args:
        weights: how W is drawn; its ``size`` scales the input.
        bias: b is drawn from U[-bias, bias]; 0: none.
        layer: its number, which the draw depends on.

    Shapes:
        x ``[r, in_channels]`` dense or sparse -> ``[r, out_channels]``.
    """

    weight: Tensor
    bias: Tensor

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        weights: RandomMatrix | None = None,
        *,
        activation: str = "tanh",
        bias: float = 0.0,
        layer: int = 0,
    ):
        super().__init__()
        weights = weights or RandomMatrix()
        self.activation = activation
        offsets = RandomMatrix("uniform", size=bias, seed=weights.seed)
        self.register_buffer("weight", weights.draw(layer, in_channels, out_channels))
        drawn = offsets.draw(layer, 1, out_channels, BIAS)[0]
        self.register_buffer("bias", drawn if bias else torch.zeros(out_channels))

    def forward(self, x: Features) -> Tensor:
        return self.activate(x @ self.weight)

    def activate(self, z: Tensor) -> Tensor:
        return ACTIVATIONS[self.activation](z + self.bias)


_RULES = {"adjacency": plain, "normalised": symmetric}


def graph_operator(graph: Graph, kind: str, self_loops: bool = False) -> GraphOperator:
    """``adjacency`` A, or ``normalised`` D^-½ A D^-½, of a graph or of many, without the edges' features."""
    rule, x = Backbone(_RULES[kind], terms=("neighbour",), residual=False), graph.x
    options = {"self_loops": self_loops, "dtype": x.dtype, "device": x.device}
    return GraphOperator(rule.matrix(graph.edge_index, graph.edge_weight, x.shape[0], **options), graph.ptr)


def pool_all(operator: GraphOperator, h: Tensor) -> Tensor:
    """Mean, sum and maximum of each graph's nodes side by side ``[G, 3 d]``; for nodes h itself."""
    if operator.ptr is None:
        return h
    return torch.cat([operator.pool(h, how) for how in ("mean", "sum", "max")], dim=1)


class Reservoir(nn.Module):
    r"""The states that the graph determines: :math:`h = \tanh(x W_I + S h W_H)`, iterated from tanh(x W_I) on.

    The map is a contraction, and the fixed point the same from every start, where ρ(|S|) ρ(|W_H|) < 1: differences of
    two states shrink entry by entry at least as fast as by the matrix \|S\| ⊗ \|W_H\|.

    Args:
        settings: ``units``, and when to stop: ``tolerance``, the largest change of an entry, and ``max_iterations``.
        drive, recurrent: how W_I and W_H are drawn; layer: the number that the draw depends on.
    """

    recurrent: Tensor

    def __init__(self, in_channels: int, settings: Record, drive: RandomMatrix, recurrent: RandomMatrix, layer: int):
        super().__init__()
        units = settings["units"]
        self.tolerance, self.max_iterations = settings["tolerance"], settings["max_iterations"]
        self.input = RandomLayer(in_channels, units, drive, activation="identity", layer=layer)
        self.register_buffer("recurrent", recurrent.draw(layer, units, units, slot=2))

    def forward(self, x: Features, matrix: SparseMatrix) -> Tensor:
        drive = self.input(x)
        h = torch.tanh(drive)
        for _ in range(self.max_iterations - 1):
            following = torch.tanh(drive + (matrix @ h) @ self.recurrent)
            moved = float((following - h).abs().max()) if h.numel() else 0.0
            h = following
            if moved <= self.tolerance:
                break
        return h


class ReservoirEncoder(nn.Module):
    """The untrained part of a system: features -> one block of columns per depth.

    Attributes:
        cumulative: whether a network of depth k has the columns of all depths up to k, or those of k alone.
        depths: the depths that a readout may have, so that validation can choose.
        width: numbers per node that live at once, which decides the size of blocks.
    """

    cumulative: bool
    depths: tuple[int, ...]
    width: int

    @abstractmethod
    def context(self, graph: Graph) -> Any:
        """The graph as this system sees it, on x's device: ``ptr`` where it is many, ``select`` some of them."""

    @abstractmethod
    def parts(self, x: Features, context: Any) -> Iterator[Tensor]:
        """One tensor ``[rows, channels]`` per depth, from the first on; rows are nodes, or graphs."""

    def fit(self, x: Features, context: Any, rows: Tensor) -> None:
        """Take what the layers need of the training rows, such as means; never labels."""

    @torch.no_grad()
    def encode(self, x: Features, context: Any, rows: Tensor, deepest: int | None = None) -> list[Tensor]:
        """The parts of some rows, up to a depth. Graphs go through in blocks; of nodes only the rows asked for stay.

        Shapes:
            one tensor ``[len(rows), channels]`` per depth.
        """
        deepest = deepest or max(self.depths)
        if context.ptr is None:
            return [part[rows] for part in islice(self.parts(x, context), deepest)]
        blocks = []
        for some in graph_blocks(context.ptr, rows, self.width):
            chosen, nodes = context.select(some)
            blocks.append(list(islice(self.parts(row_block(x, nodes), chosen), deepest)))
        return [torch.cat(part) for part in zip(*blocks, strict=True)]

    def columns(self, parts: list[Tensor], depth: int) -> Tensor:
        """What a readout of this depth sees."""
        return torch.cat(parts[:depth], dim=1) if self.cumulative else parts[depth - 1]


class ReservoirNetwork(nn.Module):
    """Encoder up to one of its depths, a random projection where the system has one, standardised columns where it
    wants them, and the head, once it is chosen; ``output`` gives targets that are numbers back in their own scale."""

    def __init__(self, encoder: ReservoirEncoder, depth: int, output: TargetScale, projection: RandomLayer | None):
        super().__init__()
        self.encoder, self.depth, self.output, self.projection = encoder, depth, output, projection
        self.standardize: Standard | None = None
        self.head: nn.Module = nn.Identity()

    def columns(self, parts: list[Tensor]) -> Tensor:
        """What the readout sees of encoded rows."""
        h = self.encoder.columns(parts, self.depth)
        h = h if self.projection is None else self.projection(h)
        return h if self.standardize is None else self.standardize(h)

    @torch.no_grad()
    def forward(self, x: Features, context: Any, rows: Tensor) -> Tensor:
        """Raw scores of some rows of a graph, or of many; ``context`` is ``encoder.context(graph)``."""
        return self.head(self.columns(self.encoder.encode(x, context, rows, self.depth)))


def choices(settings: Record) -> list[Record]:
    """The settings one by one, where lists hold the values to choose from."""
    tried = [value if isinstance(value, list | tuple) else [value] for value in settings.values()]
    return [dict(zip(settings, point, strict=True)) for point in product(*tried)]
