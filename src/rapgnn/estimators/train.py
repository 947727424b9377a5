"""Choose what the user left open, train, and give the head every labelled row there is."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from rapgnn.errors import InputError
from rapgnn.estimators.average import Trial, choose_average
from rapgnn.estimators.costs import training_cost
from rapgnn.estimators.members import needs_no_validation
from rapgnn.estimators.select import OnTrial, Settings, choose
from rapgnn.estimators.start import plain_config
from rapgnn.graph.graph import Graph
from rapgnn.graph.nodes import hold_out
from rapgnn.graph.scores import with_goal
from rapgnn.layers.ridge import RidgeHead
from rapgnn.models.config import Config
from rapgnn.models.net_config import NetConfig
from rapgnn.training.fit import Fitted, fit_rap
from rapgnn.training.loop import Loop
from rapgnn.training.predict import model_on

FREE = {"ridge"}  # a penalty that is not given is chosen
SOLVED_AGAIN = "the settings chosen, the head was solved again with the held-out rows too (see validation_score_)."


@dataclass(frozen=True)
class Trained:
    """The trained model, the graph with the splits it was trained on, the candidates, the metric on validation, and how
    much a row of each class counted (None: all the same)."""

    fitted: Fitted
    graph: Graph
    trials: tuple[Trial, ...]
    validation_score: float
    class_weight: tuple[float, ...] | None = None


def train(
    graph: Graph,
    start: Config,
    fixed: Settings,
    seed: int,
    device: str,
    *,
    network: NetConfig | None = None,
    search: bool,
    time_budget: float | None = None,
    scoring: str | None = None,
    class_weight: Any = None,
    on_trial: OnTrial | None = None,
    on_epoch: Callable[[], None] | None = None,
) -> Trained:
    """Train on a checked graph.

    Args:
        start: the settings that nothing else decides.
        fixed: those that the user has set.
        network: the one random network that the user wants, instead of a search.
        search, time_budget, scoring, class_weight: as in the estimators.
        on_trial, on_epoch: told of every candidate; called after every epoch where there is no search.
    """
    open_to_all = search and set(fixed) <= FREE and all(fixed[name] is None for name in fixed)
    open_to_all = open_to_all or network is not None
    trained = network is not None and network.hidden > 0  # a head that is trained needs rows to stop by
    few = open_to_all and not trained and needs_no_validation(graph)
    given, graph = graph.to(device), (graph if few else hold_out(graph, seed)).to(device)
    graph = with_goal(graph, scoring, class_weight)
    # A metric of the user's own may be one that rare classes decide.
    reweigh = graph.objective.scoring is not None and class_weight is None and graph.objective.metric == "accuracy"
    if open_to_all:
        if trained and not len(graph.val):
            raise InputError("a head that is trained needs validation rows: leave hidden out, or give more rows.")
        return _average(graph, given, start, seed, time_budget, on_trial, reweigh, network)
    if search:
        found = choose(graph, start, fixed, seed, time_budget, on_trial, reweigh)
        fitted, config, trials, graph = found.fitted, found.config, found.trials, found.graph
    else:
        config = plain_config(graph, start, fixed)
        fitted, trials = fit_rap(graph, config, seed, on_epoch), ()
    merit = fitted.loop.best
    weights = graph.objective.class_weight
    score = float("nan") if merit is None else graph.objective.merit(merit[0])
    if len(graph.train) < len(given.train) and config.head == "ridge":
        notes = graph.notes
        fitted = _with_all_rows(fitted, replace(graph, train=given.train, val=given.val), config, seed)
        graph = replace(given, notes=(*notes, SOLVED_AGAIN))
    return Trained(fitted, graph, trials, score, weights)


def _average(
    graph: Graph,
    given: Graph,
    start: Config,
    seed: int,
    time_budget: float | None,
    on_trial: OnTrial | None,
    reweigh: bool,
    network: NetConfig | None,
) -> Trained:
    """The average of the best candidates; solved heads get the rows that were held out to judge in the end."""
    began = time.perf_counter()
    allowance = training_cost(graph) if time_budget is None else float("inf")
    everything = None
    notes = graph.notes
    if len(graph.train) < len(given.train) and not (network is not None and network.hidden):
        everything = replace(graph, train=given.train, val=given.val)
        notes = (*notes, SOLVED_AGAIN)
    found = choose_average(
        graph,
        start,
        seed,
        allowance,
        lambda: time_budget is not None and time.perf_counter() - began > time_budget,
        on_trial,
        reweigh,
        everything,
        network,
    )
    took = 1e3 * (time.perf_counter() - began)
    fitted = Fitted(
        found.model, model_on(found.model, graph), Loop(0, 1, took, 0.0), found.engine, found.reason, "auto"
    )
    weights = graph.objective.class_weight
    if everything is None:  # rows that were held out have not come back
        given = replace(given, train=graph.train, val=graph.val)
    return Trained(fitted, replace(given, notes=notes), found.trials, found.score, weights)


def _with_all_rows(fitted: Fitted, graph: Graph, config: Config, seed: int) -> Fitted:
    """A head in closed form needs no validation rows once its penalty is chosen: solve again with all training rows."""
    chosen = fitted.model.head
    assert isinstance(chosen, RidgeHead)
    again = fit_rap(graph, config.update(ridge=chosen.penalty), seed)
    again.model.head.sharpness.copy_(chosen.sharpness)  # type: ignore[union-attr]
    return again
