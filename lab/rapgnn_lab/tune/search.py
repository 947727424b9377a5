"""Hyperparameter search on validation alone: every trial stored, resumable, one budget for all methods.

Several processes may work on one study: the command is started several times. They share nothing but its SQLite file,
so any of them may die at any moment; a failure of the file is one sentence.
"""

import math
import sqlite3
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import optuna
import torch
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy.exc import DatabaseError
from sqlalchemy.pool import QueuePool

from rapgnn.compare import Record, run
from rapgnn.errors import InputError, OutputError
from rapgnn.files import check_writable, locked, new_folder
from rapgnn.graph.graph import Graph
from rapgnn.graph.rows import BALANCED, with_goal
from rapgnn.search.average import ranked
from rapgnn.search.costs import training_cost
from rapgnn.search.search import ENDLESS
from rapgnn.search.search import Search as EstimatorSearch
from rapgnn.search.start import start_config
from rapgnn_lab.baselines.systems import METHODS
from rapgnn_lab.tune.space import ANY, suggest

DECIDING = 0.2  # share of the time that is left for the runs that decide among the best
FIRST = 0.5  # share of the time that the estimator's own search may take
FIRST_TRIED = "estimator's choice"  # marks a study that has had it
CONFIRM_SEED = 100  # the seeds that decide among the best trials are not those of the search
LOCK_SECONDS = 60.0  # how long to wait for another process that writes
CLASS_WEIGHT = "class_weight"  # a key of settings that is none of ``Config``
STORED = ("val_values", "fit_seconds", "train_ms_per_epoch", "engine", "epochs")

optuna.logging.set_verbosity(optuna.logging.ERROR)


class OutOfTimeError(Exception):
    """The time of a search is up in the middle of a training."""


