"""A search as every process sees it: its plan, and the study in SQLite that keeps every trial."""

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rapgnn.errors import InputError, OutputError
from rapgnn.files import check_writable, locked, new_folder
from rapgnn.graph.graph import Graph
from rapgnn.models.config import Config

ORIGIN = "origin"  # marks the trial that is the estimator's own choice
LOCK_SECONDS = 60.0  # how long to wait for another process that writes
OPENINGS = 5  # of a file that another process makes at the same moment, where folders cannot be locked


class OutOfTimeError(Exception):
    """The time of a search is up in the middle of a training."""


@dataclass(frozen=True)
class SearchPlan:
    """What every process that works on one study knows.

    Args:
        embedding: None: part of the search.
        study: its name in the file ``storage``.
        trials: how many finished trials it shall hold.
        confirm: how many of the best trials are run again.
        deadline: the time of day (``time.time()``) after which nothing begins, and what is being trained is given up;
            None: there is time for everything.
        trials_until: that after which no trial begins, so that time is left to decide among the best.
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
    trials_until: float | None = None

    def open(self) -> Any:
        """The study, made if it is not there."""
        check_writable(self.storage)
        folder = self.storage.absolute().parent
        with storing(self.storage), new_folder(folder), locked(folder):  # one process makes the tables, not two
            for attempt in range(OPENINGS):
                try:
                    return self._create()
                except Exception:  # tables that appear in between are reported in many ways
                    if attempt + 1 == OPENINGS or not _is_empty_or_ours(self.storage):
                        raise
                    time.sleep(0.2)
        raise AssertionError

    def _create(self) -> Any:
        return import_optuna().create_study(
            study_name=self.study,
            storage=open_storage(self.storage),
            direction="maximize" if self.graph.objective.higher else "minimize",
            load_if_exists=True,
        )

    def wants_more(self, study: Any) -> bool:
        """Whether another trial is due; a search that is late still has one."""
        ended = count_ended(study)
        until = self.deadline if self.trials_until is None else self.trials_until
        return ended < self.trials and (until is None or time.time() < until or not ended)

    @property
    def late(self) -> bool:
        """Whether the time is up."""
        return self.deadline is not None and time.time() >= self.deadline

    def best(self, study: Any) -> list[Any]:
        """The finished trials that may be chosen, best first; the estimator's own choice is always one of them."""
        merit = self.graph.objective.merit
        ranked = sorted(finished(study), key=lambda t: -merit(t.value))
        best = ranked[: max(1, self.confirm)]
        return [*best, *(t for t in ranked[len(best) :] if ORIGIN in t.user_attrs)]


def trial_records(storage: Path) -> list[dict[str, Any]]:
    """Every trial of every study in the file, as flat records."""
    optuna = import_optuna()
    records = []
    opened = open_storage(storage)
    for name in optuna.get_all_study_names(opened):
        for trial in optuna.load_study(study_name=name, storage=opened).trials:
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
    optuna = import_optuna()
    from sqlalchemy.pool import QueuePool  # comes with optuna

    def connect() -> sqlite3.Connection:  # by its path: in a URL ?, % and { have meanings of their own
        return sqlite3.connect(storage.absolute(), timeout=LOCK_SECONDS, check_same_thread=False)

    return optuna.storages.RDBStorage("sqlite://", engine_kwargs={"creator": connect, "poolclass": QueuePool})


@contextmanager
def storing(storage: Path) -> Iterator[None]:
    """What the database cannot do is one sentence: it is none, or it cannot be written."""
    optuna = import_optuna()
    from sqlalchemy.exc import DatabaseError

    try:
        yield
    except (sqlite3.DatabaseError, optuna.exceptions.StorageInternalError, DatabaseError) as error:
        said = " ".join(str(e) for e in (error, error.__cause__, getattr(error, "orig", None)))
        for sign, reason in (("is full", "the disk is full"), ("I/O error", "the disk fails"), ("readonly", None)):
            if sign in said:
                raise OutputError(f"cannot write {storage}: {reason or 'it may only be read'}.") from error
        if "locked" in said:
            raise OutputError(f"cannot write {storage}: another process has been writing to it for long.") from error
        raise InputError(f"{storage} is not a database of trials: name another file with --storage.") from error


def _is_empty_or_ours(storage: Path) -> bool:
    """Whether the file begins as SQLite's do, or is still to be written."""
    try:
        with storage.open("rb") as file:
            return file.read(16) in (b"", b"SQLite format 3\0")
    except OSError:
        return False


def import_optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise InputError("tuning needs optuna: install it with pip install 'rapgnn[tune]'.") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna
