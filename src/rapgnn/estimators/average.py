"""The model of an estimator that nothing was set for: the average of the best candidates.

Candidates differ in what is done to the features, how they are propagated, whether labels of neighbours are seen, and
whether random non-linear features of the hops follow. Each is one solve, or one small trained layer. Where few nodes
have a label, the average so far teaches further ones. What all cost is counted in operations, not by the clock, so that
the same graph and seed give the same model on any machine.
"""

import copy
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from rapgnn.errors import InputError
from rapgnn.estimators.candidates import (
    ROUNDS,
    Wanted,
    all_nodes,
    can_teach,
    can_train,
    first_candidates,
    further_candidates,
    further_kernel_candidates,
    kernel_candidates,
    lesson,
    probing_candidates,
    second_candidates,
    student_configs,
    trained_candidates,
)
from rapgnn.estimators.costs import net_cost, threads_by_cost
from rapgnn.estimators.judge import Judge, Verdict
from rapgnn.estimators.members import NetCandidate, RapCandidate, TreatedOf, with_all_rows
from rapgnn.graph.graph import Graph
from rapgnn.graph.scores import BALANCED, with_goal
from rapgnn.graph.tasks import Objective
from rapgnn.models.average import Average, TreatedConfig, TreatedRAP, engine_of
from rapgnn.models.config import Config
from rapgnn.models.net_config import NetConfig
from rapgnn.models.random_net import RandomNet
from rapgnn.models.rapgnn import RAPGNN
from rapgnn.training.predict import HopsOf, scores_of, weighted_mean

# Other draws of a member's random layers, where few rows are labelled.
# What random layers give depends on their draw, the more the fewer rows a head is solved on. The mean over draws
# depends less on it, and no rows are needed to choose it.


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


Stage = Callable[[Graph, Config, Sequence[Any]], Iterator[Wanted]]
FILTERS = 0.25  # share of what candidates may cost that linear filters have where heads can be trained after them
SECOND = 0.35  # share of what candidates may cost that networks on another network's predictions have
ENDLESS = 1e12  # nominal seconds: more than any search takes, and still a number to take shares of
MEMBER_SEEDS = 1000  # members draw on their own


@dataclass(frozen=True)
class Trial:
    """One candidate: its settings, the metric on the rows that judge, and the seconds it took."""

    settings: dict[str, Any]
    value: float
    seconds: float


@dataclass(frozen=True)
class Averaged:
    """The model, what was tried, the metric of the average, and how the members came about."""

    model: nn.Module
    trials: tuple[Trial, ...]
    score: float
    engine: str
    reason: str


def choose_average(
    graph: Graph,
    base: Config,
    seed: int,
    allowance: float,
    late: Callable[[], bool],
    on_trial: Callable[[dict[str, Any], float], None] | None = None,
    reweigh: bool = False,
    everything: Graph | None = None,
    network: NetConfig | None = None,
) -> Averaged:
    """Try candidates in order of promise and average the best.

    Args:
        base: the settings of RAP networks that no candidate changes.
        allowance: nominal seconds that all candidates may cost.
        late: whether the user's time is up.
        reweigh: whether classes that count the same in sum are tried too.
        everything: the graph with all training rows, where some were held out to judge: heads are solved again on it.
        network: the only one that is tried; None: all that the allowance admits.
    """
    judge = Judge(graph, graph.objective, alone=network is not None and network.hidden > 0)
    search = _Search(graph, seed, late, on_trial, judge)
    by_metric = graph.objective.scoring is not None
    if network is None:
        left = _try_all(search, base, allowance, by_metric)
    else:
        left = 0.0
        search.attempt(Wanted(network, net_cost(graph, network)))
    if reweigh:
        balanced = with_goal(graph, graph.objective.scoring, BALANCED)
        for verdict in ranked(search.seen, by_metric)[:4]:
            if not verdict.candidate.final:
                search.attempt(Wanted(verdict.candidate.config, 0.0), balanced)
    seen = search.seen
    if not seen:
        raise search.refusal or InputError("no candidate could be solved: the features or labels leave nothing to fit.")
    members = chosen_members(seen, judge, by_metric)
    draws = drawn_again(members, graph, judge, left, late)
    factor = sharpening(draws, judge)
    score = judge.validation_score(scores_of(draws.mean(judge.objective, factor), judge.objective))
    free = [v for v in seen if not getattr(v.candidate.config, "bound", False)]
    others = members if not free or all(_among(v, free) for v in members) else chosen_members(free, judge, by_metric)
    model = _finished(draws, others, everything, factor)
    return Averaged(model, tuple(search.trials), score, *engine_of(getattr(model, "members", ())))


