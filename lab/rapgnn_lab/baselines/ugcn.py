"""U-GCN: a graph convolutional network with many units that is left untrained.

Donghi, Pasa, Oneto, Gallicchio, Micheli, Anguita, Sperduti and Navarin, Investigating over-parameterized randomized
graph networks, Neurocomputing 2024; first in Navarin, Pasa, Gallicchio and Sperduti, ICANN 2023.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import cast

from torch import Tensor, nn

from rapgnn.graph.graph import Graph
from rapgnn.graph.operator import GraphOperator
from rapgnn.sparse import Features
from rapgnn_lab.baselines.random_layer import RandomLayer, RandomMatrix
from rapgnn_lab.baselines.reservoir import ReservoirEncoder, first, graph_operator, pool_all


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
        """Of each layer the pooled states; for nodes the states themselves."""
        h = x
        for layer in cast(Iterable[RandomLayer], self.layers):
            if isinstance(h, Tensor) and h.shape[1] < layer.weight.shape[1]:
                z = (context.matrix @ h) @ layer.weight  # the narrower product
            else:
                z = context.matrix @ (h @ layer.weight)
            h = layer.activate(z)
            yield pool_all(context, h)