@dataclass(frozen=True)
class Search:
    """One search, as every process that works on it knows it.

    Args:
        storage: the SQLite file; a study that is already there is gone on with.
        seeds: a trial's value is the mean validation metric over so many seeds.
        embedding: None leaves it to the search in the space ``"any"``, and is the paper's in ``"faithful"``.
        confirm: how many of the best trials are run again on five further seeds; the test nodes stay untouched.
        minutes: the time for everything, even if there are fewer than ``trials`` by then: the last fifth is left for
            the runs that decide among the best, and what is being trained when the time is up is given up.
    """

    graph: Graph
    method: str
    storage: Path
    trials: int
    seeds: int = 3
    space: str = ANY
    embedding: str | None = None
    confirm: int = 5
    minutes: float | None = None
    began: float = field(default_factory=time.time)

    def run(
        self,
        on_trial: Callable[[int, float], None] = lambda count, best: None,
        say: Callable[[str], None] = lambda line: None,
    ) -> Record:
        """Search until the study holds ``trials`` that ended, then decide among the best on further seeds: the chosen
        trial's ``settings``, ``val_mean``, ``val_values``, ``origin`` (``"estimator"`` or ``"search"``), ``trials``."""
        graph = self.graph
        if not len(graph.val):
            raise InputError("a search needs validation rows, and this graph has none.")
        with storing(self.storage):
            study = self.open()

            def tell() -> None:
                values = [t.values[0] for t in finished(study)]
                on_trial(count_ended(study), max(values, key=graph.objective.merit, default=math.nan))

            self.add_first_trial(study)
            tell()
            self.run_trials(study, tell)
            if not finished(study):
                refused = study.trials[-1].user_attrs.get("refused", "no reason given")
                raise InputError(f"not one of {self.trials} trials could run: {refused}")
            chosen = self.decide(study, say)
            embedding = self.embedding or chosen["settings"]["embedding"]
            record = {"dataset": graph.name, "method": self.method, "embedding": embedding, "space": self.space}
            record |= {"study": study.study_name, "metric": graph.objective.chosen_by}
            return record | chosen | {"trials": len(finished(study))}

    def open(self) -> optuna.Study:
        """The study. Another graph, number of seeds or goal is another study, whatever the names."""
        graph, goal = self.graph, self.graph.objective
        name = f"{graph.name}/{self.method}/{self.embedding or ANY}/{self.space}/{self.seeds} seeds/"
        name += graph.fingerprint() + ("" if goal.scoring is None else f"/{goal.scoring}")
        if goal.class_weight is not None:
            name += f"/{' '.join(f'{w:.4g}' for w in goal.class_weight)}"
        return open_study(self.storage, name, goal.higher)

    def seconds_left(self) -> float:
        return math.inf if self.minutes is None else self.began + 60 * self.minutes - time.time()

    def wants_more(self, study: optuna.Study) -> bool:
        """Whether another trial is due; a search that is late still has one."""
        ended = count_ended(study)
        return ended < self.trials and (not ended or self.seconds_left() > DECIDING * 60 * (self.minutes or 0))

    def run_trials(self, study: optuna.Study, tell: Callable[[], None]) -> None:
        with locked(self.storage.absolute().parent):  # processes may begin at the same moment
            others = study.user_attrs.get("processes", 0)
            study.set_user_attr("processes", others + 1)
        run_trials(study, self.value, lambda: self.wants_more(study), tell, process=others)

    def value(self, trial: optuna.Trial) -> float:
        settings = suggest(trial, self.method, self.embedding, self.space, self.graph)
        trial.set_user_attr("settings", settings)
        try:
            record = self.measure(settings, range(self.seeds), stop=bool(finished(trial.study)))
            if math.isnan(record["val_mean"]):
                raise InputError("the validation nodes give no metric (one class only).")
        except (InputError, torch.linalg.LinAlgError, torch.OutOfMemoryError) as error:  # type: ignore[reportPrivateImportUsage]
            # A point of the space that this graph does not admit, such as the ridge head without the shortcut.
            trial.set_user_attr("refused", str(error))
            raise optuna.TrialPruned from error
        for key in STORED:
            trial.set_user_attr(key, record[key])
        return record["val_mean"]

    def measure(self, settings: dict[str, Any], seeds: Sequence[int], stop: bool) -> Record:
        """A point's record on validation; its settings are those that differ from the start's, and ``class_weight``.

        With ``stop`` training is given up where the time is up.
        """
        graph, settings = self.graph, dict(settings)
        if CLASS_WEIGHT in settings:
            graph = with_goal(graph, graph.objective.scoring, settings.pop(CLASS_WEIGHT))

        def on_epoch() -> None:
            if stop and self.seconds_left() <= 0:
                raise OutOfTimeError

        config = start_config(self.graph, METHODS[self.method].trained).update(**settings)
        return run(self.method, graph, config, seeds, splits=("val",), on_epoch=on_epoch)

    def add_first_trial(self, study: optuna.Study) -> None:
        """Add what the estimator's own short search chooses, so that no search ends below it; once per study.

        Its settings need not be a point of the space: they are stored with the trial, which has no parameters.
        """
        if self.method != "rap" or self.space != ANY or FIRST_TRIED in study.user_attrs:
            return
        objective, base = self.graph.objective, start_config(self.graph)
        fixed = {"coefficients": "random"} | ({} if self.embedding is None else {"embedding": self.embedding})
        end = time.time() + FIRST * max(0.0, self.seconds_left())
        allowance = training_cost(self.graph) if self.minutes is None else ENDLESS
        reweigh = objective.scoring is not None and objective.class_weight is None and objective.metric == "accuracy"
        with suppress(InputError):  # nothing that the estimator tries suits this graph: the space may have something
            tried = EstimatorSearch(self.graph, base, fixed, 0, lambda: time.time() > end, alone=True)
            tried.run(allowance, reweigh)
            first = ranked(tried.scored, tried.by_metric)[0].candidate
            changed = {key: value for key, value in first.config.to_dict().items() if value != base.to_dict()[key]}
            settings = {"embedding": first.config.embedding} | changed
            if first.graph.objective.class_weight != objective.class_weight:
                settings[CLASS_WEIGHT] = BALANCED
            record = self.measure(settings, range(self.seeds), stop=False)
            if not math.isnan(record["val_mean"]):
                stored = {"settings": settings, "origin": "estimator"} | {key: record[key] for key in STORED}
                study.add_trial(optuna.trial.create_trial(value=record["val_mean"], user_attrs=stored))
        study.set_user_attr(FIRST_TRIED, True)

    def best(self, study: optuna.Study) -> list[FrozenTrial]:
        """The finished trials that may be chosen, best first; the estimator's own choice is always one of them."""
        ranked = sorted(finished(study), key=lambda t: -self.graph.objective.merit(t.values[0]))
        count = max(1, self.confirm)
        return ranked[:count] + [t for t in ranked[count:] if "origin" in t.user_attrs]

    def further_values(self, study: optuna.Study, trial: FrozenTrial) -> list[float]:
        """The trial's values on further seeds, stored with the study; none where the best trial is taken as it is."""
        if self.confirm <= 1:
            return []
        key = f"confirmed {trial.number}"
        if key not in study.user_attrs:
            if self.seconds_left() <= 0:
                raise OutOfTimeError
            seeds = range(CONFIRM_SEED, CONFIRM_SEED + (1 if self.graph.folds else 5))
            record = self.measure(trial.user_attrs["settings"], seeds, stop=True)
            study.set_user_attr(key, record["val_values"])
        return study.user_attrs[key]

    def decide(self, study: optuna.Study, say: Callable[[str], None]) -> Record:
        """The best of the best trials on further seeds; where there is no time for these, on the search's own."""
        best, candidates = self.best(study), []
        try:
            further = [self.further_values(study, trial) for trial in best]
        except OutOfTimeError:
            say("the time is up: the trials' own seeds decide, further ones were not run for all of the best.")
            further = [[] for _ in best]
        for trial, more in zip(best, further, strict=True):
            stored = trial.user_attrs
            values = stored["val_values"] + more
            candidate = {"trial": trial.number, "settings": stored["settings"], "val_mean": statistics.fmean(values)}
            candidates.append(candidate | {"val_values": values, "origin": stored.get("origin", "search")})
        return max(candidates, key=lambda c: self.graph.objective.merit(c["val_mean"]))


