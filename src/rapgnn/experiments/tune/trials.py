"""Trials: one point of the space after another, and further seeds for the best of them."""

import json
from collections.abc import Callable
from typing import Any

import torch

from rapgnn.errors import InputError
from rapgnn.estimators.select import CLASS_WEIGHT
from rapgnn.experiments.run import Record, run
from rapgnn.experiments.tune.space import suggest
from rapgnn.experiments.tune.study import OutOfTimeError, SearchPlan, finished, import_optuna
from rapgnn.graph.goals import with_goal
from rapgnn.graph.graph import Graph

CONFIRM_SEED = 100  # the seeds that decide among the best trials are not those of the search
KEPT = ("val_values", "fit_seconds", "train_ms_per_epoch", "engine", "epochs")
SAMPLER_STEP = 1 << 20  # between the seeds of two workers' samplers


def run_trials(
    plan: SearchPlan,
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
    state = optuna.trial.TrialState
    while wanted() and plan.wants_more(study):
        trial = study.ask()
        try:
            value = _value(plan, trial, stop=bool(finished(study)))
        except optuna.TrialPruned:
            study.tell(trial, state=state.PRUNED)
        except OutOfTimeError:  # it does not count: another takes its place if the search goes on
            study.tell(trial, state=state.FAIL)
        except Exception:
            study.tell(trial, state=state.FAIL)
            raise
        else:
            study.tell(trial, value)
        tell()


def _value(plan: SearchPlan, trial: Any, stop: bool) -> float:
    """The mean validation metric of one point of the space."""
    optuna = import_optuna()
    settings = suggest(trial, plan.method, plan.embedding, plan.space, plan.graph)
    trial.set_user_attr("settings", json.dumps(settings))
    try:
        record = measured(plan, settings, range(plan.seeds), stop)
    except (InputError, torch.linalg.LinAlgError, torch.OutOfMemoryError) as error:  # type: ignore[reportPrivateImportUsage]
        # A point of the space that this graph does not admit, such as the ridge head without the shortcut.
        trial.set_user_attr("refused", json.dumps(str(error)))
        raise optuna.TrialPruned from error
    for key, value in kept_values(record).items():
        trial.set_user_attr(key, value)
    if record["val_mean"] != record["val_mean"]:
        trial.set_user_attr("refused", json.dumps("the validation nodes give no metric (one class only)."))
        raise optuna.TrialPruned
    return record["val_mean"]


def measured(plan: SearchPlan, settings: dict[str, Any], seeds: range, stop: bool) -> Record:
    """A point's record on validation.

    Args:
        settings: those of ``Config`` that differ from the plan's, and ``class_weight``.
        stop: whether training is given up where the time is up.
    """
    graph, settings = weighted(plan.graph, settings)

    def on_epoch() -> None:
        if stop and plan.late:
            raise OutOfTimeError

    config = plan.base.update(**settings)
    return run(plan.method, graph, config, seeds, splits=("val",), on_epoch=on_epoch)


def weighted(graph: Graph, settings: dict[str, Any]) -> tuple[Graph, dict[str, Any]]:
    """The graph with the class weights that a trial's settings name, and the settings of ``Config`` alone."""
    rest = {key: value for key, value in settings.items() if key != CLASS_WEIGHT}
    if CLASS_WEIGHT not in settings:
        return graph, rest
    return with_goal(graph, graph.objective.scoring, settings[CLASS_WEIGHT]), rest


def kept_values(record: Record) -> dict[str, str]:
    """What is stored with a trial, as JSON."""
    return {key: json.dumps(record[key]) for key in KEPT}


def confirmed(plan: SearchPlan, study: Any, trial: Any) -> list[float] | None:
    """The trial's values on further seeds, kept with the study; none where one trial is all there is to choose from.

    None: there was no time for it.
    """
    if plan.confirm <= 1:
        return []
    key = f"confirmed {trial.number}"
    kept = study.user_attrs.get(key)
    if kept is None:
        settings = json.loads(trial.user_attrs["settings"])
        again = range(CONFIRM_SEED, CONFIRM_SEED + (1 if plan.graph.folds else 5))
        if plan.late:
            return None
        try:
            kept = json.dumps(measured(plan, settings, again, stop=True)["val_values"])
        except OutOfTimeError:
            return None
        study.set_user_attr(key, kept)
    return json.loads(kept)
