"""What every network is: encode → propagate → expand → readout → head, with the settings of one ``Config``."""

from typing import Any

from torch import Tensor, nn

from rapgnn.graph.graph import Graph
from rapgnn.network.config import Config
from rapgnn.network.heads import Head, TargetScale
from rapgnn.network.ridge import RidgeHead
from rapgnn.network.scaling import FeatureScaling


class Network(nn.Module):
    """The stages that all networks share; ``RAPGNN`` (random coefficients) and ``HopNetwork`` (fixed ones) add theirs.

    Args:
        in_channels: width of the features.
        out_channels: number of classes, labels or targets.
        seed: of everything random in here.
        config: all settings.
    """

    head: Head | RidgeHead
    seed: Any

    def __init__(self, in_channels: int, out_channels: int, seed: int, config: Config):
        super().__init__()
        self.config = config
        self.scaling = FeatureScaling(config.scaling, in_channels, config.components, seed)
        self.output = TargetScale(out_channels)

    def learn_targets(self, graph: Graph) -> None:
        """Take from the training rows how large targets are that are numbers."""
        if graph.objective.metric == "rmse":
            self.output.fit(graph.y[graph.train])

    def suits(self, graph: Graph) -> bool:
        """Whether this is a graph that it can say something about."""
        return True

    @property
    def bound(self) -> bool:
        """Whether it speaks of the nodes of one graph alone: it tells them apart, or knows labels of theirs."""
        return is_bound(self.config)

    def scores(self, h: Tensor) -> Tensor:
        """Of a representation: class scores, or numbers in the size that the targets have."""
        return self.output(self.head(h))


def is_bound(config: Config) -> bool:
    """Whether such a network speaks of the nodes of one graph alone."""
    return bool(config.node_columns or config.known_labels)