def _try_all(search: "_Search", base: Config, allowance: float, by_metric: bool) -> float:
    """Attempt all kinds of candidates, one after another; the nominal seconds that are left over."""
    graph, allowance = search.graph, min(allowance, ENDLESS)
    filters = FILTERS if graph.ptr is None and can_train(graph) else 1 - SECOND
    left = search.walk((first_candidates,), base, by_metric, filters * allowance)
    search.forget_treated()
    stages = probing_candidates, trained_candidates, further_candidates
    left = search.walk(stages, base, by_metric, left + (1 - SECOND - filters) * allowance)
    left += SECOND * allowance
    verdicts = {id(v.candidate): v for v in search.seen}
    for first, wanted in second_candidates(graph, [v.candidate for v in ranked(search.seen, by_metric)]):
        if wanted.cost <= left:
            left -= wanted.cost
            search.attempt(wanted, first=verdicts[id(first)])
    left = search.walk((kernel_candidates, further_kernel_candidates), base, by_metric, left)
    if can_teach(graph) and search.seen:
        left = search.teach(by_metric, left)
    return left


class _Search:
    """What was tried on a graph, and what came of it."""

    def __init__(
        self,
        graph: Graph,
        seed: int,
        late: Callable[[], bool],
        on_trial: Callable[[dict[str, Any], float], None] | None,
        judge: Judge,
    ):
        self.graph, self.seed, self.late, self.on_trial, self.judge = graph, seed, late, on_trial, judge
        self.seen: list[Verdict] = []
        self.trials: list[Trial] = []
        self.tried: set[Any] = set()
        self.refusal: InputError | None = None
        self._treated, self._kept = TreatedOf(), HopsOf()

    def walk(self, stages: Iterable[Stage], base: Config, by_metric: bool, left: float) -> float:
        """Attempt what the stages want one after another, for so many nominal seconds; those that are left over."""
        for stage in stages:
            for wanted in stage(self.graph, base, [v.candidate for v in ranked(self.seen, by_metric)]):
                if not self.seen or (wanted.cost <= left and wanted.config not in self.tried):
                    left -= wanted.cost
                    self.attempt(wanted)
        return left

    def forget_treated(self) -> None:
        """Let go of the hops that RAP networks share: they are all among the first candidates."""
        self._treated.clear()

    def attempt(
        self, wanted: Wanted, on: Graph | None = None, first: Verdict | None = None, taught: Tensor | None = None
    ) -> None:
        """Solve or train a candidate, and judge it; nothing where the time is up.

        Args:
            on: the graph with other weights of its classes; None: as it is.
            first: the network whose predictions it sees.
            taught: what it learns of every node, instead of the labels of the training rows.
        """
        if self.seen and self.late():
            return
        self.tried.add(wanted.config)
        began, graph = time.perf_counter(), on or self.graph
        try:
            with threads_by_cost(wanted.cost):
                candidate = self._candidate(wanted.config, graph, first, taught)
                verdict = self.judge.see(candidate)
        except InputError as error:  # a candidate that this graph does not admit
            self.refusal = error.with_traceback(None)
            return
        except torch.linalg.LinAlgError:  # type: ignore[reportPrivateImportUsage] - numbers too large or too close
            return
        if verdict is None:
            return
        candidate.forget_rows()  # dozens of candidates on many rows would fill the memory
        self.seen.append(verdict)
        value = graph.objective.merit(verdict.merit)
        settings = candidate.settings | ({} if on is None else {"class_weight": BALANCED})
        self.trials.append(Trial(settings, value, time.perf_counter() - began))
        if self.on_trial:
            self.on_trial(settings, value)

    def _candidate(self, config: Any, graph: Graph, first: Verdict | None, taught: Tensor | None) -> Any:
        if isinstance(config, TreatedConfig):
            return RapCandidate(graph, config, MEMBER_SEEDS * (self.seed + 1) + len(self.trials), self._treated)
        before: Any = None if first is None else first.candidate.finished(first.penalty, first.sharpness)
        graph = graph if taught is None else all_nodes(graph)
        return NetCandidate(graph, config, self.seed, self._kept, before, taught)

    def teach(self, by_metric: bool, left: float) -> float:
        """Students of the average so far, for so many nominal seconds; and theirs, as long as they get better.

        Gives the seconds that are left over.
        """
        reached = float("inf")
        for _ in range(ROUNDS):
            members = chosen_members(self.seen, self.judge, by_metric)
            loss = self.judge.of(together(members, self.judge))[1]
            if loss >= reached or self.late():
                break
            teacher = _finished(only(members), members)
            reached, taught = loss, lesson(teacher, self.graph, self._kept)
            order = ranked(self.seen, by_metric)
            nets = [v.candidate.config for v in order if isinstance(v.candidate.config, NetConfig)]
            for config in student_configs(self.graph, nets):
                wanted = Wanted(config, net_cost(all_nodes(self.graph), config))
                if wanted.cost <= left:
                    left -= wanted.cost
                    self.attempt(wanted, taught=taught)
        return left


def _among(verdict: Verdict, some: Sequence[Verdict]) -> bool:
    return any(verdict is one for one in some)