def open_storage(storage: Path) -> optuna.storages.RDBStorage:
    """The file, opened so that it waits for other processes that write to it."""

    def connect() -> sqlite3.Connection:  # by its path: in a URL ?, % and { have meanings of their own
        return sqlite3.connect(storage.absolute(), timeout=LOCK_SECONDS, check_same_thread=False)

    return optuna.storages.RDBStorage("sqlite://", engine_kwargs={"creator": connect, "poolclass": QueuePool})


def open_study(storage: Path | None, name: str, higher: bool) -> optuna.Study:
    """A study in the file, made if it is not there; without a file in memory."""
    if storage is None:
        return optuna.create_study(study_name=name, direction="maximize" if higher else "minimize")
    check_writable(storage)
    folder, direction = storage.absolute().parent, "maximize" if higher else "minimize"
    with storing(storage), new_folder(folder), locked(folder):  # one process makes the tables, not two
        opened = open_storage(storage)
        return optuna.create_study(study_name=name, storage=opened, direction=direction, load_if_exists=True)


def run_trials(
    study: optuna.Study,
    value: Callable[[optuna.Trial], float],
    wanted: Callable[[], bool],
    tell: Callable[[], None] = lambda: None,
    process: int = 0,
) -> None:
    """Run one trial after another while more are wanted; ``tell`` is called after each.

    A point depends on the process and on the trials that ended, so a search that was stopped goes on as it would have.
    """
    while wanted():
        seed = count_ended(study) + (process << 20)
        study.sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=20)
        study.optimize(value, n_trials=1, catch=(OutOfTimeError,))
        tell()


@contextmanager
def storing(storage: Path) -> Iterator[None]:
    """What the database cannot do is one sentence: it is none, or it cannot be written."""
    try:
        yield
    except (sqlite3.DatabaseError, optuna.exceptions.StorageInternalError, DatabaseError) as error:
        cause: Any = error
        while not isinstance(cause, sqlite3.Error | None):
            cause = getattr(cause, "orig", cause.__cause__)
        if isinstance(cause, sqlite3.OperationalError):  # the disk is full or fails, the file is locked or read-only
            raise OutputError(f"cannot write {storage}: {cause}.") from error
        raise InputError(f"{storage} is not a database of trials: name another file with --storage.") from error


def finished(study: optuna.Study) -> list[FrozenTrial]:
    return study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))


def count_ended(study: optuna.Study) -> int:
    """Trials that came to an end; one that was killed while running does not count; another takes its place."""
    return len(study.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.PRUNED)))
