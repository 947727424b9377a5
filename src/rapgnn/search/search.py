"""The search: the portfolio's points, constrained by what a user has fixed, solved or trained, judged, and averaged.

What all cost is counted in operations, not by the clock, so that the same graph and seed give the same model on any
machine. ``search=False`` is the first point alone.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from rapgnn.errors import InputError
from rapgnn.graph.graph import Graph
from rapgnn.graph.rows import BALANCED, hold_out, with_goal
from rapgnn.network.config import Config
from rapgnn.network.encode import EMBEDDINGS
from rapgnn.network.heads import RidgeHead
from rapgnn.network.hops import Hops
from rapgnn.network.network import engine_of, is_bound, walk_of
from rapgnn.network.rapgnn import RAPGNN
from rapgnn.search.average import (
    Member,
    Scored,
    Validation,
    chosen_members,
    cross_chosen,
    finished,
    is_among,
    mean_scores,
    ranked,
    temperature_of,
    with_draws,
)
from rapgnn.search.candidate import Candidate
from rapgnn.search.costs import cost, fits, threads_by_cost, training_cost
from rapgnn.search.portfolio import (
    PORTFOLIO,
    Stage,
    can_self_train,
    can_train,
    constrained,
    may_come_before,
    second_points,
    self_training_points,
)
from rapgnn.search.preset import PRESET
from rapgnn.search.start import base_of_points, first_point
from rapgnn.training.fit import Fitted, fit_rap
from rapgnn.training.loop import Loop
from rapgnn.training.predict import Shared, model_on, scores_of

ENDLESS = 1e12  # nominal seconds: more than any search takes, and still a number to take shares of
OnTrial = Callable[[dict[str, Any], float], None]


@dataclass(frozen=True)
class Trial:
    """One candidate: its settings, the metric on the rows that judge, and the seconds it took."""

    settings: dict[str, Any]
    value: float
    seconds: float


@dataclass(frozen=True)
class Judged:
    """Rows that the model has not seen, and that did not choose it: their probabilities (or numbers), and labels."""

    probabilities: Tensor
    y: Tensor
    ranked_by: str


@dataclass(frozen=True)
class Trained:
    """The trained model, the graph with the splits it was trained on, the candidates, the metric on validation rows
    that did not choose the model, those rows, and how much a row of each class counted (None: all the same)."""

    fitted: Fitted
    graph: Graph
    trials: tuple[Trial, ...]
    validation_score: float
    judged: Judged
    class_weight: tuple[float, ...] | None


class Search:
    """What is tried on a graph, and what comes of it.

    Args:
        alone: validation rows judge alone, as heads that are trained need it.
    """

    def __init__(
        self,
        graph: Graph,
        start: Config,
        fixed: dict[str, Any],
        seed: int,
        late: Callable[[], bool],
        on_trial: OnTrial | None = None,
        alone: bool = False,
    ):
        self.graph, self.fixed, self.seed = graph, fixed, seed
        self.first, self.base = first_point(graph, start, fixed), base_of_points(graph, start, fixed)
        self.late, self.on_trial = late, on_trial
        self.by_metric = graph.objective.scoring is not None
        self.validation = Validation(graph, alone)
        self.scored: list[Scored] = []
        self.trials: list[Trial] = []
        self.tried: set[Config] = set()
        self.refusal: InputError | None = None
        self._shared: Shared = {}
        self._again = False  # whether the members' heads are solved again in the end

    def run(
        self, allowance: float, reweigh: bool = False, everything: Graph | None = None, first_only: bool = False
    ) -> Trained:
        """Try candidates for so many nominal seconds, and average the best.

        Args:
            reweigh: whether classes that count the same in sum are tried too.
            everything: the graph with all training rows, where some were held out to judge.
            first_only: nothing but the first point is tried.
        """
        began, allowance, self._again = time.perf_counter(), min(allowance, ENDLESS), everything is not None
        first = [self.first] if self.fixed or first_only else []
        left = self._walk(first, allowance) - allowance  # which is always tried
        left = 0.0 if first_only else self._try_all(allowance + left)
        if reweigh:
            balanced = with_goal(self.graph, self.graph.objective.scoring, BALANCED)
            for one in ranked(self.scored, self.by_metric)[:4]:
                if not one.candidate.final:
                    self.attempt(one.candidate.config, balanced)
        if not self.tried:
            names = ", ".join(sorted(self.fixed))
            raise InputError(f"no candidate has the settings that were fixed, or they decide nothing: {names}.")
        if not self.scored:
            raise self.refusal or InputError(
                "no candidate could be solved: the features or labels leave nothing to fit."
            )
        validation, by_metric = self.validation, self.by_metric
        chosen = chosen_members(self.scored, validation, by_metric)
        members = with_draws(chosen, self.graph, validation, left, self.late)
        factor = temperature_of(members, validation)
        probabilities = cross_chosen(self.scored, validation, by_metric, members, factor)
        score = validation.validation_score(scores_of(probabilities, validation.objective))
        judged = Judged(probabilities, validation.y, validation.ranked_by)
        free = [one for one in self.scored if not is_bound(one.candidate.config)]
        others = chosen
        if free and not all(is_among(one, free) for one in chosen):
            others = chosen_members(free, validation, by_metric)
        model = finished(members, others, everything, factor)
        networks = [model] if isinstance(model, RAPGNN) else model.members
        loop = Loop(0, 1, 1e3 * (time.perf_counter() - began), 0.0)
        fitted = Fitted(model, model_on(model, self.graph), loop, *engine_of(networks), "auto")
        return Trained(fitted, self.graph, tuple(self.trials), score, judged, self.graph.objective.class_weight)

    def _try_all(self, allowance: float) -> float:
        graph = self.graph
        rest = 1 - PRESET.previous_share
        filters = PRESET.filters_share if graph.ptr is None and can_train(graph) else rest
        left = filters * allowance
        left = self._stages("filters", left)
        left = self._stages("rest", left + (rest - filters) * allowance)
        left += PRESET.previous_share * allowance
        if graph.ptr is None and graph.num_outputs <= PRESET.most_outputs:
            left = self._try_previous(left)
        if can_self_train(graph) and self.scored:
            left = self._self_train(left)
        return self._stages("left", left)

    def _forget_hops(self, latest: tuple[Any, ...]) -> None:
        """Let go of the hops that were used longest ago, where those of all candidates take too much."""
        if latest in self._shared:
            self._shared[latest] = self._shared.pop(latest)
        held = {walk: hops.nbytes for walk, hops in self._shared.items() if isinstance(hops, Hops) and walk != latest}
        most, times = PRESET.stored
        over = sum(held.values()) - max(most, int(times * self.graph.x.nbytes))
        for walk, size in held.items():
            if over > 0:
                del self._shared[walk]
            over -= size

    def _stages(self, share: str, left: float) -> float:
        for stage in PORTFOLIO:
            if stage.share == share and stage.suits(self.graph):
                left = self._walk(self._points(stage), left, stage.idle)
        return left

    def _points(self, stage: Stage) -> Iterator[Config]:
        with suppress(InputError):  # what the user has fixed contradicts what the stage changes of the best points
            yield from stage.points(self.graph, self.base, [one.candidate.config for one in self._ranked()])

    def _ranked(self) -> list[Scored]:
        return ranked(self.scored, self.by_metric)

    def _walk(self, points: Iterable[Config], left: float, most_idle: int = 0) -> float:
        """Attempt points for so many nominal seconds; those that are left over.

        Args:
            most_idle: as in ``Stage``.
        """
        average = chosen_members(self.scored, self.validation, self.by_metric) if most_idle and self.scored else []
        idle = 0
        for point in points:
            before = len(self.scored)
            left = self._afford(point, left)
            if average and len(self.scored) > before:
                idle += 1
                if self.validation.gains(average, self.scored[-1]):
                    average, idle = chosen_members(self.scored, self.validation, self.by_metric), 0
                elif idle == most_idle and not self.by_metric:
                    break
        return left

    def _afford(self, point: Config, left: float, **how: Any) -> float:
        config = constrained(point, self.fixed) if self.fixed else point
        if config is None or config in self.tried or not fits(self.graph, config):
            return left
        seconds = cost(self.graph, config)
        if self.scored and seconds > left:
            return left
        self.attempt(config, seconds=seconds, **how)
        return left - seconds

    def attempt(
        self,
        config: Config,
        on: Graph | None = None,
        seconds: float = 0.0,
        previous: Scored | None = None,
        pseudo_labels: Tensor | None = None,
    ) -> None:
        """Solve or train a candidate, and judge it; nothing where the time is up.

        Args:
            pseudo_labels: what it learns of every node, instead of the labels of the training rows.
        """
        if self.scored and self.late():
            return
        self.tried.add(config)
        began, graph = time.perf_counter(), on or self.graph
        before = None if previous is None else previous.candidate.finished(previous.penalty, previous.factor)
        rows = graph if pseudo_labels is None else _all_rows(graph)
        seed = self.seed
        if config.of_layers:  # members draw on their own
            seed = PRESET.seed_step * (self.seed + 1) + len(self.trials)
        try:
            with threads_by_cost(seconds):
                candidate = Candidate(rows, config, seed, self._shared, before, pseudo_labels)
                one = self.validation.score(candidate)
        except InputError as error:  # a candidate that this graph does not admit
            self.refusal = error.with_traceback(None)  # its frames would hold the candidate's tensors
            return
        except torch.linalg.LinAlgError:  # type: ignore[reportPrivateImportUsage] - numbers too large or too close
            return
        if one is None:
            return
        # Dozens of candidates on many rows would fill the memory.
        candidate.forget_rows(None if self._again and not candidate.final else one.penalty)
        self._forget_hops(walk_of(config))
        self.scored.append(one)
        value = graph.objective.merit(one.merit)
        settings = candidate.settings | ({} if on is None else {"class_weight": BALANCED})
        self.trials.append(Trial(settings, value, time.perf_counter() - began))
        if self.on_trial:
            self.on_trial(settings, value)

    def _try_previous(self, left: float) -> float:
        """Networks on what one of the two best predicts for the neighbours."""
        nets = [one for one in self._ranked() if one.candidate.config.coefficients != "random"]
        typed = self.graph.typed is not None
        free = [one for one in nets if may_come_before(one.candidate.config, typed)]
        for one in free[:2]:
            before = len(self.scored)
            average = chosen_members(self.scored, self.validation, self.by_metric)
            for point in second_points(self.graph, one.candidate.config):
                left = self._afford(point, left, previous=one)
            if not any(self.validation.gains(average, other) for other in self.scored[before:]):
                break
        return left

    def _self_train(self, left: float) -> float:
        """Candidates that learn what the average so far says of all nodes, as long as it gets better."""
        reached = float("inf")
        for _ in range(PRESET.rounds):
            chosen = chosen_members(self.scored, self.validation, self.by_metric)
            loss = self.validation.loss(mean_scores(chosen, self.validation))
            if loss >= reached or self.late():
                break
            reached = loss
            labels = self._pseudo_labels(finished([Member(one, 1.0, one) for one in chosen], chosen))
            every = _all_rows(self.graph)
            for config in self_training_points(self.graph, [one.candidate.config for one in self._ranked()]):
                seconds = cost(every, config)
                if seconds <= left:
                    left -= seconds
                    self.attempt(config, seconds=seconds, pseudo_labels=labels)
        self._shared = {key: held for key, held in self._shared.items() if key[0] != "learned"}
        return left

    @torch.no_grad()
    def _pseudo_labels(self, model: Any) -> Tensor:
        """Of every node: its label where that is known, the model's sharpened probabilities elsewhere."""
        graph = self.graph
        every = torch.arange(graph.num_nodes)
        p = model_on(model, graph, self._shared)(every).probabilities.double().pow(PRESET.sharper)
        p = p / p.sum(dim=1, keepdim=True).clamp(min=torch.finfo(p.dtype).tiny)
        p[graph.train] = nn.functional.one_hot(graph.y[graph.train], graph.num_outputs).to(p)
        return p


