"""What the reservoir systems share: matrices of the graph, the reservoir, the encoder, the network with a readout."""

from abc import abstractmethod
from collections.abc import Iterator
from itertools import islice, product
from typing import Any

import torch
from torch import Tensor, nn

from rapgnn.compare import Record
from rapgnn.graph.backbones import Backbone, plain, symmetric
from rapgnn.graph.graph import Graph
from rapgnn.graph.operator import GraphOperator
from rapgnn.network.encode import Standard
from rapgnn.network.heads import TargetScale
from rapgnn.network.hop_network import graph_blocks
from rapgnn.sparse import Features, SparseMatrix, row_block
from rapgnn_lab.baselines.random_layer import RandomLayer, RandomMatrix

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
    """Encoder, a random projection where the system has one, standardised columns where it wants them, readout.

    Args:
        depth: of the encoder, one of its ``depths``.
        output: gives targets that are numbers back in their own scale.
        head: maps columns to raw scores: the readout, once it is chosen.
    """

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
