"""TreatedRAP: a RAP network on features that were treated first."""

from dataclasses import dataclass, field, replace
from typing import Any

from torch import nn

from rapgnn.errors import InputError, check_choice
from rapgnn.graph.graph import Graph
from rapgnn.layers.treatment import TREATMENTS, Treatment
from rapgnn.models.config import Config
from rapgnn.models.net_config import MOST
from rapgnn.models.rapgnn import RAPGNN


@dataclass(frozen=True)
class TreatedConfig:
    """What is done to the features, and the settings of the network behind it."""

    features: str = "none"
    """A name from ``TREATMENTS``."""
    sketch: int = 0
    """Keep only so many directions of the features, those in which they vary most; 0: all columns."""
    network: Config = field(default_factory=Config)
    """The RAP network's own settings."""

    def __post_init__(self) -> None:
        check_choice("treatment of the features", self.features, TREATMENTS)
        if isinstance(self.sketch, bool) or not isinstance(self.sketch, int) or not 0 <= self.sketch <= MOST:
            raise InputError(f"sketch must be a whole number from 0 to {MOST}, got {self.sketch!r}.")

    def to_dict(self) -> dict[str, Any]:
        """Flat, as JSON holds it."""
        return {"features": self.features, "sketch": self.sketch, **self.network.to_dict()}

    @classmethod
    def from_dict(cls, features: str = "none", sketch: int = 0, **network: Any) -> "TreatedConfig":
        """From what ``to_dict`` gave."""
        return cls(features, sketch, Config(**network))


class TreatedRAP(nn.Module):
    """Treatment of the features, then a RAP network.

    Args:
        in_channels: width of the features before the treatment.
    """

    def __init__(
        self, in_channels: int, out_channels: int, *, edge_channels: int = 0, seed: int = 0, config: TreatedConfig
    ):
        super().__init__()
        self.settings = config
        self.treatment = Treatment(config.features, in_channels, config.sketch, seed)
        channels = {"out_channels": out_channels, "edge_channels": edge_channels}
        self.network = RAPGNN(self.treatment.width, **channels, seed=seed, config=config.network)

    @property
    def config(self) -> TreatedConfig:
        """All settings."""
        return self.settings

    @property
    def seed(self) -> int:
        """Of everything random in here."""
        return self.network.seed

    def inputs(self, graph: Graph) -> Graph:
        """The graph as the network sees it."""
        return replace(graph, x=self.treatment(graph.x))

    def __repr__(self) -> str:
        return f"{self.network!r} on {self.settings.features} features"
