"""Hyperparameter search on validation alone: every trial kept in SQLite, resumable, one budget for all strategies."""

import json
import sqlite3
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from rapgnn.errors import InputError, check_choice
from rapgnn.experiments.run import Record, run
from rapgnn.experiments.tune.space import ANY, SPACES, default_embedding, default_space, suggest
from rapgnn.experiments.tuned import base_config
from rapgnn.graph.graph import Graph
from rapgnn.layers.embedding import EMBEDDINGS
from rapgnn.models.config import Config

CONFIRM_SEED = 100  # the seeds that decide among the best trials are not those of the search
SAMPLER_STEP = 1 << 20  # between the seeds of two workers' samplers
LOCK_SECONDS = 60.0  # how long to wait for another process that writes


@dataclass(frozen=True)
class Search:
    """What every process that works on one study knows.

    Args:
        embedding: None: part of the search.
        study: its name in the file ``storage``.
        trials: how many finished trials it shall hold.
        confirm: how many of the best trials are run again.
        deadline: the time of day (``time.time()``) after which no new trial begins.
    """

    graph: Graph
    method: str
    embedding: str | None
    space: str
    seeds: int
    base: Config
    storage: Path
    study: str
    trials: int
    confirm: int
    deadline: float | None

    def open(self) -> Any:
        """The study, made if it is not there."""
        optuna = import_optuna()
        try:
            return optuna.create_study(
                study_name=self.study,
                storage=open_storage(self.storage),
                direction="maximize" if self.graph.rule.higher else "minimize",
                load_if_exists=True,
            )
        except (sqlite3.DatabaseError, optuna.exceptions.StorageInternalError, _sqlalchemy_error()) as error:
            raise InputError(
                f"{self.storage} is not a database of trials: name another file with --storage."
            ) from error

    def wants_more(self, study: Any) -> bool:
        """Whether another trial is due; a search that is late still has one."""
        ended = count_ended(study)
        in_time = self.deadline is None or time.time() < self.deadline
        return ended < self.trials and (in_time or not ended)

    def best(self, study: Any) -> list[Any]:
        """The finished trials that may be chosen, best first."""
        merit = self.graph.rule.merit
        return sorted(finished(study), key=lambda t: -merit(t.value))[: max(1, self.confirm)]


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
    plan = Search(
        graph=graph,
        method=method,
        embedding=embedding,
        space=space,
        seeds=seeds,
        base=base or base_config(graph, method),
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
            on_trial(count_ended(study), max(values, key=graph.rule.merit, default=float("nan")))

    if workers > 1:
        from rapgnn.experiments.tune.workers import run_workers

        run_workers(plan, workers, tell, say)
    work(plan, study, tell)  # whatever is left to do
    if not finished(study):
        refused = json.loads(study.trials[-1].user_attrs.get("refused", '"no reason given"'))
        raise InputError(f"not one of {trials} trials could run: {refused}")
    chosen = None
    for trial in plan.best(study):
        settings = json.loads(trial.user_attrs["settings"])
        values = json.loads(trial.user_attrs["val_values"]) + confirmed(plan, study, trial)
        mean = statistics.fmean(values)
        if chosen is None or graph.rule.merit(mean) > graph.rule.merit(chosen["val_mean"]):
            chosen = {"trial": trial.number, "settings": settings, "val_mean": mean, "val_values": values}
    assert chosen is not None
    return (
        {"dataset": graph.name, "method": method, "embedding": chosen["settings"]["embedding"], "space": space}
        | {"study": plan.study, "metric": graph.rule.metric}
        | chosen
        | {"trials": len(finished(study))}
    )


def work(
    plan: Search,
    study: Any,
    tell: Callable[[], None] = lambda: None,
    worker: int = 0,
    wanted: Callable[[], bool] = lambda: True,
) -> None:
    """Run one trial after another until the study needs no more.

    Args:
        tell: called after every trial.
        worker: the number of this process, which decides where its random sequence begins.
        wanted: whether anybody still waits for the result.
    """
    optuna = import_optuna()
    # A resumed study goes on from another point of the random sequence instead of repeating its beginning.
    seed = len(study.trials) + SAMPLER_STEP * worker
    study.sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=20)
    while wanted() and plan.wants_more(study):
        study.optimize(lambda trial: _value(plan, trial), n_trials=1)
        tell()


def _value(plan: Search, trial: Any) -> float:
    """The mean validation metric of one point of the space."""
    optuna = import_optuna()
    settings = suggest(trial, plan.method, plan.embedding, plan.space, plan.graph)
    trial.set_user_attr("settings", json.dumps(settings))
    try:
        record = run(plan.method, plan.graph, plan.base.update(**settings), range(plan.seeds), splits=("val",))
    except (InputError, torch.linalg.LinAlgError, torch.OutOfMemoryError) as error:  # type: ignore[reportPrivateImportUsage]
        # A point of the space that this graph does not admit, such as the ridge head without the shortcut.
        trial.set_user_attr("refused", json.dumps(str(error)))
        raise optuna.TrialPruned from error
    for key in ("val_values", "fit_seconds", "train_ms_per_epoch", "engine", "epochs"):
        trial.set_user_attr(key, json.dumps(record[key]))
    if record["val_mean"] != record["val_mean"]:
        trial.set_user_attr("refused", json.dumps("the validation nodes give no metric (one class only)."))
        raise optuna.TrialPruned
    return record["val_mean"]


def confirmed(plan: Search, study: Any, trial: Any) -> list[float]:
    """The trial's values on further seeds, kept with the study; none where one trial is all there is to choose from."""
    if plan.confirm <= 1:
        return []
    key = f"confirmed {trial.number}"
    kept = study.user_attrs.get(key)
    if kept is None:
        settings = json.loads(trial.user_attrs["settings"])
        again = range(CONFIRM_SEED, CONFIRM_SEED + (1 if plan.graph.folds else 5))
        record = run(plan.method, plan.graph, plan.base.update(**settings), again, splits=("val",))
        kept = json.dumps(record["val_values"])
        study.set_user_attr(key, kept)
    return json.loads(kept)


def trial_records(storage: Path) -> list[Record]:
    """Every trial of every study in the file, as flat records."""
    optuna = import_optuna()
    records = []
    for name in optuna.get_all_study_names(f"sqlite:///{storage}"):
        for trial in optuna.load_study(study_name=name, storage=f"sqlite:///{storage}").trials:
            attributes = {key: json.loads(value) for key, value in trial.user_attrs.items()}
            records.append(
                {"study": name, "trial": trial.number, "state": trial.state.name, "value": trial.value} | attributes
            )
    return records


def count_ended(study: Any) -> int:
    """Trials that came to an end; one that was killed while running does not count and is made up for."""
    state = import_optuna().trial.TrialState
    return len(study.get_trials(deepcopy=False, states=(state.COMPLETE, state.PRUNED)))


def finished(study: Any) -> list[Any]:
    """Trials that have a value."""
    return study.get_trials(deepcopy=False, states=(import_optuna().trial.TrialState.COMPLETE,))


def open_storage(storage: Path) -> Any:
    """The SQLite file, patient with other processes that write to it."""
    wait = {"connect_args": {"timeout": LOCK_SECONDS}}
    return import_optuna().storages.RDBStorage(f"sqlite:///{storage}", engine_kwargs=wait)


def _sqlalchemy_error() -> type[Exception]:
    from sqlalchemy.exc import DatabaseError  # comes with optuna

    return DatabaseError


def import_optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise InputError("tuning needs optuna: install it with pip install 'rapgnn[tune]'.") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna
