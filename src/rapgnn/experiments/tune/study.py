"""A search as every process sees it: its plan, and the study in SQLite that keeps every trial."""

import json
import sqlite3
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rapgnn.errors import InputError
from rapgnn.graph.graph import Graph
from rapgnn.models.config import Config

LOCK_SECONDS = 60.0  # how long to wait for another process that writes


@dataclass(frozen=True)
class SearchPlan:
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
                direction="maximize" if self.graph.objective.higher else "minimize",
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
        merit = self.graph.objective.merit
        return sorted(finished(study), key=lambda t: -merit(t.value))[: max(1, self.confirm)]


def trial_records(storage: Path) -> list[dict[str, Any]]:
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
    """Trials that came to an end; one that was killed while running does not count; another takes its place."""
    state = import_optuna().trial.TrialState
    return len(study.get_trials(deepcopy=False, states=(state.COMPLETE, state.PRUNED)))


def finished(study: Any) -> list[Any]:
    """Trials that have a value."""
    return study.get_trials(deepcopy=False, states=(import_optuna().trial.TrialState.COMPLETE,))


def open_storage(storage: Path) -> Any:
    """The SQLite file, opened so that it waits for other processes that write to it."""
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
