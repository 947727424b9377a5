"""How good candidates are on unseen rows, which of the best are averaged, and how sure they are together."""

import copy
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cmp_to_key
from typing import Any

import torch
from torch import Tensor

from rapgnn.graph.graph import Graph
from rapgnn.graph.scores import metric_name
from rapgnn.graph.tasks import rocauc
from rapgnn.network.heads import INVERSE_TEMPERATURES, best_from_middle, inverse_temperature
from rapgnn.network.network import Average, Network
from rapgnn.network.rapgnn import RAPGNN
from rapgnn.search.candidate import Candidate, judged_by_left_out
from rapgnn.search.costs import cost, threads_by_cost
from rapgnn.search.preset import PRESET
from rapgnn.training.predict import Shared, scores_of, weighted_mean

FOLDS = 5  # of the rows that judge, for what the choice has not touched
SMALLEST_FACTOR = 1e-4  # of all scores
ORDERS = ("rocauc", "average_precision")  # metrics of the order of the rows alone


@dataclass(frozen=True)
class Scored:
    """A candidate with the penalty and temperature that suit it, and what it gives for the rows that judge.

    Args:
        factor: the inverse temperature.
        probabilities: of the rows that judge; of numbers, the numbers.
        order: what candidates are ranked by: the merit, or where one of two classes is rare the ROC-AUC.
        others: the same with other penalties that were tried, where few rows judge.
    """

    candidate: Any
    penalty: float
    factor: float
    merit: float
    loss: float
    probabilities: Tensor
    order: float = 0.0
    others: tuple["Scored", ...] = ()


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
        seen: list[Scored | None] = []

        def at(penalty: float) -> Scored | None:
            seen.append(self._at(candidate, penalty))
            return seen[-1]

        best = best_from_middle(candidate.penalties, at, self._better)
        if best is None or len(self.y) > PRESET.judges:
            return best
        return replace(best, others=tuple(one for one in seen if one is not None and one is not best))

    def _better(self, one: Scored, other: Scored) -> bool:
        """Whether a penalty suits better: by the loss; where the order of the rows counts, by that."""
        return one.merit > other.merit if metric_name(self.objective.chosen_by) in ORDERS else one.loss < other.loss

    def _at(self, candidate: Any, penalty: float) -> Scored | None:
        raw, rule = candidate.scores(penalty, self.left_out), self.objective
        if not len(raw) or not bool(torch.isfinite(raw).all()):
            return None
        factor = inverse_temperature(rule, lambda k: self.loss(raw * k))
        scores = raw * factor
        merit = self.merit(scores)
        loss, order = self.loss(scores), self._order(scores, merit)
        return Scored(candidate, penalty, factor, merit, loss, rule.read(scores), order)

    def part(self, rows: Tensor) -> "Validation":
        """The same with some of the rows."""
        twin = copy.copy(self)
        twin.y, known = self.y[rows], torch.zeros(len(self.y), dtype=torch.bool, device=self.y.device)
        known[self._counted] = True
        twin._counted = known[rows].nonzero()[:, 0]
        return twin

    def again(self, one: Scored, rows: Tensor) -> Scored:
        """A candidate as some rows judge it and choose its penalty; ``self`` is the part of these."""
        best = self._again(one, rows)
        for other in one.others:
            best = min(best, self._again(other, rows), key=cmp_to_key(lambda a, b: -1 if self._better(a, b) else 1))
        return best

    def _again(self, one: Scored, rows: Tensor) -> Scored:
        p = one.probabilities[rows]
        scores = scores_of(p, self.objective)
        merit = self.merit(scores)
        loss = self.loss_of(self.deciding(p))
        return replace(one, merit=merit, loss=loss, probabilities=p, order=self._order(scores, merit))

    def _order(self, scores: Tensor, merit: float) -> float:
        order = rocauc(scores[:, 1:] - scores[:, :1], self.y[:, None].to(scores)) if self._rare else merit
        return order if order == order else merit  # of one class alone there is no ROC-AUC

    @property
    def ranked_by(self) -> str:
        title = "ROC-AUC" if self._rare else self.objective.title
        return title if self.objective.scoring is not None else f"{title} and loss"

    def validation_score(self, scores: Tensor) -> float:
        """The metric of the validation rows; where there are none, of the rows that were left out in turn."""
        return self.objective.score(scores[: self.validation], self.y[: self.validation])

    def merit(self, scores: Tensor) -> float:
        return self.objective.merit(self.objective.score(scores, self.y))

    def loss(self, scores: Tensor) -> float:
        return float(self._mean(scores[self._counted]))

    def loss_by_row(self, scores: Tensor) -> Tensor:
        return self.objective.loss(scores[self._counted], self.y[self._counted], by_row=True).double()

    def deciding(self, probabilities: Tensor) -> Tensor:
        """What the loss of each row depends on: of classes its own label's probability alone, else all it is given."""
        p, y = probabilities[self._counted], self.y[self._counted]
        return p.gather(1, y[:, None]) if self.objective.metric == "accuracy" else p

    def loss_of(self, deciding: Tensor) -> float:
        """The loss of probabilities of which this is what decides: means of these are those of the probabilities."""
        scores = scores_of(deciding, self.objective)
        return float(-scores.mean() if self.objective.metric == "accuracy" else self._mean(scores))

    def _mean(self, scores: Tensor) -> Tensor:
        return self.objective.loss(scores, self.y[self._counted])

    def gains(self, average: Sequence[Scored], one: Scored) -> bool:
        """Whether a candidate alone, or joining an average, has a loss that is lower by more than chance."""
        reached = self.loss_by_row(mean_scores(average, self))
        for joined in ([one], [*average, one]):
            if surpasses(reached - self.loss_by_row(mean_scores(joined, self)), PRESET.gain):
                return True
        return False