def _all_rows(graph: Graph) -> Graph:
    return replace(graph, train=torch.arange(graph.num_nodes, device=graph.y.device))


# Choose what the user left open, train, and give the head every labelled row there is.


SOLVED_AGAIN = "the settings chosen, the head was solved again with the held-out rows too (see validation_score_)."


def train(
    graph: Graph,
    start: Config,
    fixed: dict[str, Any],
    seed: int,
    device: str,
    *,
    search: bool,
    time_budget: float | None = None,
    scoring: str | None = None,
    class_weight: Any = None,
    on_trial: OnTrial | None = None,
    on_epoch: Callable[[], None] | None = None,
) -> Trained:
    began = time.perf_counter()
    first = first_point(graph, start, fixed)
    # A head that is trained needs rows to stop by, a pretrained embedding rows that it has not seen.
    solved = first.head == "ridge" and EMBEDDINGS[first.embedding].trained == "never"
    few = (search or not first.of_layers) and solved and 0 < len(graph.train) <= PRESET.left_out_rows
    given, graph = graph.to(device), (graph if few else hold_out(graph, seed)).to(device)
    graph = with_goal(graph, scoring, class_weight)
    if not search and first.of_layers:
        return _without_search(graph, given, start, fixed, seed, on_epoch)
    if not solved and not len(graph.val):
        raise InputError("a head that is trained needs validation rows: leave its settings out, or give more rows.")
    if not few and not len(graph.val):
        raise InputError("no row is left to judge by: there is one row of each class, and prediction needs more.")
    held_out = len(graph.train) < len(given.train)
    everything = replace(graph, train=given.train, val=given.val) if held_out and solved else None
    # A metric of the user's own may be one that rare classes decide.
    reweigh = graph.objective.scoring is not None and class_weight is None and graph.objective.metric == "accuracy"
    allowance = training_cost(graph) if time_budget is None else float("inf")

    def late() -> bool:
        return time_budget is not None and time.perf_counter() - began > time_budget

    the_search = Search(graph, start, fixed, seed, late, on_trial, alone=not solved)
    trained = the_search.run(allowance, reweigh, everything, first_only=not search)
    if everything is None:  # rows that were held out have not come back
        given = replace(given, train=graph.train, val=graph.val, notes=graph.notes)
    else:
        given = replace(given, notes=(*graph.notes, SOLVED_AGAIN))
    return replace(trained, graph=given)


def _without_search(
    graph: Graph, given: Graph, start: Config, fixed: dict[str, Any], seed: int, on_epoch: Callable[[], None] | None
) -> Trained:
    config = first_point(graph, start, fixed)
    fitted = fit_rap(graph, config, seed, on_epoch)
    merit, weights = fitted.loop.best, graph.objective.class_weight
    score = float("nan") if merit is None else graph.objective.merit(merit[0])
    judged = Judged(fitted.predict(graph.val).probabilities, graph.y[graph.val], graph.objective.title)
    if len(graph.train) < len(given.train) and config.head == "ridge":
        # Once its penalty is chosen, a head in closed form needs no validation rows.
        notes, chosen = graph.notes, fitted.model.head
        assert isinstance(chosen, RidgeHead)
        everything = replace(graph, train=given.train, val=given.val)
        fitted = fit_rap(everything, config.update(ridge=chosen.penalty), seed)
        head: Any = fitted.model.head
        head.multiply(chosen.inverse_temperature / head.inverse_temperature)
        graph = replace(given, notes=(*notes, SOLVED_AGAIN))
    return Trained(fitted, graph, (), score, judged, weights)
