"""Three published reservoir systems.

FDGNN: Gallicchio and Micheli, Fast and Deep Graph Neural Networks, AAAI 2020.
U-GCN, a graph convolutional network with many units that is left untrained: Donghi, Pasa, Oneto, Gallicchio, Micheli,
Anguita, Sperduti and Navarin, Investigating over-parameterized randomized graph networks, Neurocomputing 2024; first in
Navarin, Pasa, Gallicchio and Sperduti, ICANN 2023.
MRGNN: Pasa, Navarin and Sperduti, Multiresolution Reservoir Graph Neural Network, IEEE TNNLS 2021.
"""

from collections.abc import Iterable, Iterator
from typing import Any, cast

import torch
from torch import Tensor, nn

from rapgnn.compare import Record
from rapgnn.graph.graph import Graph
from rapgnn.graph.operator import GraphOperator
from rapgnn.network.encode import Standard
from rapgnn.network.network import graph_blocks
from rapgnn.sparse import Features, dense, row_block, row_sums
from rapgnn_lab.baselines.reservoir import (
    RandomLayer,
    RandomMatrix,
    Reservoir,
    ReservoirEncoder,
    graph_operator,
    pool_all,
)


class FDGNN(ReservoirEncoder):
    r"""Layers of sparse tanh reservoirs, each iterated to the fixed point that the graph determines.

    .. math:: x_v = \tanh\Bigl(u_v W_I + \sum_{u \to v} a_{uv}\, x_u W_H\Bigr)

    The input u of a layer is the state of the one below; nodes are summed. With W_H scaled so that k · ρ(\|W_H\|) < 1,
    k the largest degree, the map is a contraction. With one connection per unit ρ(\|W_H\|) = ρ(W_H), the paper's
    condition.
    """

    cumulative = False
    degree: Tensor

    def __init__(self, graph: Graph, seed: int, settings: Record):
        super().__init__()
        s, units, depth = settings, settings["units"], settings["num_layers"]
        self.depths, self.width = tuple(range(1, depth + 1)), 3 * units
        A = graph_operator(graph, "adjacency").matrix
        degree = float(row_sums(A.crow, A.values.double().abs()).max()) if A.nnz else 0.0
        self.register_buffer("degree", torch.tensor(degree if degree > 0 else 1.0, dtype=torch.float64))
        drive = RandomMatrix("uniform", s["connections"], s["input_scaling"], seed=seed)
        recurrent = RandomMatrix("uniform", s["connections"], s["radius"], "absolute radius", seed=seed)
        widths = [graph.num_features] + [units] * (depth - 1)
        self.layers = nn.ModuleList(Reservoir(width, s, drive, recurrent, i) for i, width in enumerate(widths))

    def context(self, graph: Graph) -> GraphOperator:
        """A / k: the degree goes into the matrix, so that large edge weights stay in range."""
        operator = graph_operator(graph, "adjacency")
        values = (operator.matrix.values.double() / self.degree).to(operator.matrix.dtype)
        return GraphOperator(operator.matrix.with_values(values), operator.ptr)

    def states(self, x: Features, operator: GraphOperator) -> Iterator[Tensor]:
        """The nodes' states, one layer after another."""
        h = x
        for layer in self.layers:
            yield (h := layer(h, operator.matrix))

    def parts(self, x: Features, context: GraphOperator) -> Iterator[Tensor]:
        for h in self.states(x, context):
            yield context.pool(h, "sum")


class UGCN(ReservoirEncoder):
    r"""Untrained graph convolutions whose outputs are all kept.

    .. math:: h^{(l)} = σ(\tilde D^{-½} (A + I) \tilde D^{-½} h^{(l-1)} W^{(l)})

    Mean, sum and maximum over the nodes of h¹ … h^L stand side by side.
    """

    cumulative = True

    def __init__(self, graph: Graph, seed: int, settings: Record):
        super().__init__()
        units, depth = settings["units"], settings["num_layers"]
        weights = RandomMatrix("glorot", size=settings["gain"], seed=seed)
        how = {"activation": settings["activation"]}
        widths = [graph.num_features] + [units] * (depth - 1)
        self.layers = nn.ModuleList(RandomLayer(c, units, weights, layer=i, **how) for i, c in enumerate(widths))
        self.depths, self.width = tuple(range(1, depth + 1)), 3 * units

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


class MRGNN(ReservoirEncoder):
    r"""The hops of the features, unrolled and non-linear, each resolution mixed by a random matrix of its own.

    .. math:: H_0 = X, \quad H_k = \tanh(M H_{k-1}), \quad Z_k = [H_0, …, H_{k-1}] W_k + b_k

    Every Z_k is standardised over the nodes of the training graphs. Mean, sum and maximum over the nodes of Z_1 … Z_K
    stand side by side, so what K resolutions see contains what K - 1 see.
    """

    cumulative = True

    def __init__(self, graph: Graph, seed: int, settings: Record):
        super().__init__()
        units, count, in_channels = settings["units"], settings["resolutions"], graph.num_features
        self.matrix, self.depths = settings["matrix"], tuple(range(min(2, count), count + 1))
        self.width = in_channels * count + 4 * units
        weights, how = RandomMatrix("uniform", measure="norm", seed=seed), {"activation": "identity", "bias": 0.1}
        layers = [RandomLayer(in_channels * k, units, weights, layer=k, **how) for k in range(1, count + 1)]
        self.resolutions = nn.ModuleList(nn.Sequential(layer, Standard(units)) for layer in layers)

    def context(self, graph: Graph) -> GraphOperator:
        """A, or the normalised one that the Laplacian is made of."""
        return graph_operator(graph, "adjacency" if self.matrix == "adjacency" else "normalised")

    def hops(self, x: Features, operator: GraphOperator) -> Iterator[Tensor]:
        h = dense(x)
        seen = h
        yield seen
        for _ in range(len(self.resolutions) - 1):
            sent = operator.matrix @ h
            h = torch.tanh(sent if self.matrix == "adjacency" else h - sent)
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
