"""The model of an estimator that nothing was set for: the average of the best candidates.

Candidates differ in what is done to the features, how they are propagated, whether labels of neighbours are seen, and
whether random non-linear features of the hops follow. Each is one solve, or one small trained layer. Where few nodes
have a label, the average so far teaches further ones. What all cost is counted in operations, not by the clock, so that
the same graph and seed give the same model on any machine.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from rapgnn.errors import InputError
from rapgnn.estimators.calibration import sharpening, sharper
from rapgnn.estimators.candidates import (
    Wanted,
    first_candidates,
    further_candidates,
    further_kernel_candidates,
    kernel_candidates,
    probing_candidates,
    second_candidates,
    trained_candidates,
)
from rapgnn.estimators.chosen import chosen_members, ranked, together
from rapgnn.estimators.costs import threads_by_cost
from rapgnn.estimators.draws import Draws, drawn_again, only
from rapgnn.estimators.judge import Judge, Verdict
from rapgnn.estimators.members import NetCandidate, RapCandidate, TreatedOf, with_all_rows
from rapgnn.estimators.net_costs import net_cost
from rapgnn.estimators.node_heads import can_train
from rapgnn.estimators.students import ROUNDS, all_nodes, can_teach, lesson, student_configs
from rapgnn.graph.goals import BALANCED, with_goal
from rapgnn.graph.graph import Graph
from rapgnn.models.average import Average, engine_of
from rapgnn.models.config import Config
from rapgnn.models.net_config import NetConfig
from rapgnn.models.rapgnn import RAPGNN
from rapgnn.models.treated import TreatedConfig
from rapgnn.training.averaged import HopsOf, scores_of

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
