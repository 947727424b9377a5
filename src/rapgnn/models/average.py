"""Average: several models of one graph, whose probabilities (or numbers) are averaged."""

from collections.abc import Sequence

from torch import nn

from rapgnn.errors import InputError
from rapgnn.models.config import Config
from rapgnn.models.net_config import NetConfig
from rapgnn.models.random_net import RandomNet
from rapgnn.models.rapgnn import RAPGNN
from rapgnn.models.treated import TreatedConfig, TreatedRAP

Member = RAPGNN | TreatedRAP | RandomNet


class Average(nn.Module):
    """The mean of its members' probabilities; of numbers, the mean of the numbers.

    Args:
        members: the best one first.
    """

    def __init__(self, members: Sequence[Member]):
        super().__init__()
        if not members:
            raise InputError("an average needs at least one member.")
        self.members = nn.ModuleList(members)

    @property
    def config(self) -> Config | TreatedConfig | NetConfig:
        """The settings of the best member."""
        return self.members[0].config  # type: ignore[return-value]

    @property
    def seed(self) -> int:
        """Of the best member."""
        return int(self.members[0].seed)  # type: ignore[arg-type]

    def __repr__(self) -> str:
        return f"Average({', '.join(repr(member) for member in self.members)})"