# The average of the best candidates: which, how many, further draws of them, and how sure they are together.


def ranked(seen: list[Scored], by_metric: bool) -> list[Scored]:
    """Best first, by the metric and by the loss together; the metric alone where the user's own decides."""
    by_merit = sorted(range(len(seen)), key=lambda i: (-seen[i].order, seen[i].loss))
    by_loss = sorted(range(len(seen)), key=lambda i: seen[i].loss)
    place = {i: by_merit.index(i) + (0 if by_metric else by_loss.index(i)) for i in range(len(seen))}
    return [seen[i] for i in sorted(place, key=lambda i: (place[i], i))]


def chosen_members(seen: list[Scored], validation: Validation, by_metric: bool) -> list[Scored]:
    """The members of the average.

    The best is the first, and each further one is the one of the best sixteen that the average gains the most by: what
    is alike adds little to an average (Caruana et al., 2004). They are as many as give the lowest loss together,
    and more, as long as the rows that judge cannot tell the larger average from the best one: few rows choose by
    chance, and a larger average depends less on it. Where the user's own metric decides, they are taken in its order,
    as many as reach the most of it.
    """
    order = ranked(seen, by_metric)[: PRESET.members if by_metric else PRESET.pool]
    judged = order
    if len(validation.y) > PRESET.judges and not by_metric:
        drawn = torch.randperm(len(validation.y), generator=torch.Generator().manual_seed(0))[: PRESET.judges]
        rows = drawn.sort().values.to(validation.y.device)
        judged, validation = (
            [replace(one, probabilities=one.probabilities[rows]) for one in order],
            validation.part(rows),
        )
    best = judged if by_metric else _joined_in_turn(judged, validation)
    together = {size: mean_scores(best[:size], validation) for size in PRESET.sizes if size <= len(best)}
    losses = {size: validation.loss(scores) for size, scores in together.items()}
    if by_metric:
        size = max(together, key=lambda s: (validation.merit(together[s]), -losses[s], s))
    else:
        lowest = min(together, key=lambda s: (losses[s], -s))
        rows = validation.loss_by_row(together[lowest])
        size = max(
            s
            for s in together
            if s == lowest or not surpasses(validation.loss_by_row(together[s]) - rows, PRESET.clear)
        )
    return [order[next(i for i, one in enumerate(judged) if one is member)] for member in best[:size]]


def _joined_in_turn(pool: list[Scored], validation: Validation) -> list[Scored]:
    """The first, then each time the one with which the average has the lowest loss; of equal ones the earlier."""
    deciding = [validation.deciding(one.probabilities) for one in pool]
    chosen, rest, total = [0], list(range(1, len(pool))), deciding[0]
    while rest and len(chosen) < PRESET.members:
        losses = {i: validation.loss_of((total + deciding[i]) / (len(chosen) + 1)) for i in rest}
        joining = min(rest, key=losses.__getitem__)
        rest.remove(joining)
        chosen, total = [*chosen, joining], total + deciding[joining]
    return [pool[i] for i in chosen]


def surpasses(more: Tensor, errors: float) -> bool:
    """Whether differences row by row are above 0 by more than so many standard errors."""
    return float(more.mean()) > errors * float(more.std(correction=0)) / max(1, len(more)) ** 0.5


def mean_scores(members: Sequence[Scored], validation: Validation) -> Tensor:
    """The scores of the mean of what these give for the rows that judge."""
    return scores_of(torch.stack([one.probabilities for one in members]).mean(0), validation.objective)


@dataclass(frozen=True)
class Member:
    """A member of an average, or a further draw of its random layers; all draws of a member count as one.

    Args:
        chosen: the member that it is a draw of; itself for those that were chosen.
    """

    scored: Scored
    weight: float
    chosen: Scored


def with_draws(
    members: Sequence[Scored], graph: Graph, validation: Validation, left: float, late: Callable[[], bool]
) -> list[Member]:
    """The members, and behind them further draws, where few rows are labelled.

    What random layers give depends on their draw, the more the fewer rows a head is solved on. The mean over draws
    depends less on it, and no rows are needed to choose it.
    """
    further: list[list[Scored]] = [[] for _ in members]
    for draw in range(1, PRESET.draws if len(graph.train) < PRESET.few_rows else 1):
        shared: Shared = {}
        for member, others in zip(members, further, strict=True):
            first: Candidate = member.candidate
            config = first.config
            seconds = cost(graph, config)
            random = config.coefficients == "layers" or config.units > 0
            if not random or first.final or seconds > left or late():
                continue
            left -= seconds
            with threads_by_cost(seconds), suppress(torch.linalg.LinAlgError):  # type: ignore[reportPrivateImportUsage]
                one = validation.score(Candidate(first.graph, config, first.seed + draw * PRESET.seed_step, shared))
                others += [] if one is None else [one]
    shares = [1 / (1 + len(others)) for others in further]
    chosen = [Member(one, share, one) for one, share in zip(members, shares, strict=True)]
    groups = zip(members, shares, further, strict=True)
    return chosen + [Member(one, share, member) for member, share, others in groups for one in others]


