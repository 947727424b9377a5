"""Other draws of a member's random layers, where few rows are labelled.

What random layers give depends on their draw, the more the fewer rows a head is solved on. The mean over draws depends
less on it, and no rows are needed to choose it.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import torch
from torch import Tensor

from rapgnn.estimators.costs import threads_by_cost
from rapgnn.estimators.judge import Judge, Verdict
from rapgnn.estimators.members import NetCandidate
from rapgnn.estimators.net_costs import net_cost
from rapgnn.graph.graph import Graph
from rapgnn.graph.tasks import Objective
from rapgnn.training.averaged import HopsOf, scores_of, weighted_mean

FEW = 200  # training rows below which much depends on a draw
DRAWS = 3  # of a member's random layers, with the one that was chosen
SEED_STEP = 1000  # from one draw to the next


@dataclass(frozen=True)
class Draws:
    """Members of an average, each with further draws of its random layers; all draws of a member count as one.

    Args:
        members: as they were chosen.
        further: other draws of each; none where nothing in a member is random.
    """

    members: Sequence[Verdict]
    further: Sequence[Sequence[Verdict]]

    @property
    def weighted(self) -> list[tuple[Verdict, float, Verdict]]:
        """The members, behind them the further draws, each with its weight and the member it is a draw of."""
        shares = [1 / (1 + len(others)) for others in self.further]
        told = list(zip(self.members, shares, self.further, strict=True))
        behind = [(one, share, member) for member, share, others in told for one in others]
        return [*((member, share, member) for member, share, _ in told), *behind]

    def mean(self, objective: Objective, factor: float = 1.0) -> Tensor:
        """What all of them together give for the rows that judge, with scores that are so many times larger."""
        found = self.weighted
        parts = [one.probabilities for one, _, _ in found]
        if factor != 1.0:
            parts = [objective.read(factor * scores_of(part, objective)) for part in parts]
        return weighted_mean(parts, [share for _, share, _ in found])


def only(members: Sequence[Verdict]) -> Draws:
    """The members as they are."""
    return Draws(members, [()] * len(members))


def drawn_again(members: Sequence[Verdict], graph: Graph, judge: Judge, left: float, late: Callable[[], bool]) -> Draws:
    """Further draws of the members of an average, where rows are few.

    Args:
        left: nominal seconds that they may cost.
        late: whether the user's time is up.
    """
    further: list[list[Verdict]] = [[] for _ in members]
    if len(graph.train) < FEW:
        for draw in range(1, DRAWS):
            kept = HopsOf()
            for member, others in zip(members, further, strict=True):
                candidate = member.candidate
                if not isinstance(candidate, NetCandidate) or not _random(candidate):
                    continue
                cost = net_cost(graph, candidate.config)
                if cost > left or late():
                    continue
                left -= cost
                seed = candidate.seed + draw * SEED_STEP
                with threads_by_cost(cost), suppress(torch.linalg.LinAlgError):  # type: ignore[reportPrivateImportUsage]
                    verdict = judge.see(NetCandidate(candidate.graph, candidate.config, seed, kept))
                    others += [verdict] if verdict is not None else []
    return Draws(members, further)


def _random(candidate: NetCandidate) -> bool:
    """Whether another draw would give another network, solved as this one was."""
    config = candidate.config
    return (config.width > 0 or config.lift > 0) and not candidate.final
