"""Hyperparameter search on validation alone: every trial stored, resumable, one budget for all methods."""

import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rapgnn.errors import InputError, check_choice
from rapgnn.estimators.start import start_config
from rapgnn.experiments.run import Record
from rapgnn.experiments.tune.first import add_first_trial
from rapgnn.experiments.tune.space import ANY, SPACES, default_embedding, default_space
from rapgnn.experiments.tune.study import ORIGIN, SearchPlan, count_ended, finished, storing
from rapgnn.experiments.tune.trials import confirmed, run_trials
from rapgnn.experiments.tune.workers import run_workers
from rapgnn.graph.graph import Graph
from rapgnn.layers.embedding import EMBEDDINGS
from rapgnn.models.config import Config
from rapgnn.training.methods import METHODS

DECIDING = 0.2  # share of the time that is kept for the runs that decide among the best


def search(
    graph: Graph,
    method: str,
    storage: Path,
    *,
    trials: int,
    seeds: int = 3,
    space: str | None = None,
    embedding: str | None = None,
    base: Config | None = None,
    confirm: int = 5,
    minutes: float | None = None,
    workers: int = 1,
    on_trial: Callable[[int, float], None] | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Record:
    """Search until the study holds ``trials`` finished trials, then decide among the best on further seeds.

    In the space ``"any"`` the first trial for RAP-GNN is what the estimator's search chooses, and it is always among
    those to decide between.

    Args:
        storage: the SQLite file; a study that is already there is gone on with.
        seeds: a trial's value is the mean validation metric over so many seeds.
        space: a name from ``SPACES``; None takes the paper's for its datasets, ``"any"`` elsewhere.
        embedding: None leaves it to the search in the space ``"any"``, and is ``"pretrained"`` in the others.
        confirm: how many of the best trials are run again on five further seeds; the test nodes stay untouched.
        minutes: the time for everything, even if there are fewer than ``trials`` by then: the last fifth is kept for
            the runs that decide among the best, and what is being trained when the time is up is given up.
        workers: processes that work on the study; together they may end ``workers - 1`` trials too many. Scripts that
            ask for more than one must be safe to import (``if __name__ == "__main__"``).
        on_trial: told how many trials ended and the best value so far.
        say: told, a line at a time, what became of workers that died.

    Returns:
        The chosen trial: ``settings``, ``val_mean``, ``val_values``, ``origin`` (the ``"estimator"`` or the
        ``"search"``), ``trials`` and the study's name.
    """
    space = default_space(graph) if space is None else space
    check_choice("search space", space, SPACES)
    embedding = default_embedding(space) if embedding is None else embedding
    if embedding is not None:
        check_choice("embedding", embedding, EMBEDDINGS)
    if workers < 1:
        raise InputError(f"the number of workers must be at least 1, got {workers}.")
    if not len(graph.val):
        raise InputError("a search needs validation rows, and this graph has none.")
    now = time.time()
    plan = SearchPlan(
        graph=graph,
        method=method,
        embedding=embedding,
        space=space,
        seeds=seeds,
        base=base or start_config(graph, METHODS[method].trained),
        storage=storage,
        # Another graph, or another number of seeds, is another study, whatever the names.
        study=f"{graph.name}/{method}/{embedding or ANY}/{space}/{seeds} seeds/{graph.fingerprint()}{_goal(graph)}",
        trials=trials,
        confirm=confirm,
        deadline=None if minutes is None else now + 60 * minutes,
        trials_until=None if minutes is None else now + 60 * minutes * (1 - DECIDING),
    )
    with storing(storage):
        return _search(plan, workers, on_trial, say)


def _search(
    plan: SearchPlan, workers: int, on_trial: Callable[[int, float], None] | None, say: Callable[[str], None]
) -> Record:
    study, graph = plan.open(), plan.graph

    def tell() -> None:
        if on_trial:
            values = [t.value for t in finished(study)]
            on_trial(count_ended(study), max(values, key=graph.objective.merit, default=float("nan")))

    if workers > 1:
        run_workers(plan, workers, tell, say)
    add_first_trial(plan, study)  # unless a worker did
    tell()
    run_trials(plan, study, tell)  # whatever is left to do
    if not finished(study):
        refused = json.loads(study.trials[-1].user_attrs.get("refused", '"no reason given"'))
        raise InputError(f"not one of {plan.trials} trials could run: {refused}")
    chosen = _decide(plan, study, say)
    return (
        {"dataset": graph.name, "method": plan.method}
        | {"embedding": chosen["settings"]["embedding"], "space": plan.space}
        | {"study": plan.study, "metric": graph.objective.chosen_by}
        | chosen
        | {"trials": len(finished(study))}
    )


def _goal(graph: Graph) -> str:
    """What a study's name says about a goal of the user's own."""
    rule = graph.objective
    weights = "" if rule.class_weight is None else f"/{' '.join(f'{w:.4g}' for w in rule.class_weight)}"
    return ("" if rule.scoring is None else f"/{rule.scoring}") + weights


def _decide(plan: SearchPlan, study: Any, say: Callable[[str], None]) -> Record:
    """The best of the best trials on further seeds; where there is no time for these, on the search's own."""
    best, merit = plan.best(study), plan.graph.objective.merit
    further = [confirmed(plan, study, trial) for trial in best]
    if None in further:
        say("the time is up: the trials' own seeds decide, further ones were not run for all of the best.")
    candidates = []
    for trial, values in zip(best, further, strict=True):
        own = json.loads(trial.user_attrs["val_values"])
        found = own if None in further else own + (values or [])
        settings = json.loads(trial.user_attrs["settings"])
        origin = "estimator" if ORIGIN in trial.user_attrs else "search"
        candidates.append(
            {"trial": trial.number, "settings": settings, "val_mean": statistics.fmean(found), "val_values": found}
            | {"origin": origin}
        )
    return max(candidates, key=lambda c: merit(c["val_mean"]))
