"""How good a candidate is on rows that it has not seen: validation rows, and training rows each left out in turn."""

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from rapgnn.graph.graph import Graph
from rapgnn.graph.tasks import Objective, rocauc

LEFT_OUT_ROWS = 1000  # training rows up to which each is left out in turn
ORDERS = ("rocauc", "average_precision")  # metrics of the order of the rows alone
RARE = 0.3  # share of one of two classes below which accuracy says little
ENOUGH = 100  # validation rows that need no others beside them
SHARPNESS = tuple(10.0 ** (k / 4) for k in range(-2, 9))  # what scores are multiplied with, as in ``RidgeHead``


class Candidate(Protocol):
    """A model whose head is solved for any penalty; where it is final, not again with other rows."""

    config: Any
    settings: dict[str, Any]
    penalties: tuple[float, ...]
    final: bool

    def scores(self, penalty: float, left_out: bool) -> Tensor:
        """Raw scores of the validation rows, and behind them of the training rows, each left out in turn."""
        ...

    def finished(self, penalty: float, sharpness: float) -> nn.Module:
        """The model with this head."""
        ...

    def forget_rows(self) -> None:
        """Keep the heads that were solved, and let go of the representation of the rows they were solved on."""
        ...


@dataclass(frozen=True)
class Verdict:
    """A candidate with the penalty and sharpness that suit it, and what it gives for the rows that judge.

    Args:
        merit: the metric, turned so that more is better.
        loss: mean loss.
        probabilities: of the rows that judge; of numbers, the numbers.
        order: what candidates are ranked by: the merit, or where one of two classes is rare the ROC-AUC.
    """

    candidate: Candidate
    penalty: float
    sharpness: float
    merit: float
    loss: float
    probabilities: Tensor
    order: float = 0.0


def judged_by_left_out(graph: Graph) -> bool:
    """Whether training rows judge too, each left out in turn: where they are few, and validation rows are."""
    return len(graph.train) <= LEFT_OUT_ROWS and len(graph.val) < ENOUGH


class Judge:
    """The rows that judge, and their labels.

    Args:
        alone: validation rows judge alone, however few they are: a head that is trained leaves no rows out in turn.
    """

    def __init__(self, graph: Graph, objective: Objective, alone: bool = False):
        self.objective = objective
        self.left_out = judged_by_left_out(graph) and not alone
        self.rows = torch.cat([graph.val, graph.train]) if self.left_out else graph.val
        self.y, self.validation = graph.y[self.rows], len(graph.val) or len(self.rows)
        share = graph.y[graph.train].double().mean() if graph.num_outputs == 2 and self.y.dim() == 1 else 0.5
        self._rare = objective.scoring is None and not RARE <= float(share) <= 1 - RARE
        # Rows of a class that no training row has say nothing about the loss.
        seen = torch.isin(self.y, graph.y[graph.train]) if self.y.dim() == 1 else None
        self._told = None if seen is None or bool(seen.all()) else seen.nonzero()[:, 0]

    def see(self, candidate: Candidate) -> Verdict | None:
        """The verdict; None where no penalty gives finite scores."""
        middle = len(candidate.penalties) // 2
        best = first = self._at(candidate, candidate.penalties[middle])
        # The loss falls and rises once along λ: walk downhill from the middle, one way or else the other.
        for way in (candidate.penalties[middle + 1 :], tuple(reversed(candidate.penalties[:middle]))):
            for penalty in way:
                found = self._at(candidate, penalty)
                if found is None or (best is not None and not self._better(found, best)):
                    break
                best = found
            if best is not first:
                break
        return best

    def _better(self, one: Verdict, other: Verdict) -> bool:
        """Whether a penalty suits better: by the loss; where the order of the rows counts, by that."""
        return one.merit > other.merit if self.objective.chosen_by in ORDERS else one.loss < other.loss

    def _at(self, candidate: Candidate, penalty: float) -> Verdict | None:
        raw = candidate.scores(penalty, self.left_out)
        if not len(raw) or not bool(torch.isfinite(raw).all()):
            return None
        return self._with_sharpness(candidate, penalty, raw)

    def _with_sharpness(self, candidate: Candidate, penalty: float, raw: Tensor) -> Verdict:
        rule = self.objective
        if rule.metric == "rmse":
            merit, loss = self.of(raw)
            return Verdict(candidate, penalty, 1.0, merit, loss, raw, merit)
        losses = torch.stack([self._loss(raw * k) for k in SHARPNESS])
        sharpness = SHARPNESS[int(losses.argmin())]
        scores = raw * sharpness
        merit, loss = self.of(scores)
        order = rocauc(scores[:, 1:] - scores[:, :1], self.y[:, None].to(scores)) if self._rare else merit
        order = order if order == order else merit  # of one class alone there is no ROC-AUC
        return Verdict(candidate, penalty, sharpness, merit, loss, rule.read(scores), order)

    def validation_score(self, scores: Tensor) -> float:
        """The metric of the validation rows; where there are none, of the rows that were left out in turn."""
        return self.objective.score(scores[: self.validation], self.y[: self.validation])

    def of(self, scores: Tensor) -> tuple[float, float]:
        """(merit, loss) of scores of the rows that judge."""
        rule = self.objective
        return rule.merit(rule.score(scores, self.y)), self.loss_of(scores)

    def loss_of(self, scores: Tensor) -> float:
        """The mean loss of scores of the rows that judge."""
        return float(self._loss(scores))

    def by_row(self, scores: Tensor) -> Tensor:
        """The loss of every row that judges."""
        told = slice(None) if self._told is None else self._told
        one = torch.vmap(lambda score, y: self.objective.loss(score[None], y[None]))
        return one(scores[told], self.y[told]).double()

    def _loss(self, scores: Tensor) -> Tensor:
        told = self._told
        return self.objective.loss(scores, self.y) if told is None else self.objective.loss(scores[told], self.y[told])