def mean_of_draws(members: Sequence[Member], validation: Validation, factor: float = 1.0) -> Tensor:
    """Scores of what all of them give for the rows that judge, each with scores that are so many times larger."""
    objective, parts = validation.objective, [member.scored.probabilities for member in members]
    if factor != 1.0:
        parts = [objective.read(factor * scores_of(part, objective)) for part in parts]
    return scores_of(weighted_mean(parts, [member.weight for member in members]), objective)


def temperature_of(members: Sequence[Member], validation: Validation) -> float:
    """The factor with which the average makes the labels of the rows that judge likeliest.

    Each member has a temperature of its own. The average of members that are sure of different rows is less sure than
    it should be. None is surer of the rows that judge than so few can tell: at least half a row of n + 1 is expected to
    be an error, however well the classes are told apart.
    """
    objective = validation.objective
    factor = inverse_temperature(objective, lambda k: validation.loss(mean_of_draws(members, validation, k)))
    while objective.metric != "rmse" and factor > SMALLEST_FACTOR:
        p = objective.read(mean_of_draws(members, validation, factor).double())
        errors = 1 - p.amax(1) if objective.metric == "accuracy" else torch.minimum(p, 1 - p)
        if float(errors.mean()) >= 0.5 / (len(validation.y) + 1):
            break
        factor /= INVERSE_TEMPERATURES[1] / INVERSE_TEMPERATURES[0]
    return factor


def cross_chosen(
    seen: list[Scored], validation: Validation, by_metric: bool, drawn: Sequence[Member] = (), factor: float = 1.0
) -> Tensor:
    """Probabilities of the rows that judge, each by the members that the other folds of these rows would choose.

    The best of many is too good on the rows that chose it, penalties among them. These rows have not: what is measured
    on them is what to expect of new rows.

    Args:
        drawn: the members of the model, with further draws of them.
        factor: what all scores are multiplied with.
    """
    count = len(validation.y)
    order = torch.randperm(count, generator=torch.Generator().manual_seed(0)).to(validation.y.device)
    folds = order.chunk(FOLDS) if count >= 2 * FOLDS else (order,)
    found = torch.empty_like(seen[0].probabilities)
    for fold in folds:
        others = torch.ones(count, dtype=torch.bool, device=order.device)
        others[fold] = len(folds) == 1
        part = validation.part(others.nonzero()[:, 0])
        chosen = chosen_members([part.again(one, others) for one in seen], part, by_metric)
        tried = [one for best in seen for one in (best, *best.others)]
        wanted = [
            next(one for one in tried if one.candidate is other.candidate and one.penalty == other.penalty)
            for other in chosen
        ]
        members = [
            member for one in wanted for member in [m for m in drawn if m.chosen is one] or [Member(one, 1.0, one)]
        ]
        found[fold] = validation.objective.read(mean_of_draws(members, validation, factor))[fold]
    return found


def finished(
    members: Sequence[Member], others: Sequence[Scored], everything: Graph | None = None, factor: float = 1.0
) -> RAPGNN | Average:
    """The model.

    Args:
        members: those that were chosen, and further draws of them, which count where they do.
        everything: the graph with all training rows, where some were held out to judge: heads are solved again on it.
    """
    models, uses, weights = [], [], []
    shared = defaultdict[int, Shared](dict)
    here = [member.chosen for member in members]
    more = [Member(one, 1.0, one) for one in others if not is_among(one, here)]
    for member in [*members, *more]:
        at_home, elsewhere = is_among(member.chosen, here), is_among(member.chosen, others)
        uses.append("both" if at_home and elsewhere else "here" if at_home else "elsewhere")
        weights.append(member.weight)
        candidate: Candidate = member.scored.candidate
        if everything is not None and not candidate.final:
            seed = 0 if candidate.config.of_layers else candidate.seed
            candidate = candidate.on(everything, shared[seed])
        network = candidate.finished(member.scored.penalty, member.scored.factor)
        models.append(network if factor == 1.0 else _multiplied(network, factor))
    return models[0] if len(models) == 1 and isinstance(models[0], RAPGNN) else Average(models, uses, weights)


def _multiplied(network: Network, factor: float) -> Network:
    """A twin with scores that are so many times larger; before another network in the average it stays as it is."""
    twin = network.twin()
    if network.output.plain:
        twin.head.multiply(factor)
    return twin


def is_among(one: Scored, some: Sequence[Scored]) -> bool:
    """By identity: two may be equal."""
    return any(one is other for other in some)
