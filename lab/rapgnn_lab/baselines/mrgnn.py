"""MRGNN (Pasa, Navarin and Sperduti, Multiresolution Reservoir Graph Neural Network, IEEE TNNLS 2021)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from rapgnn.graph.graph import Graph
from rapgnn.graph.operator import GraphOperator
from rapgnn.network.scaling import Moments, Standardize
from rapgnn.network.hop_network import graph_blocks
from rapgnn.sparse import Features, dense, row_block
from rapgnn_lab.baselines.random_layer import RandomLayer, RandomMatrix
from rapgnn_lab.baselines.reservoir import ReservoirEncoder, graph_operator, pool_all


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
        self.resolutions = nn.ModuleList(nn.Sequential(layer, Standardize(settings.units)) for layer in layers)

    def context(self, graph: Graph) -> GraphOperator:
        """A, or the normalised one that the Laplacian is made of."""
        return graph_operator(graph, "adjacency" if self.settings.matrix == "adjacency" else "normalised")

    def hops(self, x: Features, operator: GraphOperator) -> Iterator[Tensor]:
        """[H_0], [H_0, H_1], …: what each resolution sees."""
        h = dense(x)
        seen = h
        yield seen
        for _ in range(self.settings.resolutions - 1):
            sent = operator.matrix @ h
            h = torch.tanh(sent if self.settings.matrix == "adjacency" else h - sent)
            seen = torch.cat([seen, h], dim=1)
            yield seen

    def parts(self, x: Features, context: GraphOperator) -> Iterator[Tensor]:
        """Of each resolution the pooled rows."""
        for layer, seen in zip(self.resolutions, self.hops(x, context), strict=True):
            yield pool_all(context, layer(seen))

    @torch.no_grad()
    def fit(self, x: Features, context: GraphOperator, rows: Tensor) -> None:
        """Mean and variance of every unit over the nodes of the training graphs."""
        assert context.ptr is not None
        layers = cast(list[Any], list(self.resolutions))
        moments = [Moments(self.settings.units) for _ in layers]
        for some in graph_blocks(context.ptr, rows, self.width):
            chosen, nodes = context.select(some)
            hops = self.hops(row_block(x, nodes), chosen)
            for moment, (random, _), seen in zip(moments, layers, hops, strict=True):
                moment.add(random(seen))
        for moment, (_, standardize) in zip(moments, layers, strict=True):
            standardize.take(moment)
