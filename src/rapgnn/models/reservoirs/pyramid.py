"""P-RGNN (Bianchi, Gallicchio and Micheli, Pyramidal Reservoir Graph Neural Network, Neurocomputing 2022)."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from rapgnn.errors import InputError
from rapgnn.graph.backbones import symmetric
from rapgnn.graph.graph import Graph
from rapgnn.graph.operator import GraphOperator
from rapgnn.layers.matrices import RandomMatrix
from rapgnn.layers.reservoir import RandomLayer
from rapgnn.models.reservoirs.decimation import decimate
from rapgnn.models.reservoirs.encoder import ReservoirEncoder
from rapgnn.models.reservoirs.fixed_point import fixed_point
from rapgnn.models.reservoirs.operators import graph_operator
from rapgnn.sparse import Features, SparseMatrix, ranges


@dataclass(frozen=True)
class PRGNNSettings:
    """P-RGNN's settings. A tuple holds the values that validation chooses from.

    Args:
        units: of every reservoir.
        levels: T, reservoirs, each followed by a pooling.
        radius: spectral radius of the recurrent weights.
        input_scaling: bound of the weights from the features; hidden_scaling: from the level below.
        threshold: edges of a pooled graph with less weight are left out.
        tolerance, max_iterations: when the iteration stops.
    """

    units: int = 50
    levels: int = 3
    radius: float | tuple[float, ...] = (0.5, 0.2, 0.8)
    input_scaling: float | tuple[float, ...] = (0.7, 0.2)
    hidden_scaling: float | tuple[float, ...] = 0.5
    threshold: float = 0.01
    tolerance: float = 1e-5
    max_iterations: int = 50


@dataclass(frozen=True)
class Pyramid:
    """Graphs, and after every pooling the smaller ones.

    Args:
        levels: the graphs of each level, the given ones first; one more than there are poolings.
        kept: of each pooling, the nodes that stay, by their numbers on the level before.
    """

    levels: tuple[GraphOperator, ...]
    kept: tuple[Tensor, ...]

    @property
    def ptr(self) -> Tensor | None:
        return self.levels[0].ptr

    def select(self, graphs: Tensor) -> "tuple[Pyramid, Tensor]":
        """Some graphs alone, and the numbers of their nodes."""
        chosen = [level.select(graphs) for level in self.levels]
        kept = []
        for number, stays in enumerate(self.kept):
            before, after = self.levels[number].ptr, self.levels[number + 1].ptr
            first = chosen[number][0].ptr
            assert before is not None
            assert after is not None
            assert first is not None
            sizes = after[graphs + 1] - after[graphs]
            _, members = ranges(after[graphs], sizes)
            shift = torch.repeat_interleave(first[:-1] - before[graphs], sizes)
            kept.append(stays[members] + shift)
        return Pyramid(tuple(level for level, _ in chosen), tuple(kept)), chosen[0][1]


def build_pyramid(graph: Graph, poolings: int, threshold: float = 0.0) -> Pyramid:
    """The graphs pooled so many times by node decimation, on x's device.

    Pooling sees undirected graphs: (\\|A\\| + \\|Aᵀ\\|) / 2, without loops.
    """
    if graph.ptr is None:
        raise InputError("a pyramid is of many graphs: P-RGNN classifies graphs, not nodes.")
    first = graph_operator(graph, "normalised")
    magnitude = abs(graph_operator(graph, "adjacency").matrix.scipy().astype(np.float64))
    A = sp.csr_matrix((magnitude + magnitude.T) / 2)
    A.setdiag(0.0)
    A.eliminate_zeros()
    home = np.repeat(np.arange(graph.num_rows), graph.ptr.diff().cpu().numpy())
    levels, kept = [first], []
    for _ in range(poolings):
        stays, A = decimate(A, threshold)
        home = home[stays]
        bounds = np.concatenate([[0], np.cumsum(np.bincount(home, minlength=graph.num_rows))])
        matrix = SparseMatrix(symmetric(A), dtype=first.matrix.dtype, device=graph.x.device)
        levels.append(GraphOperator(matrix, torch.from_numpy(bounds.astype(np.int64)).to(graph.x.device)))
        kept.append(torch.from_numpy(stays.astype(np.int64)).to(graph.x.device))
    return Pyramid(tuple(levels), tuple(kept))


class PRGNN(ReservoirEncoder):
    r"""Reservoirs and poolings in turn, up to a small graph whose states are summed.

    .. math:: x_v = \tanh\Bigl(u_v W_I + \sum_u s_{vu}\, x_u W_H\Bigr), \quad S = D^{-½} A D^{-½}

    Each reservoir is iterated to its fixed point, then node decimation keeps about half of the nodes with their states,
    which are the input of the next. The readout sees the last level alone. Levels after the first share their weights.
    """

    cumulative = False
    recurrent: Tensor
    hidden_recurrent: Tensor

    def __init__(self, in_channels: int, settings: PRGNNSettings, seed: int):
        super().__init__()
        self.settings, width = settings, settings.units
        self.depths, self.width = (settings.levels,), 3 * width
        radius, scale, hidden = (
            value[0] if isinstance(value, tuple) else value
            for value in (settings.radius, settings.input_scaling, settings.hidden_scaling)
        )
        self.input = RandomLayer(
            in_channels, width, RandomMatrix("uniform", size=scale, seed=seed), activation="identity"
        )
        between = RandomMatrix("uniform", size=hidden, seed=seed)
        self.hidden = RandomLayer(width, width, between, activation="identity", layer=1)
        weights = RandomMatrix("uniform", size=radius, measure="radius", seed=seed)
        self.register_buffer("recurrent", weights.draw(0, 0, width, width, slot=2))
        self.register_buffer("hidden_recurrent", weights.draw(0, 1, width, width, slot=2))

    @classmethod
    def of(cls, graph: Graph, settings: PRGNNSettings, seed: int) -> "PRGNN":
        """For many graphs."""
        return cls(graph.num_features, settings, seed).to(graph.y.device)

    def context(self, graph: Graph) -> Pyramid:
        """The graphs and their poolings."""
        return build_pyramid(graph, self.settings.levels, self.settings.threshold)

    def states(self, x: Features, pyramid: Pyramid) -> Iterator[Tensor]:
        """The states after each pooling."""
        s, h = self.settings, x
        for number, stays in enumerate(pyramid.kept):
            layer, recurrent = (self.hidden, self.hidden_recurrent) if number else (self.input, self.recurrent)
            states = fixed_point(layer(h), pyramid.levels[number].matrix, recurrent, s.tolerance, s.max_iterations)
            h = states[stays]
            yield h

    def parts(self, x: Features, context: Pyramid) -> Iterator[Tensor]:
        """The summed states after each pooling."""
        for level, h in zip(context.levels[1:], self.states(x, context), strict=True):
            yield level.pool(h, "sum")
