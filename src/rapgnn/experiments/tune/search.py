"""Hyperparameter search on validation alone: every trial stored, resumable, one budget for all methods."""

import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from rapgnn.errors import InputError, check_choice
from rapgnn.estimators.start import start_config
from rapgnn.experiments.run import Record
from rapgnn.experiments.tune.space import ANY, SPACES, default_embedding, default_space
from rapgnn.experiments.tune.study import SearchPlan, count_ended, finished
from rapgnn.experiments.tune.trials import confirmed, run_trials
from rapgnn.experiments.tune.workers import run_workers
from rapgnn.graph.graph import Graph
from rapgnn.layers.embedding import EMBEDDINGS
from rapgnn.models.config import Config
from rapgnn.training.methods import METHODS


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

    Args:
        storage: the SQLite file; a study that is already there is gone on with.
        seeds: a trial's value is the mean validation metric over so many seeds.
        space: a name from ``SPACES``; None takes the paper's for its datasets, ``"any"`` elsewhere.
        embedding: None leaves it to the search in the space ``"any"``, and is ``"pretrained"`` in the others.
        confirm: how many of the best trials are run again on five further seeds; the test nodes stay untouched.
        minutes: begin no new trial after so long, even if there are fewer than ``trials``.
        workers: processes that work on the study; together they may end ``workers - 1`` trials too many. Scripts that
            ask for more than one must be safe to import (``if __name__ == "__main__"``).
        on_trial: told how many trials ended and the best value so far.
        say: told, a line at a time, what became of workers that died.

    Returns:
        The chosen trial: ``settings``, ``val_mean``, ``val_values``, ``trials`` and the study's name.
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
    storage.parent.mkdir(parents=True, exist_ok=True)
    plan = SearchPlan(
        graph=graph,
        method=method,
        embedding=embedding,
        space=space,
        seeds=seeds,
        base=base or start_config(graph, METHODS[method].trained),
        storage=storage,
        # Another graph, or another number of seeds, is another study, whatever the names.
        study=f"{graph.name}/{method}/{embedding or ANY}/{space}/{seeds} seeds/{graph.fingerprint()}",
        trials=trials,
        confirm=confirm,
        deadline=None if minutes is None else time.time() + 60 * minutes,
    )
    study = plan.open()

    def tell() -> None:
        if on_trial:
            values = [t.value for t in finished(study)]
            on_trial(count_ended(study), max(values, key=graph.objective.merit, default=float("nan")))

    if workers > 1:
        run_workers(plan, workers, tell, say)
    run_trials(plan, study, tell)  # whatever is left to do
    if not finished(study):
        refused = json.loads(study.trials[-1].user_attrs.get("refused", '"no reason given"'))
        raise InputError(f"not one of {trials} trials could run: {refused}")
    chosen = None
    for trial in plan.best(study):
        settings = json.loads(trial.user_attrs["settings"])
        values = json.loads(trial.user_attrs["val_values"]) + confirmed(plan, study, trial)
        mean = statistics.fmean(values)
        if chosen is None or graph.objective.merit(mean) > graph.objective.merit(chosen["val_mean"]):
            chosen = {"trial": trial.number, "settings": settings, "val_mean": mean, "val_values": values}
    assert chosen is not None
    return (
        {"dataset": graph.name, "method": method, "embedding": chosen["settings"]["embedding"], "space": space}
        | {"study": plan.study, "metric": graph.objective.metric}
        | chosen
        | {"trials": len(finished(study))}
    )
