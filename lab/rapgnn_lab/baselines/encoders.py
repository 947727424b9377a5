"""Three published reservoir systems.

FDGNN: Gallicchio and Micheli, Fast and Deep Graph Neural Networks, AAAI 2020.
U-GCN, a graph convolutional network with many units that is left untrained: Donghi, Pasa, Oneto, Gallicchio, Micheli,
Anguita, Sperduti and Navarin, Investigating over-parameterized randomized graph networks, Neurocomputing 2024; first in
Navarin, Pasa, Gallicchio and Sperduti, ICANN 2023.
MRGNN: Pasa, Navarin and Sperduti, Multiresolution Reservoir Graph Neural Network, IEEE TNNLS 2021.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from rapgnn.graph.graph import Graph
from rapgnn.graph.operator import GraphOperator
from rapgnn.network.encode import Standard
from rapgnn.network.network import graph_blocks
from rapgnn.sparse import Features, dense, row_block, row_sums
from rapgnn_lab.baselines.random_layer import RandomLayer, RandomMatrix
from rapgnn_lab.baselines.reservoir import ReservoirEncoder, first, fixed_point, graph_operator, pool_all


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
        for h in self.states(x, context):
            yield context.pool(h, "sum")


@dataclass(frozen=True)
class UGCNSettings:
    """U-GCN's settings. A tuple holds the values that validation chooses from.

    Args:
        units: of every layer.
        num_layers: the deepest network; validation chooses among all depths up to it.
        gain: factor of Glorot's weights, which says how non-linear the layers are.
        activation: after every layer, ``tanh`` or ``relu``.
    """

    units: int = 256
    num_layers: int = 4
    gain: float | tuple[float, ...] = (1.0, 0.3, 3.0)
    activation: str = "tanh"


class UGCN(ReservoirEncoder):
    r"""Untrained graph convolutions whose outputs are all kept.

    .. math:: h^{(l)} = σ(\tilde D^{-½} (A + I) \tilde D^{-½} h^{(l-1)} W^{(l)})

    Mean, sum and maximum over the nodes of h¹ … h^L stand side by side.
    """

    cumulative = True

    def __init__(self, graph: Graph, settings: UGCNSettings, seed: int):
        super().__init__()
        weights = RandomMatrix("glorot", size=first(settings.gain), seed=seed)
        widths = [graph.num_features] + [settings.units] * (settings.num_layers - 1)
        self.layers = nn.ModuleList(
            RandomLayer(channels, settings.units, weights, activation=settings.activation, layer=i)
            for i, channels in enumerate(widths)
        )
        self.depths, self.width = tuple(range(1, settings.num_layers + 1)), 3 * settings.units

    def context(self, graph: Graph) -> GraphOperator:
        """With self-loops, normalised on both sides."""
        return graph_operator(graph, "normalised", self_loops=True)

    def parts(self, x: Features, context: GraphOperator) -> Iterator[Tensor]:
        h = x
        for layer in cast(Iterable[RandomLayer], self.layers):
            if isinstance(h, Tensor) and h.shape[1] < layer.weight.shape[1]:
                z = (context.matrix @ h) @ layer.weight  # the narrower product
            else:
                z = context.matrix @ (h @ layer.weight)
            h = layer.activate(z)
            yield pool_all(context, h)


@dataclass(frozen=True)
class MRGNNSettings:
    """MRGNN's settings. A tuple holds the values that validation chooses from.

    Args:
        units: of every resolution.
        resolutions: K, the most; validation chooses among 2 … K.
        matrix: ``adjacency`` A, or ``laplacian`` I - D^-½ A D^-½.
        epochs, learning_rate, weight_decay, dropout, batch_size: of the readouts that are trained; 0 epochs: none.
    """

    units: int = 25
    resolutions: int = 6
    matrix: str | tuple[str, ...] = ("adjacency", "laplacian")
    epochs: int = 100
    learning_rate: float = 1e-3
    weight_decay: float = 5e-3
    dropout: float = 0.5
    batch_size: int = 32


class MRGNN(ReservoirEncoder):
    r"""The hops of the features, unrolled and non-linear, each resolution mixed by a random matrix of its own.

    .. math:: H_0 = X, \quad H_k = \tanh(M H_{k-1}), \quad Z_k = [H_0, …, H_{k-1}] W_k + b_k

    Every Z_k is standardised over the nodes of the training graphs. Mean, sum and maximum over the nodes of Z_1 … Z_K
    stand side by side, so what K resolutions see contains what K - 1 see.
    """

    cumulative = True

    def __init__(self, graph: Graph, settings: MRGNNSettings, seed: int):
        super().__init__()
        self.settings, count, in_channels = settings, settings.resolutions, graph.num_features
        self.depths = tuple(range(min(2, count), count + 1))
        self.width = in_channels * count + 4 * settings.units
        weights = RandomMatrix("uniform", size=1.0, measure="norm", seed=seed)
        options = {"activation": "identity", "bias": 0.1}
        layers = [
            RandomLayer(in_channels * k, settings.units, weights, layer=k, **options) for k in range(1, count + 1)
        ]
        self.resolutions = nn.ModuleList(nn.Sequential(layer, Standard(settings.units)) for layer in layers)

    def context(self, graph: Graph) -> GraphOperator:
        """A, or the normalised one that the Laplacian is made of."""
        return graph_operator(graph, "adjacency" if self.settings.matrix == "adjacency" else "normalised")

    def hops(self, x: Features, operator: GraphOperator) -> Iterator[Tensor]:
        h = dense(x)
        seen = h
        yield seen
        for _ in range(self.settings.resolutions - 1):
            sent = operator.matrix @ h
            h = torch.tanh(sent if self.settings.matrix == "adjacency" else h - sent)
            seen = torch.cat([seen, h], dim=1)
            yield seen

    def parts(self, x: Features, context: GraphOperator) -> Iterator[Tensor]:
        for layer, seen in zip(self.resolutions, self.hops(x, context), strict=True):
            yield pool_all(context, layer(seen))

    @torch.no_grad()
    def fit(self, x: Features, context: GraphOperator, rows: Tensor) -> None:
        """Mean and variance of every unit over the nodes of the training graphs."""
        assert context.ptr is not None
        layers, units = cast(list[Any], list(self.resolutions)), []
        for some in graph_blocks(context.ptr, rows, self.width):
            chosen, nodes = context.select(some)
            hops = self.hops(row_block(x, nodes), chosen)
            units.append([random(seen) for (random, _), seen in zip(layers, hops, strict=True)])
        for (_, standard), blocks in zip(layers, zip(*units, strict=True), strict=False):
            standard.fit(torch.cat(blocks))
