"""FDGNN (Gallicchio and Micheli, Fast and Deep Graph Neural Networks, AAAI 2020)."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from rapgnn.graph.graph import Graph
from rapgnn.graph.operator import GraphOperator
from rapgnn.layers.matrices import RandomMatrix
from rapgnn.layers.reservoir import RandomLayer
from rapgnn.models.reservoirs.encoder import ReservoirEncoder
from rapgnn.models.reservoirs.fixed_point import fixed_point
from rapgnn.models.reservoirs.operators import graph_operator, largest_degree
from rapgnn.sparse import Features


@dataclass(frozen=True)
class FDGNNSettings:
    """FDGNN's settings. A tuple holds the values that validation chooses from.

    Args:
        units: of every reservoir.
        num_layers: the deepest stack; validation chooses among all depths up to it.
        connections: inputs of every unit, from the layer below and from its own.
        radius: the effective spectral radius k · ρ(W), k the largest degree; below 1 the states are unique.
        input_scaling: bound of the weights from the layer below.
        projection: random tanh units between the pooled states and the readout; 0: none.
        projection_scaling: spectral norm of their weights.
        tolerance, max_iterations: when the iteration stops.
    """

    units: int = 50
    num_layers: int = 4
    connections: int = 1
    radius: float | tuple[float, ...] = (0.9, 0.3)
    input_scaling: float | tuple[float, ...] = (1.0, 0.3)
    projection: int = 500
    projection_scaling: float | tuple[float, ...] = (1.0, 10.0)
    tolerance: float = 1e-3
    max_iterations: int = 50


class FDGNN(ReservoirEncoder):
    r"""Layers of sparse tanh reservoirs, each iterated to the fixed point that the graph determines.

    .. math:: x_v = \tanh\Bigl(u_v W_I + \sum_{u \to v} a_{uv}\, x_u W_H\Bigr)

    The input u of a layer is the state of the one below; nodes are summed. With W_H scaled so that k · ρ(\|W_H\|) < 1
    the map is a contraction. With one connection per unit ρ(\|W_H\|) = ρ(W_H), the paper's condition.

    Args:
        degree: k, the largest degree of the graphs it is made for.
    """

    cumulative = False
    degree: Tensor

    def __init__(self, in_channels: int, settings: FDGNNSettings, degree: float, seed: int):
        super().__init__()
        self.settings, width = settings, settings.units
        self.depths, self.width = tuple(range(1, settings.num_layers + 1)), 3 * width
        self.register_buffer("degree", torch.tensor(degree, dtype=torch.float64))
        drive = RandomMatrix("uniform", settings.connections, _one(settings.input_scaling), seed=seed)
        widths = [in_channels] + [width] * (settings.num_layers - 1)
        self.inputs = torch.nn.ModuleList(
            RandomLayer(channels, width, drive, activation="identity", layer=i) for i, channels in enumerate(widths)
        )
        radius = RandomMatrix("uniform", settings.connections, _one(settings.radius), "absolute radius", seed=seed)
        for i in self.depths:
            self.register_buffer(f"recurrent{i}", radius.draw(0, i - 1, width, width, slot=2))

    @classmethod
    def of(cls, graph: Graph, settings: FDGNNSettings, seed: int) -> "FDGNN":
        """For a graph, or for many of them."""
        degree = largest_degree(graph_operator(graph, "adjacency").matrix)
        return cls(graph.num_features, settings, degree, seed).to(graph.y.device)

    def context(self, graph: Graph) -> GraphOperator:
        """A / k: the degree goes into the matrix, so that large edge weights stay in range."""
        operator = graph_operator(graph, "adjacency")
        values = (operator.matrix.values.double() / self.degree).to(operator.matrix.dtype)
        return GraphOperator(operator.matrix.with_values(values), operator.ptr)

    def states(self, x: Features, operator: GraphOperator) -> Iterator[Tensor]:
        """The nodes' states, one layer after another."""
        s, h = self.settings, x
        for i, drive in zip(self.depths, self.inputs, strict=True):
            h = fixed_point(drive(h), operator.matrix, getattr(self, f"recurrent{i}"), s.tolerance, s.max_iterations)
            yield h

    def parts(self, x: Features, context: GraphOperator) -> Iterator[Tensor]:
        """The summed states of each graph; for nodes the states themselves."""
        for h in self.states(x, context):
            yield context.pool(h, "sum")


def _one(value: float | tuple[float, ...]) -> float:
    """The value, or the first of those to choose from."""
    return value[0] if isinstance(value, tuple) else value
