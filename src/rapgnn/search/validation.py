"""How good a candidate is on rows that it has not seen: validation rows, and training rows each left out in turn."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rapgnn.graph.graph import Graph
from rapgnn.graph.tasks import rocauc
from rapgnn.network.ridge import inverse_temperature
from rapgnn.search.preset import PRESET

ORDERS = ("rocauc", "average_precision")  # metrics of the order of the rows alone


@dataclass(frozen=True)
class Scored:
    """A candidate with the penalty and temperature that suit it, and what it gives for the rows that judge.

    Args:
        factor: the inverse temperature.
        merit: the metric, turned so that more is better.
        loss: mean loss.
        probabilities: of the rows that judge; of numbers, the numbers.
        order: what candidates are ranked by: the merit, or where one of two classes is rare the ROC-AUC.
    """

    candidate: Any
    penalty: float
    factor: float
    merit: float
    loss: float
    probabilities: Tensor
    order: float = 0.0


def judged_by_left_out(graph: Graph) -> bool:
    """Whether training rows judge too, each left out in turn: where they are few, and validation rows are."""
    return len(graph.train) <= PRESET.left_out_rows and len(graph.val) < PRESET.enough_validation


class Validation:
    """The rows that judge, and their labels.

    Args:
        alone: validation rows judge alone, however few they are: a head that is trained leaves no rows out in turn.
    """

    def __init__(self, graph: Graph, alone: bool = False):
        self.objective = objective = graph.objective
        self.left_out = judged_by_left_out(graph) and not alone
        self.rows = torch.cat([graph.val, graph.train]) if self.left_out else graph.val
        self.y, self.validation = graph.y[self.rows], len(graph.val) or len(self.rows)
        share = graph.y[graph.train].double().mean() if graph.num_outputs == 2 and self.y.dim() == 1 else 0.5
        self._rare = objective.scoring is None and not PRESET.rare <= float(share) <= 1 - PRESET.rare
        # Rows of a class that no training row has say nothing about the loss.
        known = torch.isin(self.y, graph.y[graph.train]) if self.y.dim() == 1 else None
        self._counted = slice(None) if known is None or bool(known.all()) else known.nonzero()[:, 0]

    def score(self, candidate: Any) -> Scored | None:
        """The candidate with its best penalty; None where no penalty gives finite scores."""
        penalties = candidate.penalties
        middle = len(penalties) // 2
        best = first = self._at(candidate, penalties[middle])
        # The loss falls and rises once along λ: walk downhill from the middle, one way or else the other.
        for way in (penalties[middle + 1 :], tuple(reversed(penalties[:middle]))):
            for penalty in way:
                one = self._at(candidate, penalty)
                if one is None or (best is not None and not self._better(one, best)):
                    break
                best = one
            if best is not first:
                break
        return best

    def _better(self, one: Scored, other: Scored) -> bool:
        """Whether a penalty suits better: by the loss; where the order of the rows counts, by that."""
        return one.merit > other.merit if self.objective.chosen_by in ORDERS else one.loss < other.loss

    def _at(self, candidate: Any, penalty: float) -> Scored | None:
        raw, rule = candidate.scores(penalty, self.left_out), self.objective
        if not len(raw) or not bool(torch.isfinite(raw).all()):
            return None
        factor = inverse_temperature(rule, lambda k: self.loss(raw * k))
        scores = raw * factor
        merit = self.merit(scores)
        order = rocauc(scores[:, 1:] - scores[:, :1], self.y[:, None].to(scores)) if self._rare else merit
        order = order if order == order else merit  # of one class alone there is no ROC-AUC
        return Scored(candidate, penalty, factor, merit, self.loss(scores), rule.read(scores), order)

    def validation_score(self, scores: Tensor) -> float:
        """The metric of the validation rows; where there are none, of the rows that were left out in turn."""
        return self.objective.score(scores[: self.validation], self.y[: self.validation])

    def merit(self, scores: Tensor) -> float:
        """The metric of scores of the rows that judge, turned so that more is better."""
        return self.objective.merit(self.objective.score(scores, self.y))

    def loss(self, scores: Tensor) -> float:
        """The mean loss of scores of the rows that judge."""
        return float(self.objective.loss(scores[self._counted], self.y[self._counted]))

    def loss_by_row(self, scores: Tensor) -> Tensor:
        """The loss of every row that judges."""
        one = torch.vmap(lambda score, y: self.objective.loss(score[None], y[None]))
        return one(scores[self._counted], self.y[self._counted]).double()