def _finished(
    draws: Draws, others: Sequence[Verdict], everything: Graph | None = None, factor: float = 1.0
) -> RAPGNN | Average:
    """The model.

    Args:
        draws: the members, and further draws of them, which count where the members do.
        others: the members for other graphs than this one.
        everything: as in ``choose_average``.
        factor: what all scores are multiplied with.
    """
    models, uses, weights = [], [], []
    treated, kept = TreatedOf(), defaultdict[int, HopsOf](HopsOf)
    for verdict, weight, member in [*draws.weighted, *((v, 1.0, v) for v in others if not _among(v, draws.members))]:
        here, elsewhere = _among(member, draws.members), _among(member, others)
        uses.append("both" if here and elsewhere else "here" if here else "elsewhere")
        weights.append(weight)
        candidate: Any = verdict.candidate
        if everything is not None and not candidate.final:
            candidate = with_all_rows(candidate, everything, treated, kept[getattr(candidate, "seed", 0)])
        model = candidate.finished(verdict.penalty, verdict.sharpness)
        models.append(model if factor == 1.0 else sharper(model, factor))
    return models[0] if len(models) == 1 and isinstance(models[0], RAPGNN) else Average(models, uses, weights)


# How sure an average is: one number that all members' scores are multiplied with.


FACTORS = tuple(10.0 ** (k / 16) for k in range(-8, 13))


def sharpening(draws: Draws, judge: Judge) -> float:
    """The factor with which the average makes the labels of the rows that judge likeliest.

    Each member has a temperature of its own. The average of members that are sure of different rows is less sure than
    it should be.
    """
    if judge.objective.metric == "rmse":
        return 1.0
    losses = [judge.loss_of(scores_of(draws.mean(judge.objective, factor), judge.objective)) for factor in FACTORS]
    return FACTORS[min(range(len(FACTORS)), key=lambda at: (losses[at], abs(FACTORS[at] - 1)))]


def sharper(model: Any, factor: float) -> nn.Module:
    """A member whose scores are so many times larger.

    A random network that stands before another one in the same average stays as it is there, so a twin of it is made.
    """
    if isinstance(model, RandomNet):
        twin = copy.copy(model)
        twin._buffers = model._buffers | {"sharpness": model.sharpness * factor}
        return twin
    head: Any = (model.network if isinstance(model, TreatedRAP) else model).head
    head.sharpness.mul_(factor)
    return model


# Which of the candidates are averaged: the best one, and those that the average gains by.


MOST, POOL = 8, 16  # members of an average, and how many of the best may be among them
SIZES = (1, 2, 3, 4, 6, 8)
CLEAR = 2.0  # standard errors of a difference that is not chance


def ranked(seen: list[Verdict], by_metric: bool) -> list[Verdict]:
    """Best first, by the metric and by the loss together; the metric alone where the user's own decides."""
    by_merit = sorted(range(len(seen)), key=lambda i: (-seen[i].order, seen[i].loss))
    by_loss = sorted(range(len(seen)), key=lambda i: seen[i].loss)
    place = {i: by_merit.index(i) + (0 if by_metric else by_loss.index(i)) for i in range(len(seen))}
    return [seen[i] for i in sorted(place, key=lambda i: (place[i], i))]


def chosen_members(seen: list[Verdict], judge: Judge, by_metric: bool) -> list[Verdict]:
    """The members of the average.

    The best is the first, and each further one is the one of the best sixteen that the average gains the most by: what
    is alike adds little to an average (Caruana et al., 2004). They are as many as give the lowest loss together,
    and more, as long as the rows that judge cannot tell the larger average from the best one: few rows choose by
    chance, and a larger average depends less on it. Where the user's own metric decides, they are taken in its order,
    as many as reach the most of it.
    """
    order = ranked(seen, by_metric)
    best = order[:MOST] if by_metric else _joined_in_turn(order[:POOL], judge)
    sizes = [size for size in SIZES if size <= len(best)]
    told = {size: judge.of(together(best[:size], judge)) for size in sizes}
    if by_metric:
        size = max(sizes, key=lambda s: (told[s][0], -told[s][1], s))
    else:
        lowest = min(sizes, key=lambda s: (told[s][1], -s))
        rows = judge.by_row(together(best[:lowest], judge))
        size = max(s for s in sizes if s == lowest or not _clearly_more(judge.by_row(together(best[:s], judge)), rows))
    return best[:size]


def _joined_in_turn(pool: list[Verdict], judge: Judge) -> list[Verdict]:
    """The first, then each time the one with which the average has the lowest loss; of equal ones the earlier."""
    chosen, rest = pool[:1], pool[1:]
    total = chosen[0].probabilities
    while rest and len(chosen) < MOST:
        count = len(chosen) + 1
        losses = [judge.loss_of(scores_of((total + v.probabilities) / count, judge.objective)) for v in rest]
        joining = rest.pop(min(range(len(rest)), key=losses.__getitem__))
        chosen, total = [*chosen, joining], total + joining.probabilities
    return chosen


def _clearly_more(one: Tensor, other: Tensor) -> bool:
    """Whether losses are larger row by row, by more than twice the standard error of the difference."""
    more = one - other
    error = more.std(correction=0) / max(1, len(more)) ** 0.5
    return float(more.mean()) > CLEAR * float(error)


def together(members: list[Verdict], judge: Judge) -> Tensor:
    """The scores of the mean of what these give for the rows that judge."""
    return scores_of(torch.stack([v.probabilities for v in members]).mean(0), judge.objective)
