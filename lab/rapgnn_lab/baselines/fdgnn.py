"""FDGNN (Gallicchio and Micheli, Fast and Deep Graph Neural Networks, AAAI 2020)."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from rapgnn.graph.graph import Graph
from rapgnn.graph.operator import GraphOperator
from rapgnn.sparse import Features, row_sums
from rapgnn_lab.baselines.random_layer import RandomLayer, RandomMatrix
from rapgnn_lab.baselines.reservoir import ReservoirEncoder, first, fixed_point, graph_operator


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

    The input u of a layer is the state of the one below; nodes are summed. With W_H scaled so that k · ρ(\|W_H\|) < 1,
    k the largest degree, the map is a contraction. With one connection per unit ρ(\|W_H\|) = ρ(W_H), the paper's
    condition.
    """

    cumulative = False
    degree: Tensor

    def __init__(self, graph: Graph, settings: FDGNNSettings, seed: int):
        super().__init__()
        self.settings, width = settings, settings.units
        self.depths, self.width = tuple(range(1, settings.num_layers + 1)), 3 * width
        A = graph_operator(graph, "adjacency").matrix
        degree = float(row_sums(A.crow, A.values.double().abs()).max()) if A.nnz else 0.0
        self.register_buffer("degree", torch.tensor(degree if degree > 0 else 1.0, dtype=torch.float64))
        drive = RandomMatrix("uniform", settings.connections, first(settings.input_scaling), seed=seed)
        widths = [graph.num_features] + [width] * (settings.num_layers - 1)
        self.inputs = torch.nn.ModuleList(
            RandomLayer(channels, width, drive, activation="identity", layer=i) for i, channels in enumerate(widths)
        )
        radius = RandomMatrix("uniform", settings.connections, first(settings.radius), "absolute radius", seed=seed)
        for i in self.depths:
            self.register_buffer(f"recurrent{i}", radius.draw(i - 1, width, width, slot=2))

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
