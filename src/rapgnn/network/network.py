"""What every network is, encode → propagate → expand → readout → head, and averages of several."""

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

from torch import Tensor, nn

from rapgnn.errors import InputError, check_choice
from rapgnn.graph.graph import Graph
from rapgnn.network.config import Config
from rapgnn.network.encode import FeatureScaling
from rapgnn.network.heads import TargetScale
from rapgnn.network.known_labels import FitRows

Shared = dict[Any, Any]
"""What networks on one graph share: what is walked over it, and above all its hops."""


def once(shared: Shared, key: Any, make: Callable[[], Any]) -> Any:
    """What is shared under a key; made where it is not there yet."""
    if key not in shared:
        shared[key] = make()
    return shared[key]


def inputs_of(config: Config) -> tuple[Any, ...]:
    """What decides what is walked over a graph."""
    return config.scaling, config.components, config.degree_columns, config.node_columns, config.anchors


class Network(nn.Module):
    """The stages that all networks share; ``RAPGNN`` (random coefficients) and ``HopNetwork`` (fixed ones) add theirs.

    Args:
        scaling: what is done to the features, where that is not ``FeatureScaling``.
    """

    head: Any
    seed: Any
    scaling: Any
    fit_rows: FitRows | None

    def __init__(self, in_channels: int, out_channels: int, seed: int, config: Config, scaling: Any = None):
        super().__init__()
        self.config, self.fit_rows = config, None
        self.scaling = scaling or FeatureScaling(config.scaling, in_channels, config.components, seed)
        self.output = TargetScale(out_channels)

    def learn_targets(self, graph: Graph) -> None:
        """Take from the training rows how large targets are that are numbers."""
        if graph.objective.metric == "rmse":
            self.output.fit(graph.y[graph.train])

    def learn_columns(self, graph: Graph) -> None:
        if self.config.relations:
            self.scaling.fit(graph.typed, graph.train)
        else:
            self.scaling.fit(graph.x)

    def twin(self) -> Self:
        twin = copy.copy(self)
        twin._modules = self._modules | {"head": copy.deepcopy(self.head)}
        return twin

    def suits(self, graph: Graph) -> bool:
        return True

    def scores(self, h: Tensor) -> Tensor:
        """Of a representation: class scores, or numbers in the size that the targets have."""
        return self.output(self.head(h))


def is_bound(config: Config) -> bool:
    """Whether such a network speaks of the nodes of one graph alone: it tells them apart, or knows labels of theirs."""
    return bool(config.node_columns or config.anchors or config.known_labels)


# Average: several models of one graph, whose probabilities (or numbers) are averaged.


USES = ("both", "here", "elsewhere")  # a member counts on its own graph and on others, on its own, on others


class Average(nn.Module):
    """The weighted mean of its members' probabilities; of numbers, that of the numbers.

    Networks that are bound to nodes of the training graph count where such nodes are; others may take their place
    elsewhere.

    Args:
        members: the best one first.
        uses: where each counts: on its own graph, ``here``, on others, ``elsewhere``, or on ``both``; None: both.
        weights: how much each of them counts; None: all the same.
        classes: the classes that they answer about, ascending; None: all. No training row has another.
        out_channels: how many classes there are, where these are not all.
    """

    def __init__(
        self,
        members: Sequence[Network],
        uses: Sequence[str] | None = None,
        weights: Sequence[float] | None = None,
        classes: Sequence[int] | None = None,
        out_channels: int = 0,
    ):
        super().__init__()
        self.fit_rows: FitRows | None = None
        self.classes, self.out_channels = None if classes is None else tuple(classes), out_channels
        if not members:
            raise InputError("an average needs at least one member.")
        self.members, self.uses = nn.ModuleList(members), tuple(uses or ("both",) * len(members))
        for use in self.uses:
            check_choice("use of a member", use, USES)
        if len(self.uses) != len(members) or self.uses[0] == "elsewhere":
            raise InputError("every member needs a use, and the first one counts on its own graph.")
        self.weights = (1.0,) * len(members) if weights is None else tuple(weights)
        if len(self.weights) != len(members) or not all(type(w) in (int, float) and 0 < w <= 1 for w in self.weights):
            raise InputError("every member needs a weight, a number above 0 and up to 1.")

    def of_all(self, values: Tensor, absent: float) -> Tensor:
        """Values by class ``[rows, the members' classes]`` as values by every class, ``absent`` for the others."""
        if self.classes is None:
            return values
        full = values.new_full((len(values), self.out_channels), absent)
        full[:, list(self.classes)] = values
        return full

    def weighted_for(self, graph: Graph) -> list[tuple[Network, float]]:
        """The members that count on a graph, each with its weight."""
        every: list[tuple[Any, str, float]] = list(zip(self.members, self.uses, self.weights, strict=True))
        here = [(member, weight) for member, use, weight in every if use != "elsewhere"]
        if all(member.suits(graph) for member, _ in here):
            return here
        others = [(member, weight) for member, use, weight in every if use != "here" and member.suits(graph)]
        if not others:
            raise InputError(
                "this model tells the nodes of its own graph apart, and has nothing to say about another one."
            )
        return others

    @property
    def widest(self) -> Network:
        """The best of the members that count on other graphs too; the best of all where there is none."""
        free = [m for m, use in zip(self.members, self.uses, strict=True) if use != "here"]
        return (free or list(self.members))[0]  # type: ignore[return-value]

    @property
    def config(self) -> Config:
        return self.members[0].config  # type: ignore[return-value]

    @property
    def seed(self) -> int:
        return int(self.members[0].seed)  # type: ignore[arg-type]

    def __repr__(self) -> str:
        return f"Average({', '.join(repr(member) for member in self.members)})"


def engine_of(members: Iterable[Any]) -> tuple[str, str]:
    """How members are computed, and why: hops once, or step by step where something non-linear stands between them."""
    configs = [member.config for member in members]
    if any(c.coefficients == "layers" or c.unit_hops or c.previous is not None for c in configs):
        return "stepwise", "random non-linear layers go one by one"
    return "polynomial", "hops are walked once"
