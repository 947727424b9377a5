"""Trials: one point of the space after another, and further seeds for the best of them."""

import json
from collections.abc import Callable
from typing import Any

import torch

from rapgnn.errors import InputError
from rapgnn.experiments.run import run
from rapgnn.experiments.tune.space import suggest
from rapgnn.experiments.tune.study import SearchPlan, import_optuna

CONFIRM_SEED = 100  # the seeds that decide among the best trials are not those of the search
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
    while wanted() and plan.wants_more(study):
        study.optimize(lambda trial: _value(plan, trial), n_trials=1)
        tell()


def _value(plan: SearchPlan, trial: Any) -> float:
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


def confirmed(plan: SearchPlan, study: Any, trial: Any) -> list[float]:
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
