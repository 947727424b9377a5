"""Average: several models of one graph, whose probabilities (or numbers) are averaged."""

from collections.abc import Sequence
from typing import Any

from torch import nn

from rapgnn.errors import InputError, check_choice
from rapgnn.graph.graph import Graph
from rapgnn.models.config import Config
from rapgnn.models.net_config import NetConfig
from rapgnn.models.random_net import RandomNet
from rapgnn.models.rapgnn import RAPGNN
from rapgnn.models.treated import TreatedConfig, TreatedRAP

Member = RAPGNN | TreatedRAP | RandomNet
USES = ("both", "here", "elsewhere")  # a member counts on its own graph and on others, on its own, on others


class Average(nn.Module):
    """The mean of its members' probabilities; of numbers, the mean of the numbers.

    Members that are bound to the nodes of the training graph count on that graph alone; others may take their place
    on any other.

    Args:
        members: the best one first.
        uses: where each of them counts, a word from ``USES``; None: everywhere.
    """

    def __init__(self, members: Sequence[Member], uses: Sequence[str] | None = None):
        super().__init__()
        if not members:
            raise InputError("an average needs at least one member.")
        self.members, self.uses = nn.ModuleList(members), tuple(uses or ("both",) * len(members))
        for use in self.uses:
            check_choice("use of a member", use, USES)
        if len(self.uses) != len(members) or self.uses[0] == "elsewhere":
            raise InputError("every member needs a use, and the first one counts on its own graph.")

    def members_for(self, graph: Graph) -> list[Member]:
        """The members that count on a graph."""
        pairs: list[tuple[Any, str]] = list(zip(self.members, self.uses, strict=True))
        here = [member for member, use in pairs if use != "elsewhere"]
        if all(_suits(member, graph) for member in here):
            return here
        others = [member for member, use in pairs if use != "here" and _suits(member, graph)]
        if not others:
            raise InputError(
                "this model tells the nodes of its own graph apart, and has nothing to say about another one."
            )
        return others

    @property
    def widest(self) -> Member:
        """The best of the members that count on other graphs too; the best of all where there is none."""
        free = [m for m, use in zip(self.members, self.uses, strict=True) if use != "here"]
        return (free or list(self.members))[0]  # type: ignore[return-value]

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


def _suits(member: Member, graph: Graph) -> bool:
    return not isinstance(member, RandomNet) or member.suits(graph)
