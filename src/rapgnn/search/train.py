"""Choose what the user left open, train, and give the head every labelled row there is."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from rapgnn.errors import InputError
from rapgnn.graph.graph import Graph
from rapgnn.graph.nodes import hold_out
from rapgnn.graph.scores import with_goal
from rapgnn.network.config import Config
from rapgnn.network.embedding import EMBEDDINGS
from rapgnn.network.ridge import RidgeHead
from rapgnn.search.costs import training_cost
from rapgnn.search.preset import PRESET
from rapgnn.search.search import OnTrial, Search, Trial
from rapgnn.search.start import first_point
from rapgnn.training.fit import Fitted, fit_rap
from rapgnn.training.loop import Loop
from rapgnn.training.predict import model_on

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
    """Train on a checked graph.

    Args:
        start: the settings that nothing else decides.
        fixed: those that the user has set.
        search, time_budget, scoring, class_weight: as in the estimators.
        on_trial, on_epoch: told of every candidate; called after every epoch where there is no search.
    """
    began = time.perf_counter()
    first = first_point(graph, start, fixed)
    # A head that is trained needs rows to stop by, a pretrained embedding rows that it has not seen.
    solved = first.head == "ridge" and EMBEDDINGS[first.embedding].trained == "never"
    few = (search or first.coefficients != "random") and solved and 0 < len(graph.train) <= PRESET.left_out_rows
    given, graph = graph.to(device), (graph if few else hold_out(graph, seed)).to(device)
    graph = with_goal(graph, scoring, class_weight)
    if not search and first.coefficients == "random":
        return _without_search(graph, given, start, fixed, seed, on_epoch)
    if not solved and not len(graph.val):
        raise InputError("a head that is trained needs validation rows: leave its settings out, or give more rows.")
    held_out = len(graph.train) < len(given.train)
    everything = replace(graph, train=given.train, val=given.val) if held_out and solved else None
    # A metric of the user's own may be one that rare classes decide.
    reweigh = graph.objective.scoring is not None and class_weight is None and graph.objective.metric == "accuracy"
    late = lambda: time_budget is not None and time.perf_counter() - began > time_budget  # noqa: E731
    allowance = training_cost(graph) if time_budget is None else float("inf")
    found = Search(graph, start, fixed, seed, late, on_trial, alone=not solved)
    found = found.run(allowance, reweigh, everything, first_only=not search)
    loop = Loop(0, 1, 1e3 * (time.perf_counter() - began), 0.0)
    fitted = Fitted(found.model, model_on(found.model, graph), loop, found.engine, found.reason, "auto")
    weights, notes = graph.objective.class_weight, graph.notes
    if everything is None:  # rows that were held out have not come back
        given = replace(given, train=graph.train, val=graph.val)
    else:
        notes = (*notes, SOLVED_AGAIN)
    return Trained(fitted, replace(given, notes=notes), found.trials, found.score, weights)


def _without_search(
    graph: Graph, given: Graph, start: Config, fixed: dict[str, Any], seed: int, on_epoch: Callable[[], None] | None
) -> Trained:
    """One training of the first point."""
    config = first_point(graph, start, fixed)
    fitted = fit_rap(graph, config, seed, on_epoch)
    merit, weights = fitted.loop.best, graph.objective.class_weight
    score = float("nan") if merit is None else graph.objective.merit(merit[0])
    if len(graph.train) < len(given.train) and config.head == "ridge":
        # Once its penalty is chosen, a head in closed form needs no validation rows.
        notes, chosen = graph.notes, fitted.model.head
        assert isinstance(chosen, RidgeHead)
        everything = replace(graph, train=given.train, val=given.val)
        fitted = fit_rap(everything, config.update(ridge=chosen.penalty), seed)
        head: Any = fitted.model.head
        head.multiply(chosen.inverse_temperature / head.inverse_temperature)
        graph = replace(given, notes=(*notes, SOLVED_AGAIN))
    return Trained(fitted, graph, (), score, weights)
